"""The rows of the table as they go to the front end: all of them once, and then what has changed.

A run may have tens of thousands of rows, and a look at it follows every second. So only what the
table itself shows is sent, as columns; what most rows share (`Shape`) is one small number in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from durable_nb.engine.tree import StatusRow
from durable_nb.engine.views import StatusView
from durable_nb.notebook.panel import texts

#: Up to so many rows all are sent at each change: no view can have missed anything then.
FEW: Final = 100


class Shape(NamedTuple):
    """What many rows have in common; in this order it is an array in the front end."""

    depth: int
    outcome: str
    effect: str
    attempt: int
    source: str
    live: bool
    waits: str
    asks: bool
    begun: bool
    note: str


class Row(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    id : str
        Of the operation; of what has not begun, ``?`` and its name, which is no identity.
    label : str
        The last part of it.
    shape : Shape
        What it shares with others.
    started : int or None
        Milliseconds since 1970, UTC.
    took : float or None
        Seconds.
    seq : int
        Its last record: where that differs, what is known of it beside the row does, too.
    """

    id: str
    label: str
    shape: Shape
    started: int | None
    took: float | None
    seq: int


def row_of(row: StatusRow) -> Row:
    """Make the row of an operation, or of what is expected."""
    view, label = row.view, texts.plain(row.label)
    if view is None:
        shape = Shape(row.depth, row.outcome, "", 0, "", False, "", False, False, row.note)
        return Row(f"?{label}", label, shape, None, None, 0)
    shape = Shape(
        row.depth,
        row.outcome,
        view.effect,
        view.attempt,
        texts.source(view),
        view.live,
        view.wait if view.waits else "",
        bool(view.changes),
        True,
        texts.note(view),
    )
    started = None if view.started is None else round(view.started.timestamp() * 1000)
    took = None if view.duration_s is None else float(f"{view.duration_s:.3g}")
    return Row(texts.plain(view.id), label, shape, started, took, view.last_seq)


class Sent:
    """The rows that the front end has, under a version number, and what makes them current.

    Attributes
    ----------
    version : int
        Goes up with each change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._rows: dict[str, Row] = {}
        self._made: dict[str, tuple[StatusRow, Row]] = {}
        self._real: dict[str, str] = {}

    @property
    def rows(self) -> list[Row]:
        """All of them, in the order of the operation tree."""
        return list(self._rows.values())

    def op(self, shown: str) -> str:
        """Give the identity of the operation that the front end knows by this one."""
        return self._real.get(shown, shown)

    def whole(self) -> dict[str, Any]:
        """Give all rows, for a view that has none, or has missed something."""
        return {"version": self.version, **columns(self.rows)}

    def update(self, status: StatusView, *, whole: bool = False) -> dict[str, Any] | None:
        """Take over how the run is now.

        Parameters
        ----------
        status : StatusView
            Of the run.
        whole : bool
            Whether somebody may have missed something.

        Returns
        -------
        dict or None
            A patch: ``base`` and ``version``; ``removed``, ids; and rows with their ``id``, new
            ones with the id that they stand ``after``. Empty if nothing changed. `None` if all
            rows are to be sent, which is less, or safer.
        """
        before, now = self._rows, self._now(status)
        ids = list(now)
        same_order = list(before) == ids
        changed = [op for op, row in now.items() if before.get(op) != row]
        removed = [] if same_order else [op for op in before if op not in now]
        if same_order and not changed:
            return {}
        base, self._rows = self.version, now
        self.version += 1
        moved = not same_order and [i for i in before if i in now] != [
            i for i in ids if i in before
        ]
        if whole or moved or len(now) <= FEW or len(changed) + len(removed) > len(now) // 2:
            return None
        above = {} if same_order else dict(zip(ids[1:], ids, strict=False))
        return {
            "base": base,
            "version": self.version,
            "removed": removed,
            "id": changed,
            "after": [0 if op in before else above.get(op) for op in changed],
            **columns([now[op] for op in changed]),
        }

    def _now(self, status: StatusView) -> dict[str, Row]:
        """Make the rows that are not made yet."""
        made: dict[str, tuple[StatusRow, Row]] = {}
        rows: dict[str, Row] = {}
        for listed in status.rows:
            key = f"?{listed.label}" if listed.view is None else listed.view.id
            known = self._made.get(key)
            if known is None or (known[0] is not listed and known[0] != listed):
                known = (listed, row_of(listed))
            made[key] = known  # the same pair: thousands of new ones a second are work to collect
            rows[known[1].id] = known[1]
        self._made = made
        self._real = {row.id: key for key, (_, row) in made.items() if row.id != key}
        return rows


def columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Give rows as columns; ids are not among them, for `label` and the order tell them.

    Returns
    -------
    dict
        ``shapes``: each `Shape` once; ``shape``, ``label``, ``started`` (each as what it is more
        than the one before) and ``took``, a value for each row.
    """
    shapes: dict[Shape, int] = {}
    shape = [shapes.setdefault(row.shape, len(shapes)) for row in rows]
    return {
        "shapes": [list(one) for one in shapes],
        "shape": shape,
        "label": [row.label for row in rows],
        "started": _steps([row.started for row in rows]),
        "took": [row.took for row in rows],
    }


def _steps(moments: Sequence[int | None]) -> list[int | None]:
    """Give each number as the difference to the one before: that is short, as they are near."""
    found: list[int | None] = []
    last = 0
    for moment in moments:
        found.append(None if moment is None else moment - last)
        last = last if moment is None else moment
    return found
