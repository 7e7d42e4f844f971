"""Calls: their name and their bound inputs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from itertools import takewhile
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.syntax import innermost
from durable_nb.model.errors import BadName

#: The parameter that gets the idempotency key, wherever a function has it.
KEY_PARAMETER: Final = "idempotency_key"

_BY_POSITION: Final = frozenset({Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD})
_BY_NAME: Final = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})
_OPEN: Final = frozenset({Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD})


def name_of(fn: Callable[..., Any], given: str | None = None) -> str:
    """Give the step's name: the function's own, unless one was given; a lambda needs one."""
    name = given or getattr(fn, "__name__", "") or type(innermost(fn)).__name__
    if not given and name == "<lambda>":
        raise BadName("step", "<lambda>", 'a lambda has no name of its own: run.step("name").')
    if not given and isinstance(fn, functools.partial):
        name = getattr(fn.func, "__name__", name)
    return check_step_name(name)


def check_step_name(name: object) -> str:
    """Refuse what cannot name a step."""
    if not isinstance(name, str) or not name.strip():
        raise BadName("step", str(name), "a step's name is a text that is not empty.")
    if len(name) > 200:
        raise BadName("step", name, "it is longer than 200 characters; put details into key=.")
    return _without_secret(name)


@functools.lru_cache(maxsize=1024)
def _without_secret(name: str) -> str:
    """Give the name of a step, looked at once: its calls are many."""
    return refuse_secret("it", name)


def refuse_secret(what: str, name: str) -> str:
    """Refuse a name or key that holds a secret: it is stored and shown as it stands."""
    shown = values.redact_tokens(name)
    if shown != name:
        why = f"{what} holds what looks like a secret, and is kept and shown as it stands."
        raise BadName("step", shown, why)
    return name


@functools.lru_cache(maxsize=4096)
def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none
        return None


def signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    """Give a function's signature, remembered where the function can be."""
    try:
        return _signature(fn)
    except TypeError:  # an unhashable callable
        return inspect.signature(fn)


@dataclass(frozen=True, slots=True)
class Form:
    """How a function is called; looked up once.

    Attributes
    ----------
    is_async : bool
        Whether calling it gives an awaitable.
    takes_key : bool
        Whether it has a parameter for the idempotency key.
    names : tuple of str or None
        Its parameters in order; `None` where it takes any number (``*args``).
    by_position : tuple of str
        Those of them that can be given by position; the idempotency key is handed on by name.
    by_name : frozenset of str
        Those that can be given by name.
    required : frozenset of str
        Those that have no default, but for the idempotency key.
    least : int
        How many arguments by position give all of these.
    """

    is_async: bool
    takes_key: bool
    names: tuple[str, ...] | None
    by_position: tuple[str, ...]
    by_name: frozenset[str]
    required: frozenset[str]
    least: int


def form(fn: Callable[..., Any]) -> Form:
    """Tell how a function is called."""
    try:
        return _form(fn)
    except TypeError:  # an unhashable callable
        return _form.__wrapped__(fn)


@functools.lru_cache(maxsize=4096)
def _form(fn: Callable[..., Any]) -> Form:
    found = signature(fn)
    parameters = {} if found is None else found.parameters
    kinds = {name: p.kind for name, p in parameters.items()}
    is_fixed = found is not None and _OPEN.isdisjoint(kinds.values())
    in_order = [name for name, kind in kinds.items() if kind in _BY_POSITION]
    by_position = tuple(takewhile(lambda name: name != KEY_PARAMETER, in_order))
    required = {n for n, p in parameters.items() if p.default is p.empty} - {KEY_PARAMETER}
    least = max((n for n, name in enumerate(by_position, 1) if name in required), default=0)
    return Form(
        _is_async(fn),
        KEY_PARAMETER in parameters,
        tuple(parameters) if is_fixed else None,
        by_position,
        frozenset(name for name, kind in kinds.items() if kind in _BY_NAME),
        frozenset(required),
        least if required.issubset(by_position) else len(parameters) + 1,
    )


def _is_async(fn: Callable[..., Any]) -> bool:
    inner = fn.func if isinstance(fn, functools.partial) else fn
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    )


def bind(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind a call's arguments to names, before any intent: a typo stays a plain `TypeError`."""
    bound = _bind_fast(form(fn), args, kwargs)
    if bound is not None:
        return bound
    found = signature(fn)
    if found is None:
        return {**{f"arg{i}": a for i, a in enumerate(args)}, **kwargs}
    if KEY_PARAMETER in found.parameters and KEY_PARAMETER not in kwargs:
        kwargs = {**kwargs, KEY_PARAMETER: ""}
    given = found.bind(*args, **kwargs).arguments
    return {name: value for name, value in given.items() if name != KEY_PARAMETER}


def _bind_fast(
    known: Form, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Bind what fits without a doubt, in half of the time; `None` for all else, and for typos."""
    if known.names is None or len(args) > len(known.by_position):
        return None
    bound = dict(zip(known.by_position, args, strict=False))
    if kwargs:
        if not known.by_name.issuperset(kwargs) or not bound.keys().isdisjoint(kwargs):
            return None
        bound.update(kwargs)
        bound = {name: bound[name] for name in known.names if name in bound}
        if not bound.keys() >= known.required:
            return None
    elif len(args) < known.least:
        return None
    if known.takes_key:
        bound.pop(KEY_PARAMETER, None)
    return bound


def digests(inputs: Mapping[str, Any], op: str) -> dict[str, str]:
    """Digest each input; one that has no digest is an error that names it."""
    found = {}
    for name, value in inputs.items():
        try:
            found[name] = values.digest(value)
        except values.NotDigestible as problem:
            raise TypeError(
                f"input {name!r} of {op} cannot be compared on resume ({problem}). "
                f"Nothing was run. Say what the result depends on: inputs={{...}} without {name!r}."
            ) from problem
    return found
