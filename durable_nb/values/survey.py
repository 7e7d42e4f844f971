"""Looking at a folder of artifacts without changing a byte of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import diskcache

from durable_nb.values.artifacts import (
    INDEX,
    SETTINGS,
    SHA256,
    VALUE_FILE,
    BytesOnly,
    Refused,
    is_foreign_setting,
)
from durable_nb.values.errors import ArtifactDamaged, ArtifactMissing

_CHUNK: Final = 1 << 20
_ROWS: Final = "SELECT key, raw, size, expire_time, mode, filename, value FROM Cache"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an index of artifacts.

    Attributes
    ----------
    where : str
        A file, a setting or a row of the index.
    what : str
        What was found.
    mends : bool
        Whether the next kernel that opens the folder sets it right by itself.
    """

    where: str
    what: str
    mends: bool = False


class Survey:
    """A folder of artifacts as it stands; it need not exist.

    The index is read in a copy: SQLite would write beside it even to read. Nothing in it is
    unpickled or followed out of the folder.

    Parameters
    ----------
    folder : Path
        The artifacts of a run that nobody else holds.
    scratch : Path
        A private folder for the copy.

    Attributes
    ----------
    faults : list of Fault
        Of the index as a whole; what is wrong with one artifact is told by `check`.
    sizes : dict
        SHA-256 to bytes on record, of the rows that can be followed.
    files : dict
        SHA-256 to the name of its file, relative to the folder.
    strays : list of Path
        Value files that no row names: what a killed kernel left.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.faults: list[Fault] = []
        self.sizes: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self.strays: list[Path] = []
        self._disk = BytesOnly(str(folder))
        if not folder.is_dir():
            return
        self._read_index(scratch)
        named = set(self.files.values())
        self.strays = [
            path
            for path in sorted(folder.glob("??/??/*.val"))
            if (name := path.relative_to(folder).as_posix()) not in named and VALUE_FILE.match(name)
        ]

    def get(self, sha256: str) -> bytes:
        """Read bytes back, checked against their digest; as `DiskArtifacts.get`."""
        with self._open(sha256) as reader:
            data = reader.read()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ArtifactDamaged(sha256, f"its {len(data)} bytes have another digest")
        return data

    def check(self, sha256: str, size: int) -> None:
        """Check size and digest of an artifact, a piece at a time.

        Raises
        ------
        ArtifactMissing, ArtifactDamaged
        """
        with self._open(sha256) as reader:
            found = os.fstat(reader.fileno()).st_size
            if found != size:
                raise ArtifactDamaged(sha256, f"it has {found} bytes, and {size} were recorded")
            digest = hashlib.sha256()
            while piece := reader.read(_CHUNK):
                digest.update(piece)
        if digest.hexdigest() != sha256:
            raise ArtifactDamaged(sha256, f"its {size} bytes have another digest")

    def open(self, sha256: str) -> IO[bytes]:
        """Open the file of an artifact, unchecked; raises as `check` does."""
        return self._open(sha256)

    def _open(self, sha256: str) -> IO[bytes]:
        name = self.files.get(sha256)
        if name is None:
            raise ArtifactMissing(sha256)
        try:
            found: IO[bytes] = self._disk.fetch(diskcache.core.MODE_BINARY, name, None, read=False)
        except FileNotFoundError as cause:
            raise ArtifactMissing(sha256) from cause
        except Refused as cause:
            raise ArtifactDamaged(sha256, str(cause)) from cause
        return found

    def _read_index(self, scratch: Path) -> None:
        """Read settings and rows in a copy of the index."""
        index = self.folder / INDEX
        if not index.is_file() or index.is_symlink():
            if any(self.folder.glob("??/??/*.val")):
                self.faults.append(Fault(INDEX, "there are artifacts and no index of them"))
            return
        for ending in ("", "-wal"):
            beside = self.folder / (INDEX + ending)
            if beside.is_file() and not beside.is_symlink():
                shutil.copyfile(beside, scratch / beside.name)
        try:
            with contextlib.closing(sqlite3.connect(scratch / INDEX)) as connection:
                (well,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if well != "ok":
                    self.faults.append(Fault(INDEX, f"SQLite finds it damaged ({well})"))
                self.faults += _setting_faults(connection)
                for row in connection.execute(_ROWS):
                    self._take(*row)
        except sqlite3.Error as cause:
            if "no such table" not in str(cause) or any(self.folder.glob("??/??/*.val")):
                self.faults.append(Fault(INDEX, f"it cannot be read ({cause})"))

    def _take(
        self, key: Any, raw: Any, size: Any, expires: Any, mode: Any, filename: Any, value: Any
    ) -> None:
        """Take a row that can be followed; name one that cannot."""
        try:
            sha256 = self._disk.get(key, raw)
            if not SHA256.match(sha256):
                raise Refused("its key is no SHA-256")
            if type(size) is not int or expires is not None:
                raise Refused("it is to expire, or has no size")
            with contextlib.suppress(FileNotFoundError):  # told as a missing artifact
                self._disk.fetch(mode, filename, value, read=False).close()
        except Refused as cause:
            shown = key if isinstance(key, str) else type(key).__name__
            self.faults.append(Fault(f"{INDEX}, row {shown[:72]!r}", f"it was planted: {cause}"))
            return
        self.sizes[sha256], self.files[sha256] = size, filename


def _setting_faults(connection: sqlite3.Connection) -> Iterator[Fault]:
    """Compare the settings with ours."""
    for key, value in connection.execute("SELECT key, value FROM Settings"):
        where = f"{INDEX}, setting {str(key)[:72]!r}"
        if is_foreign_setting(key, value):
            yield Fault(where, "diskcache does not have it, so somebody planted it")
        elif key in SETTINGS and value != SETTINGS[key]:
            yield Fault(where, f"it is {value!r} and must be {SETTINGS[key]!r}", mends=True)
