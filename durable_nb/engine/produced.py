"""Files that a step declares: what it uses has to be there, what it produces is on record."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from durable_nb.engine.change import Change
from durable_nb.engine.facets import FILE
from durable_nb.engine.files import MISSING, file_part
from durable_nb.model.facets import PRODUCED, FacetSet, Part

_NOT_RECORDED: Final = Part("", "not on record")
#: What cannot be flushed says so: pipes and the like. Any other error means lost bytes.
_NO_FLUSH: Final = frozenset({errno.EINVAL, errno.EROFS, errno.ENOTSUP})


def used(paths: Iterable[str]) -> FacetSet:
    """Give the content of used files as facets, as it is at this moment."""
    return FacetSet.of({f"{FILE}{path}": file_part(path) for path in paths})


def refuse_missing(op: str, paths: Iterable[str], known: FacetSet) -> None:
    """Refuse to begin a step whose files are not there, before its intent.

    Raises
    ------
    FileNotFoundError
        It names them. Nothing was begun or recorded.
    """
    gone = [path for path in paths if known.parts[f"{FILE}{path}"].digest == MISSING]
    if gone:
        what = f"{', '.join(gone)} is not there, and {op} uses it. Nothing was begun or recorded."
        raise FileNotFoundError(what)


class NotProduced(FileNotFoundError):
    """A body ended, and files that its step declares as produced are not there."""


def take(paths: Iterable[str]) -> dict[str, list[str]]:
    """Bring produced files to disk, and give their digests for the record.

    Raises
    ------
    NotProduced
        It names all that are not there.
    """
    paths = list(paths)
    if not paths:
        return {}
    gone = [path for path in paths if not os.path.lexists(path)]
    if gone:
        raise NotProduced(f"did not produce {', '.join(gone)}")
    for path in paths:
        _flush(Path(path))
    found = as_they_are(paths)
    gone = [path for path, (digest, _) in found.items() if digest == MISSING]
    if gone:
        raise NotProduced(f"did not produce {', '.join(gone)}")
    return found


def as_they_are(paths: Iterable[str]) -> dict[str, list[str]]:
    """Give path to digest and text, as a record carries them."""
    parts = {path: file_part(path) for path in paths}
    return {path: [part.digest, part.shown] for path, part in parts.items()}


def changes(
    recorded: Mapping[str, Any], now: Mapping[str, Any], *, declared: Iterable[str]
) -> list[Change]:
    """List the produced files that are not what the record says.

    Parameters
    ----------
    recorded, now : Mapping
        Path to digest and text. What is recorded counts, declared or not.
    declared : iterable of str
        What the step says now; a file of it that is not on record was made by nobody.
    """
    found = []
    for path in [*recorded, *(p for p in declared if p not in recorded)]:
        before = Part(*recorded[path]) if path in recorded else _NOT_RECORDED
        after = Part(*now[path])
        if before.digest != after.digest:
            found.append(
                Change(f"{PRODUCED}{path}", before.shown, after.shown, before.digest, after.digest)
            )
    return found


def _flush(path: Path) -> None:
    """Put a file, or a folder and all in it, on disk, and the name by which it is found."""
    if path.is_dir():
        for root, _, files in os.walk(path):
            for name in files:
                _sync(Path(root) / name)
            _sync(Path(root))
    else:
        _sync(path)
    _sync(path.absolute().parent)


def _sync(path: Path) -> None:
    """Flush one entry; opened for reading only, and a pipe is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a socket, a link that leads nowhere; what cannot be read has no digest either
        return
    try:
        os.fsync(fd)
    except OSError as problem:
        if problem.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(fd)
