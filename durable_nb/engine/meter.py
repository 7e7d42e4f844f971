"""What durability costs, and what it saves, measured while a run is executed.

Nothing is written for it: what was spent on checkpointing rides in the next outcome, and the record
of the run's end tells the rest. All by the monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.engine.scope import Scope
    from durable_nb.engine.trajectory import Trajectory
    from durable_nb.model.fold import Fold
    from durable_nb.model.state import OperationState

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
        for op, state in fold.operations.known().items() if self._containers else ():
            times = sum(self._containers[above] for above in _above(op))
            operations += times
            if times and not isinstance(state, int) and state.usd is not None:
                usd = (usd or 0.0) + times * state.usd
        return {
            "operations": operations,
            "seconds": round(self.seconds, _DIGITS),
            "usd": None if usd is None else round(usd, 12),
        }


class Timing:
    """When the body of one operation began and ended, and what was spent around it.

    Attributes
    ----------
    looking_s : float
        Seconds that it took to look at what it depends on.
    began : float
        When the body began, by the monotonic clock.
    ended : float or None
        When it was over; `None` while it goes on.
    inner : Scope or None
        Where what it calls is counted.
    """

    __slots__ = ("_counted", "_run", "_scope", "began", "ended", "inner", "looking_s")

    def __init__(self, run: Trajectory, scope: Scope) -> None:
        self._run, self._scope, self._counted = run, scope, False
        self.looking_s, self.began = 0.0, 0.0
        self.ended: float | None = None
        self.inner: Scope | None = None

    def count_in(self) -> None:
        """Tell the body around it that it is not outside of its steps now."""
        if not self._scope.is_timed:
            return
        with self._run.lock:
            self._counted = True
            self._scope.enter(self._run.clock.monotonic())

    def count_out(self) -> None:
        """Tell the body around it that this is over."""
        if not self._counted:
            return
        with self._run.lock:
            if self._counted:
                self._counted = False
                self._scope.leave(self._run.clock.monotonic())

    def begin_here(self) -> None:
        """Count what was done since the intent as checkpointing: the body begins only now."""
        now = self._run.clock.monotonic()
        if self.inner is not None:
            self.looking_s += now - self.began
            self.inner.began = self.began = now

    @property
    def outside_s(self) -> float | None:
        """Seconds outside of its own steps, once it is over; `None` if it called none."""
        ran = None if self.inner is None or self.ended is None else self.inner.outside
        return None if ran is None else ran.total

    def told(self) -> dict[str, float]:
        """Give what its outcome tells: ``duration_s, checkpoint_s``, and the time outside."""
        now = self._run.clock.monotonic()
        ended = now if self.ended is None else self.ended
        body = {"duration_s": round(ended - self.began, _DIGITS)}
        with self._run.lock:
            if self.inner is not None and self.inner.outside is not None:
                body |= self.inner.outside.ended(ended)
            self._run.meter.pending += self.looking_s + now - ended
            body["checkpoint_s"] = self._run.meter.take()
        self.looking_s = 0.0
        return body


class Looking:
    """The time that it takes to look at what a call depends on: that is no code outside of steps.

    Attributes
    ----------
    seconds : float
        How long it took so far.
    """

    __slots__ = ("_began", "_is_timed", "_run", "_scope", "seconds")

    def __init__(self, run: Trajectory, scope: Scope) -> None:
        self._run, self._scope, self._is_timed = run, scope, scope.is_timed
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = self._run.clock.monotonic()
        if self._is_timed:
            with self._run.lock:
                self._scope.enter(self._began)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        now = self._run.clock.monotonic()
        self.seconds += now - self._began
        if self._is_timed:
            with self._run.lock:
                self._scope.leave(now)

    def take(self) -> float:
        """Give what nobody has told yet."""
        told, self.seconds = self.seconds, 0.0
        return told


def _above(op: str) -> list[str]:
    parts = op.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]
