"""The tables of a journal file: made once, read and checked on every opening."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from durable_nb.journal.database import connect, sparing
from durable_nb.journal.head import HeadState
from durable_nb.journal.landing import LANDING, landed_parts, move, transaction
from durable_nb.journal.loading import FEW, Sorting
from durable_nb.journal.pins import read_part
from durable_nb.journal.rows import (
    START,
    RawRow,
    Row,
    chain_all,
    check_chain,
    check_epochs,
    records_of,
)
from durable_nb.journal.sql import queries
from durable_nb.model.errors import JournalTooNew
from durable_nb.model.records import SCHEMA_VERSION, Record
from durable_nb.model.unfolded import Unfolded

#: Where the rows begin if all are read.
WHOLE: Final = HeadState(0, START)
#: Rows that are held at a time.
_PART: Final = 2048


@dataclass(frozen=True, slots=True)
class Found:
    """A connection and what was read over it.

    Attributes
    ----------
    last : Row or None
        The last row.
    digest : bytes
        The running digest after it.
    at_head : bytes
        The running digest after the record that the head knows as the last.
    retired_seqs : sequence of int
        The first record of each operation that was left out; empty if the whole was read.
    unfolded : Unfolded or None
        The operations of which there are no records here, because they can be read later.
    landed : (int, int)
        Commits, and bytes, that have not moved to the table of records.
    """

    con: duckdb.DuckDBPyConnection
    records: list[Record]
    last: Row | None
    digest: bytes
    at_head: bytes
    retired_seqs: Sequence[int] = ()
    unfolded: Unfolded | None = None
    landed: tuple[int, int] = (0, 0)


def open_tables(
    path: Path, run: str, head: HeadState | None = None, *, whole: bool = True
) -> Found:
    """Connect, check the version, make the tables if they are not there, read and check.

    Parameters
    ----------
    head : HeadState, optional
        What the records are to be compared with.
    whole : bool
        Otherwise what pins have retired is left out, if what remains agrees with the head.
    """
    sql = queries("journal")
    con = connect(path)
    try:
        _make_tables(con, run)
        found = _read(con, head, whole=whole)
        return replace(found, landed=con.execute(sql["landed_extent"]).fetchone() or (0, 0))
    except BaseException:
        con.close()
        raise


def _make_tables(con: duckdb.DuckDBPyConnection, run: str) -> None:
    """Make the tables that are not there, and put their version on record.

    To a journal of version 1 an empty table is added. Nothing that is there is touched by that, so
    no copy is taken first.
    """
    sql, tables = queries("journal"), tables_in(con)
    if "meta" in tables:
        check_version(con, run)
    if tables and (LANDING in tables or "records" not in tables):
        return  # all are there, or it is no journal, which reading it tells
    with transaction(con):
        for statement in () if tables else ("create_meta", "create_records"):
            con.execute(sql[statement])
        con.execute(sql["create_landing"])
        con.execute(sql["insert_meta"], {"version": SCHEMA_VERSION})
    con.execute(sql["checkpoint"])


def check_version(con: duckdb.DuckDBPyConnection, run: str) -> None:
    """Refuse a file that a newer version wrote; raises `JournalTooNew`."""
    (version,) = con.execute(queries("journal")["schema_version"]).fetchone() or (None,)
    if version is not None and version > SCHEMA_VERSION:
        raise JournalTooNew(run, version, SCHEMA_VERSION)


def _read(con: duckdb.DuckDBPyConnection, head: HeadState | None, *, whole: bool) -> Found:
    """Read and check all that an opening has to know."""
    has_pins = con.execute(queries("journal")["has_pins"]).fetchone() is not None
    part = None
    if has_pins and not whole:
        move(con)  # what a pin has retired is told by SQL
        part = None if head is None else read_part(con)
    if part is None or not part.agrees(head):
        return _read_in_parts(con, head, has_pins=has_pins)
    digests = _digests(part.begin, part.rows, head)
    return Found(con, records_of(part.rows), part.rows[-1], *digests, part.retired_seqs)


def _digests(
    begin: HeadState, rows: Sequence[RawRow], head: HeadState | None
) -> tuple[bytes, bytes]:
    """Give the running digest after these rows, and at the head's last record if it is there."""
    if rows and rows[0][0] <= begin.seq:  # a part: what was kept of before its pin
        rows = [row for row in rows if row[0] > begin.seq]
    until = 0 if head is None else max(0, head.seq - begin.seq)
    if until > len(rows):
        return chain_all(begin.digest, rows), begin.digest
    at_head = chain_all(begin.digest, rows[:until])
    return chain_all(at_head, rows[until:]), at_head


