"""Bringing back the committed prefix of a damaged journal, on purpose and with a report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from durable_nb.engine.examination import Tell
from durable_nb.engine.published import row_of
from durable_nb.engine.read_values import read_values
from durable_nb.engine.report import Finding
from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import QUIET
from durable_nb.engine.verify import examined, find, quiet
from durable_nb.engine.views import OperationView
from durable_nb.journal import StoreLike
from durable_nb.model.errors import JournalDamaged

#: Kinds of damage that opening a run mends; the rest stays and is told.
_MENDED: Final = frozenset({"journal", "head"})


@dataclass(frozen=True, slots=True)
class Recovered:
    """What `recover` did.

    Attributes
    ----------
    run : str
        The run's name.
    changed : bool
        Whether anything was done; a healthy run is left as it is.
    found : tuple of Finding
        What was damaged.
    aside : Path or None
        Where the damaged whole was set aside.
    records : int
        How many records the run has been left with.
    doubt : str
        Why records are known to be lost, so that every operation that has no record and is not
        effect none counts as unknown; "" if none that was acknowledged is lost.
    unknown : tuple of OperationView
        The operations on record that only evidence can settle.
    left : tuple of Finding
        Damage that this cannot mend, such as an artifact.
    """

    run: str
    changed: bool
    found: tuple[Finding, ...] = ()
    aside: Path | None = None
    records: int = 0
    doubt: str = ""
    unknown: tuple[OperationView, ...] = ()
    left: tuple[Finding, ...] = ()

    def to_text(self) -> str:
        """Render as plain text, without what settles a doubt: `show` has that."""
        lines = [f"found: {f.kind} · {f.where}: {f.what}" for f in self.found]
        if not self.changed:
            what = "its journal is not damaged" if self.left else "nothing is damaged"
            lines.append(f"run {self.run}: {what}; nothing was changed")
        elif self.aside is None:
            lines.append(f"run {self.run}: its head was written anew, over {self.records} records")
        else:
            lines.append(f"run {self.run}: {self.records} records were brought back")
        if self.aside is not None:
            lines.append(f"the damaged whole is in {self.aside}; nothing of it was deleted")
        if self.doubt:
            lines.append(
                f"lost: {self.doubt}. Every operation that has no record and is not effect none "
                "counts as unknown, until a person accepts that."
            )
        elif self.changed:
            lines.append("no record that was acknowledged is known to be lost")
        lines += [f"unknown: {view.id}" for view in self.unknown]
        return "\n".join([*lines, *(f.to_text() for f in self.left)])

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `recover --json`."""
        return {
            "run": self.run,
            "changed": self.changed,
            "found": [_plain(f) for f in self.found],
            "aside": None if self.aside is None else str(self.aside),
            "records": self.records,
            "doubt": self.doubt or None,
            "unknown": [row_of(view) for view in self.unknown],
            "left": [_plain(f) for f in self.left],
        }


def _plain(finding: Finding) -> dict[str, str]:
    return {name: str(getattr(finding, name)) for name in finding.__slots__}


def recover(
    name: str | os.PathLike[str],
    *,
    store: StoreLike | None = None,
    tell: Tell = quiet,
) -> Recovered:
    """Bring back the committed prefix of a damaged journal; the damaged whole is set aside.

    A kernel that opens the run does the same; this says what was brought back and what was lost,
    and executes nothing.

    Parameters
    ----------
    name : str or path
        As for `verify`.
    store : path, optional
        As for `open_run`.
    tell : callable
        Is told what is being done.

    Returns
    -------
    Recovered

    Raises
    ------
    JournalDamaged
        Nothing can be brought back; nothing was deleted.
    RunHeld, RunMissing, BadName, JournalTooNew
        Nothing was changed.
    """
    folder, run_name, found = find(name, store, "recover")
    with examined(folder, run_name, tell=tell) as exam:
        read_values(exam)
        report = exam.report()
        hopeless = exam.looked is None or any(f.kind == "record" for f in report.damage)
        doubt, records = exam.fold.doubted, len(exam.records)
        set_aside = exam.looked is not None and exam.looked.recovered is not None
    damage = (*found, *report.damage)
    mended = tuple(f for f in damage if f.kind in _MENDED)
    left = tuple(f for f in damage if f.kind not in _MENDED)
    if hopeless:
        first = next(f for f in damage if f.kind in _MENDED | {"record", "rights"})
        raise JournalDamaged(run_name, f"{first.where}: {first.what}.", first.do)
    if not mended:
        why = str(doubt.get("why")) if doubt else ""
        return Recovered(run_name, False, records=records, doubt=why, left=left)
    tell("bringing records back ...")
    run = open_run(
        folder.name,
        store=folder.parent,
        must_exist=True,
        whole=True,
        role="operator",
        surroundings=QUIET,
    )
    try:
        lost = run.fold.doubted
        return Recovered(
            run_name,
            True,
            mended,
            _last_aside(folder) if set_aside else None,
            records,
            str(lost.get("why")) if lost else "",
            tuple(run.unknown()),
            left,
        )
    finally:
        run.close()


def _last_aside(folder: Path) -> Path:
    """Find where opening has put the damaged whole."""
    return max(folder.glob("damaged-*"), key=lambda path: (len(path.name), path.name))
