"""What can be seen of a run from outside: its journal where nobody holds it, else its mirror."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from durable_nb.engine import listing
from durable_nb.engine import store as stores
from durable_nb.engine.inbox import row_of
from durable_nb.engine.recovery import why_unknown
from durable_nb.engine.run import Run
from durable_nb.engine.views import OperationView
from durable_nb.faces.output import Face
from durable_nb.faces.plain import rows_of, to_json
from durable_nb.faces.settling import Question, questions
from durable_nb.journal import Mirror, mirror, probe
from durable_nb.journal import folder as folders
from durable_nb.journal.mirror import MIRROR_FILE, RUN_COLUMNS, standing
from durable_nb.journal.owner import Life, Role
from durable_nb.model.errors import OperationMissing, RunHeld, RunMissing
from durable_nb.model.outcomes import Outcome

OUTCOMES: Final = tuple(str(outcome) for outcome in Outcome)

_SETTLE_THERE: Final = (
    "Settle it where it lives: in a cell of its notebook, `%durable confirm ...`, "
    "`%durable deny ...` or `%durable invalidate ...`. Or shut that kernel down, and repeat this."
)
_LOOK_OUTSIDE: Final = "`durable-nb show {run}` shows what its mirror has, without the lease."


@contextmanager
def reading(face: Face, name: str) -> Iterator[Run]:
    """Hold a run just to look: nothing is recorded."""
    with _held(face, name, "reader", _LOOK_OUTSIDE.format(run=name)) as run:
        yield run


@contextmanager
def operating(face: Face, name: str) -> Iterator[Run]:
    """Hold a run to settle something in it."""
    with _held(face, name, str(Role.OPERATOR), _SETTLE_THERE) as run:
        yield run


@contextmanager
def _held(face: Face, name: str, role: str, advice: str) -> Iterator[Run]:
    try:
        run = stores.open_run(
            name, store=face.store, must_exist=True, role=role, surroundings=face.surroundings()
        )
    except RunHeld as held:
        held.add_note(advice)
        raise
    try:
        yield run
    finally:
        run.close()


# -- one run -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Picture:
    """A run at one moment, as `show` prints it.

    Attributes
    ----------
    operations : tuple of mappings
        A row each, with the columns of `durable_nb.engine.views.COLUMNS`, in JSON's own types.
    expected : tuple of str
        Steps that were announced and have not begun.
    held_by : str
        Who holds the run, if that made this a picture of the mirror.
    published : datetime or None
        When the mirror was written; `None` where the journal itself was read.
    """

    run: str
    folder: Path
    status: str
    headline: str
    counts: Mapping[str, int]
    operations: tuple[Mapping[str, Any], ...]
    expected: tuple[str, ...]
    open: tuple[Question, ...]
    held_by: str = ""
    published: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `show --json`."""
        return {
            "run": self.run,
            "folder": str(self.folder),
            "status": self.status,
            "headline": self.headline,
            **self.counts,
            "held_by": self.held_by or None,
            "published": self.published,
            "operations": list(self.operations),
            "expected": list(self.expected),
            "open": [q.as_dict() for q in self.open],
        }


def picture(face: Face, name: str) -> Picture:
    """Show a run: its journal if nobody holds it, else its mirror."""
    folder = find(face, name)
    holder = probe(folder)
    if holder is not None and holder.life is not Life.CRASHED:
        return _of_mirror(face, name, folder, str(holder))
    try:
        with reading(face, name) as run:
            return _of_journal(face, run)
    except RunHeld as held:  # taken meanwhile, or by what a dead holder left behind
        return _of_mirror(face, name, folder, held.holder)


def find(face: Face, name: str) -> Path:
    """Give the folder of a run that exists and can be trusted.

    Raises
    ------
    BadName, RunMissing, NotTrusted
    """
    root = stores.store_folder(face.store)
    folder = folders.run_folder(root, name)
    if not os.path.lexists(folder / folders.JOURNAL_FILE):
        raise RunMissing(name, str(root), folders.run_names(root))
    folders.check_trusted(folder)
    return folder


def _of_journal(face: Face, run: Run) -> Picture:
    status = run.status_view()
    doubt = str(run.fold.doubted.get("why")) if run.fold.doubted else ""
    operations = tuple(rows_of(run.operations()))
    return Picture(
        run=run.name,
        folder=run.folder,
        status=status.status,
        headline=status.headline,
        counts=dict(status.counts),
        operations=operations,
        expected=status.expected,
        open=questions(face, run.name, operations, doubt),
    )


def _of_mirror(face: Face, name: str, folder: Path, holder: str) -> Picture:
    frame, meta = Mirror.read(folder)
    operations = tuple(rows_of(frame))
    counts = {o: sum(1 for op in operations if op["outcome"] == o) for o in OUTCOMES}
    published = datetime.fromtimestamp((folder / MIRROR_FILE).stat().st_mtime, UTC)
    return Picture(
        run=name,
        folder=folder,
        status=standing(folder, meta.get("status")),
        headline="",
        counts=counts,
        operations=operations,
        expected=(),
        open=questions(face, name, operations),
        held_by=holder,
        published=published,
    )


def operation_row(view: OperationView) -> dict[str, Any]:
    """Give one operation whole, in JSON's own types."""
    found: dict[str, Any] = to_json(row_of(view))
    return found


def in_journal(run: Run, ref: str) -> dict[str, Any]:
    """Find an operation of a run that is held, and say why it is in doubt if it is."""
    view = run.get(ref)
    unknown = view.outcome == Outcome.UNKNOWN
    why = why_unknown(run.fold.operations[view.id]) if unknown else None
    return {**operation_row(view), "why": why}


def in_mirror(picture: Picture, ref: str) -> Mapping[str, Any]:
    """Find an operation of a picture, by id, row number or unique name.

    Raises
    ------
    OperationMissing
    """
    by_id = [op for op in picture.operations if op["id"] == ref]
    by_row = [op for op in picture.operations if str(op["row"]) == ref]
    named = [op for op in picture.operations if op["name"] == ref]
    for found in (by_id, by_row, named):
        if len(found) == 1:
            return found[0]
    raise OperationMissing(ref, [op["id"] for op in named][:5])


# -- the whole store ---------------------------------------------------------------------------


def refresh(face: Face) -> dict[str, str]:
    """Bring the mirrors of a store up to date, with a word while that takes a while."""
    root = stores.store_folder(face.store)
    return listing.refresh(root, lambda name: face.working(f"reading {name} ..."))


def list_runs(face: Face) -> list[dict[str, Any]]:
    """Give all runs of the store, a row each, with `note` where something is to be known."""
    notes = refresh(face)
    root = stores.store_folder(face.store)
    frame = mirror.query(root, "SELECT * FROM runs")
    found = {row["name"]: row for row in rows_of(frame)}
    rows = []
    for name in folders.run_names(root):
        blank = {**dict.fromkeys(RUN_COLUMNS), "name": name, "folder": str(root / name)}
        row = found.get(name, blank)
        row["status"] = standing(root / name, row["status"])
        rows.append({**row, "note": notes.get(name, "")})
    return rows
