"""Taking the records out of a journal, and making the folder of another run from them.

Nothing else of a foreign file comes along: no view, no macro, no left-over page.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import duckdb

from durable_nb.journal.archive import sync_folder
from durable_nb.journal.database import connect
from durable_nb.journal.head import Head, HeadState
from durable_nb.journal.landing import LANDING, append_rows, transaction
from durable_nb.journal.pins import seal, unsealed
from durable_nb.journal.rows import (
    START,
    BadRow,
    Row,
    chain_all,
    micros,
    pack_body,
    pack_op,
    records_of,
)
from durable_nb.journal.sql import queries
from durable_nb.journal.tables import check_version, open_tables, read_rows, tables_in
from durable_nb.model.errors import JournalDamaged
from durable_nb.model.records import Draft, Record


def foreign_rows(path: Path, run: str) -> list[Row]:
    """Read the rows of a file that somebody else may have made.

    Raises
    ------
    JournalDamaged
        It is not a journal that this package wrote.
    JournalTooNew
        A newer version wrote it.
    """
    try:
        with contextlib.closing(connect(path)) as con:
            con.execute(queries("journal")["look_only"])
            tables = tables_in(con)
            if tables - {LANDING} != {"meta", "records"}:  # version 1 has not got that one
                raise BadRow(f"its tables are {', '.join(sorted(tables)) or 'none'}.")
            check_version(con, run)
            rows = read_rows(con)
            records_of(rows)
            return rows
    except (duckdb.Error, BadRow, TypeError, ValueError, AttributeError) as error:
        raise JournalDamaged(run, str(error), "Export the run again.") from error


def plant(path: Path, head: Path, rows: Sequence[Row], end: HeadState, run: str) -> None:
    """Make a journal of these rows, and its head; both are on disk when this returns."""
    found = open_tables(path, run)
    with contextlib.closing(found.con) as con:
        with transaction(con):
            append_rows(con, rows)
        con.execute(queries("journal")["checkpoint"])
    with path.open("rb") as file:
        os.fsync(file.fileno())
    written = Head(head)
    written.write(end)
    written.sync()
    written.close()


def renumbered(records: Iterable[Record]) -> list[Row]:
    """Give the rows of records that were chosen from another journal: `seq` has no gaps again.

    A pin among them says the running digest of what is before it here, and not there: else each
    opening would read all that it has retired.
    """
    rows = [
        Row(
            seq,
            pack_op(record.op),
            record.kind.value,
            micros(record.ts),
            record.epoch,
            pack_body(Draft(record.op, record.kind, unsealed(record))),
        )
        for seq, record in enumerate(records, start=1)
    ]
    seal([rows], START, ())
    return rows


def end_of_rows(rows: Sequence[Row]) -> HeadState:
    """Give the place of the last row, and the running digest over all."""
    return HeadState(len(rows), chain_all(START, rows))


@contextlib.contextmanager
def built_aside(target: Path, prefix: str, refuse_taken: Callable[[], None]) -> Iterator[Path]:
    """Give a folder of no run's name to build one in; whole and on the disk, it gets its name.

    Parameters
    ----------
    target : Path
        What it is called in the end.
    prefix : str
        Of its name until then; it begins with a dot, so that it counts as no run.
    refuse_taken : callable
        Raises where the name is taken: nothing is ever replaced.
    """
    refuse_taken()
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))  # mode 0700
    try:
        yield part
        _bring_to_disk(part)
        refuse_taken()
        try:
            os.rename(part, target)
        except OSError:
            refuse_taken()  # somebody was faster
            raise
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(target.parent)


def _bring_to_disk(folder: Path) -> None:
    """Make all of a folder private and durable."""
    for root, _, files in os.walk(folder):
        os.chmod(root, 0o700)
        for name in files:
            path = Path(root) / name
            path.chmod(0o600)
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))
