"""One session that is opened anew once it was lost, and statements that are sent by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from durable_nb.journal.postgres.server import Server, is_lost
from durable_nb.journal.sql import queries


class Session:
    """A connection that is made on first use, and once more after it was lost.

    The caller sees to it that one thread at a time uses it, and that no forked child does: what it
    sent, even a farewell, would go out over its parent's connection.
    """

    def __init__(self, server: Server, purpose: str, *, takes_over: bool = False) -> None:
        self.server = server
        self._purpose, self._takes_over = purpose, takes_over
        self._con: psycopg.Connection[Any] | None = None

    def run(
        self, name: str, given: Mapping[str, Any] | None = None, *, binary: bool = False
    ) -> psycopg.Cursor[Any]:
        """Send a statement once; a connection that it loses is dropped."""
        con = self.connected()
        try:
            # a statement of ours is no literal, on which psycopg's types insist
            text: Any = queries("postgres")[name]
            return con.execute(text, given, prepare=True, binary=binary)
        except BaseException as error:
            # an interrupted one may still be under way, and would answer the next one
            if is_lost(error) or not isinstance(error, psycopg.Error):
                self.drop()
            raise

    def connected(self) -> psycopg.Connection[Any]:
        """Give the connection, which is made if there is none."""
        if self._con is None:
            self._con = self.server.connect(self._purpose, takes_over=self._takes_over)
        return self._con

    def drop(self) -> None:
        """Let go of the connection; the next statement makes another."""
        con, self._con = self._con, None
        if con is not None:
            con.close()
