"""Views: what a person is shown of a run. Frozen data; rendering as HTML is the notebook's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import permits
from durable_nb.engine.pausing import paused_text
from durable_nb.engine.questions import NOT_LOADABLE, Question, questions_of
from durable_nb.engine.retired import NOTHING, Retired
from durable_nb.engine.tree import SIGNS, StatusRow, more_text, tree_of
from durable_nb.model.fold import Opening
from durable_nb.model.outcomes import OUTCOMES, Kind, Outcome
from durable_nb.model.records import Record
from durable_nb.model.state import OperationState
from durable_nb.model.waits import judged
from durable_nb.values.text import Readable

if TYPE_CHECKING:
    import pandas as pd

    from durable_nb.engine.kept import Kept
    from durable_nb.engine.operated import Operated
    from durable_nb.engine.trajectory import Trajectory

#: Columns of `run.operations()`, of the mirror and of every `--json`.
COLUMNS: Final = (
    "run", "id", "parent", "name", "key", "row", "effect", "outcome", "live", "attempt", "source",
    "idempotency_key", "result", "error", "changes", "usd", "tokens", "started", "ended",
    "duration_s", "wait", "waits",
)  # fmt: skip

#: Records that say which signal they are about.
_OF_SIGNALS: Final = frozenset({Kind.SIGNALLED, Kind.CONTESTED})

#: Who holds a run that this process executes.
HERE: Final = "this process"

#: What puts operations into the order in which they are listed.
Tree = Callable[[Sequence["OperationView"], Retired], list[StatusRow]]

#: Columns of `run.history()`.
RECORD_COLUMNS: Final = ("seq", "op", "kind", "ts", "epoch", "actor", "attempt", "detail")


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation as it stands at one moment.

    Attributes
    ----------
    id, parent, name, key
        Its identity, whole and in parts.
    row : int
        The number that `show` prints; verdicts take it too.
    effect, outcome : str
        See DESIGN sections 2 and 3.
    live : bool
        Whether this process is running it now; then it is never called unknown.
    attempt : int
        The number of the last attempt.
    source : str
        ``"ran"`` in this kernel, ``"record"`` replayed in it, or ``""`` not reached yet.
    error : str
        The last failure, as text; "" if none.
    usd, tokens
        What it has cost, all attempts; `None` is unknown, not zero.
    started, ended : datetime or None
        Of the last attempt, UTC.
    duration_s : float or None
        Seconds, by the monotonic clock.
    changes : tuple of str
        What it depended on and was found changed; it waits for a decision.
    wait : str
        What it waits for, or has waited for: ``approval``, ``wait_for`` or ``sleep``; "" of a step.
    waits : bool
        Whether it does so now, undecided.
    decided : str
        Who approved or rejected it, and why; "" of all else.
    last_seq : int
        The last record that this view knows: a verdict on it is a compare-and-set against that.
    outside_s : float or None
        Seconds in which its body was outside of the steps that it called; `None` where it called
        none, or nobody measured it.
    keyed : bool or None
        Whether its function was handed the idempotency key; `None` where that is not known here.
    """

    run: str
    id: str
    parent: str
    name: str
    key: str | None
    row: int
    effect: str
    outcome: str
    live: bool
    attempt: int
    source: str
    idempotency_key: str
    inputs: Mapping[str, str]
    error: str
    usd: float | None
    tokens: int | None
    started: datetime | None
    ended: datetime | None
    duration_s: float | None
    last_seq: int
    changes: tuple[str, ...] = ()
    result_preview: str = ""
    outside_s: float | None = None
    wait: str = ""
    waits: bool = False
    decided: str = ""
    keyed: bool | None = None
    _text: str | None = field(default=None, repr=False)
    _artifacts: Any = field(default=None, repr=False, compare=False)

    @property
    def result(self) -> Any:
        """The recorded result; `None` where there is none."""
        return None if self._text is None else values.decode(self._text, self._artifacts)

    @property
    def loadable(self) -> bool:
        """Whether the recorded value can be had here, as far as is known without reading it."""
        return not self.result_preview.startswith(NOT_LOADABLE)

    def as_dict(self) -> dict[str, Any]:
        """Give the columns of `COLUMNS`; result and error are short text."""
        # the value itself is not loaded for it, which may be large, or wait for its class
        row = {name: None if name == "result" else getattr(self, name) for name in COLUMNS}
        row["result"] = self.result_preview or None
        row["error"] = self.error or None
        row["wait"] = self.wait or None
        row["changes"] = "; ".join(self.changes) or None
        return row


