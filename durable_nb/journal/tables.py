"""The tables of a journal file: made once, read and checked on every opening."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from durable_nb.journal.database import connect
from durable_nb.journal.head import HeadState
from durable_nb.journal.pins import read_part
from durable_nb.journal.rows import START, Row, check_chain, records_of
from durable_nb.journal.sql import queries
from durable_nb.model.errors import JournalTooNew
from durable_nb.model.records import SCHEMA_VERSION, Record

#: Where the rows begin if all are read.
WHOLE: Final = HeadState(0, START)


@dataclass(frozen=True, slots=True)
class Found:
    """A connection and what was read over it.

    Attributes
    ----------
    begin : HeadState
        Where the rows begin to be without gaps, and the running digest there.
    retired_seqs : sequence of int
        The first record of each operation that was left out; empty if the whole was read.
    """

    con: duckdb.DuckDBPyConnection
    rows: list[Row]
    records: list[Record]
    begin: HeadState = WHOLE
    retired_seqs: Sequence[int] = ()


def open_tables(path: Path, run: str, trusted: HeadState | None = None) -> Found:
    """Connect, check the version, make the tables if they are not there, read and check.

    Parameters
    ----------
    trusted : HeadState, optional
        What pins have retired is left out, if what remains agrees with this. Without it, the
        whole is read.
    """
    sql = queries("journal")
    con = connect(path)
    try:
        tables = {name for (name,) in con.execute(sql["tables"]).fetchall()}
        if "meta" in tables:
            (version,) = con.execute(sql["schema_version"]).fetchone() or (None,)
            if version is not None and version > SCHEMA_VERSION:
                raise JournalTooNew(run, version, SCHEMA_VERSION)
        elif not tables:
            con.execute("BEGIN")
            con.execute(sql["create_meta"])
            con.execute(sql["create_records"])
            con.execute(sql["insert_meta"], {"version": SCHEMA_VERSION})
            con.execute("COMMIT")
            con.execute(sql["checkpoint"])
        part = None if trusted is None else read_part(con)
        if part is not None and part.agrees(trusted):
            return Found(con, part.rows, records_of(part.rows), part.begin, part.retired_seqs)
        rows = read_rows(con)
        return Found(con, rows, records_of(rows))
    except BaseException:
        con.close()
        raise


def read_rows(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Read all rows, in order, and check the chain."""
    rows = [Row(*row) for row in con.execute(queries("journal")["all_records"]).fetchall()]
    rows.sort()
    check_chain(rows)
    return rows


def count_records(path: Path) -> int:
    """Give the number of records of a copy; raises what opening it raises."""
    con = connect(path)
    try:
        rows = read_rows(con)
        records_of(rows)
        return len(rows)
    finally:
        con.close()
