"""Two runs side by side: where what they did, and what came out of it, differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import at_rest, views
from durable_nb.engine.change import compare as changes_between
from durable_nb.engine.operated import Operated
from durable_nb.engine.recorded import Recorded
from durable_nb.engine.trajectory import QUIET
from durable_nb.engine.views import OperationView
from durable_nb.engine.watched import Watched, watch
from durable_nb.journal import Place, StoreLike
from durable_nb.model.facets import FacetSet
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    import pandas as pd

#: Columns of `compare`.
COLUMNS: Final = (
    "op", "outcome_a", "outcome_b", "result_a", "result_b", "same", "usd_a", "usd_b",
    "duration_a", "duration_b", "changes",
)  # fmt: skip

#: Those that are texts: "" where one of the two runs has no such operation, or no result of it.
_TEXTS: Final = ("outcome_a", "outcome_b", "result_a", "result_b")

#: A run as a person names it.
Named = str | Operated | Watched


@dataclass(frozen=True, slots=True)
class _Cell:
    """One operation of one of the runs; without a state, as its mirror has it."""

    outcome: str
    result: str
    usd: float | None
    duration: float | None
    state: OperationState | None = None
    source: Recorded | None = None


def compare(
    a: Named,
    b: Named,
    *,
    store: StoreLike | None = None,
    say: Callable[[str], None],
) -> pd.DataFrame:
    """Show two runs side by side; see `durable_nb.compare`."""
    frame = views.frame_of(COLUMNS, compare_rows(a, b, store=store, say=say))
    for name in _TEXTS:
        frame[name] = frame[name].fillna("")
    return frame


def compare_rows(
    a: Named,
    b: Named,
    *,
    store: StoreLike | None = None,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Give the same as mappings.

    Parameters
    ----------
    a, b : str, Run or Watched
        Names of runs, or runs.
    store : path, optional
        For names; as for `open_run`.
    say : callable
        Is told what of the two could not be compared by its values.
    """
    with ExitStack() as stack:
        cells: list[dict[str, _Cell]] = []
        read: dict[Place, Recorded | Watched] = {}
        for run in (_named(a, store), _named(b, store)):
            if run.place not in read:  # a run beside itself is read once
                read[run.place] = _recorded(stack, run)
            found = read[run.place]
            if isinstance(found, Recorded):
                cells.append({s.id: _cell(found, s) for s in found.fold.ordered()})
                continue
            say(
                f"run {found.name} is held by another process: it is shown as its mirror has it, "
                "and its results are compared by what is shown of them"
            )
            cells.append({v.id: _of_mirror(v) for v in found.status_view().views})
        first, second = cells
        ops = [*first, *(op for op in second if op not in first)]
        return [_row(op, first.get(op), second.get(op)) for op in ops]


def _named(run: Named, store: StoreLike | None) -> Operated | Watched:
    return watch(run, store=store, surroundings=QUIET) if isinstance(run, str) else run


def _recorded(stack: ExitStack, run: Operated | Watched) -> Recorded | Watched:
    """Give what is on record of a run; where another process holds it, the run as watched."""
    if isinstance(run, Operated) and run.is_open:
        return run.recorded()
    run = Watched(run.place)
    if run.is_held_elsewhere:
        return run
    return stack.enter_context(at_rest.recorded(run.place))


def _cell(source: Recorded, state: OperationState) -> _Cell:
    error = state.error or {}
    said = ": ".join(str(v) for v in (error.get("type"), error.get("message")) if v)
    shown = source.shown(state) or said
    outcome = str(source.outcome(state))
    return _Cell(outcome, shown, state.usd, state.duration_s, state, source)


def _of_mirror(view: OperationView) -> _Cell:
    shown = view.result_preview or view.error
    return _Cell(view.outcome, shown, view.usd, view.duration_s)


def _row(op: str, a: _Cell | None, b: _Cell | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row["op"] = op
    for end, cell in (("a", a), ("b", b)):
        if cell is not None:
            row |= {
                f"outcome_{end}": cell.outcome,
                f"result_{end}": cell.result or None,
                f"usd_{end}": cell.usd,
                f"duration_{end}": cell.duration,
            }
    row["same"] = None if a is None or b is None else _same(a, b)
    row["changes"] = "" if a is None or b is None else _changes(a, b)
    return row


def _same(a: _Cell, b: _Cell) -> bool | None:
    """Tell whether two results are equal; `None` where one of the two has none."""
    if not a.result or not b.result:
        return None
    one, other = _text(a), _text(b)
    if one is None or other is None:
        return a.result == b.result
    return one == other or _digest(a, one) == _digest(b, other)


def _text(cell: _Cell) -> str | None:
    """Give the recorded result as it is encoded; `None` of a failure, and of a mirror."""
    return None if cell.state is None else cell.state.result


def _digest(cell: _Cell, text: str) -> str:
    """Digest a value; where it cannot be loaded here, its encoded text stands for it."""
    assert cell.source is not None
    try:
        return values.digest(values.decode(text, cell.source.artifacts))
    except Exception:  # a class that is not defined here, a lost artifact, no digest
        return text


def _changes(a: _Cell, b: _Cell) -> str:
    """Say what differs in what the two results stand on."""
    if a.state is None or b.state is None or a.source is None or b.source is None:
        return ""
    one, other = (s.basis or s.intent for s in (a.state, b.state))
    known: Mapping[str, FacetSet] = {**a.source.fold.known, **b.source.fold.known}
    present = known.get(str(other.get("facets")), FacetSet())
    return "; ".join(map(str, changes_between(one, other, known, present)))
