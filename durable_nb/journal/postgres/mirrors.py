"""The mirrors of runs in PostgreSQL, and the copies that this user has of them.

A reader has the files of a run in a folder that all processes of this user share, and an owner
writes in one of its own, or a reader would replace what it has not handed over yet. A file that
was handed over never changes, but the tail is replaced; each has the time that its owner gave it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import platformdirs

from durable_nb.journal import folder as folders
from durable_nb.journal.errors import MirrorUnreadable
from durable_nb.journal.mirror import Mirror
from durable_nb.journal.owner import is_alive
from durable_nb.journal.postgres.sessions import Look
from durable_nb.journal.segments import MIRROR_FILE, Sealed
from durable_nb.model.errors import BadName

_FILES: Final = "operations*.parquet"
_OWNED: Final = ".owned"


def copies_of(shown: str) -> Path:
    """Give the folder of this user's copies of a store's mirrors; it need not exist."""
    digest = hashlib.sha256(shown.encode()).hexdigest()[:24]
    return Path(platformdirs.user_cache_path("durable_nb")) / digest


def bring(look: Look, copies: Path, name: str) -> Path:
    """Make the copy of a run's mirror the one that was published last; give its folder."""
    with _alone(copies):
        return _bring(look, copies, name)


def bring_all(look: Look, copies: Path) -> None:
    """Do so for all runs, and fetch of each only what is newer."""
    with _alone(copies):
        there: dict[str, set[tuple[str, int]]] = {}
        for run, file, stamp in look.ask("mirror_stamps"):
            there.setdefault(run, set()).add((file, stamp))
        for folder in copies.iterdir():
            if folder.is_dir() and not folder.name.startswith("."):
                there.setdefault(folder.name, set())
        for run, files in there.items():
            with contextlib.suppress(BadName):  # one that was set aside
                if set(_stamps(copies / folders.check_name(run)).items()) != files:
                    _bring(look, copies, run)


def owned(copies: Path, key: int, epoch: int) -> Path:
    """Make the folder in which the owner of a run writes its mirror; remove what dead ones left."""
    folders.prepare_store(copies)
    root = copies / _OWNED
    root.mkdir(mode=0o700, exist_ok=True)
    host = platform.node()
    for folder in root.iterdir():
        where, _, pid = folder.name.rpartition("@")[0].rpartition("-")
        if where == host and pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    mine = root / f"{host}-{os.getpid()}@{key}-{epoch}"
    mine.mkdir(mode=0o700, exist_ok=True)
    return mine


def seed(look: Look, copies: Path, name: str, mine: Path) -> None:
    """Let an owner go on with the mirror that was published last."""
    with _alone(copies):
        for file in _bring(look, copies, name).glob(_FILES):
            with contextlib.suppress(FileExistsError):
                os.link(file, mine / file.name)


def hand_over(look: Look, key: int, epoch: int, mine: Path) -> None:
    """Let others have what an owner has written: what is new goes up, what is gone goes out."""
    stamps = _stamps(mine)
    known = dict(look.ask("own_stamps", {"run": key}))
    new = sorted(file for file, stamp in stamps.items() if known.get(file) != stamp)
    try:
        to = Sealed.of(Mirror.tail(mine)[1]).to
    except MirrorUnreadable:
        to = 0
    given: dict[str, Any] = {
        "run": key,
        "epoch": epoch,
        "seq": to or None,
        "all": list(stamps),
        "names": new,
        "stamps": [stamps[file] for file in new],
        "files": [(mine / file).read_bytes() for file in new],
    }
    look.ask("publish", given)


def _bring(look: Look, copies: Path, name: str) -> Path:
    """Fetch what is newer, the tail last, and remove what does not count any more."""
    target = copies / name
    target.mkdir(mode=0o700, exist_ok=True)
    have = _stamps(target)
    given = {"name": name, "names": list(have), "stamps": list(have.values())}
    found = look.ask("mirror_files", given)
    for file, stamp, data in sorted(found, key=lambda row: row[0] == MIRROR_FILE):
        if data is not None:
            part = target / f".part-{file}"
            part.write_bytes(data)
            os.utime(part, ns=(stamp, stamp))
            part.replace(target / file)
    for file in have.keys() - {row[0] for row in found}:
        (target / file).unlink(missing_ok=True)
    return target


def _stamps(folder: Path) -> dict[str, int]:
    """Give the times of a mirror's files, in ns."""
    found = {}
    for file in folder.glob(_FILES):
        with contextlib.suppress(FileNotFoundError):
            found[file.name] = file.stat().st_mtime_ns
    return found


@contextlib.contextmanager
def _alone(copies: Path) -> Iterator[None]:
    """Let one process at a time change the copies: of two the slower would have the older."""
    folders.prepare_store(copies)
    fd = os.open(copies / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
