"""Calls: their name, their bound inputs, and the digest of their code."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final

from durable_nb import values
from durable_nb.model.errors import BadName

#: The parameter that gets the idempotency key, wherever a function has it.
KEY_PARAMETER: Final = "idempotency_key"


def name_of(fn: Callable[..., Any], given: str | None = None) -> str:
    """Give the step's name: the function's own, unless one was given; a lambda needs one."""
    name = given or getattr(fn, "__name__", "") or type(_innermost(fn)).__name__
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


def takes_key(fn: Callable[..., Any]) -> bool:
    """Tell whether the function has a parameter for the idempotency key."""
    found = signature(fn)
    return found is not None and KEY_PARAMETER in found.parameters


def bind(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Bind a call's arguments to names, before any intent: a typo stays a plain `TypeError`."""
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


def _innermost(fn: Callable[..., Any]) -> Any:
    while True:
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "__func__", None)
        if isinstance(fn, functools.partial):
            inner = fn.func
        if inner is None:
            return fn
        fn = inner


def code_of(fn: Callable[..., Any]) -> str | None:
    """Digest a function's own code by its syntax tree; `None` where there is no Python code.

    Comments, blank lines and quote style do not count. Docstrings do: agent frameworks hand them
    to the model as a tool's description. Decorators do not: their options are not the body.
    """
    code = getattr(_innermost(fn), "__code__", None)
    return _code_digest(_innermost(fn), code) if isinstance(code, CodeType) else None


#: Python 3.13 leaves empty fields out by default; a digest must not change with the interpreter.
_WHOLE: Final[dict[str, Any]] = {"show_empty": True} if sys.version_info >= (3, 13) else {}


def syntax_text(tree: ast.AST) -> str:
    """Give a syntax tree as text: what comments, blank lines and quote style do not change."""
    return ast.dump(tree, **_WHOLE)


@functools.lru_cache(maxsize=4096)
def _code_digest(fn: Callable[..., Any], code: CodeType) -> str:
    tree = _tree(fn)
    text = _bytecode(code) if tree is None else syntax_text(tree)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{'bytecode' if tree is None else 'ast'}:{digest}"


def _tree(fn: Callable[..., Any]) -> ast.AST | None:
    """Find the function's own syntax tree, without its decorators."""
    try:
        source = textwrap.dedent(inspect.getsource(fn))
        module = ast.parse(source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    name = getattr(fn, "__name__", "")
    nodes = list(ast.walk(module))
    if name == "<lambda>":
        lambdas = [n for n in nodes if isinstance(n, ast.Lambda)]
        return lambdas[0] if len(lambdas) == 1 else None
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            node.decorator_list = []
            return node
    return None


def _bytecode(code: CodeType) -> str:
    """Describe a code object where no source is to be had."""
    constants = [
        _bytecode(c) if isinstance(c, CodeType) else f"{type(c).__name__}:{c!r}"
        for c in code.co_consts
    ]
    return f"{code.co_code.hex()}|{code.co_names}|{code.co_varnames}|{constants}"
