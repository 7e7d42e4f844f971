"""One session that is opened anew once it was lost, and statements that are sent by name."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from typing import Any

import psycopg

from durable_nb.journal.postgres.errors import StoreRefused, StoreUnreachable
from durable_nb.journal.postgres.server import Server, is_lost
from durable_nb.journal.sql import queries


class Session:
    """A connection that is made on first use, and once more after it was lost.

    The caller sees to it that one thread at a time uses it, and that no forked child does: what it
    sent, even a farewell, would go out over its parent's connection.
    """

    def __init__(
        self, server: Server, purpose: str, *, takes_over: bool = False, file: str = "postgres"
    ) -> None:
        self.server = server
        self._purpose, self._takes_over, self._file = purpose, takes_over, file
        self._con: psycopg.Connection[Any] | None = None
        self.opened = 0  # how many connections it has had

    def run(
        self,
        name: str,
        given: Mapping[str, Any] | None = None,
        *,
        binary: bool = False,
        prepare: bool = True,
    ) -> psycopg.Cursor[Any]:
        """Send a statement once; a connection that it loses is dropped.

        With `prepare` the server keeps its plan, which may then be one for whatever is given.
        """
        con = self.connected()
        try:
            # a statement of ours is no literal, on which psycopg's types insist
            text: Any = queries(self._file)[name]
            return con.execute(text, given, prepare=prepare, binary=binary)
        except BaseException as error:
            # an interrupted one may still be under way, and would answer the next one
            if is_lost(error) or not isinstance(error, psycopg.Error):
                self.drop()
            raise

    def connected(self) -> psycopg.Connection[Any]:
        """Give the connection, which is made if there is none."""
        if self._con is None:
            self._con = self.server.connect(self._purpose, takes_over=self._takes_over)
            self.opened += 1
        return self._con

    def drop(self) -> None:
        """Let go of the connection; the next statement makes another."""
        con, self._con = self._con, None
        if con is not None:
            con.close()


class Look:
    """The one session by which a process looks at a store; any thread may."""

    def __init__(self, server: Server) -> None:
        self._server, self._session = server, Session(server, "look")
        self._lock, self._pid = threading.RLock(), os.getpid()
        atexit.register(self.close)

    def ask(self, name: str, given: Mapping[str, Any] | None = None) -> list[Any]:
        """Send a statement that may be sent twice, and give its rows; where no table is, none.

        Raises
        ------
        StoreUnreachable, StoreRefused
        """
        server = self._server
        try:
            return self._twice(name, given)
        except psycopg.errors.UndefinedTable:
            return []  # nobody has prepared this store
        except psycopg.Error as error:
            cause, lost = server.clean(str(error)), is_lost(error)
        raise StoreUnreachable(server.place, cause) if lost else StoreRefused(server.place, cause)

    def close(self) -> None:
        """Let go of the connection; the next question makes another."""
        if os.getpid() == self._pid:  # it is no fork child's
            with self._lock:
                self._session.drop()

    def _twice(self, name: str, given: Mapping[str, Any] | None) -> list[Any]:
        with self._lock:
            try:
                return self._rows(name, given)
            except (StoreUnreachable, psycopg.Error) as error:
                if isinstance(error, StoreUnreachable) or not is_lost(error):
                    raise
            return self._rows(name, given)

    def _rows(self, name: str, given: Mapping[str, Any] | None) -> list[Any]:
        cursor = self._session.run(name, given, binary=True)
        return cursor.fetchall() if cursor.description else []


def look_at(server: Server) -> Look:
    """Give the session by which this process looks at a store."""
    key = server, os.getpid()
    with _looking:
        if key not in _looks:
            _looks[key] = Look(server)
        return _looks[key]


def looks() -> list[Look]:
    """Give all by which this process looks at stores."""
    with _looking:
        return [look for (_, pid), look in _looks.items() if pid == os.getpid()]


# a fork child keeps its parent's: to close it would end the parent's connection
_looks: dict[tuple[Server, int], Look] = {}
_looking = threading.Lock()
