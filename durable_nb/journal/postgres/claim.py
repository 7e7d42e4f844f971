"""One supervisor a run, wherever it is: a lock that the server drops with its session."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import psycopg

from durable_nb.journal.heartbeat import HEARTBEAT, Heartbeat
from durable_nb.journal.postgres.errors import StoreUnreachable
from durable_nb.journal.postgres.server import Server
from durable_nb.journal.sql import queries
from durable_nb.model.errors import RunHeld, StaleOwner

#: Beats in a lease.
_BEATS: Final = 4
#: Seconds that a session takes at most to end once the server is told to end it, and between looks.
_END_S: Final = 5.0
_LOOK_S: Final = 0.1


class _Claimant(NamedTuple):
    """Who has a claim: the server's process, what it says of itself, and seconds of silence."""

    pid: int
    name: str
    silent_s: float


@contextlib.contextmanager
def claimed(server: Server, run: str) -> Iterator[None]:
    """Be the only supervisor of a run, or say who is.

    One that says nothing for the time of a lease stands still: its session is ended, so that
    another one can take the run up. One whose connection is lost claims the run again, and goes on
    without its claim if another one was faster; two kernels never own the run either way.

    Raises
    ------
    RunHeld
        Another one is at work; nothing was begun.
    StoreUnreachable
    """
    claim = _Claim(server, run)
    heart = Heartbeat(f"claim {run}", claim.beat, lambda trouble: None)
    try:
        claim.take()
        heart.start(min(HEARTBEAT, server.lease_s / _BEATS))
        yield
    finally:
        heart.stop()
        claim.drop()


class _Claim:
    """The claim of this process to supervise a run."""

    def __init__(self, server: Server, run: str) -> None:
        self._server, self._run = server, run
        self._con: psycopg.Connection[Any] | None = None

    def take(self) -> None:
        """Take the lock, or raise `RunHeld` with who has it."""
        deadline = time.monotonic() + _END_S
        self._con = self._connected()
        try:
            while not self._ask("claim")[0]:
                who = self._claimant()
                is_silent = who is not None and who.silent_s > self._server.lease_s
                if who is None or (is_silent and time.monotonic() < deadline):
                    if who is not None:
                        self._ask("end_session", pid=who.pid)
                    time.sleep(_LOOK_S)
                    continue
                advice = "It goes on by itself. To stop it, send that process SIGTERM."
                raise RunHeld(self._run, who.name, advice)
        except psycopg.Error as error:
            cause = self._server.clean(str(error))
            raise StoreUnreachable(self._server.place, cause) from None

    def beat(self) -> None:
        """Say that this supervisor lives; claim the run again where the session was lost."""
        try:
            if self._con is None:
                self.take()
            self._ask("claim_beat")
        except RunHeld as other:
            self.drop()
            raise StaleOwner(self._run, other.holder) from other
        except (psycopg.Error, StoreUnreachable):
            self.drop()
            raise

    def drop(self) -> None:
        """Let go of it."""
        con, self._con = self._con, None
        if con is not None:
            con.close()

    def _connected(self) -> psycopg.Connection[Any]:
        return self._server.connect(f"supervisor process {os.getpid()} on {platform.node()}")

    def _claimant(self) -> _Claimant | None:
        """Tell who has it; `None` if that has just ended."""
        row = self._ask("claimant")
        if row is None:
            return None
        pid, name, silent_s = row
        said = str(name or "").removeprefix("durable_nb ") or "another supervisor"
        return _Claimant(pid, said, silent_s or 0.0)

    def _ask(self, name: str, **given: Any) -> Any:
        sql: Any = queries("postgres")
        assert self._con is not None
        return self._con.execute(sql[name], {"name": self._run, **given}).fetchone()
