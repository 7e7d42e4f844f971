"""Arguments are bound as Python binds them, whichever way it is done."""

from __future__ import annotations

import inspect
import itertools

import pytest

from durable_nb.engine import calls

KEY = calls.KEY_PARAMETER


def plain(a, b, c=3): ...
def positional(a, /, b, *, c=3): ...
def keyed(a, idempotency_key, b=2): ...
def keyed_first(idempotency_key, a): ...
def keyed_by_name(a, *, idempotency_key): ...
def by_name(a, *, b, c=3): ...
def anything(a, *b, **c): ...
def nothing(): ...


FUNCTIONS = [
    plain, positional, keyed, keyed_first, keyed_by_name, by_name, anything, nothing,
]  # fmt: skip


def as_python_binds(fn, args, kwargs):
    """Bind by the signature alone."""
    found = inspect.signature(fn)
    if KEY in found.parameters:
        kwargs = {KEY: "", **kwargs}
    given = found.bind(*args, **kwargs).arguments
    return [(name, value) for name, value in given.items() if name != KEY]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_arguments_are_bound_as_python_binds_them(fn):
    """By position or by name, in any order, with too few or too many: the names, or an error."""
    names = ["c", "b", "a", KEY, "z"]
    named = [dict.fromkeys(some, 9) for n in range(4) for some in itertools.combinations(names, n)]
    for count, kwargs in itertools.product(range(5), named):
        args = tuple(range(count))
        try:
            wanted = as_python_binds(fn, args, kwargs)
        except TypeError:
            with pytest.raises(TypeError):
                calls.bind(fn, args, kwargs)
        else:
            assert list(calls.bind(fn, args, kwargs).items()) == wanted
