"""What `verify` found: frozen, printable, and the same for Python and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from durable_nb.model.errors import DurableError


class Level(StrEnum):
    """How much a finding weighs."""

    DAMAGE = "damage"  #: what was recorded cannot be relied on as it stands
    NOTE = "note"  #: good to know; nothing that was recorded is hurt


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found in a run's folder.

    Attributes
    ----------
    level : Level
        Damage, or only a note.
    kind : str
        ``rights, journal, head, record, key, value, artifact, index, owner, inbox, mirror,
        files`` or ``held``.
    where : str
        A file relative to the run's folder, a record, or an operation.
    what, means, do : str
        What is there, what it means for the run, and what to do next.
    """

    level: Level
    kind: str
    where: str
    what: str
    means: str
    do: str

    def to_text(self) -> str:
        """Render as three lines."""
        lines = [f"{self.level} · {self.kind} · {self.where}: {self.what}"]
        lines += [f"    {text}" for text in (self.means, self.do) if text]
        return "\n".join(lines)

    __str__ = to_text


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found in a run's folder.

    Attributes
    ----------
    run, run_id : str
        Its name (of the folder) and its id; "" where no record tells it.
    folder : Path
        What was read.
    held_by : str
        Who has the run, so that its journal and artifacts were not read; "" if nobody.
    checked : Mapping
        ``records, values, artifacts, bytes``: how many were checked, and bytes of artifacts.
    findings : tuple of Finding
        Damage first.
    """

    run: str
    folder: Path
    run_id: str = ""
    held_by: str = ""
    checked: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def damage(self) -> tuple[Finding, ...]:
        """The findings that are no mere notes."""
        return tuple(f for f in self.findings if f.level is Level.DAMAGE)

    @property
    def complete(self) -> bool:
        """Whether everything was read; not so while somebody holds the run."""
        return not self.held_by

    @property
    def ok(self) -> bool:
        """Whether everything was read and nothing is damaged."""
        return self.complete and not self.damage

    def headline(self) -> str:
        """Say it in one line."""
        count = len(self.damage)
        what = f"damaged in {count} place{'s' * (count > 1)}" if count else "nothing is damaged"
        if not self.complete:
            what += ", as far as it can be looked at while it is held"
        return f"run {self.run}: {what}"

    def to_text(self) -> str:
        """Render as plain text."""
        lines = [self.headline()]
        if self.complete:
            c = self.checked
            lines.append(
                f"checked {c['records']} records, {c['values']} values and {c['artifacts']} "
                f"artifacts ({c['bytes']:,} bytes)"
            )
        return "\n".join([*lines, *(f.to_text() for f in self.findings)])

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `verify --json`."""
        return {
            "run": self.run,
            "run_id": self.run_id or None,
            "folder": str(self.folder),
            "ok": self.ok,
            "complete": self.complete,
            "held_by": self.held_by or None,
            "checked": dict(self.checked),
            "findings": [asdict(f) for f in self.findings],
        }


class RunDamaged(DurableError):
    """A run is damaged or in doubt, so it is neither exported nor cleared of artifacts.

    Attributes
    ----------
    findings : tuple of Finding
        What is damaged.
    """

    def __init__(self, run: str, why: str, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(run, why, findings)
        self.run, self.why, self.findings = run, why, findings

    def __str__(self) -> str:
        return (
            f"run {self.run!r} cannot be relied on as it stands: {self.why}. Nothing was written "
            f"or removed. `durable-nb verify {self.run}` lists what is wrong and what to do."
        )


def refuse_damaged(report: Report) -> None:
    """Raise `RunDamaged` if anything is damaged."""
    if report.damage:
        first, more = report.damage[0], len(report.damage) - 1
        why = f"{first.where}: {first.what}" + (f" (and {more} more)" if more else "")
        raise RunDamaged(report.run, why, report.damage)
