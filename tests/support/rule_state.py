"""What the second opinion knows of a run: outcomes, questions, and what a result depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

C, I, U = "completed", "incomplete", "unknown"

#: DESIGN section 3: the last thing that the journal proves, for none, idempotent and external.
TABLE = {
    "intended": (I, I, U),
    "raised": (I, I, U),
    "refused": (I, I, I),
    "interrupted": (I, I, U),
    "lost": (I, I, U),
    "observed": (C, C, C),
    "completed": (C, C, C),
    "confirmed": (C, C, C),
    "denied": (I, I, I),
    "invalidated": (I, I, I),
    "kept": (C, C, C),
    "rerun": (I, I, I),
}
COLUMNS = ("none", "idempotent", "external")

#: The outcomes that a verdict fits.
FITS = {"confirm": {U, I}, "deny": {U}, "invalidate": {C}, "keep": {C}, "rerun": {C, I}}

#: The verdicts that come second once this is the last thing said.
SECOND = {
    "confirmed": {"confirm", "deny"},
    "denied": {"confirm", "deny"},
    "invalidated": {"invalidate"},
    "kept": {"keep"},
    "rerun": {"rerun", "keep"},
}

#: Errors that a program with `catch` handles.
HANDLED = {"ValueError", "ConnectionRefusedError", "ResultLost"}

Row = tuple[str, Any, Any]
OWN = ("input ", "result")  #: facets of which a decision says nothing about other operations


class Stop(BaseException):
    """A signal: it ends the pass, and names operations."""

    def __init__(self, name: str, operations: list[str], facets: tuple[str, ...] = ()) -> None:
        super().__init__(name, operations, facets)
        self.said = (name, operations, facets)


class Raised(Exception):
    """An ordinary error of that name."""


class Killed(BaseException):
    """The kernel is gone."""


class Refused(Exception):
    """A verdict does not fit."""


@dataclass(frozen=True)
class Basis:
    """What a result depends on."""

    value: Any
    before: Any
    code: int
    model: str | None
    version: str | None  #: of the whole run
    scopes: str | None

    def changes(self, now: Basis, inputs_only: bool) -> tuple[Row, ...]:
        rows: list[Row] = [
            ("input value", self.value, now.value),
            ("input before", self.before, now.before),
        ]
        if not inputs_only:
            rows += [("code", self.code, now.code), ("model", self.model, now.model)]
            rows += [("version", self.version, now.version), ("scopes", self.scopes, now.scopes)]
        return tuple(row for row in rows if row[1] != row[2])


@dataclass
class Question:
    rows: tuple[Row, ...]
    basis: Basis

    @property
    def facets(self) -> tuple[str, ...]:
        return tuple(sorted({row[0] for row in self.rows}))


@dataclass
class Op:
    """What is known of one operation."""

    effect: str
    last: str = ""
    attempt: int = 0
    generation: int = 0
    intent: Basis | None = None
    sent: int = 0  #: the generation whose key the last intent carried
    basis: Basis | None = None
    result: Any = None
    former: Any = None
    vouched: bool = False
    failed: str = ""  #: the error with which it is completed
    error: str = ""
    question: Question | None = None
    differs: Question | None = None  #: it came out differently, and effects stand on the old result

    @property
    def asked(self) -> Question | None:
        """What a person is asked: about a change first, then about what came out."""
        return self.question or self.differs

    @property
    def outcome(self) -> str:
        return TABLE[self.last][COLUMNS.index(self.effect)]


@dataclass
class State:
    """All that the journal of one run proves."""

    ops: dict[str, Op] = field(default_factory=dict)
    decided: dict[Row, str] = field(default_factory=dict)
    version: str | None = None
    scopes: set[str] = field(default_factory=lambda: {"read"})
