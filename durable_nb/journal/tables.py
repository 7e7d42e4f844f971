"""The tables of a journal file: made once, read and checked on every opening."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from durable_nb.journal.database import connect
from durable_nb.journal.rows import Row, check_chain, records_of
from durable_nb.journal.sql import queries
from durable_nb.model.errors import JournalTooNew
from durable_nb.model.records import SCHEMA_VERSION, Record


@dataclass(frozen=True, slots=True)
class Found:
    """A connection and what was read over it."""

    con: duckdb.DuckDBPyConnection
    rows: list[Row]
    records: list[Record]


def open_tables(path: Path, run: str) -> Found:
    """Connect, check the version, make the tables if they are not there, read and check."""
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
