"""Opening the journal of a run: read and checked, compared with its head, recovered if damaged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from durable_nb.journal.damage import Recovery, copy_aside, is_unborn, recover, refuse_foreign
from durable_nb.journal.duckdb_journal import DuckDBJournal
from durable_nb.journal.head import Head, HeadState
from durable_nb.journal.rows import START, BadRow
from durable_nb.journal.tables import count_records, open_tables


def _now() -> datetime:
    return datetime.now(UTC)


def open_journal(
    path: Path,
    *,
    run: str,
    epoch: int | None = None,
    head: Head | None = None,
    clock: Callable[[], datetime] = _now,
    whole: bool = True,
) -> DuckDBJournal:
    """Open the journal of a run, or make it. Only under the run's lease.

    Parameters
    ----------
    path : Path
        The database file.
    run : str
        Name of the run, for messages.
    epoch : int, optional
        Fencing token of this owner. None, or one below the last on record, becomes the last on
        record plus one.
    head : Head, optional
        What the file is compared with; without it a loss cannot be noticed.
    clock : callable
        Gives the aware time of a record.
    whole : bool
        Read and check every record. Otherwise what pins have retired is left out, as long as the
        rest agrees with the head.

    Raises
    ------
    JournalTooNew
        If a newer version wrote it; nothing was changed.
    JournalDamaged
        If it cannot be read and no committed prefix can be recovered.
    RunHeld
        If another process has the file open.
    """
    recovery: Recovery | None = None
    existed = path.exists()
    if head is not None and not existed and head.read() is None:
        head.write(HeadState(0, START))
        head.sync()
    state = None if head is None else head.read()
    if state is not None and state.seq == 0 and is_unborn(path):
        path.unlink()
    try:
        found = open_tables(path, run, state, whole=whole)
    except (duckdb.Error, BadRow) as error:
        refuse_foreign(run, path, error)
        recovery = recover(path, run, str(error), count_records)
        found = open_tables(path, run, state)
    journal = DuckDBJournal(
        path, found, run=run, epoch=epoch, head=head, existed=existed, clock=clock
    )
    if journal.lost is not None and recovery is None:
        # The next write would overwrite what may be left in the write-ahead file: copy it first,
        # and let go before copying, because closing any descriptor drops DuckDB's lock.
        found.con.close()
        recovery = copy_aside(path, str(journal.lost))
        journal.reconnect()
    journal.recovered = recovery
    return journal
