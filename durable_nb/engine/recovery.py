"""The cycle of every resume, in the order of DESIGN section 4.

1. **load** the committed records, 2. **validate** them and their artifacts (`load` and
`check_artifacts`, when a run is opened);
3. **reconcile** an unknown operation when its step is reached, 4. **execute** an incomplete one
under its idempotency key, 5. **persist** its intent before the effect (`reach`) and its outcome
after it (`operation.leave`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import permits, standing, unawaited
from durable_nb.engine.drive import Ask, Core, Sleep
from durable_nb.engine.evidence import DidNotHappen, Happened, Undecided
from durable_nb.engine.loading import recorded_value, why_lost
from durable_nb.engine.pausing import refuse_paused
from durable_nb.engine.rereading import reader
from durable_nb.model.errors import (
    DuplicateStep,
    JournalDamaged,
    ResultLost,
    StepFailed,
    UnknownOutcome,
)
from durable_nb.model.fold import Fold
from durable_nb.model.identity import is_within
from durable_nb.model.outcomes import OUTCOMES, Effect, Kind, Outcome
from durable_nb.model.records import RUN, Draft, Record
from durable_nb.model.state import OperationState
from durable_nb.model.verdicts import RECONCILER

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.options import Options
    from durable_nb.engine.trajectory import Trajectory
    from durable_nb.journal import Journal, Place

_RESTORE: Final = (
    "No record was changed and nothing was run. Bring the run's folder back from a backup, or "
    "start again with fresh=True (the old one is kept)."
)

#: Why an operation is in doubt, by its last record.
_WHY: Final[dict[Kind | None, str]] = {
    Kind.INTENDED: "attempt {attempt} began at {started} and its kernel ended before an outcome "
    "was recorded",
    Kind.RAISED: "attempt {attempt} raised {error}, which does not prove that nothing happened",
    Kind.INTERRUPTED: "attempt {attempt} was interrupted ({error})",
    Kind.UNRECORDED: "attempt {attempt} returned, but its result could not be recorded ({error})",
    Kind.DUPLICATE: "a late result of an earlier attempt arrived ({error}): it may have happened "
    "twice",
}


def load(journal: Journal, place: Place) -> Fold:
    """Load the committed records and validate them: steps 1 and 2.

    The journal itself has checked its schema, the chain of records and `head`; lost records are
    told to the run's owner, who records the doubt.

    Raises
    ------
    JournalDamaged
        The records are another run's, or say what no version of this package writes.
    """
    try:
        loaded = journal.resume()
        fold = Fold.of(
            _let_go(loaded.records), loaded.retired_seqs, loaded.unfolded, reader(journal, place)
        )
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        found = f"a record says what was never written ({type(problem).__name__}: {problem})."
        raise JournalDamaged(journal.run, found, _RESTORE) from problem
    name = str(fold.born.get("name", journal.run))
    proven = journal.lost is None or journal.lost.kind == "headless"
    if not proven and name != journal.run:  # a folder that was renamed agrees with its head
        found = f"its file holds the records of run {name!r}, which this folder's head refutes."
        raise JournalDamaged(journal.run, found, _RESTORE)
    return fold


def _let_go(records: list[Record]) -> Iterator[Record]:
    """Give records in order, and hold none that was given: a long run has many."""
    records.reverse()
    while records:
        yield records.pop()


def check_artifacts(run: Trajectory) -> None:
    """Check that recorded values are there in their full size, unread: the rest of step 2.

    What is missing hurts its operation only, and is told; the digest is checked at first read.
    """
    folded = list(run.fold.operations.folded())  # no other names an artifact
    wanted = {s.id: values.text_refs(s.result) for s in folded if s.result is not None}
    wanted = {op: refs for op, refs in wanted.items() if refs}
    named = list(dict.fromkeys(ref for refs in wanted.values() for ref in refs))
    found = run.artifacts.check(named, mend=run.role != "reader")
    faults = dict.fromkeys(named, why_lost(found.problem)) if found.problem else {}
    faults |= {ref: _gone(ref) for ref in found.missing}
    told = [*found.told]
    for op, refs in wanted.items():
        lost = next((faults[ref] for ref in refs if ref in faults), "")
        if lost:
            run.unloadable[op] = lost
            told.append(f"the value of {op} is not loadable here: {lost}")
    for line in told if run.role == "runner" else ():
        run.say(f"warning: {line}")


def _gone(ref: tuple[str, int]) -> str:
    return f"artifact {ref[0][:12]}… is missing or not of its {ref[1]:,} bytes"


def reach(op: Operation) -> Core[None]:
    """Do steps 3 to 5 for one operation that the program has come to.

    Afterwards the operation either replays its record or has its intent on disk and may run.
    """
    run = op.run
    while True:
        with run.lock:
            run.check_owner()
            state = run.fold.operations.get(op.id)
            if state is not None and state.wait is not None:
                raise DuplicateStep(op.id, "on record it is a wait of that name, and no step")
            if run.fold.retired(op.id):
                raise DuplicateStep(op.id, "a pin of its loop has retired it")
            if run.is_live(op.id):
                raise DuplicateStep(op.id, "it is still running")
            if state is None:
                outcome = OUTCOMES[op.options.effect, None]
            else:
                outcome = state.outcome(run.clock.now())
            if outcome is Outcome.INCOMPLETE and may_run(op, state):
                op.refuse_missing_files()
                run.let_go_of_cut_off()
                run.live[op.id] = op
                break
        if state is not None and outcome is Outcome.COMPLETED and stands(op, state):
            replay(op, run.fold.operations[op.id])
            return
        if (
            state is not None
            and outcome is Outcome.UNKNOWN
            and not (yield from reconcile(run, op.options, state))
        ):
            raise doubt_of(run, state)
    op.persist_intent(state)


# -- 3. reconcile ----------------------------------------------------------------------------


def reconcile(run: Trajectory, options: Options, state: OperationState) -> Core[bool]:
    """Ask the step's reconciler what became of an unknown operation; tell if it is settled."""
    look_up = options.reconcile
    if look_up is None:
        return False
    while True:
        wait = seconds_to_settle(run, state, options.settle_after)  # as it is asked, not answered
        try:
            answer = yield Ask(look_up, run.view(state))
        except Exception as problem:
            answer = Undecided(f"the reconciler raised {type(problem).__name__}: {problem}")
        match answer:
            case Happened(result, evidence):
                text = values.encode(result, run.artifacts)
                _settle(run, state, Kind.CONFIRMED, {"result": text, "evidence": evidence})
                return True
            case DidNotHappen(evidence) if wait <= 0:
                _settle(run, state, Kind.DENIED, {"evidence": evidence})
                return True
            case DidNotHappen(evidence):
                reason = f"not found ({evidence}), which counts in {wait:.0f} s"
            case Undecided(reason):
                wait = 0.0
            case _:
                reason, wait = f"the reconciler answered {answer!r}", 0.0
        said = {"reason": values.redact(reason), "actor": RECONCILER}
        run.append(Draft(state.id, Kind.UNDECIDED, said))
        if wait <= 0:
            return False
        run.say(f"{state.id}: the reconciler found nothing yet; asking again in {wait:.0f} s")
        yield Sleep(wait)


