"""A session that several threads share, and that goes on trying when its server is gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeVar

import psycopg
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from durable_nb.journal.interrupts import interrupt_waits
from durable_nb.journal.postgres.errors import StoreRefused, StoreUnreachable
from durable_nb.journal.postgres.server import Server, is_lost
from durable_nb.journal.postgres.sessions import Session

_T = TypeVar("_T")

#: Seconds to wait for a server that is gone, such as one that starts again.
PATIENCE_S: Final = 30.0
#: Most seconds between two tries.
_PAUSE: Final = 1.0
#: Seconds that closing waits for a statement.
_CLOSE_S: Final = 1.0


class Patient:
    """A session, made on first use and anew in a forked child, for one thread at a time.

    Parameters
    ----------
    server : Server
        Where to.
    purpose : str
        What it is for, as `pg_stat_activity` shows it.
    patience_s : float
        Seconds to go on trying to reach the server; an interrupt ends that.
    file : str
        Where its statements are.
    enough : callable
        Tells whether to give up before that.

    Attributes
    ----------
    trouble : str
        What it waits for just now, or has given up, and since when; "" once it was reached.
    """

    def __init__(
        self,
        server: Server,
        purpose: str,
        patience_s: float = PATIENCE_S,
        *,
        file: str = "postgres",
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self.server, self.trouble = server, ""
        self._enough = enough
        self._since = datetime.now(UTC)
        self._purpose, self._patience_s, self._file = purpose, patience_s, file
        self._begin()

    def _begin(self) -> None:
        self.session = Session(self.server, self._purpose, file=self._file)
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._user: int | None = None
        self._closed = False

    def __call__(self, do: Callable[[], _T], *, again: bool = True) -> _T:
        """Do what can be done twice, again and again as long as the connection is lost.

        Parameters
        ----------
        do : callable
            Uses `session`.
        again : bool
            Whether to be patient at all.

        Raises
        ------
        StoreUnreachable
            If it was lost for too long.
        StoreRefused
            If the server has said no.
        """
        if os.getpid() != self._pid:
            self._begin()  # its parent goes on with the connection, and with the lock
        me = threading.get_ident()
        if self._user == me:
            # a signal handler in the middle of a statement would wait for itself
            cause = "it was asked from inside a statement of this very thread"
            raise StoreRefused(self.server.place, cause)
        with self._lock:
            self._user = me
            try:
                return self._insisting(do, again)
            finally:
                if self._closed:
                    self.session.drop()
                self._user = None

    def close(self) -> None:
        """Let go of the connection; a later statement makes one for itself alone."""
        if os.getpid() != self._pid:
            return
        self._closed = True  # whoever is in the middle of a statement lets go of it afterwards
        if self._user != threading.get_ident() and self._lock.acquire(timeout=_CLOSE_S):
            try:
                self.session.drop()
            finally:
                self._lock.release()

    def _insisting(self, do: Callable[[], _T], again: bool) -> _T:
        try:
            try:
                done = do()
            except (psycopg.Error, StoreUnreachable) as error:
                if not is_lost(error):
                    raise
                if not again:
                    raise self._unreachable(error) from None
                done = self._again(do)
            self.trouble = ""
            return done
        except psycopg.Error as error:
            raise StoreRefused(self.server.place, self.server.clean(str(error))) from None

    def _again(self, do: Callable[[], _T]) -> _T:
        """Go on trying; what it waits for, or has given up, is kept in `trouble`."""
        if not self.trouble:
            self._since = datetime.now(UTC)
        trying = Retrying(
            retry=retry_if_exception(is_lost),
            wait=wait_random_exponential(multiplier=0.05, max=_PAUSE),
            stop=self._is_over,
            before_sleep=self._waits,
            reraise=True,
        )
        try:
            return trying(do)
        except BaseException as error:
            if not is_lost(error):
                self.trouble = ""  # it has answered, or nobody waits any more
                raise
            self.trouble = self._told("waited in vain for the database", error)
            raise self._unreachable(error) from None

    def _is_over(self, state: RetryCallState) -> bool:
        """Whether to give up."""
        waited = state.seconds_since_start or 0.0
        return waited >= self._patience_s or interrupt_waits() or self._enough()

    def _waits(self, state: RetryCallState) -> None:
        """Say what it waits for."""
        error = state.outcome.exception() if state.outcome is not None else None
        self.trouble = self._told("waits for the database", error)

    def _told(self, what: str, error: BaseException | None) -> str:
        """Say what is, since when and why."""
        cause = self._unreachable(error).cause
        return f"{what} since {self._since:%Y-%m-%d %H:%M:%S} UTC: {cause}"

    def _unreachable(self, error: BaseException | None) -> StoreUnreachable:
        """Give any failure as one that shows no secret."""
        if isinstance(error, StoreUnreachable):
            return error
        return StoreUnreachable(self.server.place, self.server.clean(str(error)))
