"""The journal of one run: places, batches, lazy records and what failures mean, over a storage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from durable_nb.journal.damage import Recovery
from durable_nb.journal.group import Group, Packed, Ticket
from durable_nb.journal.head import Loss
from durable_nb.journal.interrupts import deferred_interrupts
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
from durable_nb.journal.storage import Foreign, Storage
from durable_nb.model.errors import (
    JournalDamaged,
    JournalUnwritable,
    RunClosed,
    RunHeld,
    StaleOwner,
)
from durable_nb.model.records import Draft, Record

#: Seconds that a lazy record may wait for a commit to ride with.
LAZY_LIMIT: Final = 1.0

#: What is said once a batch turns up of which nobody could tell what had become of it.
LATE: Final = (
    "a batch that was reported as not written is on record after all. "
    "Close the run and open it again to see it."
)


class RecordsJournal:
    """The append-only records of one run, in whatever storage.

    Parameters
    ----------
    storage : Storage
        Where rows are committed.
    last : Row or None
        The last row there.
    run : str
        Name of the run, for messages.
    epoch : int or None
        Fencing token; None, or one below the last on record, becomes the last on record plus one.
    clock : callable
        Gives the aware time of a record.
    digest : bytes
        The running digest after the last row.
    loaded : Loaded, optional
        What was read on opening.

    Attributes
    ----------
    lost : Loss or None
        Acknowledged records that are not in the file, found on opening.
    recovered : Recovery or None
        What was set aside on opening because the file was damaged.
    """

    def __init__(
        self,
        storage: Storage,
        last: Row | None,
        *,
        run: str,
        epoch: int | None,
        clock: Callable[[], datetime],
        digest: bytes = START,
        loaded: Loaded | None = None,
    ) -> None:
        self.run = run
        self.lost: Loss | None = None
        self.recovered: Recovery | None = None
        self._storage, self._clock = storage, clock
        self._damage: tuple[type[Exception], ...] = (BadRow, *storage.damage)
        self._pid = THIS.pid
        self._durable, self._digest = last.seq if last else 0, digest
        self._loaded = loaded
        self._pending: list[Row] = []  # lazy ones: their seq is given out, so it is never reused
        self._unsure: list[Row] | None = None  # may or may not be on disk; nobody was told it is
        self._broken = ""
        self._stale: StaleOwner | None = None
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
    def trouble(self) -> str:
        """The last failure that cost no record, such as a checkpoint that could not be made."""
        return self._storage.trouble

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
                return records_of(self._storage.all_rows())
            except self._damage as error:
                raise JournalDamaged(self.run, str(error), self._storage.repair) from error

    def resume(self) -> Loaded:
        """Give what was read on opening, once: the whole, or all that no pin has retired."""
        with self._io:
            loaded, self._loaded = self._loaded, None
        return loaded or Loaded(self.load())

    def read(self, first: int, last: int) -> list[Record]:
        """Read neighbours again, of those on disk; `RunClosed` once the file is let go of."""
        self._check_process()
        with deferred_interrupts(), self._io:
            if self._closed:
                raise RunClosed(self.run)
            try:
                return records_of(self._storage.between(first, last))
            except self._damage as error:
                raise JournalDamaged(self.run, str(error), self._storage.repair) from error

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
        StaleOwner
            If another owner has taken the run over; this journal writes nothing more.
        """
        self._check_process()
        packed = [(pack_op(draft.op), str(draft.kind), pack_body(draft)) for draft in drafts]
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
        """Bring all that is on record into its final place: a file is then whole on its own."""
        self.flush()
        with deferred_interrupts(), self._io:
            self._storage.gather(self._durable)

    def tidy(self) -> None:
        """Checkpoint if that makes the next opening quicker."""
        if self._storage.is_due(self._durable):
            self.checkpoint()

    def close(self) -> None:
        """Flush, checkpoint (so that a copy of a file is whole), and let go of the storage."""
        self._check_process()
        if self._closed:
            return
        with deferred_interrupts():
            try:
                if self._stale is None:  # else nothing can be written any more, and was told
                    self._group.submit(Ticket())
            finally:
                self._shut()

    # -- committing: only the leader of a group comes here -------------------------------------

    def _commit(self, batch: list[Ticket]) -> None:
        """Commit a batch together with the lazy records, and answer its tickets."""
        with self._io:
            if self._closed:
                raise RunClosed(self.run)
            if self._stale is not None:
                raise StaleOwner(*self._stale.args)
            if self._broken:
                raise self._refused(self._broken)
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
            except StaleOwner as error:
                self._stale = error
                raise
            finally:
                self._committing = False
            for ticket, share in zip(batch, shares, strict=True):
                ticket.records = answers(share, ticket.drafts, now)
            if self._storage.is_full:
                self._storage.gather(self._durable)

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
            self._storage.commit(rows, self._digest)
        except StaleOwner:
            raise
        except BaseException as error:
            if not self._landed(rows, error):
                raise self._unwritable(error) from error
            if not isinstance(error, self._storage.failures):
                self._acknowledge(rows, digest)
                raise
        self._acknowledge(rows, digest)

    def _acknowledge(self, rows: list[Row], digest: bytes) -> None:
        """Count rows as written, and say so to the storage before any caller hears of it."""
        self._durable, self._digest = rows[-1].seq, digest
        self._pending.clear()
        self._due = None
        self._storage.acknowledge(self._durable, digest)

    def _landed(self, rows: list[Row], error: BaseException) -> bool:
        """Find out after a failed commit whether the batch is on record all the same."""
        try:
            return self._storage.landed(rows, self._digest, error)
        except Foreign as other:
            self._broken = str(other)
            raise self._refused(self._broken) from error
        except self._storage.failures as unreadable:
            self._unsure = rows
            also = "" if unreadable is error else f"{unreadable}; "
            cause = f"{error} ({also}what became of it is looked up at the next write.)"
            raise self._refused(cause) from error

    def _settle_unsure(self) -> None:
        """Find out what became of a batch whose outcome could not be read at once."""
        if self._unsure is None:
            return
        try:
            longer = self._storage.is_longer(self._durable)
        except self._storage.failures as error:
            raise self._unwritable(error) from error
        self._unsure = None
        if longer:
            self._broken = LATE
            raise self._refused(self._broken)

    def _refused(self, cause: str) -> JournalUnwritable:
        """Make the error that says why nothing was written."""
        return JournalUnwritable(self.run, cause, self._storage.advice)

    def _unwritable(self, error: BaseException) -> BaseException:
        """Make the error of one caller; each thread gets an exception of its own."""
        if isinstance(error, JournalUnwritable):
            made = self._refused(error.cause)
        elif isinstance(error, (RunClosed, RunHeld, StaleOwner)):
            return type(error)(*error.args)
        else:
            made = self._refused(str(error) or type(error).__name__)
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
            or self._stale is not None
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
        if self._due is not None:  # whoever takes that away commits these as well
            return
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
            self._storage.gather(self._durable)
            self._storage.close()
        with self._wake:
            self._wake.notify_all()
        if self._timer is not None and self._timer is not threading.current_thread():
            self._timer.join(timeout=LAZY_LIMIT)
