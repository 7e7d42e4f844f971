"""Looking at a run without changing a byte of its folder.

Opening a DuckDB file replays its write-ahead file, and taking a lease writes `owner.json`. So a
look locks what is there to lock, and reads a private copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from durable_nb.journal.damage import Recovery, copy_files
from durable_nb.journal.database import connect
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.head import Head, HeadState, Loss
from durable_nb.journal.interrupts import deferred_interrupts
from durable_nb.journal.lease import held_by
from durable_nb.journal.opening import open_journal
from durable_nb.journal.owner import LOCK_FILE, OwnerInfo, processes_with
from durable_nb.journal.tables import read_rows
from durable_nb.journal.transplant import end_of_rows
from durable_nb.model.errors import RunHeld
from durable_nb.model.records import Record

#: Seconds to go on trying for the lock, as `Lease.acquire` does.
_WAIT_S: Final = 1.0
_RETRY_S: Final = 0.05


@contextlib.contextmanager
def kept_out(folder: Path, run: str, *, create: bool = False) -> Iterator[None]:
    """Keep other owners out of a run, writing nothing: not even who does so.

    Parameters
    ----------
    folder : Path
        The run's folder.
    run : str
        Its name, for messages.
    create : bool
        Make the lock file where there is none (a copy that was never opened). Otherwise nobody
        can be kept out of such a folder.

    Raises
    ------
    RunHeld
        Somebody has the run, or has its journal open without the lease.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    fd = _locked(folder / LOCK_FILE, flags)
    if fd is None:
        raise held_by(run, folder, OwnerInfo.load(folder))
    try:
        if others := [p for p in processes_with(folder / JOURNAL_FILE) if p != os.getpid()]:
            raise RunHeld(
                run,
                f"process {others[0]}, which has {JOURNAL_FILE} open outside the lease",
                "Close that program (a DuckDB shell?) first.",
            )
        yield
    finally:
        if fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)  # a fork child may have the descriptor as well
            os.close(fd)


def _locked(path: Path, flags: int) -> int | None:
    """Lock a file; -1 if there is none, and None if somebody else has it."""
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:  # missing, or a link, which is named among the rights
        return -1
    limit = time.monotonic() + _WAIT_S
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() >= limit:
                    break
            time.sleep(_RETRY_S)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


@dataclass(frozen=True, slots=True)
class Looked:
    """What a private copy of a journal holds.

    Attributes
    ----------
    path : Path
        The copy: one database file, whole on its own.
    records : tuple of Record
        The committed prefix.
    end : HeadState
        The last record and the running digest over all.
    lost : Loss or None
        What the head knows and the journal does not.
    recovered : Recovery or None
        What was wrong with the file itself, and how many records are left.
    """

    path: Path
    records: tuple[Record, ...]
    end: HeadState
    lost: Loss | None
    recovered: Recovery | None


def look(folder: Path, scratch: Path, run: str) -> Looked:
    """Copy the journal of a run that nobody writes to, and read the copy.

    Parameters
    ----------
    folder : Path
        The run's folder.
    scratch : Path
        A private folder, for the copy.
    run : str
        For messages.

    Raises
    ------
    JournalDamaged
        Nothing of the journal can be read.
    JournalTooNew
        A newer version wrote it.
    RunHeld
        It was written to while it was copied.
    """
    before = _stamps(folder)
    copy_files(folder / JOURNAL_FILE, scratch)
    if _stamps(folder) != before:
        raise RunHeld(run, "a process that opened it this moment", "Try again.")
    copy = scratch / JOURNAL_FILE
    head = Head(scratch / HEAD_FILE)
    with deferred_interrupts():  # an interrupted query raises anything but KeyboardInterrupt
        try:
            journal = open_journal(copy, run=run, head=head)
            lost, recovered, records = journal.lost, journal.recovered, journal.load()
            journal.close()
        finally:
            head.close()
        return Looked(copy, tuple(records), end_of(copy), lost, recovered)


def end_of(path: Path) -> HeadState:
    """Give the last record and the running digest of a copy that nobody has open."""
    with contextlib.closing(connect(path)) as con:
        return end_of_rows(read_rows(con))


def _stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Give what changes when a journal is written to."""
    found = {}
    for path in (*folder.glob(f"{JOURNAL_FILE}*"), folder / HEAD_FILE):
        with contextlib.suppress(OSError):
            seen = path.lstat()
            found[path.name] = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return found
