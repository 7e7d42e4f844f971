"""Opening the journal of a run in PostgreSQL: read and checked under its lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from durable_nb.journal.loading import FEW, Sorting
from durable_nb.journal.pins import Loaded
from durable_nb.journal.postgres.lease import PostgresLease
from durable_nb.journal.postgres.patience import PATIENCE_S
from durable_nb.journal.postgres.server import Server
from durable_nb.journal.postgres.sessions import Session
from durable_nb.journal.postgres.storage import PostgresStorage
from durable_nb.journal.records_journal import RecordsJournal
from durable_nb.journal.rows import START, BadRow, RawRow, Row, chain_all, records_of
from durable_nb.model.errors import JournalDamaged, RunMissing
from durable_nb.model.records import Record


def _now() -> datetime:
    return datetime.now(UTC)


def open_postgres_journal(
    lease: PostgresLease,
    *,
    clock: Callable[[], datetime] = _now,
    whole: bool = True,
    patience_s: float = PATIENCE_S,
) -> RecordsJournal:
    """Open the journal of a run whose lease this process holds.

    Parameters
    ----------
    lease : PostgresLease
        Its epoch is the journal's.
    clock : callable
        Gives the aware time of a record.
    whole : bool
        Make every record. Otherwise those of a long run that can wait are left out, and read again
        by `RecordsJournal.read`. All rows are read and checked in either case.
    patience_s : float
        Seconds to go on trying once the server is gone; an interrupt ends that.

    Raises
    ------
    JournalDamaged
        If rows are missing or were changed; nothing was changed now.
    StoreUnreachable
        If the server cannot be reached.
    """
    storage = PostgresStorage(lease, patience_s)
    try:
        loaded, last, digest = _load(storage, whole=whole)
        if last is not None and last.epoch > lease.epoch:
            raise BadRow(f"record {last.seq} has epoch {last.epoch}, and its lease {lease.epoch}.")
    except BadRow as error:
        storage.close()
        raise JournalDamaged(lease.run, str(error), storage.repair) from error
    except BaseException:
        storage.close()
        raise
    return RecordsJournal(
        storage,
        last,
        run=lease.run,
        epoch=lease.epoch,
        clock=clock,
        digest=digest,
        loaded=loaded,
    )


def read_records(server: Server, run: str, first: int, last: int) -> list[Record]:
    """Read neighbours of a run that this process does not hold, and change nothing."""
    session = Session(server, f"look {run}")
    try:
        found = session.run("run_of", {"name": run}).fetchone()
        if found is None:
            raise RunMissing(run, server.place)
        given = {"run": found[0], "first": first, "last": last}
        return records_of(session.run("rows_between", given, binary=True).fetchall())
    finally:
        session.drop()


def _load(storage: PostgresStorage, *, whole: bool) -> tuple[Loaded, Row | None, bytes]:
    """Read and check all rows; of a long run most records need not be made."""
    long = not whole and storage.extent() > FEW and not storage.has_pins()
    sorting, digest = Sorting(), START
    last: RawRow | None = None
    for rows in storage.parts():
        digest = chain_all(digest, rows)
        (sorting.take if long else sorting.fold)(rows)
        last = rows[-1]
    rows, unfolded = sorting.sorted(storage.at)
    loaded = Loaded(records_of(rows), unfolded=unfolded if long else None)
    return loaded, None if last is None else Row(*last), digest
