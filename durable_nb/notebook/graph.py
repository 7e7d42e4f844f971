"""Objects that two names share: what a record of one of them would split in two."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid
from collections import deque
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from durable_nb.notebook.source import is_toolkit

#: Values that nobody can change in place: sharing them does no harm.
_ATOMS: Final = (
    str, bytes, int, float, complex, type(None), range, decimal.Decimal, fractions.Fraction,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID,
    pathlib.PurePath, re.Pattern, enum.Enum, type, type(Ellipsis), type(NotImplemented),
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
)  # fmt: skip

#: The most frequent types, decided without a look at their classes.
_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})
_CONTAINERS: Final = frozenset({list, dict, tuple, set})

#: Packages whose objects are one value each: their inner parts are not the user's.
_OPAQUE: Final = frozenset({"pandas", "pyarrow", "polars", "numpy"})
#: Those of their types that can be changed in place; dtypes, scalars and indexes cannot.
_CHANGEABLE: Final = frozenset(
    {"ndarray", "recarray", "matrix", "MaskedArray", "DataFrame", "Series"}
)

#: Parts looked at before giving up (about 3 µs each); sharing is then not looked for, and a note
#: says so.
LIMIT: Final = 300_000

Path = tuple[Any, ...]


class TooLarge(Exception):
    """The namespace holds too much to be searched."""


def is_atom(value: Any) -> bool:
    """Tell whether a value cannot be changed in place, and holds nothing that could."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind in _CONTAINERS:
        return False
    if kind.__module__.partition(".")[0] in _OPAQUE:
        return kind.__name__ not in _CHANGEABLE
    return isinstance(value, _ATOMS)


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give the parts of a value, each with the step that leads to it (`None`: no such step).

    The most frequent atoms are left out here, for speed.
    """
    kind = type(value)
    if issubclass(kind, dict):
        yield from _of_dict(value)
    elif issubclass(kind, list | tuple | deque):
        for index, part in enumerate(value):
            if type(part) not in _PLAIN:
                yield ("index", index), part
    elif issubclass(kind, set | frozenset):
        yield from ((None, part) for part in value)
    elif kind.__module__.partition(".")[0] in _OPAQUE:
        base = getattr(value, "base", None)  # a numpy view looks into the array that it is made of
        if type(base) is kind:
            yield None, base
    if kind.__module__ not in ("builtins", "collections") and not is_toolkit(value):
        for name, part in _state(value).items():
            yield ("attribute", name), part


def _of_dict(value: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, part in list(dict.items(value)):
        if type(key) not in _PLAIN:
            yield None, key
        if type(part) not in _PLAIN:
            yield (("key", key) if type(key) in (str, int) else None), part


def _state(value: Any) -> dict[str, Any]:
    """Read an object's own names, past whatever its class does when it is asked for them."""
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return state if type(state) is dict and type(value).__module__ not in _OPAQUE else {}


def walk(
    roots: Mapping[str, Any], *, not_into: Container[int] = ()
) -> Iterator[tuple[str, Path | None, Any]]:
    """Visit each changeable object once: name, path from that name (if there is one), object.

    Parts of the objects whose `id` is in `not_into` are not visited.

    Raises
    ------
    TooLarge
        After `LIMIT` parts.
    """
    queue: deque[tuple[str, Path | None, Any]] = deque((n, (), v) for n, v in roots.items())
    seen: set[int] = set()
    parts = 0
    while queue:
        name, path, value = queue.popleft()
        if is_atom(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if not isinstance(value, tuple | frozenset):
            yield name, path, value
        if id(value) in not_into:
            continue
        for step, part in _children(value):
            parts += 1
            if parts > LIMIT:
                raise TooLarge
            if not is_atom(part):
                queue.append((name, None if path is None or step is None else (*path, step), part))


def follow(namespace: Mapping[str, Any], name: str, path: Path) -> Any:
    """Go from a name along a path; `LookupError` or `AttributeError` if it is gone."""
    value = namespace[name]
    for kind, step in path:
        value = getattr(value, step) if kind == "attribute" else value[step]
    return value


def spelled(name: str, path: Path | None) -> str:
    """Write a path as Python would: `orders[3].lines`."""
    if path is None:
        return f"a part of {name}"
    return name + "".join(f".{s}" if kind == "attribute" else f"[{s!r}]" for kind, s in path)
