"""Taking the records out of a foreign journal file, and putting them into one of our own.

Nothing else of the foreign file comes along: no view, no macro, no left-over page.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import duckdb

from durable_nb.journal.database import connect
from durable_nb.journal.head import Head, HeadState
from durable_nb.journal.rows import BadRow, Row, records_of
from durable_nb.journal.sql import queries
from durable_nb.journal.tables import open_tables, read_rows
from durable_nb.model.errors import JournalDamaged, JournalTooNew
from durable_nb.model.records import SCHEMA_VERSION


def foreign_rows(path: Path, run: str) -> list[Row]:
    """Read the rows of a file that somebody else may have made.

    Raises
    ------
    JournalDamaged
        It is not a journal that this package wrote.
    JournalTooNew
        A newer version wrote it.
    """
    sql = queries("journal")
    try:
        with contextlib.closing(connect(path)) as con:
            con.execute(sql["look_only"])
            tables = {name for (name,) in con.execute(sql["tables"]).fetchall()}
            if tables != {"meta", "records"}:
                raise BadRow(f"its tables are {', '.join(sorted(tables)) or 'none'}.")
            (version,) = con.execute(sql["schema_version"]).fetchone() or (None,)
            if version is not None and version > SCHEMA_VERSION:
                raise JournalTooNew(run, version, SCHEMA_VERSION)
            rows = read_rows(con)
            records_of(rows)
            return rows
    except (duckdb.Error, BadRow, TypeError, ValueError, AttributeError) as error:
        raise JournalDamaged(run, str(error), "Export the run again.") from error


def plant(path: Path, head: Path, rows: Sequence[Row], end: HeadState, run: str) -> None:
    """Make a journal of these rows, and its head; both are on disk when this returns."""
    found = open_tables(path, run)
    with contextlib.closing(found.con) as con:
        con.execute("BEGIN")
        appender = con.appender("j.main.records")
        appender.append_rows(list(rows))
        appender.flush()
        con.execute("COMMIT")
        con.execute(queries("journal")["checkpoint"])
    with path.open("rb") as file:
        os.fsync(file.fileno())
    written = Head(head)
    written.write(end)
    written.sync()
    written.close()
