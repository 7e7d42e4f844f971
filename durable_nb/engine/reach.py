"""What code reaches: the functions, classes and constants that its result depends on.

`reach` says of a function, `reach_of_source` of a durable cell, what it depends on besides its
inputs. Names are resolved by looking into namespaces only: nothing is imported, called or asked
for an attribute, so that a client or logger that is reached notices nothing.
"""

from __future__ import annotations

import ast
import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from durable_nb.engine import constants, syntax
from durable_nb.engine.walk import MISSING, Checks, Walk, root_of_call
from durable_nb.model.facets import FacetSet

#: How many functions are remembered; beyond that all are walked again.
_KEPT: Final = 1024


# -- remembered, for the hot path of every call -----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """What a function reached, and what has to be the same for that to hold still."""

    working: str
    found: FacetSet
    checks: Checks


_known: weakref.WeakKeyDictionary[FunctionType, _Known] = weakref.WeakKeyDictionary()


def reach(fn: Callable[..., Any], *, working: Path | None = None) -> FacetSet:
    """Say what a call of a function depends on, besides its inputs.

    Parameters
    ----------
    fn : callable
        A function, method, step, partial, class or object that can be called.
    working : Path, optional
        Folder whose modules count as the user's own code; default: the current folder.

    Returns
    -------
    FacetSet
        Equal for equal code and constants in every process. Without parts for what has no Python
        code and nothing else to compare, such as ``len``.
    """
    folder = _folder(working)
    if type(fn) is FunctionType:
        known = _known.get(fn)
        if known is not None and known.working == folder and _holds(known.checks):
            return known.found
    walk = Walk(folder)
    root_of_call(walk, fn)
    found = FacetSet.of(*walk.result())
    if type(fn) is FunctionType:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[fn] = _Known(folder, found, walk.checks)
    return found


def reach_of_source(
    source: str | ast.Module | Sequence[ast.stmt] | syntax.Own,
    namespace: Mapping[str, Any],
    *,
    inputs: Collection[str] = (),
    inside_magics: Sequence[ast.stmt] = (),
    working: Path | None = None,
) -> FacetSet:
    """Say what a durable cell depends on, besides its inputs.

    Parameters
    ----------
    source : str, ast.Module, sequence of ast.stmt or syntax.Own
        The body of the cell, with its magics as IPython writes them: as calls. Or what
        `syntax.own_of_cell` said of it: plain data, which a cell can carry.
    namespace : Mapping
        The notebook's names.
    inputs : collection of str
        Names that are compared as inputs, and so are left out here.
    inside_magics : sequence of ast.stmt
        Python that stands in its magics as text (``%time f(x)``): it reads names, too.
    working : Path, optional
        As for `reach`.

    Returns
    -------
    FacetSet
        Names that the cell binds itself are left out; one that it reads first is not watched.

    Raises
    ------
    SyntaxError
        The source is no Python.
    """
    if isinstance(source, str):
        source = ast.parse(source)
    if not isinstance(source, syntax.Own):
        tree = source if isinstance(source, ast.Module) else ast.Module(list(source), [])
        source = syntax.own_of_cell(tree, ast.Module(list(inside_magics), []))
    walk = Walk(_folder(working))
    walk.of_cell(source, namespace, frozenset(inputs))
    return FacetSet.of(*walk.result())


def _folder(working: Path | None) -> str:
    if working is not None:
        return os.fspath(working)
    try:
        return os.getcwd()
    except OSError:  # it was removed: then no module lies in it
        return ""


def _holds(checks: Checks) -> bool:
    """Tell whether everything that was looked at is as it was; a few microseconds."""
    try:
        for get, name, value in checks.same:
            if get(name, MISSING) is not value:
                return False
        for get, name, ref in checks.weak:
            found = ref()
            if found is None or get(name, MISSING) is not found:
                return False
        for get, name, ref in checks.kinds:
            if type(get(name, MISSING)) is not ref():
                return False
        for fn, code, defaults in checks.codes:
            function = fn()
            if function is None or not _is_same(function, code, defaults):
                return False
        if not checks.held.is_same():
            return False
        for value, digest in checks.digests:
            if constants.look(value).digest != digest:
                return False
        return all(map(_is_still_large, checks.large))
    except Exception:  # changed by another thread while it is looked at: walk again
        return False


def _is_same(function: FunctionType, code: CodeType, defaults: Any) -> bool:
    return function.__code__ is code and function.__defaults__ is defaults


def _is_still_large(look: tuple[Callable[..., Any], str, str]) -> bool:
    get, name, why = look
    try:
        constants.measure(get(name, MISSING))
    except constants.NotPlain as problem:
        return str(problem) == why
    return False
