"""What the machine of rules compares: the engine and the model, in the same words."""

from __future__ import annotations

from typing import Any

from durable_nb.engine.trajectory import Trajectory
from support.rule_model import Model
from support.rule_state import U
from support.rule_world import World


def outcomes(world: World) -> dict[str, tuple[str, str]]:
    now = world.run.clock.now()
    return {s.id: (str(s.effect), str(s.outcome(now))) for s in world.run.states()}


def engine_view(world: World) -> dict[str, Any]:
    """What the journal says of each operation, in the order in which they began."""
    now, run = world.run.clock.now(), world.run
    return {
        s.id: {
            "outcome": str(s.outcome(now)),
            "attempt": s.attempt,
            "generation": s.generation,
            "question": questioned(s),
        }
        for s in run.states()
    }


def questioned(state: Any) -> tuple[str, ...]:
    rows = (state.asked or {}).get("rows", ())
    return tuple(sorted({row[0] for row in rows}))


def model_view(model: Model) -> dict[str, Any]:
    return {
        op_id: {
            "outcome": op.outcome,
            "attempt": op.attempt,
            "generation": op.generation,
            "question": op.asked.facets if op.asked else (),
        }
        for op_id, op in model.ops.items()
    }


def waiting(world: World) -> list[str]:
    """List what waits for a verdict."""
    view = engine_view(world)
    return [op for op, seen in view.items() if seen["outcome"] == U or seen["question"]]


def journal_of(run: Trajectory) -> list[tuple[Any, ...]]:
    """What the records say of each operation; ids of runs and times differ."""
    return [
        (s.id, s.effect, s.kind, s.attempt, s.generation, s.result, s.failed, questioned(s))
        for s in run.states()
    ]
