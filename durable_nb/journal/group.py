"""Group commit: callers that arrive during a commit share the next one.

The first caller leads: it commits everything that is queued, answers every caller of its batch,
and hands the lead to the first one that arrived meanwhile. No thread of its own, so that a single
caller pays nothing.

Callers that shared a commit go on at the same time, but Python lets one of them at a time: the
first one that is back would commit alone, and each of the others after it. So a leader waits for
those of the last commit, as long as one of them comes every now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from durable_nb.model.records import Draft, Record

_HANDED_OVER: Final = -1

#: Seconds in which one more caller comes, if several are on their way: what a step takes to be
#: done and recorded. A commit takes longer, so that to have waited in vain costs less than it.
_GAP: Final = 0.0003

#: A draft as it is written: op, kind and body.
Packed = tuple[str, str, bytes]


@dataclass(slots=True, eq=False)
class Ticket:
    """One call's share of a batch: drafts in, encoded as well; records or an error out."""

    packed: Sequence[Packed] = ()
    drafts: Sequence[Draft] = ()
    records: list[Record] | None = None
    error: BaseException | None = None
    leads: bool = False
    gate: threading.Lock | None = None  # held until there is an answer, or the lead

    @property
    def answered(self) -> bool:
        """Whether the caller may go on."""
        return self.records is not None or self.error is not None


@dataclass(slots=True)
class Group:
    """The queue and the lead.

    Parameters
    ----------
    commit : callable
        Commits a batch and answers its tickets, each with records or with an error of its own.
        What it raises is raised to the leader; tickets it left unanswered get `failed(error)`.
    failed : callable
        Makes the error of a caller whose leader failed.
    pause : callable
        Lets other threads go on for so many seconds.
    """

    commit: Callable[[list[Ticket]], None]
    failed: Callable[[BaseException], BaseException]
    pause: Callable[[float], None] = time.sleep
    _queue: list[Ticket] = field(default_factory=list)
    _leader: int | None = None
    _near: int = 1  # callers that may be on their way: those of the last commits
    # Re-entrant: a signal handler may append while its own thread holds it.
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def submit(self, ticket: Ticket) -> list[Record]:
        """Have the ticket committed; order of entry is order of `seq`."""
        me = threading.get_ident()
        with self._lock:
            if self._leader == me:
                # A signal handler or finaliser inside our own commit would wait for itself.
                raise self.failed(RuntimeError("it was called from inside its own commit."))
            if self._leader is None:
                self._leader = me
                ticket.leads = True
            else:
                ticket.gate = threading.Lock()  # an Event is six objects, and slower to wake
                ticket.gate.acquire()
                self._queue.append(ticket)
        if ticket.gate is None:
            self._lead(ticket)
        else:
            self._follow(ticket, ticket.gate)
        if ticket.error is not None:
            raise ticket.error
        assert ticket.records is not None
        return ticket.records

    def _follow(self, ticket: Ticket, gate: threading.Lock) -> None:
        """Wait for the answer, or for the lead."""
        try:
            gate.acquire()
        except BaseException:
            self._leave(ticket)
            raise
        if ticket.leads:
            with self._lock:
                self._leader = threading.get_ident()
                self._queue.remove(ticket)
            self._lead(ticket)

    def _await_others(self) -> None:
        """Wait for those who shared the last commit, as long as they come."""
        come = -1
        while come < len(self._queue) < self._near - 1:
            come = len(self._queue)
            self.pause(_GAP)

    def _lead(self, ticket: Ticket) -> None:
        """Commit what is queued by now; whatever happens, answer all and pass the lead on."""
        batch = [ticket]
        try:
            self._await_others()
            with self._lock:
                batch, self._queue = [ticket, *self._queue], []
            self._near = max(len(batch), self._near - 1)
            self.commit(batch)
        except BaseException as error:
            for one in batch:
                if not one.answered:
                    one.error = error if one.leads else self.failed(error)
            raise
        finally:
            self._pass_on()
            for one in batch:
                if one.gate is not None:
                    one.gate.release()

    def _pass_on(self) -> None:
        """Hand the lead to the first in the queue, if any."""
        with self._lock:
            self._leader = None
            if self._queue:
                first = self._queue[0]
                self._leader = _HANDED_OVER
                first.leads = True
                assert first.gate is not None
                first.gate.release()

    def _leave(self, ticket: Ticket) -> None:
        """Take a caller that was interrupted out of the queue, and its lead with it."""
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
                if ticket.leads:
                    self._pass_on()
