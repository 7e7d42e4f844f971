"""The lease: the right to append to a run, as a lock that the system drops with its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from durable_nb.journal.head import Head
from durable_nb.journal.heartbeat import HEARTBEAT, Heartbeat
from durable_nb.journal.owner import (
    LOCK_FILE,
    Life,
    OwnerInfo,
    describe,
    life_of,
    only_look,
    parent_of,
    processes_with,
)
from durable_nb.model.errors import JournalUnwritable, RunHeld

_RETRY: Final = 0.05

_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _now() -> datetime:
    return datetime.now(UTC)


class Lease:
    """The lease of one run; made by `Lease.acquire`.

    Attributes
    ----------
    folder : Path
        The run's folder.
    info : OwnerInfo
        What `owner.json` says of this owner.
    previous : OwnerInfo or None
        The owner before, as it left its file.
    trouble : str
        The last failure of the heartbeat; it raises to nobody.
    """

    def __init__(
        self,
        folder: Path,
        fd: int,
        *,
        run: str,
        info: OwnerInfo,
        previous: OwnerInfo | None,
        clock: Callable[[], datetime],
    ) -> None:
        self.folder, self.run, self.info, self.previous = folder, run, info, previous
        self.trouble = ""
        self._fd, self._pid, self._clock = fd, os.getpid(), clock
        self._lock = threading.RLock()
        self._heart = Heartbeat(run, self.beat, self._note)
        self._head: Head | None = None
        self._on_beat: Callable[[], Any] | None = None
        _held.add(self)

    @classmethod
    def acquire(
        cls,
        folder: Path,
        *,
        run: str,
        who: OwnerInfo,
        wait: float = 1.0,
        dying_wait: float = 10.0,
        clock: Callable[[], datetime] = _now,
    ) -> Lease:
        """Take the lease of a run, or say who has it.

        Parameters
        ----------
        folder : Path
            The run's folder; it exists.
        run : str
            Name of the run, for messages.
        who : OwnerInfo
            This owner, as `OwnerInfo.here(...)` gives it.
        wait : float
            Seconds to go on trying.
        dying_wait : float
            The same where the holder is on its way out: this notebook's former kernel, or
            processes that a dead holder left behind.

        Raises
        ------
        RunHeld
            If somebody else has it; nothing was changed.
        JournalUnwritable
            If `owner.json` cannot be written.
        """
        begun = time.monotonic()
        while (fd := _try_lock(folder / LOCK_FILE)) is None:
            waited = time.monotonic() - begun
            holder = OwnerInfo.load(folder)
            if waited >= wait and (waited >= dying_wait or not _is_dying(holder, who)):
                raise held_by(run, folder, holder)
            time.sleep(_RETRY)
        try:
            previous = OwnerInfo.load(folder)
            now = clock().isoformat()
            info = replace(who, pid=os.getpid(), opened=now, heartbeat=now, released="")
            info.save(folder)
        except OSError as error:
            os.close(fd)
            raise JournalUnwritable(run, f"{error}.") from error
        except BaseException:
            os.close(fd)
            raise
        return cls(folder, fd, run=run, info=info, previous=previous, clock=clock)

    @property
    def next_epoch(self) -> int:
        """The least epoch that no earlier owner on record had; the journal may know more."""
        return max(self.info.epoch, (self.previous.epoch if self.previous else 0) + 1)

    @property
    def held(self) -> bool:
        """Whether this process still has the lock, on the file that others would lock."""
        if self._fd < 0 or os.getpid() != self._pid:
            return False
        try:
            mine, there = os.fstat(self._fd), os.stat(self.folder / LOCK_FILE)
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def update(self, **changes: Any) -> None:
        """Change fields of `owner.json`, such as `epoch` once the journal has told it."""
        with self._lock:
            self._check_process()
            self.info = replace(self.info, **changes)
            self.info.save(self.folder)

    def start_heartbeat(
        self,
        head: Head | None = None,
        on_beat: Callable[[], Any] | None = None,
        every: float = HEARTBEAT,
    ) -> None:
        """Begin to tell others that this owner lives, from a thread of its own.

        The thread needs no event loop, and raises to nobody: failures are kept in `trouble`.

        Parameters
        ----------
        head : Head, optional
            Brought to the disk with each beat.
        on_beat : callable, optional
            Called with each beat.
        every : float
            Seconds.
        """
        self._head, self._on_beat = head, on_beat
        self._heart.start(every)

    def beat(self) -> None:
        """Do one heartbeat now."""
        with self._lock:
            if self._fd < 0:
                return
            self.update(heartbeat=self._clock().isoformat())
        if self._head is not None:
            self._head.sync()
        if self._on_beat is not None:
            self._on_beat()

    def release(self) -> None:
        """Mark the run as released and unlock it; twice is harmless."""
        if os.getpid() != self._pid:
            return  # a fork child: the parent has it
        self._heart.stop()
        with self._lock:
            if self._fd < 0:
                return
            fd, self._fd = self._fd, -1
            _held.discard(self)
            try:
                if self.folder.is_dir():
                    self.info = replace(self.info, released=self._clock().isoformat())
                    self.info.save(self.folder)
            except OSError as error:
                self.trouble = f"owner.json was not marked as released: {error}"
            finally:
                os.close(fd)  # which unlocks: no other process shares this descriptor

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _note(self, trouble: str) -> None:
        self.trouble = trouble

    def _check_process(self) -> None:
        """Refuse in a forked child and after the release."""
        if os.getpid() != self._pid:
            holder = f"process {self._pid}, of which this process is a fork"
            raise RunHeld(self.run, holder, "Let the parent do it.")
        if self._fd < 0:
            raise RunHeld(self.run, "nobody: this lease was released", "Open the run again.")

    def _forget(self) -> None:
        """In a fork child: close the descriptor, else the child keeps the parent's lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _try_lock(path: Path) -> int | None:
    """Lock the file without waiting; None if somebody else has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(path, flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine, there = os.fstat(fd), os.stat(path)
    except (BlockingIOError, FileNotFoundError):
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
        os.close(fd)  # the folder was set aside while we locked: that lock guards nothing
        return None
    return fd


def _is_dying(holder: OwnerInfo | None, who: OwnerInfo) -> bool:
    """Whether the lock can be expected to fall soon."""
    if holder is None:
        return False
    if life_of(holder) is Life.CRASHED:
        return True  # what has the lock is a child that it left behind
    return bool(who.notebook) and holder.notebook == who.notebook and holder.pid != os.getpid()


def held_by(run: str, folder: Path, holder: OwnerInfo | None) -> RunHeld:
    """Say who has the lock and what to do."""
    there = processes_with(folder / LOCK_FILE)
    looking = [pid for pid in there if _is_looking(pid, folder / LOCK_FILE)]
    owned = holder is not None and not holder.released and life_of(holder) is not Life.CRASHED
    if looking and not owned:
        who = f"process {looking[0]}, which verifies, exports or clears it"
        return RunHeld(run, who, "It lets go as soon as it is done: try again then.")
    pids = [pid for pid in there if pid != os.getpid()]
    if holder is None or holder.released:
        found = ", ".join(map(str, pids))
        who = f"process {found}" if found else "a process that has not said who it is"
        return RunHeld(run, who, "Try again in a moment; if it stays so, end that process.")
    if holder.pid == os.getpid() and life_of(holder) is Life.LIVE:
        advice = "This kernel has it open already: use that run object, or close it first."
        return RunHeld(run, describe(holder), advice)
    if life_of(holder) is Life.CRASHED:
        left = [f"{pid} (its child)" if parent_of(pid) == holder.pid else str(pid) for pid in pids]
        who = f"what process {holder.pid} left behind: process {', '.join(left) or 'unknown'}"
        return RunHeld(run, who, f"{describe(holder)} has ended. End what it left behind.")
    advice = (
        "Close the run there (run.close()) or shut that kernel down; a live run is not taken over. "
        + only_look(run)
    )
    return RunHeld(run, describe(holder), advice)


def _is_looking(pid: int, lock: Path) -> bool:
    """Whether a process has the lock to keep others out only: it opened it for reading.

    It leaves `owner.json` as it was, so that file would name somebody else.
    """
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.path.samefile(entry.path, lock):
                    return not entry.stat(follow_symlinks=False).st_mode & 0o200
    return False


def _close_in_child() -> None:
    """Let the child drop the lock, which would outlive its parent's SIGKILL (8 s were seen)."""
    for lease in list(_held):
        lease._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
