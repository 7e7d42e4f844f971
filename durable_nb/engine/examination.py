"""What has been read of a run's folder so far, and what was found in it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from durable_nb.engine.report import Finding, Level, Report
from durable_nb.journal.looking import Looked
from durable_nb.model.fold import Fold
from durable_nb.model.records import Record
from durable_nb.values.survey import Survey

Tell = Callable[[str], None]

ARTIFACTS: Final = "artifacts"
RESTORE: Final = "Bring the run's folder back from a copy"


@dataclass(frozen=True, slots=True)
class Named:
    """An artifact that records name: its size, the first of them, and whether it is in use."""

    size: int
    record: Record
    current: bool


@dataclass(slots=True)
class Examination:
    """What has been read of a run so far.

    Attributes
    ----------
    scratch : Path
        A private folder, removed at the end.
    looked : Looked or None
        The copy of the journal; `None` if nothing of it can be read.
    fold : Fold
        Of its records, as far as they can be followed.
    survey : Survey or None
        The artifacts; `None` if their folder must not be read.
    named : dict
        SHA-256 to the artifact, of all that any record names, also in history.
    """

    folder: Path
    name: str
    scratch: Path
    tell: Tell
    findings: list[Finding] = field(default_factory=list)
    looked: Looked | None = None
    fold: Fold = field(default_factory=Fold)
    survey: Survey | None = None
    named: dict[str, Named] = field(default_factory=dict)
    checked: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("records", "values", "artifacts", "bytes"), 0)
    )

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that could be read."""
        return self.looked.records if self.looked else ()

    @property
    def unreferenced(self) -> dict[str, int]:
        """SHA-256 to bytes of the artifacts that no record names."""
        sizes = self.survey.sizes if self.survey else {}
        return {sha256: size for sha256, size in sizes.items() if sha256 not in self.named}

    def report(self) -> Report:
        """Give what was found, damage first."""
        ordered = sorted(self.findings, key=lambda f: f.level is not Level.DAMAGE)
        return Report(
            run=self.name,
            folder=self.folder,
            run_id=str(self.fold.born.get("run_id", "")),
            checked=self.checked,
            findings=tuple(ordered),
        )

    def damage(self, kind: str, where: str, what: str, means: str, do: str) -> None:
        """Add damage."""
        self.findings.append(Finding(Level.DAMAGE, kind, where, what, means, do))

    def note(self, kind: str, where: str, what: str, means: str, do: str) -> None:
        """Add a note."""
        self.findings.append(Finding(Level.NOTE, kind, where, what, means, do))

    def line(self, verb: str, *more: str) -> str:
        """Write the line that does something about it."""
        return shlex.join(["durable-nb", verb, self.name, *more])

    def is_linked(self, *names: str) -> bool:
        """Tell whether a file is a link, a pipe or somebody else's, which was told already."""
        bad = {f.where for f in self.findings if f.kind == "rights"}
        return any(name in bad for name in names)
