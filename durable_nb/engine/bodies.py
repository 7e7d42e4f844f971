"""The code of a step that is no function: the body of its `with`, found in the source it stands in.

Its own syntax tree counts, and the functions and classes of the user's own that it names; not the
other names that it reads: those are variables of the program around it, which `inputs=` declares.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from durable_nb.engine.facets import Code, no_code
from durable_nb.engine.reach import reach
from durable_nb.engine.syntax import digest_text, shown_source, syntax_text
from durable_nb.engine.walk import Walk
from durable_nb.model.facets import FacetSet, Part

#: How many bodies and files are remembered; beyond that all are looked up again.
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class _Body:
    """A body as its source says it: its part, and the names that it reads."""

    part: Part
    names: tuple[str, ...]


_bodies: Final[dict[tuple[int, int], tuple[CodeType, _Body | None]]] = {}
_trees: Final[dict[str, tuple[list[str], list[ast.With | ast.AsyncWith]]]] = {}
_made: Final[dict[tuple[str, ...], FacetSet]] = {}


def of_caller(depth: int, working: Path) -> Code:
    """Give what looks at the body of the `with` that a caller is entering.

    Parameters
    ----------
    depth : int
        How many frames up the `with` statement stands, from the caller of this function.
    working : Path
        Folder whose modules count as the user's own code.

    Returns
    -------
    callable
        Without facets where there is no source, or it is entered by hand (an `ExitStack`).
    """
    frame = sys._getframe(depth + 1)
    body = _look(frame)
    return no_code if body is None else partial(_facets, body, frame.f_globals, working)


def _look(frame: FrameType) -> _Body | None:
    code, at = frame.f_code, frame.f_lasti
    known = _bodies.get((id(code), at))
    if known is not None and known[0] is code:
        return known[1]
    if len(_bodies) >= _KEPT:
        _bodies.clear()
    found = _find(code, at)
    _bodies[id(code), at] = (code, found)
    return found


def _find(code: CodeType, at: int) -> _Body | None:
    """Find the `with` that stands where the code is: the statement, or (3.12) its expression."""
    place = next((p for n, p in enumerate(code.co_positions()) if n == at // 2), None)
    for node in _withs(code.co_filename):
        if place in [_place(n) for n in (node, *(item.context_expr for item in node.items))]:
            body = ast.Module(node.body, [])
            names = {n.id for n in ast.walk(body) if isinstance(n, ast.Name)}
            part = Part(f"ast:{digest_text(syntax_text(body))}", shown_source(body))
            return _Body(part, tuple(sorted(names)))
    return None


def _place(node: ast.expr | ast.stmt) -> tuple[int, int | None, int, int | None]:
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def _withs(name: str) -> list[ast.With | ast.AsyncWith]:
    linecache.checkcache(name)
    lines = linecache.getlines(name)
    known = _trees.get(name)
    if known is not None and known[0] is lines:
        return known[1]
    try:
        nodes = ast.walk(ast.parse("".join(lines)))
    except (SyntaxError, ValueError, RecursionError):
        nodes = iter(())
    if len(_trees) >= _KEPT:
        _trees.clear()
    found = [node for node in nodes if isinstance(node, ast.With | ast.AsyncWith)]
    _trees[name] = (lines, found)
    return found


def _facets(body: _Body, names: dict[str, Any], working: Path) -> FacetSet:
    reached = list(_reached(body, names, working))
    key = (
        str(working),
        body.part.digest,
        *(text for name, f in reached for text in (name, f.digest)),
    )
    made = _made.get(key)
    if made is None:
        parts = {"code": body.part}
        unwatched: dict[str, str] = {}
        for name, found in reached:
            for part, what in found.parts.items():
                parts.setdefault(f"helper {name}" if part == "code" else part, what)
            unwatched.update(found.unwatched)
        if len(_made) >= _KEPT:
            _made.clear()
        made = _made[key] = FacetSet.of(parts, unwatched)
    return made


def _reached(body: _Body, names: dict[str, Any], working: Path) -> Iterator[tuple[str, FacetSet]]:
    """Give the user's own functions that the body names, with what they reach."""
    walk = Walk(str(working))
    for name in body.names:
        value = names.get(name)
        fn = getattr(value, "fn", None) if type(value).__module__ == _STEP else value
        if type(fn) is FunctionType and walk.is_ours(fn.__globals__):
            yield name, reach(fn, working=working)


_STEP: Final = "durable_nb.engine.step"
