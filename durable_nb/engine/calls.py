"""Calls: their name and their bound inputs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.syntax import innermost
from durable_nb.model.errors import BadName

#: The parameter that gets the idempotency key, wherever a function has it.
KEY_PARAMETER: Final = "idempotency_key"


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
        Its parameters, if all can be given by position and none has a meaning of its own.
    required : int
        How many of these have no default.
    """

    is_async: bool
    takes_key: bool
    names: tuple[str, ...] | None
    required: int


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
    simple = found is not None and all(
        p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} for p in parameters.values()
    )
    takes_key = KEY_PARAMETER in parameters
    names = tuple(parameters) if simple and not takes_key else None
    required = sum(p.default is p.empty for p in parameters.values())
    return Form(_is_async(fn), takes_key, names, required)


def _is_async(fn: Callable[..., Any]) -> bool:
    inner = fn.func if isinstance(fn, functools.partial) else fn
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    )


def bind(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind a call's arguments to names, before any intent: a typo stays a plain `TypeError`."""
    known = form(fn)
    names = known.names
    if names is not None and not kwargs and known.required <= len(args) <= len(names):
        return dict(zip(names, args, strict=False))
    found = signature(fn)
    if found is None:
        return {**{f"arg{i}": a for i, a in enumerate(args)}, **kwargs}
    if KEY_PARAMETER in found.parameters and KEY_PARAMETER not in kwargs:
        kwargs = {**kwargs, KEY_PARAMETER: ""}
    bound = found.bind(*args, **kwargs)
    return {name: value for name, value in bound.arguments.items() if name != KEY_PARAMETER}


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
