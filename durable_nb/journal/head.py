"""The head: how far the journal had come, kept outside the journal.

A missing write-ahead file opens as an older state without a word, and so does a flipped size
field. The head says what the last acknowledged record was, so that going back in time shows.
Two slots are written in turn with `pwrite`: one torn write leaves the other. It is not fsynced with
each record (1.05 x a bare commit instead of 1.7 x): a kill cannot lose it, a power cut makes it
older, which hides a loss and never invents one.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

#: One slot a disk sector, so that a torn write spoils one of them.
SLOT: Final = 512
_MAGIC: Final = b"dnbhead2"
_FIELDS: Final = struct.Struct("<8sQQ16s16s")
#: The form before the run id was kept: still read.
_OLD_MAGIC: Final = b"dnbhead1"
_OLD_FIELDS: Final = struct.Struct("<8sQQ16s")
_SUM: Final = 16
#: A run id as this package mints it; one that a foreign journal brings along is not kept here.
_RUN_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class HeadState:
    """The last acknowledged record and the running digest up to it."""

    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Loss:
    """What the head knows and the journal does not.

    `missing`: acknowledged records are gone; `diverged`: the record at the head's place is another
    one; `headless`: there is a file but no head, so nothing proves that its records are all.
    """

    head_seq: int
    last_seq: int
    kind: Literal["missing", "diverged", "headless"] = "missing"

    def __str__(self) -> str:
        if self.kind == "missing":
            return (
                f"{self.head_seq} records were acknowledged, and {self.last_seq} are in the journal"
            )
        if self.kind == "diverged":
            return f"the records up to {self.head_seq} are not those that were acknowledged"
        return f"the head file is missing, so the {self.last_seq} records may not be all of them"


class Head:
    """The head file of one run; the lease guards it.

    Parameters
    ----------
    path : Path
        The file; created (and fsynced, once) if it is missing.

    Attributes
    ----------
    run_id : str
        32 hexadecimal digits, or "" where none is known: it outlives the loss of all records,
        and with it the run's idempotency keys.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._fd = os.open(path, flags, 0o600)
        self.run_id = ""
        found = [s for s in (self._slot(0), self._slot(1)) if s is not None]
        self._count, self.run_id = max(
            ((count, run_id) for count, _, run_id in found), default=(0, "")
        )
        if os.fstat(self._fd).st_size < 2 * SLOT:
            # Full length at once: writing a slot later must not need new space on a full disk.
            os.pwrite(self._fd, b"\0", 2 * SLOT - 1)
            self.sync()
            _sync_folder(path.parent)

    def _slot(self, index: int) -> tuple[int, HeadState, str] | None:
        """Give the counter, the state and the run id of one slot, if it is whole."""
        return _slot_of(os.pread(self._fd, _FIELDS.size + _SUM, index * SLOT))

    def read(self) -> HeadState | None:
        """Give the newest whole slot; None if there is none.

        Newest is by a counter and not by `seq`: after an accepted loss the seq goes back.
        """
        return _newest(self._slot(0), self._slot(1))

    @staticmethod
    def look(path: Path) -> HeadState | None:
        """Do the same from outside, without making a file where there is none."""
        flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            with open(os.open(path, flags), "rb") as file:
                raw = file.read(2 * SLOT)
        except OSError:
            return None
        return _newest(_slot_of(raw[:SLOT]), _slot_of(raw[SLOT:]))

    def write(self, state: HeadState) -> None:
        """Put the state into the older slot, without fsync."""
        self._count += 1
        run_id = bytes.fromhex(self.run_id) if _RUN_ID.match(self.run_id) else b""
        fields = _FIELDS.pack(_MAGIC, self._count, state.seq, state.digest, run_id)
        check = hashlib.blake2b(fields, digest_size=_SUM).digest()
        os.pwrite(self._fd, fields + check, (self._count & 1) * SLOT)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        """Let go of the file; twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _slot_of(raw: bytes) -> tuple[int, HeadState, str] | None:
    """Give the counter, the state and the run id of the bytes of one slot, if it is whole."""
    for magic, form in ((_MAGIC, _FIELDS), (_OLD_MAGIC, _OLD_FIELDS)):
        fields, check = raw[: form.size], raw[form.size : form.size + _SUM]
        if raw[:8] != magic or len(check) < _SUM:
            continue
        if hashlib.blake2b(fields, digest_size=_SUM).digest() != check:
            return None
        _, count, seq, digest, *run_id = form.unpack(fields)
        known = run_id[0].hex() if run_id and any(run_id[0]) else ""
        return count, HeadState(seq, digest), known
    return None


def _newest(*slots: tuple[int, HeadState, str] | None) -> HeadState | None:
    found = [s for s in slots if s is not None]
    return max(found, key=lambda slot: slot[0])[1] if found else None


def _sync_folder(folder: Path) -> None:
    """Make a new name in the folder durable."""
    fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
