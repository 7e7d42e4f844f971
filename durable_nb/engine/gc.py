"""Removing artifacts that no record names."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from durable_nb import values
from durable_nb.engine import at_rest
from durable_nb.engine.examination import ARTIFACTS, Tell
from durable_nb.engine.recorded import refs_of
from durable_nb.engine.report import RunDamaged, refuse_damaged
from durable_nb.engine.verify import examined, find, placed, quiet
from durable_nb.journal import Place, StoreLike


@dataclass(frozen=True, slots=True)
class Garbage:
    """Artifacts that no record names.

    Attributes
    ----------
    run : str
        The run's name.
    artifacts, size : int
        How many, and their bytes.
    removed : bool
        Whether they were removed, or only counted.
    """

    run: str
    artifacts: int
    size: int
    removed: bool

    def to_text(self) -> str:
        """Render as one line."""
        if not self.artifacts:
            return f"run {self.run}: every artifact is named by a record"
        what = "were removed" if self.removed else "are named by no record"
        return f"run {self.run}: {self.artifacts} artifacts ({self.size:,} bytes) {what}"

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `gc --json`."""
        return asdict(self)


def gc(
    name: str | os.PathLike[str],
    delete: bool = False,
    *,
    store: StoreLike | None = None,
    tell: Tell = quiet,
) -> Garbage:
    """Count, or remove, the artifacts of a run that no record names, not even in its history.

    Parameters
    ----------
    name : str or path
        As for `verify`.
    delete : bool
        Remove them; else nothing is changed.
    store : path, optional
        As for `open_run`.
    tell : callable
        Is told what is being done.

    Returns
    -------
    Garbage

    Raises
    ------
    RunHeld
        Somebody holds the run: what it has stored and not yet recorded would look unneeded.
    RunDamaged
        Records are damaged or lost, so what they named would look unneeded.
    JournalDamaged
        So they are, in a database.
    StaleOwner
        In a database another owner took the run over meanwhile; nothing more was removed.
    RunMissing, BadName
    """
    place = placed(name, store)
    if place is not None:
        return _gc_of_place(place, delete, tell)
    folder, run, found = find(name, store, "gc")
    with examined(folder, run, tell=tell, create=delete) as exam:
        exam.findings[:0] = found
        refuse_damaged(exam.report())
        if exam.fold.doubted:
            raise RunDamaged(run, "records of it are lost, which nobody accepted yet")
        if exam.survey is None:
            return Garbage(run, 0, 0, delete)
        loose, strays = exam.unreferenced, exam.survey.strays
        size = sum(loose.values()) + sum(path.stat().st_size for path in strays)
        if delete and (loose or strays):
            tell("removing artifacts ...")
            artifacts = values.DiskArtifacts(folder / ARTIFACTS)
            try:
                for sha256 in loose:
                    artifacts.remove(sha256)
            finally:
                artifacts.close()
            for path in strays:
                path.unlink()
    return Garbage(run, len(loose) + len(strays), size, delete)


def _gc_of_place(place: Place, delete: bool, tell: Tell) -> Garbage:
    """Do it where there are no files: under a lease of its own, so that no owner is at work.

    How old an artifact is does not matter: a live owner keeps this out, and whoever takes the run
    over in the middle of it keeps what it names after the last removal.
    """
    tell("reading ...")
    with at_rest.held(place) as run:
        found = run.recorded()
        if found.fold.doubted:
            raise RunDamaged(place.name, "records of it are lost, which nobody accepted yet")
        named = {sha256 for sha256, _ in refs_of(found.records)}
        loose = {s: size for s, size in run.artifacts.sizes().items() if s not in named}
        if delete and loose:
            tell("removing artifacts ...")
            run.remove_artifacts(loose)
    return Garbage(place.name, len(loose), sum(loose.values()), delete)
