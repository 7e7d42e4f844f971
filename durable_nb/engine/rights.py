"""Whether a folder could have been written, or can be read, by somebody else."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from durable_nb.engine.report import Finding, Level
from durable_nb.journal import folder as folders
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.inbox import INBOX_FOLDER
from durable_nb.journal.owner import LOCK_FILE, OWNER_FILE
from durable_nb.model.errors import NotTrusted

#: What belongs to a run's folder.
_KNOWN = frozenset(
    {JOURNAL_FILE, f"{JOURNAL_FILE}.wal", HEAD_FILE, "artifacts", INBOX_FOLDER, LOCK_FILE}
    | {OWNER_FILE}
)


def of_store(store: Path) -> Iterator[Finding]:
    """Check the folder that holds the runs."""
    try:
        folders.check_trusted(store)
    except NotTrusted as refusal:
        yield _not_trusted(str(store), refusal)


def of_run(folder: Path, *, held: bool = False) -> Iterator[Finding]:
    """Check a run's folder and all that is in it; nothing is opened.

    While it is held, its owner makes and renames files: what is no part of it is not told then.
    """
    try:
        folders.check_trusted(folder)
    except NotTrusted as refusal:
        yield _not_trusted(".", refusal)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o055:
        yield Finding(
            Level.DAMAGE,
            "rights",
            ".",
            f"other users can look into it (mode {mode:04o} instead of 0700)",
            "What the run recorded is private, and others may have read it.",
            f"Run: chmod -R go-rwx {shlex.quote(str(folder))}",
        )
    for root, names, files in os.walk(folder, followlinks=False):
        for name in sorted([*names, *files]):
            yield from _of_entry(folder, Path(root) / name)
    if not held:
        yield from _foreign(folder)


def _of_entry(folder: Path, path: Path) -> Iterator[Finding]:
    """Check one file or folder; its mode counts no more than that of the folder around it."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # the owner of a held run replaces files all the time
    where = path.relative_to(folder).as_posix()
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        what = "it is a symbolic link"
    elif not plain:
        what = "it is neither a file nor a folder"
    elif found.st_uid != os.getuid():
        what = f"it belongs to user id {found.st_uid}, and you are {os.getuid()}"
    else:
        return
    yield Finding(
        Level.DAMAGE,
        "rights",
        where,
        what,
        "Somebody else may have put it there or can change it, so it was not read.",
        "Bring the run's folder back from a copy, or put the file itself there.",
    )


def _foreign(folder: Path) -> Iterator[Finding]:
    """Name what is no part of a run, and what was set aside."""
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        name = entry.name
        if name.startswith("damaged-"):
            size = sum(f.lstat().st_size for f in entry.rglob("*") if f.is_file())
            yield Finding(
                Level.NOTE,
                "files",
                name,
                f"an earlier damaged journal was set aside there ({size:,} bytes)",
                "The run does not read it.",
                "Keep it while you look into what happened; then you may delete it.",
            )
        elif name not in _KNOWN and not (name.startswith("operations") and name[-8:] == ".parquet"):
            yield Finding(
                Level.NOTE,
                "files",
                name,
                "it is no part of a run",
                "It was not read, and is not exported.",
                "Delete it if you know it; a killed kernel leaves names that begin with a dot.",
            )


def _not_trusted(where: str, refusal: NotTrusted) -> Finding:
    """Tell a refusal as a finding."""
    return Finding(
        Level.DAMAGE,
        "rights",
        where,
        refusal.why[:1].lower() + refusal.why[1:].rstrip("."),
        "No kernel opens it: somebody else could have changed what is in it.",
        refusal.advice,
    )
