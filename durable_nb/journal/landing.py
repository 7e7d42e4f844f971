"""Where commits land: one text a commit, which costs half of what rows of six columns cost.

DuckDB plans each INSERT anew, at about 65 µs a column, and what is bound to it at as much again:
together more than the disk takes. So all records of a commit are packed into one text for a
prepared INSERT, and moved to the table of records once there are many, a pin tidies, or the run is
closed: in one transaction, so that a record is always in one of the two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import duckdb

from durable_nb.journal.database import quoted
from durable_nb.journal.rows import BadRow, Row
from durable_nb.journal.sql import queries
from durable_nb.model.outcomes import Kind

#: The table.
LANDING: Final = "landing"
#: Commits, and bytes, that may lie here: moving them takes some 50 ms, and an opening reads them.
MOST_COMMITS: Final = 4096
MOST_BYTES: Final = 16 << 20
#: Commits that are held at a time as they are read.
_PART: Final = 512
_PINNED: Final = Kind.PINNED.value


def pack(rows: Iterable[Row]) -> str:
    """Give the records of one commit as one text.

    Of each the numbers and the lengths of what follows stand in a line: ``seq ts epoch op kind
    body``. Texts that DuckDB would cut or refuse are escaped in rows already.
    """
    parts: list[str] = []
    for seq, op, kind, ts, epoch, body in rows:
        text = body.decode()
        parts.append(f"{seq} {ts} {epoch} {len(op)} {len(kind)} {len(text)}\n{op}{kind}{text}")
    return "".join(parts)


def unpack(batch: Any) -> Iterator[Row]:
    """Give the records of one commit; raises `BadRow` for what `pack` has not made."""
    at = 0
    try:
        while at < len(batch):
            line = batch.index("\n", at)
            seq, ts, epoch, *lengths = map(int, batch[at:line].split(" "))
            op, kind, body = lengths
            kind_at, body_at = line + 1 + op, line + 1 + op + kind
            at = body_at + body
            if min(lengths) < 0 or at > len(batch):
                raise BadRow(f"the commit that begins with record {seq} is cut off.")
            texts = batch[line + 1 : kind_at], batch[kind_at:body_at], batch[body_at:at]
            yield Row(seq, texts[0], texts[1], ts, epoch, texts[2].encode())
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, BadRow):
            raise
        raise BadRow(f"a commit is not one that this package wrote ({error}).") from error


def append_rows(con: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
    """Write rows into the table of records, in the transaction that is open."""
    if not rows:
        return
    appender = con.appender("j.main.records")
    appender.append_rows(rows)
    appender.flush()


def landed_parts(con: duckdb.DuckDBPyConnection) -> Iterator[list[Row]]:
    """Give the records that have not moved yet, some at a time."""
    try:
        found = con.execute(queries("journal")["landed"])
    except duckdb.CatalogException:  # version 1 had no such table: an opening adds it
        return
    while batches := found.fetchmany(_PART):
        rows = [row for (batch,) in batches for row in unpack(batch)]
        del batches  # before there are more
        yield rows
        rows.clear()


def landed(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Give the records that have not moved yet."""
    return [row for rows in landed_parts(con) for row in rows]


@contextlib.contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Do all of it, or nothing."""
    con.execute("BEGIN")
    try:
        yield
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


def move(con: duckdb.DuckDBPyConnection) -> None:
    """Move what has landed into the table of records."""
    with transaction(con):
        append_rows(con, landed(con))
        con.execute(queries("journal")["clear_landing"])


class Landing:
    """How an owner writes commits over its connection.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Over which all is done; another one after it broke.
    commits, size : int
        How many commits lie there already, and their bytes.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, commits: int = 0, size: int = 0) -> None:
        self.con, self._commits, self._bytes = con, commits, size
        con.execute(queries("journal")["prepare_land"])

    @property
    def is_full(self) -> bool:
        """Whether it is time to move what lies here."""
        return self._commits >= MOST_COMMITS or self._bytes >= MOST_BYTES

    def commit(self, rows: Sequence[Row]) -> None:
        """Write rows in one transaction. A pin does not land: an opening asks for it by SQL."""
        if any(row.kind == _PINNED for row in rows):
            with transaction(self.con):
                append_rows(self.con, rows)
            return
        batch = pack(rows)
        self.con.execute(f"EXECUTE land({quoted(batch)})")
        self._commits, self._bytes = self._commits + 1, self._bytes + len(batch)

    def clear(self) -> None:
        """Move what lies here, and the write-ahead file into the database file."""
        self._commits = self._bytes = 0  # if it fails, not at once again
        move(self.con)
        self.con.execute(queries("journal")["checkpoint"])

    def tail(self, seq: int) -> list[Row]:
        """Read the rows after one, in order."""
        moved = self.con.execute(queries("journal")["tail"], {"seq": seq}).fetchall()
        late = [row for row in landed(self.con) if row.seq > seq]
        return sorted([*map(Row._make, moved), *late])
