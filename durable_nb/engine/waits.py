"""Approvals, signals and timers: operations that a person, or time, decides.

One piece of core for all of them. In blocking code what is undecided stops the cell, and the next
resume asks again; in async code it is awaited. A wait is never live, so that a verdict reaches it
meanwhile: that is a record like any other, and this looks for it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

from durable_nb import values
from durable_nb.engine.calls import refuse_secret
from durable_nb.engine.context import frame_of
from durable_nb.engine.drive import Core, Until, drive
from durable_nb.engine.facets import no_code
from durable_nb.engine.operated import Operated
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.questions import details_of
from durable_nb.engine.recovery import may_run, replay, stands
from durable_nb.engine.unawaited import Awaitable, is_async
from durable_nb.model.control import ApprovalPending, SignalPending, TimerPending
from durable_nb.model.errors import BadName, DuplicateStep, DurableSignal
from durable_nb.model.fold import OperationState
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import Draft
from durable_nb.model.spending import amount_of
from durable_nb.model.waits import Wait

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

#: Seconds between two looks at what is awaited, and at a clock that may be set.
LOOK_S: Final = 0.1
TICK_S: Final = 1.0
#: Seconds by which a moment that a program computes may differ from the recorded one, unsaid.
_JITTER_S: Final = 1.0
#: Longest title, and name of a signal, in characters: it is part of the identity.
_LONGEST: Final = 200

_SIGNALS: Final = {
    Wait.APPROVAL: ApprovalPending,
    Wait.SIGNAL: SignalPending,
    Wait.TIMER: TimerPending,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program waits for.

    Attributes
    ----------
    what : str
        The title of an approval, or the name of a signal.
    due : datetime or None
        When a timer ends, where the program said the moment.
    seconds : float or None
        How long it takes, where it said that.
    timeout : float or None
        Seconds after which nobody needs to decide any more.
    """

    wait: Wait
    what: str = ""
    due: datetime | None = None
    seconds: float | None = None
    timeout: float | None = None

    def intent(self, now: datetime) -> dict[str, Any]:
        """Give what its intent says beside that of any operation."""
        body: dict[str, Any] = {"wait": str(self.wait), "what": self.what}
        due = self.due if self.seconds is None else now + timedelta(seconds=self.seconds)
        if due is not None:
            body["due"] = due.astimezone(UTC).isoformat()
        if self.timeout is not None:
            body["deadline"] = (now + timedelta(seconds=self.timeout)).isoformat()
            body["timeout"] = self.timeout
        return body


