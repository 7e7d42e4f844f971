"""The operator's side: verdicts, each a compare-and-set against what the operator saw."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_nb import values
from durable_nb.engine.operation import Operation
from durable_nb.engine.views import OperationView
from durable_nb.model.adoption import Adoption
from durable_nb.model.errors import (
    AlreadySettled,
    NotRecordable,
    OperationMissing,
    StillRunning,
    VerdictRefused,
)
from durable_nb.model.fold import Fold
from durable_nb.model.identity import is_id, parse
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import Draft
from durable_nb.model.state import OperationState
from durable_nb.model.verdicts import (
    DECIDES_ONCE,
    RECORDED_AS,
    REDOES,
    VERDICTS,
    Verdict,
    is_settled,
)
from durable_nb.model.waits import FITS

if TYPE_CHECKING:
    from durable_nb.engine.trajectory import Trajectory

#: What may have become of an external effect whose result is invalidated.
FATES: Final = ("stands", "compensated")

#: What to do where a pin does not let a result be given up.
_INSTEAD: Final = "Fork the run from before it, or begin anew with fresh=True."

#: What a verdict that another process sent adds to its record: who sent it, in which message.
_sender: ContextVar[Mapping[str, str] | None] = ContextVar("durable_nb_sender", default=None)


@dataclass(frozen=True, slots=True)
class Cascade:
    """What an invalidation touches.

    Attributes
    ----------
    operation : str
        The operation itself.
    below : tuple of str
        Its descendants: invalidated with it.
    suspect : tuple of str
        What began later: equal inputs on replay clear it, else its `on_change` decides.
    """

    operation: str
    below: tuple[str, ...]
    suspect: tuple[str, ...]

    def __str__(self) -> str:
        below = ", ".join(self.below) or "nothing"
        later = ", ".join(self.suspect) or "nothing"
        return (
            f"{self.operation}: its result no longer counts\n"
            f"  invalidated with it: {below}\n"
            f"  began later, checked when reached: {later}"
        )

    __repr__ = __str__


def actor() -> str:
    """Name the person whose verdict is being recorded, for the history."""
    sender = _sender.get()
    if sender is not None:
        return sender["actor"]
    try:
        import getpass  # here and below: with the first verdict, and not with the package

        return getpass.getuser()
    except (KeyError, OSError):  # no such user on record
        return "operator"


@contextmanager
def sent_by(who: str, message: str) -> Iterator[None]:
    """Record the verdicts of this block as those of another process's user."""
    token = _sender.set({"actor": values.redact(who)[:100], "message": message})
    try:
        yield
    finally:
        _sender.reset(token)


