"""The rows of one run in PostgreSQL, appended under an epoch.

A batch whose answer was lost is sent again as it was: if it had been committed, its place is taken
by a row with the same running digest and epoch, which is the acknowledgement. A mere look would
decide nothing, because a statement that is still under way may commit after it.

There is no `head`: a database does not go back in time unobserved, as a file does that was copied
or lost. One that an administrator restores from a backup does, and nothing in here can tell: what
was done after the backup is then not on record, and whoever restores has to say so. Each row keeps
the running digest, so that rows that were changed, or removed before others, are noticed on
opening.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg

from durable_nb.journal.postgres.errors import StoreRefused, StoreUnreachable
from durable_nb.journal.postgres.lease import PostgresLease, whose
from durable_nb.journal.postgres.patience import Patient
from durable_nb.journal.records_journal import LATE
from durable_nb.journal.rows import START, BadRow, RawRow, Row, chain
from durable_nb.journal.storage import Foreign
from durable_nb.model.errors import StaleOwner

#: Rows that are read at a time.
_PART: Final = 2048


class PostgresStorage:
    """The storage of a journal in a database; see `Storage`.

    Parameters
    ----------
    lease : PostgresLease
        Under whose epoch rows are appended.
    patience_s : float
        Seconds to go on trying to reach the server.
    """

    failures: tuple[type[Exception], ...] = (psycopg.Error, StoreUnreachable, StoreRefused)
    damage: tuple[type[Exception], ...] = ()
    advice = "Once the database answers again, run the cell again."
    repair = "Nothing was changed. Restore the rows of this run from a backup."
    is_full = False

    def __init__(self, lease: PostgresLease, patience_s: float) -> None:
        self._lease = lease
        self._insisting = Patient(lease.server, f"records {lease.run}", patience_s)
        self._session = self._insisting.session

    @property
    def trouble(self) -> str:
        """What it waits for."""
        return self._insisting.trouble

    def commit(self, rows: Sequence[Row], before: bytes) -> None:
        """Append rows in one statement, which checks the epoch."""
        batch = _Batch(self._lease, rows, before)
        self._insisting(lambda: self._append(batch))

    def landed(self, rows: Sequence[Row], before: bytes, error: BaseException) -> bool:
        """Send the batch again, unless the server has said no."""
        if isinstance(error, (Foreign, StoreUnreachable)):
            raise error
        if isinstance(error, StoreRefused):
            return False
        self.commit(rows, before)
        return True

    def is_longer(self, seq: int) -> bool:
        """Tell nothing: the next batch has the same place, which only one of the two can get."""
        return False

    def acknowledge(self, seq: int, digest: bytes) -> None:
        """Note nothing: the digest is in the row."""

    def is_due(self, seq: int) -> bool:
        """Nothing is to be gathered."""
        return False

    def gather(self, seq: int) -> None:
        """Leave all where it is."""

    def all_rows(self) -> list[Row]:
        """Read all rows, in order, and check the chain."""
        return [Row._make(row) for part in self.parts() for row in part]

    def parts(self) -> Iterator[list[RawRow]]:
        """Read all rows, some at a time, and check place and running digest of each."""
        digest, place = START, 0
        while found := self._read("rows_after", after=place, most=_PART):
            rows: list[RawRow] = []
            for *row, kept in found:
                seq = row[0]
                if seq != place + 1:
                    raise BadRow(f"record {place + 1} is missing or doubled (found {seq} there).")
                digest = chain(digest, tuple(row))
                if digest != kept:
                    raise BadRow(f"record {seq} is not as it was written: its digest is another.")
                place = seq
                rows.append(tuple(row))
            yield rows

    def between(self, first: int, last: int) -> Sequence[RawRow]:
        """Read neighbours, in order."""
        return self._read("rows_between", first=first, last=last)

    def at(self, seqs: Sequence[int]) -> Sequence[RawRow]:
        """Read single rows, in no order."""
        return self._read("rows_at", seqs=list(seqs))

    def has_pins(self) -> bool:
        """Tell whether a pin is among the records."""
        return bool(self._read("has_pins")[0][0])

    def extent(self) -> int:
        """Give the place of the last record."""
        return int(self._read("extent")[0][0])

    def close(self) -> None:
        """Let go of the connection."""
        self._session.drop()

    def _append(self, batch: _Batch) -> None:
        """Send the batch once, and take a row of its own in its place for the answer."""
        again, batch.sent = batch.sent, True
        try:
            done = self._session.run("append", batch.given).rowcount
        except psycopg.errors.UniqueViolation:
            self._compare(batch)
            return
        if done != batch.size:
            why = whose(self._session, self._lease.run, self._lease.epoch)
            late = " What it had sent before may be on record." if again else ""
            raise StaleOwner(self._lease.run, why + late)

    def _compare(self, batch: _Batch) -> None:
        """Tell whether what stands in the place of a batch is that batch."""
        given = {"run": self._lease.key, "seq": batch.last.seq}
        found = self._session.run("written", given, binary=True).fetchone()
        if found is not None and (found[0], bytes(found[1])) == (batch.last.epoch, batch.digest):
            return
        first = {"run": self._lease.key, "seq": batch.first_seq}
        there = self._session.run("written", first, binary=True).fetchone()
        if there is not None and there[0] == batch.last.epoch:
            raise Foreign(LATE)  # this owner's own: an earlier one, of unknown fate
        why = whose(self._session, self._lease.run, self._lease.epoch)
        raise StaleOwner(self._lease.run, why)

    def _read(self, name: str, **given: Any) -> list[Any]:
        """Read rows; raises `StoreUnreachable`."""
        given["run"] = self._lease.key
        return self._insisting(lambda: self._session.run(name, given, binary=True).fetchall())


class _Batch:
    """A batch as it is sent, each time the same."""

    __slots__ = ("digest", "first_seq", "given", "last", "sent", "size")

    def __init__(self, lease: PostgresLease, rows: Sequence[Row], before: bytes) -> None:
        digests = []
        for row in rows:
            before = chain(before, row)
            digests.append(before)
        seqs, ops, kinds, tss, epochs, bodies = map(list, zip(*rows, strict=True))
        self.size, self.first_seq, self.last, self.digest = len(rows), rows[0].seq, rows[-1], before
        self.sent = False
        self.given = {
            "run": lease.key,
            "epoch": lease.epoch,
            "seqs": seqs,
            "ops": ops,
            "kinds": kinds,
            "tss": tss,
            "epochs": epochs,
            "bodies": bodies,
            "digests": digests,
        }
