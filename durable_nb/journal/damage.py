"""Opening a damaged journal: set it aside whole, then bring back its committed prefix.

A zeroed or torn write-ahead file makes DuckDB refuse with the byte at which it stopped. A *copy*
truncated there opens with exactly the committed prefix (255 of 255 tried). Only ever under the
lease, and never while this process has the file attached: closing a descriptor on it would drop
DuckDB's lock.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from durable_nb.journal.rows import BadRow
from durable_nb.model.errors import JournalDamaged, JournalUnwritable, RunHeld

_BYTE: Final = re.compile(r"at byte position (\d+)")
_PID: Final = re.compile(r"\(PID (\d+)\)")
_LOCKED: Final = "Conflicting lock"
#: Texts of errors that speak of the machine and not of the file: nothing is set aside for these.
_MACHINE: Final = (
    "Permission denied",
    "No space left",
    "File too large",
    "Read-only file system",
    "Too many open files",
    "Out of Memory",
    "Input/output error",
    "Is a directory",
)
_ROUNDS: Final = 8
#: Bytes of the three headers that DuckDB writes one after the other as it makes a file.
_HEADERS: Final = 3 * 4096


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was set aside, and why."""

    aside: Path
    why: str
    records: int | None = None  #: recovered; None if the file itself was left in place

    def __str__(self) -> str:
        kept = f"; {self.records} records were recovered" if self.records is not None else ""
        return f"{self.why.rstrip('.')}; the whole was copied to {self.aside.name}{kept}."


def refuse_foreign(run: str, path: Path, error: Exception) -> None:
    """Raise for errors that are no damage: a lock, a permission, a full disk."""
    text = str(error)
    if _LOCKED in text:
        pid = _PID.search(text)
        holder = f"process {pid[1]}" if pid else "another process"
        raise RunHeld(
            run,
            f"{holder}, which has {path.name} open outside the lease",
            "Close that program (a DuckDB shell?), then open the run again.",
        ) from error
    if isinstance(error, duckdb.Error) and any(known in text for known in _MACHINE):
        raise JournalUnwritable(run, text) from error


def is_unborn(path: Path) -> bool:
    """Whether who made this file was killed before DuckDB had written its headers.

    It never held a record: the tables come after the headers, over the write-ahead file. Whether
    records are missing is for the head to say.
    """
    try:
        return path.stat().st_size < _HEADERS and not _wal(path).exists()
    except OSError:
        return False


def copy_aside(path: Path, why: str) -> Recovery:
    """Copy the database, its write-ahead file and the head to `damaged-<n>`, durably.

    An equal copy that is there already is used again, so that retries do not pile up.
    """
    files = _files(path)
    taken = sorted(path.parent.glob("damaged-*"), key=lambda p: (len(p.name), p.name))
    if taken and _same(files, taken[-1]):
        return Recovery(taken[-1], why)
    number = len(taken) + 1
    while (aside := path.parent / f"damaged-{number}").exists():
        number += 1
    # Made under another name first: a kill in between must not leave half a copy as evidence.
    part = Path(tempfile.mkdtemp(prefix=".damaged-", dir=path.parent))
    copy_files(path, part)
    os.rename(part, aside)
    return Recovery(aside, why)


def copy_files(path: Path, folder: Path) -> None:
    """Copy the database, its write-ahead file and the head into a folder, durably."""
    for file in _files(path):
        _copy(file, folder / file.name)


def recover(path: Path, run: str, found: str, probe: Callable[[Path], int]) -> Recovery:
    """Put the committed prefix into the journal's place; the damaged whole stays aside.

    Parameters
    ----------
    path : Path
        The database file; nobody has it open.
    run : str
        For messages.
    found : str
        What opening it said.
    probe : callable
        Opens a copy and gives its number of records, or raises.

    Raises
    ------
    JournalDamaged
        If nothing helps. The files in place are as they were.
    """
    aside = copy_aside(path, found).aside
    wal = _wal(path)
    with tempfile.TemporaryDirectory(prefix=".recover-", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        keep, records = _committed(aside, path.name, copy, found, probe)
        if keep is None:
            advice = (
                f"A whole copy is in {aside.name}; nothing was deleted or changed. Bring the run's "
                "folder back from a backup, or start again with fresh=True (the old one is kept)."
            )
            raise JournalDamaged(run, found, advice)
        if keep:
            part = Path(folder) / "kept.wal"
            _copy(aside / wal.name, part, keep)
            os.replace(part, wal)
        else:
            wal.unlink(missing_ok=True)  # a copy is in `aside`
    return Recovery(aside, found, records)


def _committed(
    aside: Path, name: str, copy: Path, found: str, probe: Callable[[Path], int]
) -> tuple[int | None, int]:
    """Find how many bytes of the write-ahead file hold the committed prefix; None: hopeless."""
    wal = aside / f"{name}.wal"
    keep = wal.stat().st_size if wal.exists() else 0
    for _ in range(_ROUNDS):
        at = _BYTE.search(found)
        # Without a byte, or one that does not move, only the database file itself is left.
        keep = int(at[1]) if at and int(at[1]) < keep else 0
        for old in copy.parent.glob(f"{name}*"):
            old.unlink()
        _copy(aside / name, copy)
        if keep:
            _copy(wal, _wal(copy), keep)
        try:
            return keep, probe(copy)
        except (duckdb.Error, BadRow) as error:
            if not keep:
                return None, 0
            found = str(error)
    return None, 0


def _wal(path: Path) -> Path:
    """Give the write-ahead file of a database file."""
    return path.with_name(f"{path.name}.wal")


def _files(path: Path) -> list[Path]:
    """Give everything that belongs to the journal."""
    mine = sorted(p for p in path.parent.glob(f"{path.name}*") if p.is_file())
    head = path.with_name("head")
    return [*mine, head] if head.is_file() else mine


def _same(files: list[Path], folder: Path) -> bool:
    """Whether the folder holds equal copies of the journal's own files."""
    pairs = [(file, folder / file.name) for file in files if file.name != "head"]
    import filecmp  # where something is damaged, and not with the package

    return all(kept.is_file() and filecmp.cmp(file, kept, shallow=False) for file, kept in pairs)


def _copy(source: Path, target: Path, length: int | None = None) -> None:
    """Copy a file, or its first bytes, and bring it to the disk."""
    with source.open("rb") as read, target.open("wb") as write:
        if length is None:
            shutil.copyfileobj(read, write)
        else:
            write.write(read.read(length))
        write.flush()
        os.fsync(write.fileno())