def signed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a verdict records, with who gave it, and in which message if it was sent."""
    return {**body, "actor": body.get("actor") or actor(), **(_sender.get() or {})}


class Folded(Protocol):
    """Whatever has the records of a run, folded."""

    @property
    def fold(self) -> Fold:
        """All records, folded."""
        ...


def find(run: Folded, ref: object) -> tuple[OperationState, int | None]:
    """Find an operation by view, id, row number or unique name; and the record the caller saw.

    Raises
    ------
    OperationMissing
        Nothing, or more than one thing, goes by that name.
    """
    states = run.fold.operations
    if isinstance(ref, Operation):
        ref = ref.id
    if isinstance(ref, OperationView):
        if ref.id in states:
            return states[ref.id], ref.last_seq
        raise OperationMissing(ref.id, retired=run.fold.retired(ref.id))
    text = str(ref)
    if text in states:
        return states[text], None
    if is_id(text) and run.fold.retired(text):
        raise OperationMissing(text, retired=True)
    rows = ((op, run.fold.row(states.first_seq(op))) for op in states)
    found = _named(text, [(op, row, parse(op).name) for op, row in rows])
    return states[found], None


def pick(ref: object, seen: Sequence[OperationView]) -> OperationView:
    """Find an operation among those that are shown: by view, id, row number or unique name.

    Raises
    ------
    OperationMissing
        Nothing, or more than one thing, goes by that name.
    """
    if isinstance(ref, OperationView):
        return ref
    found = _named(str(ref), [(view.id, view.row, view.name) for view in seen])
    return next(view for view in seen if view.id == found)


def _named(text: str, known: Sequence[tuple[str, int, str]]) -> str:
    """Give the id that a person means; `known` are ids, row numbers and names."""
    by_id = [op for op, _, _ in known if op == text]
    by_row = [op for op, row, _ in known if str(row) == text]
    named = [op for op, _, name in known if name == text or op.rpartition("#")[0] == text]
    for found in (by_id, by_row, named):
        if len(found) == 1:
            return found[0]
    import difflib

    near = named or difflib.get_close_matches(text, [op for op, _, _ in known], 3, 0.4)
    raise OperationMissing(text, near[:5])


def dependants(run: Trajectory, state: OperationState) -> Cascade:
    """List what an invalidation of this operation would touch."""
    below = [s.id for s in run.states() if s.id.startswith(state.id + "/")]
    later = [
        s.id
        for s in run.states()
        if s.first_seq > state.first_seq
        and s.undoes is None
        and s.id not in below
        and not state.id.startswith(s.id + "/")
    ]
    return Cascade(state.id, tuple(below), tuple(later))


def give(run: Trajectory, verdict: Verdict, ref: object, body: Mapping[str, Any]) -> OperationState:
    """Check a verdict against the table and what the operator saw, and record it.

    Raises
    ------
    OperationMissing, StillRunning, AlreadySettled, VerdictRefused
        In each case nothing changes; a verdict that came second is kept in the history.
    """
    with run.lock:
        run.check_owner()
        state, seen = find(run, ref)
        if run.is_live(state.id):
            raise StillRunning(state.id, [run.view(state)])
        full = signed(body)
        asked = state.asked is not None
        if is_settled(verdict, state.kind, seen, state.last_seq, asked=asked):
            kind = Kind.CONTESTED
            run.append(Draft(state.id, kind, {**full, "verdict": str(verdict)}))
            by = str(state.last.get("actor", "somebody"))
            raise AlreadySettled(state.id, str(state.kind), by, [run.view(state)])
        outcome = state.outcome(run.clock.now())
        refusal = FITS[verdict, state.wait] or VERDICTS[verdict, outcome]
        if verdict in DECIDES_ONCE and not refusal and not state.is_pending:
            refusal = "the program does not wait for it now; it asks when its cell is run again."
        if seen is not None and not state.moved_seq <= seen <= state.last_seq:
            refusal = "it went on after you looked at it. Look again."
        if verdict is Verdict.KEEP and not refusal and not asked:
            refusal = "nothing that it depends on was found changed, so there is nothing to keep."
        if refusal:
            raise VerdictRefused(state.id, str(verdict), refusal, [run.view(state)])
        if verdict in REDOES and (pin := _pin_in(run, state, verdict)):
            why = f"{pin} pinned its loop, and what lay before it is retired. {_INSTEAD}"
            raise VerdictRefused(state.id, str(verdict), why, [run.view(state)])
        if verdict is Verdict.INVALIDATE:
            drafts = _cascade(run, state, full)
        else:
            drafts = [Draft(state.id, RECORDED_AS[verdict], full)]
        run.append(*drafts)
        return run.fold.operations[state.id]


def _pin_in(run: Trajectory, state: OperationState, verdict: Verdict) -> str:
    """Give the pin that stands in the way: the operation, or one that would go with it."""
    pins = [f"{loop}#{c.stretch}" for loop, c in run.fold.carried.items()]
    below = [p for p in pins if p.startswith(state.id + "/") and verdict is Verdict.INVALIDATE]
    return next((p for p in pins if p == state.id), "") or next(iter(below), "")


def _cascade(run: Trajectory, state: OperationState, body: Mapping[str, Any]) -> list[Draft]:
    """Invalidate an operation and the descendants that count, with what became of each effect."""
    now, kind = run.clock.now(), RECORDED_AS[Verdict.INVALIDATE]
    affected = [state, *(s for s in run.states() if s.id.startswith(state.id + "/"))]
    for s in affected:
        if s.outcome(now) is Outcome.UNKNOWN:
            raise VerdictRefused(
                state.id, "invalidate", f"{s.id} below it is unknown; confirm or deny it first."
            )
    done = [s for s in affected if s.outcome(now) is Outcome.COMPLETED]
    fates = _fates(state, [s for s in done if s.effect is not Effect.NONE], body.get("effect_is"))
    drafts = []
    for s in done:
        below = {} if s is state else {"with": state.id}
        drafts.append(Draft(s.id, kind, {**body, "effect_is": fates.get(s.id), **below}))
    return drafts


def _fates(
    state: OperationState, happened: Sequence[OperationState], said: object
) -> dict[str, object]:
    """Give what became of each effect: one answer for all, or one for each.

    An external effect needs one; of an idempotent one it is kept if it was given.
    """
    ids = [s.id for s in happened]
    answers = dict(said) if isinstance(said, Mapping) else dict.fromkeys(ids, said)
    foreign = sorted(str(op) for op in answers if op not in ids)
    if foreign:
        why = f"effect= names {', '.join(foreign)}, which is no completed effect of it; those are "
        raise VerdictRefused(state.id, "invalidate", f"{why}{', '.join(ids) or 'none'}.")
    open_ = [
        s.id
        for s in happened
        if answers.get(s.id) not in FATES
        and (s.effect is Effect.EXTERNAL or answers.get(s.id) is not None)
    ]
    if open_:
        each = f", or one answer for each: effect={{{open_[0]!r}: ...}}" if len(ids) > 1 else ""
        raise VerdictRefused(
            state.id,
            "invalidate",
            f"the effect of {', '.join(open_)} happened; say what becomes of it: "
            'effect="stands" (it stays, and a rerun adds another) or '
            f'effect="compensated" (it was undone){each}.',
        )
    return answers


def adoption(how: Adoption, folder_id: Sequence[int] | None, reason: str = "") -> dict[str, Any]:
    """Give what is recorded when a run is adopted in another folder; a fork gets a new run id."""
    body = {"how": str(how), "folder_id": list(folder_id or ()), "actor": actor()}
    if how is Adoption.FORK:
        body["run_id"] = uuid.uuid4().hex
    return {**body, "reason": values.redact(reason)}


def encoded(run: Trajectory, result: object) -> str:
    """Encode a result that a person gives, verified like a step's own."""
    return values.encode(result, run.artifacts)


def as_literal(result: object) -> str:
    """Write a result as text that another process reads; nothing is run to read it.

    Raises
    ------
    NotRecordable
        It is no plain data.
    """
    try:
        return values.write_literal(result)
    except Exception as problem:
        raise NotRecordable(
            "result",
            type(result).__name__,
            "from here it goes to the run's owner as text: give JSON's types or Python literals, "
            "or confirm it in the notebook that executes the run",
        ) from problem