def preview_of(run: Trajectory, state: OperationState) -> str:
    """Show a result as one short line; where its value has to be read for that, once."""
    if state.result is not None and state.id in run.unloadable:
        return f"{NOT_LOADABLE}{run.unloadable[state.id]}>"
    if (text := _at_hand(state)) is not None:
        return text
    seq, text = run.previews.get(state.id, (0, ""))
    if seq != state.last_seq:
        text = shown(state, run.artifacts)
        run.previews[state.id] = (state.last_seq, text)
    return text


def shown(state: OperationState, artifacts: Readable) -> str:
    """Show a recorded result as one short line; a large one is not loaded for it."""
    if (text := _at_hand(state)) is not None:
        return text
    result = state.result or ""
    sizes = [size for _, size in values.text_refs(result)]
    if sizes:
        return f"<{sum(sizes):,} bytes in artifacts>"
    try:
        return values.preview(values.decode(result, artifacts))
    except Exception as problem:  # what can be shown of a damaged run is shown
        return f"{NOT_LOADABLE}{type(problem).__name__}>"


def _at_hand(state: OperationState) -> str | None:
    """Show a result by what its record says of it; `None` where its value has to be read."""
    if state.result is None:
        return ""
    if state.preview is not None:
        return values.one_line(state.preview)
    return values.preview_of_text(state.result)


def error_of(error: Mapping[str, Any]) -> str:
    """Show a recorded failure."""
    return ": ".join(str(v) for v in (error.get("type"), error.get("message")) if v)


def view_of(run: Trajectory, state: OperationState) -> OperationView:
    """Show one operation of a run that this process holds."""
    place = state.place
    live = run.is_live(state.id)
    error = state.error or {}
    return OperationView(
        run=run.name,
        id=state.id,
        parent=place.parent,
        name=place.name,
        key=place.key,
        row=run.fold.row_of(state),
        effect=str(state.effect),
        outcome=outcome_of(run, state),
        live=live,
        attempt=state.attempt,
        source=run.sources.get(state.id, ""),
        idempotency_key=str(state.intent.get("idempotency_key", "")),
        inputs=dict(state.intent.get("shown") or {}),
        error=error_of(error),
        usd=state.usd,
        tokens=state.tokens,
        started=state.started,
        ended=state.ended,
        duration_s=state.duration_s,
        last_seq=state.last_seq,
        changes=tuple((state.asked or {}).get("changes", ())),
        result_preview=preview_of(run, state),
        outside_s=state.last.get("outside_s"),
        wait=str(state.wait or ""),
        waits=state.is_pending,
        decided=judged(state.kind, state.last),
        keyed=state.intent.get("keyed"),
        _text=state.result,
        _artifacts=run.artifacts,
    )


def frame_of_operations(views: list[OperationView]) -> pd.DataFrame:
    """Give operations as a DataFrame, one row each, in the order they first began."""
    import pandas as pd  # half of the time that importing this package would take

    frame = pd.DataFrame([v.as_dict() for v in views], columns=list(COLUMNS))
    for name in ("started", "ended"):
        frame[name] = pd.to_datetime(frame[name], utc=True)
    return frame


