"""`run.compensate`: the effect of a completed operation is taken back, by one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import calls, settle
from durable_nb.engine.facets import no_code
from durable_nb.engine.loading import recorded_value
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.scope import Origin, Scope, extend
from durable_nb.engine.step import Step, _awaited, _blocking, is_async
from durable_nb.engine.views import OperationView
from durable_nb.model.errors import StillRunning, VerdictRefused
from durable_nb.model.facets import FacetSet
from durable_nb.model.identity import identity, parse
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

#: What every compensation is called.
NAME: Final = "compensate"
#: It belongs to no cell: no program calls it, so that none can miss it either.
_NOWHERE: Final = Origin("", 0)

_REFUSED: Final[Mapping[Outcome, str]] = {
    Outcome.COMPLETED: "",
    Outcome.UNKNOWN: "it is unknown whether there is anything to take back; confirm or deny it "
    "first.",
    Outcome.INCOMPLETE: "it is not completed, so there is nothing to take back.",
}


def compensate(run: Run, ref: object, reason: str, undo: Callable[..., Any] | None) -> Any:
    """Take an effect back; see `Run.compensate`."""
    with run.lock:
        run.check_owner()
        state, _ = settle.find(run, ref)
        if was_undone(state):  # asked for again: by the next kernel, or another operator
            return _done(run, state, undo)
        _refuse(run, state)
        undo = undo or _undo_of(run, state)
        recorded_value(run, state)  # before the intent: what cannot be loaded is told by name
        view = run.view(state)
    fn = undo.fn if isinstance(undo, Step) else undo
    calls.bind(fn, (view,), {})
    make = _maker(run, state, undo, reason)
    if is_async(fn):
        return _later(run, state, lambda: _awaited(make, fn, (view,), {}))
    _blocking(make, fn, (view,), {})
    return run.get(state.id)


async def _later(run: Run, state: OperationState, begin: Callable[[], Any]) -> OperationView:
    await begin()
    return run.get(state.id)


def _done(run: Run, state: OperationState, undo: Callable[..., Any] | None) -> Any:
    """Answer in the spelling that was asked for."""
    found = undo or run.undoing.get(state.id)
    fn = found.fn if isinstance(found, Step) else found
    if fn is None or not is_async(fn):
        return run.view(state)

    async def answer() -> OperationView:
        return run.view(state)

    return answer()


def was_undone(state: OperationState) -> bool:
    """Tell whether a compensation is the last thing that is on record of an operation."""
    undone = state.kind is Kind.INVALIDATED and state.last.get("effect_is") == "compensated"
    return undone and state.last.get("with") == compensation_of(state, state.generation - 1)


def compensation_of(state: OperationState, generation: int) -> str:
    """Give the identity of what takes this generation of an operation back."""
    return identity("", NAME, f"{state.id}@{generation}", 1)


def _refuse(run: Run, state: OperationState) -> None:
    """Refuse what has nothing to take back."""
    view = run.view(state)
    if run.is_live(state.id):
        raise StillRunning(state.id, [view])
    why = _REFUSED[state.outcome(run.clock.now())]
    if state.effect is Effect.NONE:
        why = "its effect is none, so there is nothing to take back; invalidate it instead."
    elif state.failed:
        why = "it failed, and the program saw that: there is no effect to take back."
    elif state.undoes is not None:
        why = "it is itself a compensation; what it took back is done again when it is reached."
    if why:
        raise VerdictRefused(state.id, "compensate", why, [view])


def _undo_of(run: Run, state: OperationState) -> Callable[..., Any]:
    """Find the function of its step, or the one that all steps of its name agree on."""
    name = state.place.name
    found = run.undoing.get(state.id)
    others = [fn for op, fn in run.undoing.items() if parse(op).name == name]
    if found is None and others and all(fn == others[0] for fn in others):
        found = others[0]
    if found is None:
        why = (
            f"no function that takes {name!r} back is known in this kernel. Run the cell that "
            "calls the step with compensate=, or say it here: "
            f'run.compensate("{state.id}", undo=fn).'
        )
        raise VerdictRefused(state.id, "compensate", why, [run.view(state)])
    return found


def _maker(
    run: Run, state: OperationState, undo: Callable[..., Any], reason: str
) -> Callable[[], Operation]:
    """Give a maker of attempts, at the root, and counted by no scope of the program."""
    base = undo.settings if isinstance(undo, Step) else Options()
    key = f"{state.id}@{state.generation}"
    options = base.with_({"effect": Effect.EXTERNAL, "key": key})
    op_id = identity("", NAME, key, 1)
    undoes = {
        "op": state.id,
        "generation": state.generation,
        "reason": values.redact(reason),
        "actor": settle.actor(),
    }

    code = (no_code, no_code())

    def make() -> Operation:
        scope = Scope(branch=state.branch)  # a doubt about it is one about what it takes back
        op = Operation(run, scope, op_id, options, {}, FacetSet(), code, _NOWHERE, extend(()))
        op.undoes = undoes
        return op

    return make
