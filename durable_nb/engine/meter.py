"""What durability costs, and what it saves, measured while a run is executed.

Nothing is written for it: what was spent on checkpointing rides in the next outcome, and the record
of the run's end tells the rest. All by the monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.engine.scope import Scope
    from durable_nb.engine.trajectory import Trajectory
    from durable_nb.model.fold import Fold, OperationState

#: Digits after the point of a number of seconds: microseconds.
_DIGITS = 6


@dataclass(slots=True)
class Outside:
    """How long the body of an operation was outside of all operations below it.

    Operations below it that run at the same time count once.

    Attributes
    ----------
    since : float
        When the stretch that goes on began, if nothing below is at work.
    inside : int
        How many direct children are being reached, run or replayed.
    total, longest : float
        Seconds of all stretches that are over, and of the longest.
    """

    since: float
    inside: int = 0
    total: float = 0.0
    longest: float = 0.0

    def enter(self, now: float) -> None:
        """Count a child in."""
        if not self.inside:
            self._stretch(now)
        self.inside += 1

    def leave(self, now: float) -> None:
        """Count a child out."""
        self.inside -= 1
        if not self.inside:
            self.since = now

    def ended(self, now: float) -> dict[str, float]:
        """Give what the outcome of the body tells: ``outside_s``, ``outside_longest_s``."""
        if not self.inside:
            self._stretch(now)
            self.since = now
        return {
            "outside_s": round(self.total, _DIGITS),
            "outside_longest_s": round(self.longest, _DIGITS),
        }

    def _stretch(self, now: float) -> None:
        took = max(0.0, now - self.since)
        self.total += took
        self.longest = max(self.longest, took)


@dataclass(slots=True)
class Meter:
    """What one opening of a run has spent on checkpointing, and what its replays saved.

    Whoever uses it holds the run's lock.

    Attributes
    ----------
    pending : float
        Seconds spent on checkpointing that no record tells yet.
    operations : int
        Replays of completed operations.
    seconds : float
        How long they took when they ran.
    usd : float or None
        What they cost then; `None` if none of them said.
    """

    pending: float = 0.0
    operations: int = 0
    seconds: float = 0.0
    usd: float | None = None
    _containers: Counter[str] = field(default_factory=Counter)

    def take(self) -> float:
        """Give what no record tells yet, to be told by one."""
        told, self.pending = self.pending, 0.0
        return round(told, _DIGITS)

    def replayed(self, state: OperationState, *, container: bool) -> None:
        """Count a replay of a completed operation."""
        self.operations += 1
        self.seconds += state.duration_s or 0.0
        if state.usd is not None:
            self.usd = (self.usd or 0.0) + state.usd
        if container:  # what is below it is looked for at the end, once for all of them
            self._containers[state.id] += 1

    def saved(self, fold: Fold) -> dict[str, Any]:
        """Give ``operations, seconds, usd``: what was not done again in this opening."""
        operations, usd = self.operations, self.usd
        for state in fold.operations.values() if self._containers else ():
            times = sum(self._containers[above] for above in _above(state.id))
            operations += times
            if times and state.usd is not None:
                usd = (usd or 0.0) + times * state.usd
        return {
            "operations": operations,
            "seconds": round(self.seconds, _DIGITS),
            "usd": None if usd is None else round(usd, 12),
        }


class Looking:
    """The time that it takes to look at what a call depends on: that is no code outside of steps.

    Attributes
    ----------
    seconds : float
        How long it took so far.
    """

    def __init__(self, run: Trajectory, scope: Scope) -> None:
        self._run, self._scope, self._began = run, scope, 0.0
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = self._run.clock.monotonic()
        with self._run.lock:
            self._scope.enter(self._began)

    def __exit__(self, *_: object) -> None:
        now = self._run.clock.monotonic()
        self.seconds += now - self._began
        with self._run.lock:
            self._scope.leave(now)

    def take(self) -> float:
        """Give what nobody has told yet."""
        told, self.seconds = self.seconds, 0.0
        return told


def _above(op: str) -> list[str]:
    parts = op.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def outside_of(body: Mapping[str, Any]) -> float | None:
    """Give how long a body was outside of its steps; `None` where nobody measured it."""
    found = body.get("outside_s")
    return None if found is None else float(found)