def frame_of(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Give rows as a DataFrame."""
    import pandas as pd  # as above

    return pd.DataFrame(rows, columns=list(columns))


def record_row(record: Record) -> dict[str, Any]:
    """Give a record as `run.history()` lists it."""
    return {
        "seq": record.seq,
        "op": record.op,
        "kind": str(record.kind),
        "ts": record.ts,
        "epoch": record.epoch,
        "actor": record.body.get("actor"),
        "attempt": record.body.get("attempt"),
        "detail": detail_of(record),
    }


def detail_of(record: Record) -> str:
    """Say in one line what a record adds."""
    body = record.body
    error = body.get("error") or {}
    parts = [
        ": ".join(str(v) for v in (error.get("type"), error.get("message")) if v),
        str(body.get("evidence") or ""),
        str(body.get("reason") or ""),
        "; ".join(body.get("changes") or ()),
        str(body.get("verdict") or ""),
        ", ".join(body.get("parts") or ()),
        permits.told_of(record),
        f"signal {body['name']!r}" if record.kind in _OF_SIGNALS and body.get("name") else "",
    ]
    return " · ".join(p for p in parts if p)


@dataclass(frozen=True, slots=True)
class StatusView:
    """A run at one moment, for `%durable status`, its HTML and the CLI.

    Attributes
    ----------
    counts : Mapping
        ``completed``, ``incomplete``, ``unknown`` to numbers of operations.
    headline : str
        How this kernel came to the run, and how the one before it ended.
    questions : tuple of Question
        What waits for a person.
    restored : int
        How many operations the owner's kernel took from the record.
    usd, at_least
        What it has cost so far, and whether an attempt's price is missing in that.
    expected : tuple of str
        Steps that were announced and have not begun.
    doubt : str
        Why records are known to be lost; "" if none are.
    copied : bool
        Whether it was last executed in another folder, so that a person has to say why.
    paused : str
        That it is paused, and why; "" if it is not.
    checkable : frozenset of str
        Names of the steps whose reconciler the owner's kernel knows.
    held_by : str
        Who executes the run now; "" if nobody does.
    budget : str
        What was spent of what; "" where nothing is limited.
    born, updated : datetime or None
        Of the first and the last record, UTC.
    retired : Retired
        What stands for operations that pins have retired; they are in `counts` and `usd`.
    tokens : int or None
        What the listed operations have said that they used; `None` where none of them has.
    kernels : tuple of Opening
        The kernels that have executed it, this one included; where another process has it, its
        last ones.
    """

    run: str
    status: str
    headline: str
    counts: Mapping[str, int]
    rows: tuple[StatusRow, ...]
    questions: tuple[Question, ...]
    restored: int
    usd: float | None
    at_least: bool
    expected: tuple[str, ...] = ()
    doubt: str = ""
    copied: bool = False
    paused: str = ""
    checkable: frozenset[str] = frozenset()
    held_by: str = ""
    budget: str = ""
    born: datetime | None = None
    updated: datetime | None = None
    retired: Retired = NOTHING
    tokens: int | None = None
    kernels: tuple[Opening, ...] = ()

    @property
    def open(self) -> tuple[tuple[str, str], ...]:
        """What waits for a person, and the exact line that settles it."""
        return tuple((q.text, q.line(self.run)) for q in self.questions)

    @property
    def views(self) -> tuple[OperationView, ...]:
        """The operations themselves, without what is only expected."""
        return tuple(row.view for row in self.rows if row.view is not None)

    def shortened(self, limit: int) -> tuple[tuple[StatusRow, ...], int]:
        """Give so many rows at most, in their order, and how many are left out.

        What is under way or waits for a person comes first, then what began first.
        """
        if len(self.rows) <= limit:
            return self.rows, 0
        asked = {q.view.id for q in self.questions if q.view is not None}
        urgent = [
            n for n, r in enumerate(self.rows) if r.view and (r.view.live or r.view.id in asked)
        ]
        chosen = set(urgent[:limit])
        for n in range(len(self.rows)):
            if len(chosen) >= limit:
                break
            chosen.add(n)
        return tuple(self.rows[n] for n in sorted(chosen)), len(self.rows) - len(chosen)

    def to_text(self, limit: int | None = None) -> str:
        """Render as stable plain text: no times, no random ids.

        Parameters
        ----------
        limit : int, optional
            So many operations and lines of what is open at most; the text says how many more.
        """
        c = self.counts
        counts = f"{c['completed']} completed, {c['incomplete']} incomplete, {c['unknown']} unknown"
        lines = [f"run {self.run} · {self.status} · {counts}"]
        lines += [self.headline] if self.headline else []
        rows, more = (self.rows, 0) if limit is None else self.shortened(limit)
        width = max((2 * r.depth + len(r.label) for r in rows), default=0)
        for r in rows:
            label = "  " * r.depth + r.label
            lines.append(f"  {r.sign} {label:<{width}}  {r.outcome:<10}  {r.note}".rstrip())
        lines += [more_text(more)] if more else []
        if self.restored:
            lines.append(f"{self.restored} from record, not run again")
        lines += [self.budget] if self.budget else []
        for what, line in self.open[:limit]:
            lines += [what, f"    {line}"]
        if limit is not None and len(self.open) > limit:
            lines.append(f"... and {len(self.open) - limit:,} more lines that settle something")
        return "\n".join(lines)

    __str__ = to_text


def status_view(run: Operated, kept: Kept | None = None) -> StatusView:
    """Show a run that this process holds.

    Parameters
    ----------
    run : Operated
        The run.
    kept : Kept, optional
        What was made for it before: only what has changed since is made anew.
    """
    views = [view_of(run, s) for s in run.states()] if kept is None else kept.views(run)
    held = run.is_open and run.role == "runner"
    doubted = run.fold.doubted
    return assemble(
        views,
        run=run.name,
        status=run.status(),
        headline="; ".join(filter(None, (run.trouble, run.headline))),
        expected=run.changed.expected,
        doubt=str(doubted.get("why")) if doubted else "",
        copied=run.copied,
        paused=paused_text(run.fold),
        at_least=bool(run.changed.unpriced)
        or any(c.unpriced for c in list(run.fold.carried.values())),
        retired=Retired.of(run.fold),
        checkable=frozenset(n for n, o in list(run.reconcilers.items()) if o.reconcile),
        held_by=HERE if held else "",
        budget=permits.line_of(run),
        born=run.fold.born_at,
        updated=run.fold.updated,
        kernels=tuple(o for o in list(run.fold.openings) if o.role == "runner"),
        tree=tree_of if kept is None else kept.tree,
    )


def counted(
    found: Iterable[tuple[str, str]], expected: Sequence[str], retired: Retired
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Count operations, given as name and outcome; and name what was announced and not begun."""
    counts = {str(outcome): retired.counts.get(str(outcome), 0) for outcome in Outcome}
    begun = set()
    for name, outcome in found:
        counts[outcome] += 1
        begun.add(name)
    waiting = tuple(name for name in expected if name not in begun)
    counts[Outcome.INCOMPLETE] += len(waiting)
    return counts, waiting


def counts_of(run: Trajectory) -> dict[str, int]:
    """Count the operations of a run by outcome; no value of theirs is loaded for that."""
    counts = run.changed.by_outcome()
    for op in run.restless():
        state = run.fold.operations.get(op)
        if state is not None:
            counts[OUTCOMES[state.effect, state.kind]] -= 1
            counts[Outcome(outcome_of(run, state))] += 1
    retired = Retired.of(run.fold).counts
    counts[Outcome.INCOMPLETE] += len(run.changed.expected)
    return {str(outcome): n + retired.get(str(outcome), 0) for outcome, n in counts.items()}


def outcome_of(run: Trajectory, state: OperationState) -> str:
    """Give the outcome as it is shown: what is live is never called unknown."""
    outcome = state.outcome(run.clock.now())
    if outcome is Outcome.UNKNOWN and run.is_live(state.id):
        outcome = Outcome.INCOMPLETE
    return str(outcome)


def assemble(
    views: Sequence[OperationView],
    *,
    run: str,
    expected: Sequence[str],
    doubt: str,
    copied: bool,
    retired: Retired,
    paused: str = "",
    tree: Tree = tree_of,
    **facts: Any,
) -> StatusView:
    """Make the view of a run from its operations, wherever they were read."""
    counts, waiting = counted(((v.name, v.outcome) for v in views), expected, retired)
    not_begun = "expected, not begun"
    rows = tree(views, retired) + [
        StatusRow(0, SIGNS[Outcome.INCOMPLETE], "incomplete", None, name, not_begun)
        for name in waiting
    ]
    tokens = [v.tokens for v in views if v.tokens is not None]
    money = [usd for usd in (retired.usd, *(v.usd for v in views)) if usd is not None]
    return StatusView(
        counts=counts,
        rows=tuple(rows),
        questions=questions_of(views, doubt=doubt, copied=copied, paused=paused),
        restored=sum(1 for v in views if v.source == "record"),
        usd=sum(money) if money else None,
        tokens=sum(tokens) if tokens else None,
        expected=waiting,
        doubt=doubt,
        copied=copied,
        retired=retired,
        paused=paused,
        run=run,
        **facts,
    )
