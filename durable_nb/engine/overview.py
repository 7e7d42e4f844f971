"""All runs of a store at a glance: where each stands, and what waits for a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from durable_nb.engine import listing
from durable_nb.engine.questions import asked_of
from durable_nb.engine.usage import usd_text
from durable_nb.journal import StoreLike, store_of
from durable_nb.model.outcomes import Outcome, RunStatus
from durable_nb.model.waits import FOR_A_PERSON

#: What a person is asked about: a doubt, a change, or a wait that only a person ends.
_ASKED: Final = """
SELECT run, id, outcome, waits, wait FROM operations
 WHERE outcome = 'unknown' OR waits OR changes NOT IN ('', '[]') ORDER BY run, row
"""
#: What comes first: what needs a person, then what is alive, then the rest.
_FIRST: Final = ("failed", "crashed", "waiting")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a store.

    Attributes
    ----------
    status : str
        As `runs` gives it.
    pace : str
        ``live``, ``slow`` or "".
    asks : tuple of str
        What waits for a person, a line each.
    usd : float or None
        What it has cost, as far as anybody said.
    opened, updated : datetime or None
        When it was opened last, and when something was recorded last; UTC.
    """

    name: str
    status: str
    pace: str
    completed: int
    incomplete: int
    unknown: int
    asks: tuple[str, ...] = ()
    usd: float | None = None
    opened: datetime | None = None
    updated: datetime | None = None

    @property
    def standing(self) -> str:
        """Where it stands, for a person: one that is open and asks something waits, too."""
        return RunStatus.WAITING if self.asks and self.status == RunStatus.OPEN else self.status

    @property
    def cost(self) -> str:
        """What it has cost, as a person writes it; "" if nobody said."""
        return "" if self.usd is None else usd_text(self.usd)


@dataclass(frozen=True, slots=True)
class Overview:
    """All runs of a store.

    Attributes
    ----------
    store : str
        Where, without a password.
    rows : tuple of RunRow
        Those that need a person first, then those at work, then what was touched last.
    """

    store: str
    rows: tuple[RunRow, ...]

    def to_text(self) -> str:
        """Give it as plain text, without times."""
        if not self.rows:
            return f"no runs in {self.store}"
        lines = [f"runs in {self.store}:"]
        for row in self.rows:
            counts = ", ".join(f"{getattr(row, word)} {word}" for word in Outcome)
            cost = f" · {row.cost}" if row.cost else ""
            lines.append(f"  {row.name} · {row.standing} · {counts}{cost}")
            lines += [f"    {ask}" for ask in row.asks]
        return "\n".join(lines)

    __str__ = __repr__ = to_text


def overview(store: StoreLike | None = None) -> Overview:
    """Look at all runs of a store; none is opened or executed.

    Parameters
    ----------
    store : path or str, optional
        As for `runs`.

    Raises
    ------
    StoreUnreachable
    """
    root = store_of(store)
    asks = _asks(listing.sql(_ASKED, store=root).to_dict("records"))
    frame = listing.runs(root).astype(object)
    known: Any = frame.where(frame.notna(), None).to_dict("records")
    rows = [_row(found, asks) for found in known]
    rows.sort(key=lambda row: row.name)
    rows.sort(key=lambda row: row.updated or datetime.min.replace(tzinfo=UTC), reverse=True)
    rows.sort(key=lambda row: (not row.asks, not row.pace, row.status not in _FIRST))
    return Overview(root.shown if root.folder is None else f"{root.folder.name}/", tuple(rows))


def _row(found: Mapping[str, Any], asks: Mapping[str, tuple[str, ...]]) -> RunRow:
    usd = found.get("usd")
    return RunRow(
        name=str(found["name"]),
        status=str(found["status"]),
        pace=str(found["pace"]),
        completed=_number(found["completed"]),
        incomplete=_number(found["incomplete"]),
        unknown=_number(found["unknown"]),
        asks=asks.get(str(found["name"]), ()),
        usd=None if usd is None else float(usd),
        opened=_moment(found.get("opened")),
        updated=_moment(found.get("updated")),
    )


def _asks(found: list[dict[Any, Any]]) -> dict[str, tuple[str, ...]]:
    """Give what waits for a person in each run."""
    asks: dict[str, list[str]] = defaultdict(list)
    for row in found:
        run, op = str(row["run"]), str(row["id"])
        wait = str(row["wait"]) if row["waits"] else ""
        if row["outcome"] == Outcome.UNKNOWN or not wait or wait in FOR_A_PERSON:
            asks[run].append(asked_of(op, str(row["outcome"]), wait))
    return {run: tuple(lines) for run, lines in asks.items()}


def _number(value: Any) -> int:
    return 0 if value is None else int(value)


def _moment(value: Any) -> datetime | None:
    return None if value is None else value.to_pydatetime()
