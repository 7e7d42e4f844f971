"""Whether a recorded result still stands on what holds now, and the questions where it does not.

One mechanism: a difference becomes `Change`s, a policy is found for them, and what is asked is a
record, so that a person answers it once, from wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import produced
from durable_nb.engine.change import Change, Cost, Policy, compare, policy_for
from durable_nb.engine.loading import recorded_value
from durable_nb.model.errors import IncompatibleCheckpoint
from durable_nb.model.facets import CLASS, FacetSet
from durable_nb.model.identity import escape, named
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import Draft
from durable_nb.model.state import RESULT, OperationState

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.trajectory import Trajectory

#: What a question is about, beside a change of facets and another result.
PLACE: Final = "place"


def still_stands(op: Operation, state: OperationState, may_run: Callable[[], object]) -> bool:
    """Check what a recorded result depended on; `False` if it is to be done again.

    Parameters
    ----------
    op : Operation
        Reached by the program, with the facets that hold now.
    state : OperationState
        What is on record of it, completed.
    may_run : callable
        Raises where nothing may be done now: then its record is not given up either.
    """
    run = op.run
    changes = compare(state.basis, op.facets, run.fold.known, op.known, inputs_only=state.vouched)
    changes += _of_files(op, state)
    if not changes:
        withdraw(op, state)
        return True
    if any(c.facet.startswith(CLASS) for c in changes):
        recorded_value(run, state)  # which waits for its class, or tells both sets of fields
    what = "; ".join(map(str, changes))
    policy = policy_for(_said(op), state, changes, run.fold, partial(cost, run, state))
    body = {**_told(changes), "actor": "policy", "basis": op.basis}
    if policy == "ask":
        ask(run, state, changes, op.basis, op.definition())
    if policy == "rerun":
        may_run()  # while its record is as it was
        op.refuse_missing_files()
        run.say(f"{op.id}: running again, because this changed: {what}")
        run.append(*op.definition(), Draft(op.id, Kind.RERUN, body))
        return False
    if callable(policy):
        old = recorded_value(run, state)
        body["result"] = values.encode(policy(old, changes), run.artifacts)
    run.say(f"{op.id}: its record is kept although this changed: {what}")
    run.append(*op.definition(), Draft(op.id, Kind.KEPT, body))
    return True


def _of_files(op: Operation, state: OperationState) -> list[Change]:
    """List the changes of the files that the operation has made, and note how they are now."""
    recorded = state.basis.get("produced", {})
    declared = () if state.vouched or state.failed else op.options.produces
    op.produced = produced.as_they_are({**recorded, **dict.fromkeys(declared)})
    return produced.changes(recorded, op.produced, declared=declared)


def _said(op: Operation) -> Policy | None:
    """Give the policy that the step, or else the run, was given."""
    own = op.options.on_change
    return op.run.on_change if own is None else own


def same_inputs_as_the_intent(op: Operation, state: OperationState) -> None:
    """Ask before one idempotency key carries other inputs than it was sent with."""
    if not state.intent or state.intent.get("generation", 0) != state.generation:
        return
    changes = compare(state.intent, op.facets, {}, op.known, inputs_only=True)
    if changes and _said(op) != "keep":
        ask(op.run, state, changes, op.facets, op.definition())


def nothing_left_behind(op: Operation) -> None:
    """Ask before something new begins beside results that stand on a run as it was.

    The run's own facets (version, model, tools, account) may have changed, and the program may
    come to something new before it comes to what was recorded under the old ones.
    """
    run = op.run
    while run.stale:
        state = run.fold.operations[run.stale[0]]
        if not run.was_reached(state) and state.outcome(run.clock.now()) is Outcome.COMPLETED:
            old = run.fold.known[state.basis["facets"]]
            new = FacetSet.of({**old.parts, **run.own_facets.parts}, old.unwatched)
            basis = {**state.basis, "facets": new.digest}
            changes = compare(state.basis, basis, run.fold.known, new, inputs_only=state.vouched)
            policy = policy_for(run.on_change, state, changes, run.fold, partial(cost, run, state))
            if changes and policy == "ask":
                ask(run, state, changes, basis, run.definition(new))
        run.stale.popleft()


def in_its_place(op: Operation) -> None:
    """Ask before a step that is new stands where another one is on record: it may be renamed.

    Only for a step with an effect, whose name is not on record here at all, while a completed
    effect of the same parent and cell has not been called: the program has changed its course.
    """
    run = op.run
    if op.options.effect is Effect.NONE or run.has_name(op.id):
        return
    place = op.place
    now, beside = run.clock.now(), f"{place.parent}/" if place.parent else ""
    called = {f"{beside}{escape(name)}" for name in op.called}
    for s in run.effects_left(place.parent, op.cell):
        if named(s.id) in called or s.outcome(now) is not Outcome.COMPLETED:
            continue
        before, after = f"{s.id} was called here", f"{op.id} is called instead"
        change = Change(PLACE, before, after, s.id, f"{place.parent}/{place.name}")
        if (change.facet, change.old, change.new) not in run.fold.decided:
            ask(run, s, [change], s.basis, ())


def came_out_differently(op: Operation, state: OperationState, value: Any) -> dict[str, Any]:
    """Give the question that another result than before raises, if effects followed the old one.

    With the same result nothing follows: what depends on it compares equal (early cut-off).
    """
    if state.former is None:
        return {}
    run, now = op.run, op.run.clock.now()
    later = [
        s
        for s in run.states()
        if s.first_seq > state.first_seq
        and s.effect is Effect.EXTERNAL
        and s.undoes is None
        and s.outcome(now) is Outcome.COMPLETED
        and not s.id.startswith(op.id + "/")
    ]
    retired = {
        f"{loop}#{c.stretch}": c.counts.get((Outcome.COMPLETED, Effect.EXTERNAL), 0)
        for loop, c in run.fold.carried.items()
        if c.seq > state.first_seq and not loop.startswith(op.id + "/")
    }
    n = len(later) + sum(retired.values())
    if not n:
        return {}
    try:
        old = values.decode(state.former, run.artifacts)
        before, same = values.preview(old), values.digest(old) == values.digest(value)
    except Exception:  # a value that cannot be loaded any more is not known to be the same
        before, same = "?", False
    if same:
        return {}
    change = Change(RESULT, before, values.preview(value), state.former[:64], op.id)
    names = [f"before {pin}" for pin, effects in retired.items() if effects]
    names += [s.id for s in later]
    happened = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    told = f"{n} completed effects after it stand on the old result: {happened}"
    return {"differs": {**_told([change]), "cost": told}}


def undecided(op: Operation, blocks: Callable[[OperationState, Operation], bool]) -> None:
    """Refuse what is new while a question waits; a result that differs stops effects only."""
    for asked in op.run.undecided_states():
        if asked.question is not None and _is_outdated(op.run, asked):
            op.run.append(Draft(asked.id, Kind.ASKED, {"changes": []}), lazy=True)
            asked = op.run.fold.operations[asked.id]  # noqa: PLW2901 - as it stands by now
        pure = op.options.effect is Effect.NONE
        waits = asked.question is not None or (asked.differs is not None and not pure)
        if waits and blocks(asked, op):
            raise question(op.run, asked)


def _is_outdated(run: Trajectory, asked: OperationState) -> bool:
    """Tell whether the run's own facets are not those any more that a question was about."""
    own = run.own_facets.parts
    rows = (asked.question or {}).get("rows", ())
    return any(facet in own and own[facet].digest != new for facet, _, _, _, new in rows)


