"""Facets: the named things that a recorded result depends on.

An operation's facets, but for its inputs, are recorded once a run under one digest, which each
record names: a thousand calls of one step cost a thousand digests and one list of its parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

#: Digest of a facet that says nothing any more: the steps themselves have changed it.
ANY: Final = "*"
#: Before the name of a constant.
CONSTANT: Final = "constant "
#: Before the name of a file that a step has made.
PRODUCED: Final = "produced "
#: Before the name of an input, among facets.
INPUT: Final = "input "
#: Before the name of a class.
CLASS: Final = "class "
#: A facet whose text is a piece of source: it is named when it changes, and not printed.
_SOURCES: Final = ("code", "helper ", CLASS)


@dataclass(frozen=True, slots=True)
class Part:
    """One facet as it was: what is compared, and what a person is shown.

    Attributes
    ----------
    digest : str
        Equal exactly where nothing changed.
    shown : str
        Short text, without secrets.
    """

    digest: str
    shown: str = ""


def combine(parts: Mapping[str, Part]) -> str:
    """Give one digest of a set of facets: 32 hexadecimal digits of a SHA-256."""
    hashed = hashlib.sha256()
    for name in sorted(parts):
        for text in (name, parts[name].digest):
            raw = text.encode("utf-8", "surrogatepass")
            hashed.update(b"%d:%b" % (len(raw), raw))
    return hashed.hexdigest()[:32]


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FacetSet:
    """The facets of an operation, but for its inputs.

    Attributes
    ----------
    parts : Mapping of str to Part
        ``code``, ``helper NAME``, ``class NAME``, ``constant NAME``, ``model``, ``prompt``,
        ``version``, ``file PATH`` and whatever else was declared.
    unwatched : Mapping of str to str
        What the code reaches and nobody compares, with its type.
    digest : str
        Of `parts`.
    """

    parts: Mapping[str, Part] = field(default_factory=_nothing)
    unwatched: Mapping[str, str] = field(default_factory=_nothing)
    digest: str = ""

    @classmethod
    def of(cls, parts: Mapping[str, Part], unwatched: Mapping[str, str] | None = None) -> FacetSet:
        """Make one, with its digest."""
        return cls(MappingProxyType(dict(parts)), unwatched or _nothing(), combine(parts))

    def without(self, names: Collection[str]) -> FacetSet:
        """Give the same, where some of them say nothing any more."""
        found = {n: Part(ANY, "changed by the steps themselves") for n in names if n in self.parts}
        return FacetSet.of({**self.parts, **found}, self.unwatched) if found else self

    def body(self) -> dict[str, Any]:
        """Give the record of it."""
        parts = {name: [part.digest, part.shown] for name, part in self.parts.items()}
        return {"facets": self.digest, "parts": parts, "unwatched": dict(self.unwatched)}

    @classmethod
    def recorded(cls, body: Mapping[str, Any]) -> FacetSet:
        """Read it from its record."""
        parts = {name: Part(*part) for name, part in body["parts"].items()}
        return cls(parts, body.get("unwatched") or {}, body["facets"])


def is_source(facet: str) -> bool:
    """Tell whether a facet is a piece of source."""
    return facet.startswith(_SOURCES)
