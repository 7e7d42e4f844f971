"""Pause: a run in which nothing new begins until a person lets it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_nb import values
from durable_nb.model.control import RunPaused
from durable_nb.model.errors import VerdictRefused
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import RUN, Draft
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.trajectory import Trajectory


def refuse_paused(op: Operation, state: OperationState | None) -> None:
    """Refuse what is new in a paused run, before its intent.

    What takes an effect back is exempt, and so is an unfinished container: entering it is how what
    is recorded in it replays, and what is new in it is refused itself.

    Raises
    ------
    RunPaused
        Nothing was begun.
    """
    run = op.run
    paused = run.fold.paused
    if paused is None or op.undoes is not None:
        return
    entered = op.options.effect is Effect.NONE and op.id in run.fold.containers
    if entered and state is not None and state.outcome(run.clock.now()) is Outcome.INCOMPLETE:
        return
    at = f"{paused['at']:%Y-%m-%d %H:%M:%S} UTC"
    reason = values.one_line(paused["reason"])
    views = () if state is None else (run.view(state),)
    raise RunPaused(run.name, op.id, paused["actor"], at, reason, views)


def pause(run: Trajectory, reason: str, by: str) -> None:
    """Record that nothing new begins."""
    with run.lock:
        run.check_owner()
        if run.fold.paused is not None:
            why = f"it is {paused_text(run.fold)} already, by {run.fold.paused['actor']}."
            raise VerdictRefused(f"run {run.name!r}", "pause", why)
        run.append(Draft(RUN, Kind.PAUSED, _said(reason, by)))


def unpause(run: Trajectory, reason: str, by: str) -> None:
    """Record that the run goes on."""
    with run.lock:
        run.check_owner()
        if run.fold.paused is None:
            raise VerdictRefused(f"run {run.name!r}", "unpause", "it is not paused.")
        run.append(Draft(RUN, Kind.UNPAUSED, _said(reason, by)))


def _said(reason: str, by: str) -> dict[str, Any]:
    return {"reason": values.redact(reason), "actor": by}


def paused_text(fold: Fold) -> str:
    """Say that a run is paused, and why; "" if it is not."""
    if fold.paused is None:
        return ""
    reason = values.one_line(fold.paused["reason"])
    return f"paused ({reason})" if reason else "paused"
