"""Pinned loops: a loop that pins its state resumes from its last pin, whatever lies before it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from durable_nb import values
from durable_nb.engine import calls, standing
from durable_nb.engine.context import Frame, current_context, frame_of, set_frame
from durable_nb.engine.loading import recorded_value
from durable_nb.engine.looking_back import warn_of_secret
from durable_nb.engine.options import Options
from durable_nb.engine.recovery import why_unknown
from durable_nb.engine.scope import Origin, Scope
from durable_nb.model.errors import NestedEffect, StillRunning, UnknownOutcome, VerdictRefused
from durable_nb.model.identity import Place, identity
from durable_nb.model.outcomes import Effect, Kind
from durable_nb.model.records import Draft
from durable_nb.model.retiring import below_of, carry
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.run import Run


class Loop:
    """A long loop that resumes from its last pin; made by `Run.pinned`.

    ::

        with run.pinned("turns", {"n": 0}) as loop:
            while loop.state["n"] < 10_000:
                found = run.call(act, loop.state["n"])
                loop.pin({"n": loop.state["n"] + 1, "last": found})

    Attributes
    ----------
    state : Any
        What the last pin holds, as it was recorded; before the first one, the default.
    turn : int
        How many pins are on record.
    """

    def __init__(self, run: Run, around: Frame, place: Place, origin: Origin, default: Any) -> None:
        self._run, self._around, self._place, self._origin = run, around, place, origin
        self._stretches = identity(place.parent, place.name, place.key, 1).rpartition("#")[0]
        carried = run.fold.carried.get(self._stretches)
        self.turn, self.state = 0, default
        if carried is not None:
            self.turn, last = carried.stretch, f"{self._stretches}#{carried.stretch}"
            self.state = recorded_value(run, run.fold.operations[last])
            run.sources.setdefault(last, "record")
        self._before = current_context()
        set_frame(self._stretch())

    @property
    def id(self) -> str:
        """The identity of the stretch that is under way."""
        return f"{self._stretches}#{self.turn + 1}"

    def _stretch(self) -> Frame:
        """Give the frame of what is called between this pin and the next."""
        around = self._around
        self._scope = Scope(self.id, within=around.scope, branch=around.scope.branch)
        return Frame(self._run, self._scope, around.operation, around.lineage, around)

    def pin(self, state: Any) -> Any:
        """Record the state of the loop, and retire what was called since the last pin.

        From here on a resume begins with this state, and loads nothing of what lies before it;
        the history still has all of it. It is on disk when this returns.

        Parameters
        ----------
        state : Any
            All that the next turn needs; recorded like the result of a step.

        Returns
        -------
        Any
            The state as it was recorded, which is `state` from now on.

        Raises
        ------
        UnknownOutcome, IncompatibleCheckpoint
            Something that was called since the last pin is unknown, or waits for a decision.
        StillRunning, VerdictRefused
            Something that was called since then has not ended, or waits for a decision.
        NotRecordable
            The state does not survive; the path to what does not is named. In each case nothing
            was recorded or retired.
        """
        run = self._run
        run.check_owner()
        with run.lock:
            self._refuse_busy()
            self._refuse_elsewhere()
            self._refuse_doubtful()
            text, again = values.round_trip(state, run.artifacts)
            warn_of_secret(run, self.id, state, text)
            seen = self._scope.observe(self._origin)
            if seen:
                run.append(*(Draft(op, Kind.OBSERVED, {}) for op in seen), lazy=True)
            carried = carry(run.fold, self.id, run.clock.now())
            body = {
                "effect": str(Effect.NONE),
                "result": text,
                "carried": carried.body(),
                **run.fold.decisions(),
            }
            run.append(Draft(self.id, Kind.PINNED, body))
            run.sources[self.id] = "ran"
            self.turn, self.state = self.turn + 1, again
            set_frame(self._stretch())
        run.tidy()
        return again

    def _below(self, op: str) -> bool:
        return op.startswith(f"{self.id}/")

    def _concerns(self, state: OperationState) -> bool:
        """Tell whether it is in this stretch, or takes back what is."""
        return self._below(state.id) or self._below((state.undoes or {}).get("op", ""))

    def _refuse_busy(self) -> None:
        """Refuse while something of this stretch is running."""
        run = self._run
        for op in [op for op in list(run.live) if run.is_live(op)]:
            state = run.fold.operations.get(op)
            if self._below(op) or (state is not None and self._concerns(state)):
                raise StillRunning(op, [] if state is None else [run.view(state)])

    def _refuse_elsewhere(self) -> None:
        """Refuse where operations would not go into this loop: they would be run again."""
        frame = current_context()
        if frame is None or frame.scope is not self._scope:
            raise RuntimeError(
                f"{self.id} cannot be pinned from here: what is called here is not in its loop. "
                "Nothing was recorded. Put the whole loop into `with run.pinned(...) as loop:`, in "
                "one cell and one task."
            )

    def _refuse_doubtful(self) -> None:
        """Refuse while something of this stretch is unknown or undecided."""
        run = self._run
        below = [run.fold.operations[op] for op in below_of(run.fold, self.id)]
        for state in below:
            if state.is_pending:
                why = f"{state.id} in it waits, undecided: decide it first."
                raise VerdictRefused(self.id, "pin", why, [run.view(state)])
        doubts = [s for s in run.unknown_states() if self._concerns(s)]
        if doubts:
            shown = [run.view(s) for s in doubts]
            raise UnknownOutcome(run.name, shown, why_unknown(doubts[0]), blocked=self.id)
        for asked in run.undecided_states():
            if self._concerns(asked):
                raise standing.question(run, asked)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        set_frame(self._before)
        if error is not None:  # stopped: what comes to it again in this pass is the same loop
            with self._run.lock:
                self._around.scope.give_back(self._place, self._origin)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, tb)

    def __repr__(self) -> str:
        return f"<loop {self._stretches}: {self.turn} pins>"


def pinned(run: Run, name: str, default: Any, key: object) -> Loop:
    """Open a pinned loop; see `Run.pinned`."""
    frame = frame_of(run).here()
    run.check_owner()
    options = Options().with_({"key": key} if key is not None else {})
    scope, origin = frame.scope, run.origin()
    name = calls.check_step_name(name)
    if scope.effect is not Effect.NONE:
        child = identity(scope.id, name, options.key, 1)
        raise NestedEffect(scope.id, str(scope.effect), child, scope.advice)
    with run.lock:
        scope.take(name, options.key, origin, loop=True, open_ended=run.nothing_in)
        seen = scope.observe(origin)
    if seen:
        run.append(*(Draft(op, Kind.OBSERVED, {}) for op in seen), lazy=True)
    return Loop(run, frame, Place(scope.id, name, options.key, 1), origin, default)