class Waits(Operated):
    """What a program calls where it has to wait."""

    def approval(
        self,
        title: str,
        details: Any = None,
        *,
        key: str | int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Ask a person, and go on once they approve.

        It is bound to the digest of its details: with others it is asked again, also where the
        first ones were approved. Undecided, it stops the cell; called from a coroutine it gives
        something to ``await``.

        Parameters
        ----------
        title : str
            What is asked, in one line; part of its identity.
        details
            What the person decides about; a value that can be digested.
        key : str or int, optional
            Its identity instead of the title; unique.
        timeout : float, optional
            Seconds from the first asking; undecided then, it is completed with a `TimeoutError`.

        Returns
        -------
        dict
            ``{"approved": True, "by": ..., "reason": ...}``.

        Raises
        ------
        ApprovalPending
            Nobody has decided; nothing after it was begun.
        ApprovalRejected
            A person said no. A resume says so again.
        TimeoutError
            It was not decided in time.
        """
        asked = Asked(Wait.APPROVAL, _checked("approval", title), timeout=_seconds(timeout))
        inputs = {"title": title, "details": details}
        return _begin(self, asked, inputs, key, sys._getframe(1))

    def wait_for(
        self, name: str, *, key: str | int | None = None, timeout: float | None = None
    ) -> Any:
        """Wait for a signal of that name, and give the value that came with it.

        Parameters
        ----------
        name : str
            What `signal` sends; part of its identity.
        key, timeout
            As for `approval`.

        Returns
        -------
        Any
            The value.

        Raises
        ------
        SignalPending
            It has not come; nothing after it was begun.
        TimeoutError
            It did not come in time.
        """
        asked = Asked(Wait.SIGNAL, _checked("signal", name), timeout=_seconds(timeout))
        return _begin(self, asked, {"name": name}, key, sys._getframe(1))

    def sleep(
        self,
        seconds: float | None = None,
        *,
        until: datetime | None = None,
        key: str | int | None = None,
    ) -> Any:
        """Wait until a moment, which is recorded when it is first reached.

        Parameters
        ----------
        seconds : float, optional
            From the first time that it is reached, in whatever kernel.
        until : datetime, optional
            With a time zone. The recorded moment holds, also where a resume computes another one.
        key : str or int, optional
            Tells timers apart; without it they are counted.

        Raises
        ------
        TimerPending
            It is not due; nothing after it was begun.
        """
        if (seconds is None) == (until is None):
            raise TypeError("sleep takes seconds, or until= a moment: one of the two")
        if until is not None and until.tzinfo is None:
            raise TypeError(f"until={until!r} has no time zone: use datetime.now(UTC) + ...")
        length = None if seconds is None else amount_of("seconds", seconds, zero=True)
        asked = Asked(Wait.TIMER, due=until, seconds=length)
        inputs = {} if length is None else {"seconds": length}
        return _begin(self, asked, inputs, key, sys._getframe(1))


def _checked(what: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the name of the {what} is a text, not {text!r}")
    if not text.strip() or len(text) > _LONGEST:
        why = f"it has {len(text)} characters; give it 1 to {_LONGEST}, and the rest as details."
        raise BadName(what, text, why)
    refuse_secret(f"the name of its {what}", text)
    return text


def _seconds(timeout: float | None) -> float | None:
    return None if timeout is None else amount_of("timeout", timeout, zero=False)


def _begin(
    owner: Waits, asked: Asked, inputs: dict[str, Any], key: str | int | None, caller: FrameType
) -> Any:
    """Take the identity; then decide at once or stop, or give something to await."""
    run = cast("Run", owner)
    frame = frame_of(run)
    given: dict[str, Any] = {"effect": Effect.NONE, "on_change": "rerun", "wait": asked.wait}
    if key is not None:
        given["key"] = key
    elif asked.what:
        given |= {"key": asked.what, "counted": True}
    options = Options().with_(given)
    make = run.operation(frame, str(asked.wait), options, inputs=inputs, code=no_code)
    op = make()
    if is_async(caller):
        return Awaitable(op, partial(_reach, op, asked))
    with op.stoppable():
        drive(_reach(op, asked))
    return op.result


# -- the core ----------------------------------------------------------------------------------


def _reach(op: Operation, asked: Asked) -> Core[None]:
    """Replay what was decided; else ask, and wait until it is."""
    run, looks, asks = op.run, 0, False
    while True:
        with run.lock:
            run.check_owner()
            state = run.fold.operations.get(op.id)
            if state is not None and state.intent and state.wait is not asked.wait:
                raise DuplicateStep(op.id, "on record it is no wait, but a step of that name")
            completed = state is not None and state.outcome(run.clock.now()) is Outcome.COMPLETED
            if state is not None and completed:
                if stands(op, state):
                    break
                state = run.fold.operations[op.id]
            if not looks:  # what waits already goes on waiting, whatever goes wrong beside it
                may_run(op, state)
            state, asks = _ask(op, asked, state, first=not looks), True
            if _has_ended(op, state):
                continue
            if looks == 1:
                _tell(op, asked)
            pending = Until(partial(_signal, op, state), _until_next_look(op, state))
        yield pending
        looks += 1
    try:
        replay(op, state)
    finally:
        if asks:  # it was decided here and now
            run.sources[op.id] = op.source = "ran"


def _ask(
    op: Operation, asked: Asked, state: OperationState | None, *, first: bool
) -> OperationState:
    """Put the intent on record, unless it is asked already, in the very same words."""
    run, now = op.run, op.run.clock.now()
    if state is not None and state.is_pending:
        if state.intent["inputs"] == op.facets["inputs"]:
            if first and asked.due is not None:
                _say_if_later(op, asked.due, _moment(state, "due"))
            return state
        run.say(f"{op.id}: what it is asked for changed while it was undecided; it is asked anew")
    run.append(Draft(op.id, Kind.INTENDED, {**op.intent(state), **asked.intent(now)}))
    return run.fold.operations[op.id]


def _say_if_later(op: Operation, due: datetime, recorded: datetime | None) -> None:
    """Say that the recorded moment holds, where the program has another one now."""
    if recorded is not None and abs((due - recorded).total_seconds()) > _JITTER_S:
        op.run.say(f"{op.id}: its recorded time holds: {_shown(recorded)}, not {_shown(due)}")


def _has_ended(op: Operation, state: OperationState) -> bool:
    """Record that its time has come, or that a signal was there before it; tell whether it is."""
    run, now = op.run, op.run.clock.now()
    due, deadline = _moment(state, "due"), _moment(state, "deadline")
    body: dict[str, Any] = {"attempt": state.attempt}
    held = run.fold.held.get(state.intent["what"]) if state.wait is Wait.SIGNAL else None
    if due is not None and now >= due:
        kind, body["result"] = Kind.COMPLETED, values.encode(None, run.artifacts)
    elif held is not None:
        kind, body = Kind.SIGNALLED, {**held, **body, "held": True}
    elif deadline is not None and now >= deadline:
        late = TimeoutError(f"{op.id} was not decided within {state.intent['timeout']:g} s")
        kind, body["error"] = Kind.OBSERVED, values.describe_error(late)
    else:
        return False
    run.append(Draft(op.id, kind, body))
    return True


def _until_next_look(op: Operation, state: OperationState) -> float:
    due = _moment(state, "due")
    if due is None:
        return LOOK_S
    return min(TICK_S, max(0.0, (due - op.run.clock.now()).total_seconds()))


def _signal(op: Operation, state: OperationState) -> DurableSignal:
    """Give what stops a cell that cannot wait."""
    assert state.wait is not None
    intent, due = state.intent, _moment(state, "due")
    more = _shown(due) if due is not None else values.one_line(details_of(intent))
    view = op.run.view(state)
    return _SIGNALS[state.wait](op.run.name, op.id, intent["what"], more, [view])


def _tell(op: Operation, asked: Asked) -> None:
    """Say once, where code awaits it, what a person can do."""
    name = json.dumps(op.id, ensure_ascii=False)
    if asked.wait is Wait.APPROVAL:
        op.run.say(f"{op.id} waits for approval: run.approve({name}), from anywhere")
    elif asked.wait is Wait.SIGNAL:
        op.run.say(f"{op.id} waits for signal {asked.what!r}: run.signal(...), from anywhere")


def _moment(state: OperationState, name: str) -> datetime | None:
    found = state.intent.get(name)
    return None if found is None else datetime.fromisoformat(found)


def _shown(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
