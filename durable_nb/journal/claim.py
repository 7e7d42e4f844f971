"""One supervisor a run: a lock that the system drops with its holder.

The run's own lease is its kernels', one after the other; this is whoever starts them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from durable_nb.journal import folder as folders
from durable_nb.model.errors import RunHeld

_FOLDER: Final = ".supervised"


@contextlib.contextmanager
def claimed(store: Path, run: str) -> Iterator[None]:
    """Be the only supervisor of a run, or say who is.

    Raises
    ------
    RunHeld
        Another one is at work; nothing was begun.
    """
    folders.prepare_store(store)
    place = store / _FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(place / f"{run}.lock", flags, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            advice = "It goes on by itself. To stop it, send that process SIGTERM."
            raise RunHeld(run, f"supervisor process {pid}", advice) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
    finally:
        os.close(fd)
