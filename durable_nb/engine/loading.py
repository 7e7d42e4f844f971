"""Loading recorded values: what is lost, changed or not there yet stops the run by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.model.errors import NotTrusted, ResultNotLoadable
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.trajectory import Trajectory

#: What can be wrong with the bytes behind a recorded value.
_LOST: Final = (
    values.ArtifactMissing,
    values.ArtifactDamaged,
    values.ArtifactStoreDamaged,
    NotTrusted,
    OSError,
)


def why_lost(problem: Exception) -> str:
    """Say in a few words what is wrong with a value's bytes; it begins with "artifact"."""
    match problem:
        case values.ArtifactMissing():
            return f"artifact {problem.sha256[:12]}… is missing"
        case values.ArtifactDamaged():
            return f"artifact {problem.sha256[:12]}… is damaged: {problem.reason}"
        case values.ArtifactStoreDamaged():
            return f"artifact index unusable: {problem.reason}"
        case NotTrusted():
            return f"artifact folder not trusted: {problem.why.rstrip('.')}"
        case _:
            return f"artifact unreadable: {problem}"


def recorded_value(run: Trajectory, state: OperationState) -> Any:
    """Load the recorded result of an operation; `None` where there is none.

    Raises
    ------
    ResultNotLoadable
        Its artifact is lost, its class has changed or is not there yet, or its codec is missing.
        The operation stays completed, so nothing is done again.
    """
    if state.result is None:
        return None
    try:
        value = values.decode(state.result, run.artifacts)
    except values.WaitingForClass as problem:
        back = f"run the cell that defines or imports `{problem.name}`, then this one"
        why = f"waiting for class `{problem.name}`: run its cell"
        raise ResultNotLoadable(run.name, [run.view(state)], why, back) from problem
    except values.ValueNotLoadable as problem:
        why = f"the recorded {problem.what} cannot be loaded: {problem.reason}"
        back = problem.advice or "bring back what it was recorded with, and run the cell again"
        raise ResultNotLoadable(run.name, [run.view(state)], why, back) from problem
    except _LOST as problem:
        why = run.unloadable[state.id] = why_lost(problem)
        raise ResultNotLoadable(run.name, [run.view(state)], why) from problem
    run.unloadable.pop(state.id, None)
    return value
