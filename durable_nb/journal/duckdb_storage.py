"""The rows of one run in one DuckDB file, and its head beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from durable_nb.journal.database import connect
from durable_nb.journal.head import Head, HeadState
from durable_nb.journal.landing import Landing
from durable_nb.journal.rows import BadRow, RawRow, Row
from durable_nb.journal.storage import Foreign
from durable_nb.journal.tables import read_rows, rows_between

#: Records, and bytes, in the write-ahead file from which a pin moves it into the database file. An
#: opening after a kill replays it, at about 0.1 ms a commit.
WAL_ROWS: Final = 256
WAL_BYTES: Final = 1 << 20


class DuckDBStorage:
    """The storage of a journal in a file; see `Storage`.

    Parameters
    ----------
    path : Path
        The database file.
    run : str
        Name of the run, for messages.
    landing : Landing
        Where commits go.
    head : Head, optional
        What says how far the journal has come.
    """

    failures: tuple[type[Exception], ...] = (duckdb.Error,)
    damage: tuple[type[Exception], ...] = (duckdb.Error,)
    advice = "Free some space (or lift the limit) and run the cell again."
    repair = "Close the run and open it again: opening sets a damaged file aside."

    def __init__(self, path: Path, run: str, landing: Landing, head: Head | None) -> None:
        self.path, self.trouble, self.landing = path, "", landing
        self._run, self._head, self._gathered = run, head, 0

    @property
    def is_full(self) -> bool:
        """Whether much has landed: an opening reads it."""
        return self.landing.is_full

    def commit(self, rows: Sequence[Row], before: bytes) -> None:
        """Write rows in one transaction."""
        self.landing.commit(rows)

    def landed(self, rows: Sequence[Row], before: bytes, error: BaseException) -> bool:
        """Look: an interrupted or failed commit may be committed all the same."""
        tail = self.tail(rows[0].seq - 1)
        if tail and tail != rows:
            raise Foreign("it holds records that this kernel did not write. Reopen the run.")
        return bool(tail)

    def is_longer(self, seq: int) -> bool:
        """Look."""
        return bool(self.tail(seq))

    def tail(self, seq: int) -> list[Row]:
        """Read what lies after a record, over a new connection if need be."""
        con = self.landing.con
        try:
            with contextlib.suppress(duckdb.TransactionException):  # none was open
                con.execute("ROLLBACK")
            return self.landing.tail(seq)
        except duckdb.Error:
            con.close()  # "database has been invalidated": only a new connection helps
            self.reconnect()
            return self.landing.tail(seq)

    def reconnect(self) -> None:
        """Go on over a new connection; the one before is closed."""
        self.landing = Landing(connect(self.path))

    def acknowledge(self, seq: int, digest: bytes) -> None:
        """Write the head. Without it the record is durable; only the proof of a loss is weaker."""
        if self._head is not None:
            try:
                self._head.write(HeadState(seq, digest))
            except OSError as error:
                self.trouble = f"the head of run {self._run!r} could not be written: {error}"

    def is_due(self, seq: int) -> bool:
        """Whether the write-ahead file is large: an opening after a kill replays it."""
        try:
            size = os.stat(f"{self.path}.wal").st_size  # a stat opens nothing
        except OSError:
            return False
        return size > WAL_BYTES or seq - self._gathered > WAL_ROWS

    def gather(self, seq: int) -> None:
        """Move what has landed to the table of records, and the write-ahead file to the database.

        All of it is on disk before, and stays where it is if this fails.
        """
        try:
            self.landing.clear()
            self._gathered = seq
        except (duckdb.Error, BadRow) as error:
            self.trouble = f"run {self._run!r} went on without a checkpoint: {error}"
            with contextlib.suppress(duckdb.Error, BadRow):
                self.tail(seq)  # which leaves a connection that can be used

    def all_rows(self) -> list[Row]:
        """Read all rows, in order, and check the chain."""
        return read_rows(self.landing.con)

    def between(self, first: int, last: int) -> Sequence[RawRow]:
        """Read neighbours, in order."""
        return rows_between(self.landing.con, first, last)

    def close(self) -> None:
        """Let go of the file."""
        self.landing.con.close()