def _read_in_parts(
    con: duckdb.DuckDBPyConnection, head: HeadState | None, *, has_pins: bool
) -> Found:
    """Read and check all records; of the rows only some are held at a time, as they are large."""
    (count,) = con.execute(queries("journal")["count"]).fetchone() or (0,)
    if count <= FEW or has_pins:  # a pin takes out what was folded before it
        return _read_parts(con, head, long=False)
    try:
        with sparing(con):
            return _read_parts(con, head, long=True)
    except duckdb.OutOfMemoryException:  # its rows are large
        return _read_parts(con, head, long=True)


def _read_parts(con: duckdb.DuckDBPyConnection, head: HeadState | None, *, long: bool) -> Found:
    """Read and check all records; most of a long journal's are not made."""
    sorting, begin, at_head, last = Sorting(), WHOLE, START, None
    for rows, moved in _parts(con):
        if [row[0] for row in rows] != list(range(begin.seq + 1, begin.seq + 1 + len(rows))):
            whole = read_rows(con)  # in another order: where a pin did not land
            return Found(con, records_of(whole), whole[-1], *_digests(WHOLE, whole, head))
        check_epochs(rows if last is None else [last, *rows])
        digest, here = _digests(begin, rows, head)
        if head is not None and begin.seq < head.seq <= begin.seq + len(rows):
            at_head = here
        (sorting.take if long and moved else sorting.fold)(rows)
        last = rows[-1]
        begin = HeadState(last[0], digest)
    rows, unfolded = sorting.sorted(partial(rows_at, con))
    row = None if last is None else Row(*last)
    return Found(con, records_of(rows), row, begin.digest, at_head, unfolded=unfolded)


def _parts(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[Sequence[RawRow], bool]]:
    """Give all rows, some at a time, and whether they stay where they are."""
    found = con.execute(queries("journal")["all_records"])
    while rows := found.fetchmany(_PART):
        yield rows, True
        rows.clear()  # before there are more
    for late in landed_parts(con):
        yield late, False


def rows_at(con: duckdb.DuckDBPyConnection, seqs: Sequence[int]) -> list[RawRow]:
    """Read single rows of the table of records, in no order."""
    return con.execute(queries("journal")["records_at"], {"seqs": seqs}).fetchall()


def rows_between(con: duckdb.DuckDBPyConnection, first: int, last: int) -> list[RawRow]:
    """Read neighbours, in order: of the table of records, 1,000 of them in about 1.5 ms."""
    with sparing(con):
        found = con.execute(queries("journal")["between"], {"first": first, "last": last})
        rows: list[RawRow] = found.fetchall()
        if len(rows) <= last - first:  # some have not moved there yet
            for late in landed_parts(con):
                rows += [row for row in late if first <= row[0] <= last]
        return sorted(rows)


def read_closed(path: Path, first: int, last: int) -> list[Record]:
    """Read neighbours in the file of a run that nobody holds, and change nothing in it."""
    con = connect(path, read_only=True)
    try:
        return records_of(rows_between(con, first, last))
    finally:
        con.close()


def read_rows(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Read all rows, in order, and check the chain."""
    rows = [Row(*row) for part, _ in _parts(con) for row in part]
    rows.sort()
    check_chain(rows)
    return rows


def tables_in(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Name the tables of a file."""
    return {name for (name,) in con.execute(queries("journal")["tables"]).fetchall()}


def count_records(path: Path) -> int:
    """Give the number of records of a copy; raises what opening it raises."""
    con = connect(path)
    try:
        rows = read_rows(con)
        records_of(rows)
        return len(rows)
    finally:
        con.close()
