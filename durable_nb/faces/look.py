"""What can be seen of a run from outside: its journal where nobody holds it, else its mirror."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from durable_nb.engine import listing
from durable_nb.engine.published import published, row_of
from durable_nb.engine.recovery import why_unknown
from durable_nb.engine.run import Run
from durable_nb.engine.views import OperationView, frame_of_operations
from durable_nb.engine.watched import Watched, watch
from durable_nb.faces.output import Face
from durable_nb.faces.plain import rows_of, to_json
from durable_nb.faces.settling import Line, lines_for
from durable_nb.journal import Mirror, Place, Store, mirror, store_of
from durable_nb.journal.errors import MirrorUnreadable
from durable_nb.journal.mirror import MIRROR_FILE, RUN_COLUMNS
from durable_nb.model.errors import DurableError, RunHeld
from durable_nb.model.outcomes import Outcome, RunStatus
from durable_nb.model.pace import pace_of
from durable_nb.model.verdicts import Verdict

_LOOK_OUTSIDE: Final = "`durable-nb show {run}` shows what its mirror has, without the lease."


def watched(face: Face, name: str) -> Watched:
    """Find a run that exists and can be trusted.

    Raises
    ------
    BadName, RunMissing, NotTrusted
    """
    return watch(name, store=face.store, surroundings=face.surroundings())


@contextmanager
def reading(face: Face, name: str) -> Iterator[Run]:
    """Hold a run just to look: nothing is recorded."""
    try:
        with watched(face, name).held("reader") as run:
            yield run
    except RunHeld as held:
        held.add_note(_LOOK_OUTSIDE.format(run=name))
        raise


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
    budget : str
        What was spent of what; "" where nothing is limited.
    """

    run: str
    folder: str
    status: str
    headline: str
    counts: Mapping[str, int]
    operations: tuple[Mapping[str, Any], ...]
    expected: tuple[str, ...]
    open: tuple[Line, ...]
    held_by: str = ""
    published: datetime | None = None
    budget: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `show --json`."""
        return {
            "run": self.run,
            "folder": self.folder,
            "status": self.status,
            "headline": self.headline,
            **self.counts,
            **({"budget": self.budget} if self.budget else {}),
            "held_by": self.held_by or None,
            "published": self.published,
            "operations": list(self.operations),
            "expected": list(self.expected),
            "open": [q.as_dict() for q in self.open],
        }


def picture(face: Face, run: Watched) -> Picture:
    """Show a run: its journal if nobody holds it, else its mirror."""
    status = run.status_view()
    holder, published = "", None
    if run.is_held_elsewhere:
        holder = str(run.place.probe() or status.held_by)
        published = datetime.fromtimestamp((run.place.view / MIRROR_FILE).stat().st_mtime, UTC)
    operations = tuple(rows_of(frame_of_operations(list(status.views))))
    return Picture(
        run=run.name,
        folder=run.place.shown,
        status=status.status,
        headline=status.headline,
        counts=dict(status.counts),
        operations=operations,
        expected=status.expected,
        open=lines_for(face, run.name, status.questions),
        held_by=holder,
        published=published,
        budget=status.budget,
    )


def history_of(run: Watched, op: str) -> list[dict[str, Any]] | None:
    """Give the records of one operation; `None` where its owner does not tell."""
    try:
        return run.records(op)
    except DurableError:
        return None


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


# -- the whole store ---------------------------------------------------------------------------


def refresh(face: Face) -> dict[str, str]:
    """Bring the mirrors of a store up to date, with a word while that takes a while."""
    return listing.refresh(store_of(face.store), lambda name: face.working(f"reading {name} ..."))


def list_runs(face: Face) -> list[dict[str, Any]]:
    """Give all runs of the store, a row each, with `note` where something is to be known."""
    notes = refresh(face)
    root = store_of(face.store)
    frame = listing.query_of(root, "SELECT * FROM runs")
    working = listing.at_work(root)
    found = {row["name"]: row for row in rows_of(frame)}
    rows = []
    for name, (holder, _) in root.overview().items():
        place = root.place(name)
        blank = {**dict.fromkeys(RUN_COLUMNS), "name": name, "folder": place.shown}
        row = found.get(name, blank)
        row["status"] = mirror.standing(holder, row["status"])
        row["pace"] = str(pace_of(working.get(name)))
        row["at_work"] = [work.as_dict() for work in working.get(name, ())]
        rows.append({**row, "note": notes.get(name, "")})
    return rows


def taken_up(root: Store, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Name the runs that `resume --all` takes up.

    They crashed, their notebook is on record, and nothing in them waits for a person; a signal may
    come from anywhere.

    Parameters
    ----------
    root : Store
        Theirs.
    rows : iterable of mappings
        From `list_runs`.
    """
    crashed = [row for row in rows if row["status"] == RunStatus.CRASHED]
    return [row["name"] for row in crashed if _goes_on_by_itself(root.place(row["name"]))]


def _goes_on_by_itself(place: Place) -> bool:
    try:
        place.fetch()
        _, meta = Mirror.tail(place.view)
        if not meta.get("submitted"):
            return False
        return all(q.verb == Verdict.SIGNAL for q in published(place).questions)
    except MirrorUnreadable:
        return False
