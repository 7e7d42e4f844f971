"""The operation tree as it is listed: a row for each operation, under the one that called it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from durable_nb.engine.retired import Retired
from durable_nb.engine.usage import outside_text
from durable_nb.model.outcomes import Outcome
from durable_nb.model.waits import WAITS_FOR, Wait

if TYPE_CHECKING:
    from durable_nb.engine.views import OperationView

#: Outcome, or live -> the sign beside the word.
SIGNS: Final[Mapping[str, str]] = {
    Outcome.COMPLETED: "✔",
    Outcome.INCOMPLETE: "○",
    Outcome.UNKNOWN: "?",
    "live": "▶",
}

#: How much of an error, or of a person's reason, a row shows, in characters.
_LONGEST: Final = 80

#: Where an operation stands in the tree: the rows of those above it, and its own.
Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One line of the operation tree; `last` is the sign, the word, and what to know."""

    depth: int
    sign: str
    outcome: str
    view: OperationView | None
    label: str
    note: str


def tree_of(views: Sequence[OperationView], retired: Retired) -> list[StatusRow]:
    """Order operations under their parents, branches included, by when they first began."""
    paths: dict[str, Path] = {}
    add_paths(paths, views)
    return [row_of(v, paths, retired) for v in sorted(views, key=lambda v: paths[v.id])]


def add_paths(paths: dict[str, Path], views: Iterable[OperationView]) -> None:
    """Add where these stand; whatever is above one of them began before it, or is no operation."""
    for v in sorted(views, key=lambda v: v.row):
        paths[v.id] = (*paths.get(v.parent, ()), v.row)


def row_of(view: OperationView, known: Mapping[str, object], retired: Retired) -> StatusRow:
    """Make the row of an operation; `known` are those that are listed."""
    depth, label = 0, view.id
    if view.parent in known:
        depth, label = view.parent.count("/") + 1, view.id[len(view.parent) + 1 :]
    sign = SIGNS["live"] if view.live else SIGNS[view.outcome]
    return StatusRow(depth, sign, view.outcome, view, label, _note(view, retired))


def _note(view: OperationView, retired: Retired) -> str:
    parts = retired.note(view.id)
    if view.live:
        parts.append("running")
    elif view.source == "record":
        parts.append("from record")
    if view.attempt > 1:
        parts.append(f"attempt {view.attempt}")
    if said := about(view):
        parts.append(said)
    if outside := outside_text(view.outside_s):
        parts.append(outside)
    return ", ".join(parts)


def more_text(more: int) -> str:
    """Say that operations are not listed, and where they are."""
    what = "1 operation is" if more == 1 else f"{more:,} operations are"
    return f"... {what} not listed here: run.operations() has them all"


def about(view: OperationView) -> str:
    """Say of an operation what its outcome leaves open: why, for what, or by whom; "" if nothing.

    Parameters
    ----------
    view : OperationView
        The operation.
    """
    if view.outcome == Outcome.UNKNOWN:
        return "it may have happened"
    if view.waits:
        return WAITS_FOR[Wait(view.wait)]
    if not view.loadable:
        return "value not loadable here"
    said = view.decided or view.error
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 3]}..."