def ask(
    run: Trajectory,
    state: OperationState,
    changes: Sequence[Change],
    basis: Mapping[str, Any],
    definition: Iterable[Draft],
) -> None:
    """Stop, and offer the choice; the question is on record, so that others can answer it."""
    said = {**_told(changes), "basis": dict(basis)}
    if state.question is None or any(state.question[k] != v for k, v in said.items()):
        full = {**said, "cost": str(cost(run, state))}
        run.append(*definition, Draft(state.id, Kind.ASKED, full))
    raise question(run, run.fold.operations[state.id])


def question(run: Trajectory, state: OperationState) -> IncompatibleCheckpoint:
    """Give the signal that shows the question of an operation."""
    asked = state.asked or {}
    return IncompatibleCheckpoint(
        run.name,
        [run.view(state)],
        asked.get("changes", ()),
        asked.get("cost", ""),
        [row[0] for row in asked.get("rows", ())],
        state.branch,
    )


def withdraw(op: Operation, state: OperationState) -> None:
    """Take a question back: what had changed is as it was."""
    if state.question is not None:
        op.run.append(Draft(op.id, Kind.ASKED, {"changes": []}), lazy=True)


def about(state: OperationState) -> dict[str, Any]:
    """Give what a verdict on a question says of it."""
    asked = state.asked or {}
    return {k: list(asked[k]) for k in ("changes", "rows") if k in asked}


def _told(changes: Iterable[Change]) -> dict[str, Any]:
    changes = list(changes)
    return {"changes": [str(c) for c in changes], "rows": [c.row() for c in changes]}


def cost(run: Trajectory, state: OperationState) -> Cost:
    """Total what running an operation again would redo."""
    return Cost.of(run.fold, state)
