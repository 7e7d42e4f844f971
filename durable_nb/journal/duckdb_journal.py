"""The journal of one run in one DuckDB file."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import duckdb

from durable_nb.journal.damage import Recovery
from durable_nb.journal.database import connect
from durable_nb.journal.group import Group, Packed, Ticket
from durable_nb.journal.head import Head, HeadState, Loss
from durable_nb.journal.interrupts import deferred_interrupts
from durable_nb.journal.landing import Landing
from durable_nb.journal.pins import Loaded, seal
from durable_nb.journal.process import THIS
from durable_nb.journal.rows import (
    START,
    BadRow,
    Row,
    answers,
    chain_all,
    micros,
    pack_body,
    pack_op,
    records_of,
)
from durable_nb.journal.tables import Found, read_rows, rows_between
from durable_nb.model.errors import (
    JournalDamaged,
    JournalUnwritable,
    RunClosed,
    RunHeld,
)
from durable_nb.model.records import Draft, Record

#: Seconds that a lazy record may wait for a commit to ride with.
LAZY_LIMIT: Final = 1.0

#: Records, and bytes, in the write-ahead file from which a pin moves it into the database file. An
#: opening after a kill replays it, at about 0.1 ms a commit.
WAL_ROWS: Final = 256
WAL_BYTES: Final = 1 << 20

_REOPEN: Final = "Close the run and open it again: opening sets a damaged file aside."


class DuckDBJournal:
    """The append-only records of one run; made by `open_journal`.

    Attributes
    ----------
    lost : Loss or None
        Acknowledged records that are not in the file, found on opening.
    recovered : Recovery or None
        What was set aside on opening because the file was damaged.
    trouble : str
        The last failure that cost no record: the head or a checkpoint could not be written.
    """

    def __init__(
        self,
        path: Path,
        landing: Landing,
        last: Row | None,
        *,
        run: str,
        epoch: int | None,
        head: Head | None,
        clock: Callable[[], datetime],
    ) -> None:
        self.path, self.run = path, run
        self.lost: Loss | None = None
        self.recovered: Recovery | None = None
        self.trouble = ""
        self._landing, self._head, self._clock = landing, head, clock
        self._pid = THIS.pid
        self._durable, self._digest = last.seq if last else 0, START
        self._checkpointed = 0
        self._loaded: Loaded | None = None
        self._pending: list[Row] = []  # lazy ones: their seq is given out, so it is never reused
        self._unsure: list[Row] | None = None  # may or may not be on disk; nobody was told it is
        self._broken = ""
        self._closed = self._committing = False
        self._failure: BaseException | None = None
        self._io = threading.RLock()
        self._wake = threading.Condition()
        self._due: float | None = None
        self._timer: threading.Thread | None = None
        self._group = Group(self._commit, self._unwritable)
        last_epoch = last.epoch if last else 0
        self.epoch = last_epoch + 1 if epoch is None or epoch < last_epoch else epoch

    @property
    def last_seq(self) -> int:
        """The last place given out, lazy records included."""
        return self._durable + len(self._pending)

    @property
    def durable_seq(self) -> int:
        """The last record that is on disk."""
        return self._durable

    # -- the public calls ---------------------------------------------------------------------

    def load(self) -> list[Record]:
        """Give every record, in order, with `seq` 1..n and epochs that never fall.

        Raises
        ------
        JournalDamaged
            If the chain has a gap, or a body is not one that this package wrote.
        """
        self._check_process()
        self.flush()
        with self._io:
            loaded, self._loaded = self._loaded, None
            if loaded is not None and len(loaded.records) == self._durable:
                return loaded.records  # read on opening: the first load costs nothing more
            try:
                rows = read_rows(self._landing.con)
                return records_of(rows)
            except (BadRow, duckdb.Error) as error:
                raise JournalDamaged(self.run, str(error), _REOPEN) from error

    def resume(self) -> Loaded:
        """Give what was read on opening, once: the whole, or all that no pin has retired."""
        with self._io:
            loaded, self._loaded = self._loaded, None
        return loaded or Loaded(self.load())

    def read(self, first: int, last: int) -> list[Record]:
        """Read records again that were left out on opening; `RunClosed` once that is let go of."""
        self._check_process()
        with deferred_interrupts(), self._io:
            if self._closed:
                raise RunClosed(self.run)
            try:
                return records_of(rows_between(self._landing.con, first, last))
            except (BadRow, duckdb.Error) as error:
                raise JournalDamaged(self.run, str(error), _REOPEN) from error

    def append(self, drafts: Sequence[Draft], *, lazy: bool = False) -> list[Record]:
        """Add records in one transaction; order of calls is order of `seq`.

        Parameters
        ----------
        drafts : sequence of Draft
            They are committed all or none.
        lazy : bool
            Their places are given at once; they ride with the next commit, at the latest after
            1 s. Otherwise they are durable, and the head is written, when this returns.

        Returns
        -------
        list of Record

        Raises
        ------
        JournalUnwritable
            If they could not be written: none of them is on record, and their places are free.
        RunHeld
            In a forked child: the parent has the run.
        """
        self._check_process()
        packed = [(pack_op(draft.op), draft.kind.value, pack_body(draft)) for draft in drafts]
        if not packed:
            return []
        with deferred_interrupts():
            if lazy:
                with self._io:
                    if self._may_wait():
                        return self._keep(packed, drafts)
            return self._group.submit(Ticket(packed, drafts))

    def flush(self) -> None:
        """Make every lazy record durable."""
        self._check_process()
        with deferred_interrupts():
            self._group.submit(Ticket())

    def checkpoint(self) -> None:
        """Move the write-ahead file into the database file, which is then whole on its own."""
        self.flush()
        with deferred_interrupts(), self._io:
            self._gather()

    def tidy(self) -> None:
        """Checkpoint if the write-ahead file is large: an opening after a kill replays it."""
        try:
            size = os.stat(f"{self.path}.wal").st_size  # a stat opens nothing
        except OSError:
            return
        if size > WAL_BYTES or self._durable - self._checkpointed > WAL_ROWS:
            self.checkpoint()

    def close(self) -> None:
        """Flush, checkpoint (so that a copy of the one file is whole), and let go of the file."""
        self._check_process()
        if self._closed:
            return
        with deferred_interrupts():
            try:
                self._group.submit(Ticket())
            finally:
                self._shut()

    # -- committing: only the leader of a group comes here -------------------------------------

    def _commit(self, batch: list[Ticket]) -> None:
        """Commit a batch together with the lazy records, and answer its tickets."""
        with self._io:
            if self._closed:
                raise RunClosed(self.run)
            if self._broken:
                raise JournalUnwritable(self.run, self._broken)
            failure, self._failure = self._failure, None
            if failure is not None and not isinstance(failure, JournalUnwritable):
                raise failure
            self._settle_unsure()
            now, seq = self._clock(), self.last_seq
            shares: list[list[Row]] = []
            for ticket in batch:
                shares.append(self._rows(ticket.packed, seq, now))
                seq += len(ticket.packed)
            seal(shares, self._digest, self._pending)
            self._committing = True
            try:
                self._write([*self._pending, *(row for share in shares for row in share)])
            finally:
                self._committing = False
            for ticket, share in zip(batch, shares, strict=True):
                ticket.records = answers(share, ticket.drafts, now)
            if self._landing.is_full:
                self._gather()

    def _rows(self, packed: Sequence[Packed], seq: int, now: datetime) -> list[Row]:
        """Give the rows that come after `seq`."""
        ts, epoch = micros(now), self.epoch
        return [
            Row(place, op, kind, ts, epoch, body)
            for place, (op, kind, body) in enumerate(packed, start=seq + 1)
        ]

    def _write(self, rows: list[Row]) -> None:
        """Bring rows to the disk and move the head; all or nothing."""
        if not rows:
            return
        digest = chain_all(self._digest, rows)
        try:
            self._insert(rows)
        except BaseException as error:
            # An interrupted or failed commit may be committed all the same: look.
            if not self._landed(rows, error):
                raise self._unwritable(error) from error
            if not isinstance(error, duckdb.Error):
                self._acknowledge(rows, digest)
                raise
        self._acknowledge(rows, digest)

    def _acknowledge(self, rows: list[Row], digest: bytes) -> None:
        """Count rows as written, and say so in the head before any caller hears of it."""
        self._durable, self._digest = rows[-1].seq, digest
        self._pending.clear()
        self._due = None
        if self._head is not None:
            try:
                self._head.write(HeadState(self._durable, digest))
            except OSError as error:
                # The record is durable; only the proof of a later loss is weaker.
                self.trouble = f"the head of run {self.run!r} could not be written: {error}"

    def _insert(self, rows: list[Row]) -> None:
        """Write rows in one transaction."""
        self._landing.commit(rows)

    def _gather(self) -> None:
        """Move what has landed to the table of records, and the write-ahead file to the database.

        All of it is on disk before, and stays where it is if this fails.
        """
        try:
            self._landing.clear()
            self._checkpointed = self._durable
        except (duckdb.Error, BadRow) as error:
            self.trouble = f"run {self.run!r} went on without a checkpoint: {error}"
            with contextlib.suppress(duckdb.Error, BadRow):
                self._tail()  # which leaves a connection that can be used

    def _landed(self, rows: list[Row], error: BaseException) -> bool:
        """Read the tail again after a failed commit, and tell whether the batch is there."""
        try:
            tail = self._tail()
        except duckdb.Error as unreadable:
            self._unsure = rows
            cause = f"{error} ({unreadable}; what became of it is looked up at the next write.)"
            raise JournalUnwritable(self.run, cause) from error
        if tail and tail != rows:
            self._broken = "it holds records that this kernel did not write. Reopen the run."
            raise JournalUnwritable(self.run, self._broken) from error
        return bool(tail)

    def _tail(self) -> list[Row]:
        """Read what lies after the last acknowledged record, over a new connection if need be."""
        con = self._landing.con
        try:
            with contextlib.suppress(duckdb.TransactionException):  # none was open
                con.execute("ROLLBACK")
            return self._landing.tail(self._durable)
        except duckdb.Error:
            con.close()  # "database has been invalidated": only a new connection helps
            self.reconnect()
            return self._landing.tail(self._durable)

    def reconnect(self) -> None:
        """Go on over a new connection; the one before is closed."""
        self._landing = Landing(connect(self.path))

    def _settle_unsure(self) -> None:
        """Find out what became of a batch whose outcome could not be read at once."""
        if self._unsure is None:
            return
        try:
            tail = self._tail()
        except duckdb.Error as error:
            raise self._unwritable(error) from error
        self._unsure = None
        if tail:
            self._broken = (
                "a batch that was reported as not written is in the file after all. "
                "Close the run and open it again to see it."
            )
            raise JournalUnwritable(self.run, self._broken)

    def _unwritable(self, error: BaseException) -> BaseException:
        """Make the error of one caller; each thread gets an exception of its own."""
        if isinstance(error, JournalUnwritable):
            made = JournalUnwritable(self.run, error.cause)
        elif isinstance(error, (RunClosed, RunHeld)):
            return type(error)(*error.args)
        else:
            made = JournalUnwritable(self.run, str(error) or type(error).__name__)
        made.__cause__ = error
        return made

    def _check_process(self) -> None:
        """Refuse in a forked child: two processes on one connection lose records."""
        if THIS.pid != self._pid:
            raise RunHeld(
                self.run,
                f"process {self._pid}, of which this process is a fork",
                "Let the parent record, or start the child with the spawn method.",
            )

    # -- lazy records --------------------------------------------------------------------------

    def _may_wait(self) -> bool:
        """Tell whether nothing has failed: else a lazy caller commits, and heals it or is told.

        Nor may it inside of a commit of this very thread, where a signal handler calls.
        """
        return not (
            self._committing
            or self._closed
            or self._broken
            or self._failure is not None
            or self._unsure is not None
        )

    def _keep(self, packed: Sequence[Packed], drafts: Sequence[Draft]) -> list[Record]:
        """Give places to records that ride with the next commit."""
        now = self._clock()
        rows = self._rows(packed, self.last_seq, now)
        seal([rows], self._digest, self._pending)
        self._pending.extend(rows)
        self._arm()
        return answers(rows, drafts, now)

    def _arm(self) -> None:
        """See to it that lazy records are committed in time."""
        with self._wake:
            if self._due is None:
                self._due = time.monotonic() + LAZY_LIMIT
            if self._timer is None:
                self._timer = threading.Thread(
                    target=self._tick, name=f"durable_nb lazy {self.run}", daemon=True
                )
                self._timer.start()
            # It looks in time by itself: to wake it for each record would cost more than the record

    def _tick(self) -> None:
        """Flush when lazy records are due; a failure is kept for the next caller."""
        while True:
            with self._wake:
                if self._closed:
                    return
                now = time.monotonic()
                if self._due is None or self._due > now:
                    self._wake.wait(LAZY_LIMIT if self._due is None else self._due - now)
                    continue
                self._due = None
            try:
                self._group.submit(Ticket())
            except RunClosed:
                return
            except BaseException as error:
                self._failure = error

    def _shut(self) -> None:
        """Checkpoint and let go, whatever the flush said."""
        with self._io:
            self._closed = True
            self._gather()
            self._landing.con.close()
        with self._wake:
            self._wake.notify_all()
        if self._timer is not None and self._timer is not threading.current_thread():
            self._timer.join(timeout=LAZY_LIMIT)

    # -- opening -------------------------------------------------------------------------------

    def take(self, found: Found, *, existed: bool) -> None:
        """Compare the file with the head, and keep what was read for the first `load`.

        The head was there before the file: one without a head, even an empty one, is in doubt.
        """
        state = self._head.read() if self._head is not None else None
        self._digest = found.digest
        self._loaded = Loaded(found.records, found.retired_seqs, found.unfolded)
        if self._head is None:
            return
        if state is None:
            if existed:
                self.lost = Loss(0, self._durable, "headless")
        elif state.seq > self._durable:
            self.lost = Loss(state.seq, self._durable, "missing")
        elif state.digest != found.at_head:
            self.lost = Loss(state.seq, self._durable, "diverged")
