"""Folders of runs in tests: what is in them, byte for byte, and how they are tampered with."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from durable_nb.journal.database import connect
from durable_nb.journal.head import HeadState
from durable_nb.journal.rows import START, Row, chain
from durable_nb.journal.tables import read_rows
from durable_nb.journal.transplant import plant

#: A kernel that is killed in an external step, and leaves records that are in the write-ahead
#: file only, a value in an artifact, and one without.
KILLED_RUN = """
run = dnb.open_run("r", store=store)
run.step("plan", effect="none").call(lambda: {"order": (1, 2)})
run.step("big", effect="none").call(lambda: "x" * 100_000)
run.step("charge").call(die)
"""

#: All that is in its journal then: operation and kind of each record, in order.
KILLED_RECORDS = (
    ("", "born"),
    ("", "opened"),
    ("", "defined"),
    ("plan#1", "intended"),
    ("plan#1", "completed"),
    ("", "defined"),
    ("big#1", "intended"),
    ("big#1", "completed"),
    ("", "defined"),
    ("charge#1", "intended"),
)


def tree(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Give mode, time of the last change, inode and digest of all that is in a folder."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        seen = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(seen.st_mode) else b""
        if path.is_symlink():
            data = os.readlink(path).encode()
        found[str(path.relative_to(folder))] = (
            seen.st_mode,
            seen.st_mtime_ns,
            seen.st_ino,
            hashlib.sha256(data).hexdigest(),
        )
    return found


def rewrite(folder: Path, change: Callable[[list[Row]], list[Row]], *, seal: bool = True) -> None:
    """Change the rows of a journal, as somebody could who knows the format; `seal` the head too."""
    path = folder / "journal.duckdb"
    con = connect(path)
    rows = change(read_rows(con))
    con.close()
    path.unlink()
    path.with_name("journal.duckdb.wal").unlink(missing_ok=True)
    digest = START
    for row in rows:
        digest = chain(digest, row)
    head = folder / "head"
    kept = head.read_bytes()
    plant(path, head, rows, HeadState(rows[-1].seq, digest), "r")
    if not seal:
        head.write_bytes(kept)


def stored(folder: Path) -> list[Row]:
    """Read the rows of a journal from a copy of it, so that nothing in the folder changes."""
    with TemporaryDirectory() as copy:
        for file in folder.glob("journal.duckdb*"):
            shutil.copy(file, copy)
        con = connect(Path(copy) / "journal.duckdb")
        rows = read_rows(con)
        con.close()
    return rows


def artifact(folder: Path) -> Path:
    """Find the only value file."""
    (found,) = folder.glob("artifacts/*/*/*.val")
    return found


def index(folder: Path, statement: str, *bound: object) -> None:
    """Change the index of the artifacts behind diskcache's back."""
    connection = sqlite3.connect(folder / "artifacts" / "cache.db")
    connection.execute(statement, bound)
    connection.commit()
    connection.close()
