"""The owner's end of the inbox: what another process asked for is done here, and answered.

Each message is applied as the verdict that it is, by the same compare-and-set; a refusal is an
answer, never an error in the owner's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import settle
from durable_nb.engine.verbs import ASKING, TAKES_LONG, WHOLE, Done, document, perform
from durable_nb.journal import Message
from durable_nb.model.errors import DurableSignal, RunClosed, VerdictRefused

if TYPE_CHECKING:
    from durable_nb.engine.run import Run
    from durable_nb.journal.place import RunInbox

#: Seconds that closing waits for a verdict that is being recorded.
_STOP_S: Final = 5.0


#: Messages that this process has in hand: what is taken and not here was left by a killed owner.
_in_hand: Final[set[str]] = set()
_hands: Final = threading.Lock()


# -- messages ----------------------------------------------------------------------------------


def apply(run: Run, message: Message) -> dict[str, Any]:
    """Do what a message says.

    Returns
    -------
    dict
        ``{"ok": True, "said": ..., "operation": {...}, ...}`` as `perform` gives it, or
        ``{"ok": False, "error": type, "message": text}``.

    Raises
    ------
    RunClosed
        The run was closed meanwhile: the message is the next owner's.
    """
    try:
        with settle.sent_by(message.actor, message.id):
            if message.verb in TAKES_LONG:
                return {"ok": True, **perform(run, message.verb, message.op, message.arguments)}
            with run.lock:
                return {"ok": True, **_judge(run, message)}
    except RunClosed:
        raise
    except (Exception, DurableSignal) as error:  # whoever asked is told; nobody else asked
        return {"ok": False, "error": type(error).__name__, "message": str(error)}


def _judge(run: Run, message: Message) -> dict[str, Any]:
    """Give a verdict on what its sender saw."""
    if not message.op:
        if message.verb not in WHOLE:
            raise ValueError(f"{message.verb!r} needs an operation")
        if message.verb == "signal" and (known := _sent(run, message)) is not None:
            return document(run, known)
        return perform(run, message.verb, "", message.arguments)
    if message.verb in ASKING:  # also about what a pin has retired
        return perform(run, message.verb, message.op, message.arguments)
    state, _ = settle.find(run, message.op)
    if state.last.get("message") == message.id:  # its owner was killed before it could answer
        done = Done(str(state.kind), "it was recorded already", run.view(state))
        return document(run, done)
    if message.seen is not None:
        seen = replace(run.view(state), last_seq=message.seen)
        return perform(run, message.verb, seen, message.arguments)
    if state.started and state.started > message.ts:
        why = "it was begun again after this was sent. Look again."
        raise VerdictRefused(state.id, message.verb, why)
    return perform(run, message.verb, state.id, message.arguments)


def _sent(run: Run, message: Message) -> Done | None:
    """Tell what a signal by name has done, where its owner was killed before it could answer."""
    said, folded = "it was recorded already", run.fold
    for state in run.states():
        if state.last.get("message") == message.id:
            return Done(str(state.kind), said, run.view(state))
    if any(body.get("message") == message.id for body in folded.held.values()):
        return Done("held", said, None)
    if not folded.carried or message.ts >= folded.openings[-1].ts:
        return None
    whole = run.committed()  # what took it may be retired
    known = any(record.body.get("message") == message.id for record in whole)
    return Done("signalled", said, None) if known else None


def _at_once(job: Callable[[], None]) -> None:
    job()


def drain(
    run: Run,
    aside: Callable[[Callable[[], None]], None] = _at_once,
    *,
    inbox: RunInbox | None = None,
) -> int:
    """Apply and answer all messages that wait.

    Parameters
    ----------
    run : Run
        Held by this process.
    aside : callable
        Given what may take long, such as asking a reconciler, as a function to call.
    inbox : RunInbox, optional
        One that is kept open; otherwise one for this time.

    Returns
    -------
    int
        How many were taken.
    """
    if inbox is not None:
        return _drain(run, aside, inbox)
    with closing(run.place.inbox(run.clock.now)) as opened:
        return _drain(run, aside, opened)


def _drain(run: Run, aside: Callable[[Callable[[], None]], None], inbox: RunInbox) -> int:
    count, messages = 0, inbox.pending()
    told, inbox.refused = inbox.refused, []
    for what in told:
        run.say(f"{what}. It is no message: it was set aside, and nothing was done.")
    for message in messages:
        with _hands:
            if message.id in _in_hand or not run.is_open or not inbox.take(message.id):
                continue
            _in_hand.add(message.id)
        count += 1

        def answer(message: Message = message) -> None:
            try:
                document = apply(run, message)
            except RunClosed:
                inbox.put_back(message.id)
                _in_hand.discard(message.id)
                return
            inbox.answer(message.id, document)
            _in_hand.discard(message.id)  # unless the answer failed: that is not tried for ever
            if message.verb not in ASKING:
                _tell(run, message, document)

        (aside if message.verb in TAKES_LONG else _at_once)(answer)
    return count


def _tell(run: Run, message: Message, document: Mapping[str, Any]) -> None:
    """Show the owner's person what was done from outside."""
    operation = document.get("operation") or {}
    what = operation.get("id") or (repr(message.op) if message.op else run.name)
    said = document["verdict"] if document["ok"] else f"{message.verb} was refused"
    run.say(values.redact(f"{what}: {said}, by {message.actor} from another process"))


class Watcher:
    """Looks into the inbox of a run, at opening and then from a thread of its own.

    Parameters
    ----------
    run : Run
        Held by this process.
    every : float, optional
        Seconds between two looks; by default what its inbox says.

    Attributes
    ----------
    trouble : str
        The last failure; it raises to nobody.
    """

    def __init__(self, run: Run, every: float | None = None) -> None:
        self.trouble = ""
        self._run = run
        self._inbox = run.place.inbox(run.clock.now)
        self._every = self._inbox.look_s if every is None else every
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Apply what waits now."""
        self._guarded(lambda: drain(self._run, inbox=self._inbox))

    def start(self) -> None:
        """Go on looking, whatever the main thread does."""
        self._thread = threading.Thread(
            target=self._watch, name=f"durable_nb inbox {self._run.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End it; a verdict that is being recorded is awaited."""
        self._stop.set()
        self._inbox.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)
        self._inbox.close()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._inbox.wait(self._every)
            if not self._stop.is_set():
                self._guarded(lambda: drain(self._run, self._aside, inbox=self._inbox))

    def _aside(self, job: Callable[[], None]) -> None:
        """Do it in a thread of its own, so that other messages need not wait for it."""
        name = f"durable_nb check {self._run.name}"
        threading.Thread(target=self._guarded, args=(job,), name=name, daemon=True).start()

    def _guarded(self, job: Callable[[], object]) -> None:
        try:
            job()
        except (Exception, DurableSignal) as error:
            self.trouble = f"inbox: {type(error).__name__}: {error}"