def seconds_to_settle(run: Trajectory, state: OperationState, settle_after: float) -> float:
    """Tell for how long a "not found" does not count yet."""
    alive_until = run.fold.alive_until(state) or run.clock.now()
    return (alive_until + timedelta(seconds=settle_after) - run.clock.now()).total_seconds()


def _settle(run: Trajectory, state: OperationState, kind: Kind, body: dict[str, Any]) -> None:
    """Record a reconciler's verdict, unless somebody settled the operation meanwhile."""
    evidence = values.redact(str(body.get("evidence", "")))
    with run.lock:
        if run.fold.operations[state.id].kind is state.kind:
            said = {**body, "evidence": evidence, "actor": RECONCILER}
            run.append(Draft(state.id, kind, said))
            run.say(f"{state.id}: settled by its reconciler: {kind} ({evidence})")


# -- 4. execute ------------------------------------------------------------------------------


def may_run(op: Operation, state: OperationState | None) -> bool:
    """Refuse a new operation while something in the run is unknown or undecided.

    Compensations are exempt: they make a doubt smaller. What is lost may have been one, though.
    """
    _refuse_blocked(op, state)
    if op.undoes is not None:
        permits.check_compensation(op)
        return True
    unawaited.check(op)
    permits.check(op)
    if state is None:
        standing.nothing_left_behind(op)
        standing.in_its_place(op)
        return True
    if state.effect is not Effect.NONE:
        standing.same_inputs_as_the_intent(op, state)
    standing.withdraw(op, state)
    return True


