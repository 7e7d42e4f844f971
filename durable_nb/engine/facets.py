"""Gathering the facets of an operation: its code, what was declared, and the run's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from operator import is_
from pathlib import Path
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.contract import contract
from durable_nb.engine.reach import reach
from durable_nb.model.facets import ANY, CONSTANT, INPUT, FacetSet, Part
from durable_nb.model.state import OperationState

#: Columns of `rows`.
COLUMNS: Final = ("op", "facet", "shown", "digest", "watched")
#: Before the name of a declared file.
FILE: Final = "file "

_NOTHING: Final = FacetSet()
#: Facets that are not for a person to declare.
_RESERVED: Final = frozenset({"account", "code", "line"})


#: Gives the facets of some code as they are now.
Code = Callable[[], FacetSet]


def no_code() -> FacetSet:
    """Give the facets of an operation that has no code of its own."""
    return _NOTHING


def of_code(fn: Callable[..., Any], working: Path) -> Code:
    """Give what looks at a function's code, and at what it reaches."""
    return partial(reach, fn, working=working)


def outgrown(before: FacetSet, now: FacetSet) -> set[str]:
    """List the constants that differ after a body has run: it changed them itself."""
    if now is before:
        return set()
    return {
        name
        for name, part in before.parts.items()
        if name.startswith(CONSTANT)
        and part.digest != ANY
        and name in now.parts
        and now.parts[name].digest != part.digest
    }


def declared(facets: Mapping[str, Any]) -> FacetSet:
    """Give the facets that a person declared, by name.

    Raises
    ------
    TypeError
        A name is no text, or a value cannot be compared on a resume.
    """
    parts = {}
    for name, value in facets.items():
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"facets= has a name that is no text: {name!r}")
        if name in _RESERVED:
            raise TypeError(f"facets= cannot have {name!r}: the run itself compares that one")
        try:
            data = plain(value)
            parts[name] = Part(values.digest(data), values.preview(data, name=name))
        except values.NotDigestible as problem:
            raise TypeError(
                f"facet {name!r} cannot be compared on resume ({problem}); give its name, version "
                "or settings as plain data"
            ) from problem
    return FacetSet.of(parts)


@cache
def of_scopes(requires: tuple[str, ...]) -> FacetSet:
    """Give the facet that a step's required scopes are."""
    return declared({"scopes": sorted(set(requires))}) if requires else FacetSet()


def plain(value: Any) -> Any:
    """Give a declared facet as plain data: of a function or a list of them, the contracts."""
    if isinstance(value, list | tuple) and any(map(callable, value)):
        return [plain(item) for item in value]
    return contract(value) if callable(value) else value


class Gatherer:
    """Puts the facets of operations together, each combination once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], FacetSet] = {}
        self._last: tuple[tuple[FacetSet, ...], FacetSet] = ((), _NOTHING)

    def gather(self, *sets: FacetSet) -> FacetSet:
        """Give all facets as one set; where a name is there twice, the last one counts."""
        last, found = self._last
        if len(last) == len(sets) and all(map(is_, last, sets)):
            return found  # the same step as before, as in most loops
        key = tuple(s.digest for s in sets if s.parts)
        made = self._made.get(key)
        if made is None:
            parts = {name: part for s in sets for name, part in s.parts.items()}
            unwatched = {name: what for s in sets for name, what in s.unwatched.items()}
            made = self._made[key] = FacetSet.of(parts, unwatched)
        self._last = (sets, made)
        return made


def rows(states: Iterable[OperationState], known: Mapping[str, FacetSet]) -> list[dict[str, Any]]:
    """List what operations depend on, a row for each facet (columns: `COLUMNS`).

    Parameters
    ----------
    states : iterable of OperationState
        The operations.
    known : Mapping
        The recorded sets of facets.
    """
    found = []
    for state in states:
        basis = state.basis or state.intent
        shown = basis.get("shown") or {}
        for name, digest in (basis.get("inputs") or {}).items():
            found.append((state.id, f"{INPUT}{name}", shown.get(name, ""), digest, True))
        facets = known.get(basis.get("facets", ""), FacetSet())
        for name, part in facets.parts.items():
            found.append((state.id, name, part.shown, part.digest, True))
        for name, what in facets.unwatched.items():
            found.append((state.id, name, what, "", False))
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]
