"""The facet of declared files: what their bytes are, however they are called and dated."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from durable_nb import values
from durable_nb.model.errors import DurableError
from durable_nb.model.facets import Part

#: Digest and text of a file that is not there.
MISSING: Final = "missing"

_CHUNK: Final = 1 << 20

#: Nanoseconds after its last change in which a file may change again without a newer time: the
#: clocks of file systems tick as slowly as every 2 s (FAT), and a rewrite may fall into one tick.
_RACY_NS: Final = 2_000_000_000

#: How often a file is read that changes while it is read.
_TRIES: Final = 3

#: How many files are remembered; beyond that all are read again.
_KEPT: Final = 4096

_Stamp = tuple[str, int, int, int, int, int]
_known: Final[dict[_Stamp, str]] = {}


class FileUnreadable(DurableError):
    """A declared file is there and cannot be read, so that nobody can tell whether it changed."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be read ({self.why}), so whether it changed cannot be told. "
            "Nothing was run. Make it readable (chmod, or mount it), or do not declare it."
        )


@dataclass(frozen=True, slots=True)
class _Content:
    digest: str
    size: int
    files: int = 1


def file_part(path: str | os.PathLike[str], *, clock: Callable[[], int] = time.time_ns) -> Part:
    """Say what a file or folder holds.

    Parameters
    ----------
    path : path
        A file, or a folder, of which all files count with their relative names. Links are
        followed.
    clock : callable, optional
        Time of day in nanoseconds; a file that has only just changed is read again next time.

    Returns
    -------
    Part
        Its digest is the SHA-256 of a file's bytes, `MISSING` where there is nothing.

    Raises
    ------
    FileUnreadable
        It is there and cannot be read: no permission, a loop of links, or no regular file.
    """
    shown = os.fspath(path)
    try:
        found = os.stat(path)
        content = _folder(Path(path), clock) if stat.S_ISDIR(found.st_mode) else _file(path, clock)
    except (FileNotFoundError, NotADirectoryError):
        return Part(MISSING, MISSING)
    except OSError as problem:
        where = problem.filename if isinstance(problem.filename, str) else shown
        raise FileUnreadable(where, problem.strerror or str(problem)) from problem
    size = f"{content.size:,} bytes"
    if content.files != 1 or content.digest.startswith("folder:"):
        size = f"{content.files:,} files, {size}"
    text = f"{size}, sha256 {content.digest.removeprefix('folder:')[:12]}…"
    return Part(content.digest, values.redact(text))


def _file(path: str | os.PathLike[str], clock: Callable[[], int]) -> _Content:
    """Digest one file; its stamp is taken from the open file, before and after."""
    where = os.path.realpath(path)
    # never wait for the other end of a pipe
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise FileUnreadable(os.fspath(path), "it is no regular file")
        stamp = _stamp(where, before)
        known = _known.get(stamp)
        if known is not None:
            return _Content(known, before.st_size)
        for _ in range(_TRIES):
            digest, size = _read(file)
            after = os.fstat(descriptor)
            if _stamp(where, after) == stamp and size == after.st_size:
                break
            stamp = _stamp(where, after)  # written to meanwhile: once more
            file.seek(0)
        else:
            raise FileUnreadable(os.fspath(path), "somebody is writing to it")
    if clock() - max(after.st_mtime_ns, after.st_ctime_ns) > _RACY_NS:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[stamp] = digest
    return _Content(digest, size)


def _read(file: Any) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    return hashed.hexdigest(), size


def _stamp(where: str, found: os.stat_result) -> _Stamp:
    return (where, found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns, found.st_dev)


def _folder(root: Path, clock: Callable[[], int]) -> _Content:
    """Digest a folder: the relative names of its files, sorted, and what they hold."""
    hashed, size, count = hashlib.sha256(), 0, 0
    for name, path in _entries(root):
        raw = os.fsencode(name)
        if path is None:
            hashed.update(b"d%d:%b" % (len(raw), raw))
            continue
        try:
            content = _file(path, clock)
            said = content.digest
        except FileNotFoundError:  # a link that leads nowhere
            content, said = _Content(MISSING, 0), MISSING
        hashed.update(b"f%d:%b%b;" % (len(raw), raw, said.encode()))
        size, count = size + content.size, count + 1
    return _Content(f"folder:{hashed.hexdigest()}", size, count)


def _entries(root: Path) -> Iterator[tuple[str, Path | None]]:
    """Give all files below a folder, sorted by name; `None` in place of an empty folder."""
    stack: list[tuple[Path, str, tuple[str, ...]]] = [(root, "", ())]
    found: list[tuple[str, Path | None]] = []
    while stack:
        folder, prefix, above = stack.pop()
        here = os.path.realpath(folder)
        if here in above:
            raise FileUnreadable(os.fspath(folder), "a link leads back to a folder around it")
        entries = list(os.scandir(folder))
        if not entries and prefix:
            found.append((prefix, None))
        for entry in entries:
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_dir():
                stack.append((Path(entry.path), name, (*above, here)))
            else:
                found.append((name, Path(entry.path)))
    yield from sorted(found, key=lambda pair: os.fsencode(pair[0]))