def _refuse_blocked(op: Operation, state: OperationState | None) -> None:
    """Refuse while the run is paused, or something in it is unknown, lost or undecided."""
    run = op.run
    refuse_paused(op, state)
    doubts = [s for s in run.unknown_states() if blocks(s, op)]
    if doubts and op.undoes is None:
        views, branch = [run.view(s) for s in doubts], branch_of(doubts)
        raise UnknownOutcome(run.name, views, why_unknown(doubts[0]), op.id, branch)
    if run.fold.doubted and state is None and op.options.effect is not Effect.NONE:
        raise UnknownOutcome(run.name, [], str(run.fold.doubted.get("why")), blocked=op.id)
    if op.undoes is None:
        standing.undecided(op, blocks)


def stands(op: Operation, state: OperationState) -> bool:
    """Tell whether a recorded result still stands; `False` if it is to be done again."""
    return standing.still_stands(op, state, partial(_refuse_blocked, op, state))


def blocks(state: OperationState, op: Operation) -> bool:
    """Tell whether a doubt about one operation, or a question, keeps another from beginning.

    One in an independent branch stops that branch only; any other stops the run. Neither stops the
    operation itself, nor those that it is below of: entering is how it is reached. Only what has no
    effect of its own is entered for what is below it.
    """
    if state.branch and not is_within(op.id, state.branch):
        return False
    pure = op.options.effect is Effect.NONE
    return not (state.id == op.id or (pure and is_within(state.id, op.id)))


def branch_of(doubts: Sequence[OperationState]) -> str:
    """Give the branch that all of these are in, if it is one; else "", which is the run."""
    branches = {s.branch for s in doubts}
    return branches.pop() if len(branches) == 1 else ""


# -- replay ----------------------------------------------------------------------------------


def was_replayed(run: Trajectory, state: OperationState) -> None:
    """Note that the program has come to a record, and took it."""
    run.sources[state.id] = "record"
    with run.lock:
        run.meter.replayed(state, container=state.id in run.fold.containers)


def replay(op: Operation, state: OperationState) -> None:
    """Give the operation its recorded result, or raise its recorded failure."""
    run = op.run
    if not run.is_durable(state):  # a task recorded it, and its commit has failed or is to come
        run.make_durable()
    was_replayed(run, state)
    if state.failed:
        op.has_failed = True
        error = dict(state.error or {})
        if error.get("lost"):
            raise ResultLost(op.id, str(error.get("message", "")), unknown=False)
        again = values.rebuild_error(error)
        raise again or StepFailed(
            op.id,
            f"{error.get('type', 'error')}: {error.get('message', '')}",
            str(error.get("traceback", "")),
        )
    op.replayed(recorded_value(run, state))


def doubt_of(run: Trajectory, state: OperationState) -> UnknownOutcome:
    """Give the signal that one operation is in doubt."""
    return UnknownOutcome(run.name, [run.view(state)], why_unknown(state), branch=state.branch)


def doubt_left(run: Trajectory, since: int | None = None) -> UnknownOutcome | None:
    """Give the signal that operations which began here are in doubt now; `None` if none is.

    Parameters
    ----------
    run : Trajectory
        Held by this process, or just closed.
    since : int, optional
        Only those with later records; by default those that began since the run was opened.
    """
    found = [
        s
        for s in run.unknown_states()
        if (s.epoch == run.epoch if since is None else s.moved_seq > since)
    ]
    return UnknownOutcome.together([doubt_of(run, s) for s in found]) if found else None


def why_unknown(state: OperationState) -> str:
    """Say in words why an operation is in doubt."""
    error = state.error or state.last.get("error") or {}
    text = _WHY.get(state.kind, "its outcome is not on record")
    return text.format(
        attempt=state.attempt,
        started=f"{state.started:%Y-%m-%d %H:%M:%S} UTC" if state.started else "?",
        error=": ".join(str(v) for v in (error.get("type"), error.get("message")) if v),
    )


def doubt(why: str) -> Draft:
    """Record that records are known to be lost, so that what was done outside is in doubt."""
    return Draft(RUN, Kind.DOUBTED, {"why": why})
