"""Gathering the facets of an operation: its code, what was declared, and the run's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from durable_nb import values
from durable_nb.engine import calls
from durable_nb.model.facets import FacetSet, Part

#: Before the name of a declared file.
FILE = "file "


def of_code(fn: Callable[..., Any]) -> FacetSet:
    """Give the facets of a function's code."""
    digest = calls.code_of(fn)
    return FacetSet() if digest is None else FacetSet.of({"code": Part(digest)})


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
    """Give a declared facet as plain data."""
    return value


class Gatherer:
    """Puts the facets of operations together, each combination once."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], FacetSet] = {}

    def gather(self, *sets: FacetSet) -> FacetSet:
        """Give all facets as one set; where a name is there twice, the last one counts."""
        key = tuple(s.digest for s in sets if s.parts)
        found = self._made.get(key)
        if found is None:
            parts = {name: part for s in sets for name, part in s.parts.items()}
            unwatched = {name: what for s in sets for name, what in s.unwatched.items()}
            found = self._made[key] = FacetSet.of(parts, unwatched)
        return found
