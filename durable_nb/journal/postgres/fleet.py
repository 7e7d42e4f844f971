"""What the fleet executes, one row a run: the queue only says whose turn it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from durable_nb.journal.postgres.patience import PATIENCE_S, Patient
from durable_nb.journal.postgres.server import Server

#: Seconds in which whoever makes a row also puts it into the queue.
_GRACE_S: Final = 10.0
#: Seconds between two looks at what has changed, and between two at all; and how much of the time
#: before the last one is looked at again.
_EVERY_S: Final = 2.0
_WHOLE_S: Final = 600.0
_AGAIN_S: Final = 120.0


class FleetState(StrEnum):
    """Where a run of the fleet stands."""

    QUEUED = "queued"  #: for any worker that has a free slot
    WORKING = "working"  #: a worker executes it
    ORPHANED = "orphaned"  #: its worker says nothing any more; it is queued again by itself
    WAITING = "waiting"  #: for a timer or a signal, in no slot
    PERSON_NEEDED = "person needed"  #: in no slot
    PARKED = "parked"  #: it failed, and is not tried again by itself
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Turn:
    """A run that was given to a worker.

    Attributes
    ----------
    number : int
        Of this turn: as soon as there is a higher one, it changes nothing any more.
    failures : tuple of Mapping
        How it failed before, one each (``why, worker, at, lines``).
    submitted : Mapping
        What is executed.
    """

    name: str
    number: int
    failures: tuple[Mapping[str, Any], ...]
    submitted: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One run of the fleet, as it stands.

    Attributes
    ----------
    worker : str or None
        Who executes it.
    since_s, due_s : float or None
        Seconds since it came there, and to when it is due; by the server's clock.
    why : str
        What it waits for, or why it stopped.
    """

    name: str
    state: FleetState
    worker: str | None
    since_s: float
    due_s: float | None
    why: str
    failures: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What a row says of a run that somebody submits again."""

    state: FleetState
    worker: str | None
    submitted: Mapping[str, Any]


class FleetTable:
    """The runs of the fleet, over one session that any thread may use.

    Parameters
    ----------
    server : Server
        Where.
    patience_s : float
        Seconds to go on trying where the server is gone.
    enough : callable
        Tells whether to give up before that.
    """

    def __init__(
        self,
        server: Server,
        patience_s: float = PATIENCE_S,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self._server = server
        self._patient = Patient(server, "fleet", patience_s, file="fleet", enough=enough)

    def add(self, name: str, submitted: Mapping[str, Any]) -> None:
        """Add a run, unless there is one of this name."""
        self._ask("fleet_add", name=name, submitted=json.dumps(submitted))

    def again(self, name: str, submitted: Mapping[str, Any]) -> bool:
        """Let a run be tried once more; `False` if it is at work."""
        return bool(self._ask("fleet_again", name=name, submitted=json.dumps(submitted)))

    def known(self, name: str) -> Known | None:
        """Give what is known of a run; `None` if it is none of the fleet's."""
        rows = self._ask("fleet_row", name=name)
        if not rows:
            return None
        state, _turn, worker, _why, _failures, submitted = rows[0]
        return Known(FleetState(state), worker, submitted)

    def begin(self, name: str, worker: str) -> Turn | None:
        """Begin a turn; `None` if there is nothing to do."""
        rows = self._ask("fleet_begin", name=name, worker=worker)
        if not rows:
            return None
        number, failures, submitted = rows[0]
        return Turn(name, number, tuple(failures), submitted)

    def put_down(
        self,
        turn: Turn,
        state: FleetState,
        why: str = "",
        *,
        seq: int = 0,
        due_s: float | None = None,
        failures: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """End a turn; nothing if another one has begun meanwhile.

        Parameters
        ----------
        turn : Turn
            As it was given.
        state : FleetState
            Where the run stands now.
        why : str
            What it waits for, or why it stopped.
        seq : int
            Its last record as that was judged: what is recorded afterwards calls it back.
        due_s : float, optional
            Seconds until it is called back by itself.
        failures : sequence of Mapping, optional
            How it has failed so far; what was known before if it is not given.
        """
        kept = turn.failures if failures is None else failures
        self._ask(
            "fleet_put_down",
            name=turn.name,
            turn=turn.number,
            state=str(state),
            why=why,
            seq=seq,
            due_s=due_s,
            failures=json.dumps(list(kept)),
        )

    def orphaned(self, name: str, why: str) -> None:
        """Take a run from a worker that says nothing any more."""
        self._ask("fleet_orphaned", name=name, why=why)

    @contextmanager
    def looking(self) -> Iterator[list[str]]:
        """Name the runs that are to be put into the queue; none if somebody else looks just now.

        Once they are there, the next look begins where this one did.
        """
        rows = self._ask(
            "fleet_look",
            every_s=_EVERY_S,
            again_s=_AGAIN_S,
            whole_s=_WHOLE_S,
            lease_s=self._server.lease_s,
        )
        if not rows:
            yield []
            return
        ((is_whole, since, at),) = rows
        try:
            yield self.idle(since)
            self._ask("fleet_looked", at=at, whole=is_whole)
        finally:
            self._ask("fleet_look_over")

    def idle(self, since: object = "-infinity") -> list[str]:
        """Name the runs that are to be put into the queue.

        Parameters
        ----------
        since : datetime or str
            Only what was touched after it.
        """
        found = self._ask("fleet_idle", prepare=False, since=since, grace_s=_GRACE_S)
        return [name for (name,) in found]

    def roster(self, *, every: bool) -> list[FleetRow]:
        """List the runs, by name.

        Parameters
        ----------
        every : bool
            Also those that are finished.
        """
        rows = self._ask("fleet_roster", every=every, lease_s=self._server.lease_s)
        return [
            FleetRow(name, FleetState(state), worker, since, due, why, tuple(failures))
            for name, state, worker, since, due, why, failures in rows
        ]

    def close(self) -> None:
        """Let go of the session."""
        self._patient.close()

    def _ask(self, statement: str, *, prepare: bool = True, **given: Any) -> list[Any]:
        """Send what may be sent twice: each statement says what holds afterwards."""

        def send() -> list[Any]:
            cursor = self._patient.session.run(statement, given, prepare=prepare)
            return cursor.fetchall() if cursor.description else []

        return self._patient(send)
