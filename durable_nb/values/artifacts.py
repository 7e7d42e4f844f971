"""Artifacts on disk: bytes by their SHA-256, in a diskcache that is held to it.

diskcache's defaults would drop entries at 1 GiB, unpickle what somebody planted in the folder
(CVE-2025-69872, no fixed release), follow planted file names out of the folder and never fsync a
value. Its settings live in the folder, so they are checked on each open.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

import diskcache

from durable_nb.model.errors import NotTrusted
from durable_nb.values.errors import ArtifactDamaged, ArtifactMissing, ArtifactStoreDamaged

#: What the folder must say. All of it is written on each open; what differed is a warning.
SETTINGS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "cull_limit": 0,
        "disk_min_file_size": 0,
        "disk_pickle_protocol": diskcache.DEFAULT_SETTINGS["disk_pickle_protocol"],
        "eviction_policy": "none",
        "size_limit": 2**62,
        "sqlite_auto_vacuum": 1,
        "sqlite_cache_size": 2**13,
        "sqlite_journal_mode": "wal",
        "sqlite_mmap_size": 2**26,
        "sqlite_synchronous": 2,
        "statistics": 0,
        "tag_index": 0,
    }
)
#: Rows that diskcache keeps beside the settings: plain counters.
_COUNTERS: Final = frozenset({"count", "size", "hits", "misses"})

SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
VALUE_FILE: Final = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}\.val\Z")
INDEX: Final = "cache.db"


class Refused(Exception):
    """A row of the index that must not be followed."""


class BytesOnly(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """A disk for bytes under text keys; it never pickles, unpickles or leaves its folder."""

    def put(self, key: Any) -> tuple[str, bool]:
        """Take a text key."""
        if type(key) is not str:
            raise Refused("only text keys are stored")
        return key, True

    def get(self, key: Any, raw: Any) -> str:
        """Read a text key."""
        if not raw or type(key) is not str:
            raise Refused("its key is pickled")
        return key

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, str, None]:
        """Write bytes to a file of their own, on disk with its folders when this returns."""
        if read or type(value) is not bytes:
            raise Refused("only bytes are stored")
        _, full = self.filename(key, value)
        root = Path(self._directory)
        target = Path(full)
        for folder in (target.parent.parent, target.parent):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                _fsync_folder(folder.parent)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as writer:
                writer.write(value)
                writer.flush()
                os.fsync(writer.fileno())
        except BaseException:  # a full disk or an interrupt: no row will ever name this file
            target.unlink()
            raise
        _fsync_folder(target.parent)
        return len(value), diskcache.core.MODE_BINARY, str(target.relative_to(root)), None

    def fetch(self, mode: Any, filename: Any, value: Any, read: bool) -> IO[bytes]:
        """Open the file of a row; whoever asks reads and checks it."""
        if mode != diskcache.core.MODE_BINARY or value is not None:
            raise Refused("its row holds no file of bytes")
        path = self._inside(filename)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise  # diskcache reports it as a miss, and so do we
        except OSError as cause:
            raise Refused(f"its file cannot be opened ({cause.strerror})") from cause
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Refused("its file is no regular file")
        return os.fdopen(descriptor, "rb")

    def remove(self, file_path: Any) -> None:
        """Remove the file of a replaced row, only ever inside the folder."""
        # The row is committed already: what cannot be removed is only a file that no row names.
        with contextlib.suppress(Refused, OSError):
            os.remove(self._inside(file_path))

    def _inside(self, filename: Any) -> str:
        """Give the full path of a value file, refusing names that lead elsewhere."""
        if not isinstance(filename, str) or not VALUE_FILE.match(filename):
            raise Refused("its file name leads out of the folder")
        root = os.path.realpath(self._directory)
        path = os.path.join(root, filename)
        if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
            raise Refused("its file name leads out of the folder")
        return path


class DiskArtifacts:
    """Bytes in a folder, by their SHA-256; safe to use from several threads.

    Parameters
    ----------
    folder : Path
        Made with mode 0700 if it is not there.

    Attributes
    ----------
    folder : Path
        Where the artifacts are.
    warnings : list of str
        What had to be set right on opening, such as an eviction policy that drops artifacts.

    Raises
    ------
    NotTrusted
        The folder belongs to another user, is writable by others, or holds a foreign index.
    ArtifactStoreDamaged
        The index cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        self.warnings: list[str] = []
        self._lock = threading.RLock()
        self._prepare_folder()
        self._check_settings()
        try:
            self._cache = diskcache.Cache(str(self.folder), disk=BytesOnly, **SETTINGS)
        except (sqlite3.Error, diskcache.Timeout) as cause:
            raise ArtifactStoreDamaged(str(self.folder), str(cause)) from cause
        self._verify()

    def put(self, data: bytes) -> str:
        """Store bytes; they are on disk and fsynced when this returns, equal content once.

        Parameters
        ----------
        data : bytes
            Any number of bytes.

        Returns
        -------
        str
            Their SHA-256 in hexadecimal.
        """
        if type(data) is not bytes:
            raise TypeError(f"artifacts are bytes, not {type(data).__name__}")
        sha256 = hashlib.sha256(data).hexdigest()
        with self._lock:
            try:
                if self.get(sha256) == data:
                    return sha256
            except (ArtifactMissing, ArtifactDamaged):
                pass  # not there, or not whole: it is written anew below
            try:
                self._cache.set(sha256, data, retry=True)
            except sqlite3.Error as cause:
                raise ArtifactStoreDamaged(str(self.folder), str(cause)) from cause
        return sha256

    def get(self, sha256: str) -> bytes:
        """Read bytes back, checked against their digest.

        Raises
        ------
        ArtifactMissing
            There is no such artifact.
        ArtifactDamaged
            Its file is cut or changed, or its row must not be followed.
        """
        with self._open(sha256) as reader:
            try:
                data = reader.read()
            except OSError as cause:
                raise ArtifactDamaged(sha256, f"it cannot be read ({cause.strerror})") from cause
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ArtifactDamaged(sha256, f"its {len(data)} bytes have another digest")
        return data

    def contains(self, sha256: str, size: int) -> bool:
        """Say whether an artifact is there in its full size, without reading it."""
        try:
            with self._open(sha256) as reader:
                return os.fstat(reader.fileno()).st_size == size
        except (ArtifactMissing, ArtifactDamaged):
            return False

    def keys(self) -> Iterator[str]:
        """List the SHA-256 of all artifacts, in no order."""
        with self._lock:
            try:
                found = list(self._cache)
            except Refused as cause:
                raise ArtifactStoreDamaged(
                    str(self.folder), f"a row was planted: {cause}"
                ) from cause
        return iter(found)

    def sizes(self) -> dict[str, int]:
        """Give SHA-256 to bytes of all artifacts whose file is there."""
        found = {}
        for sha256 in self.keys():
            with contextlib.suppress(ArtifactMissing, ArtifactDamaged), self._open(sha256) as file:
                found[sha256] = os.fstat(file.fileno()).st_size
        return found

    def remove(self, sha256: str) -> None:
        """Forget an artifact: its row first, then its file, so that no row names a missing one."""
        with self._lock:
            try:
                self._cache.delete(sha256, retry=True)
            except sqlite3.Error as cause:
                raise ArtifactStoreDamaged(str(self.folder), str(cause)) from cause

    def close(self) -> None:
        """Close this thread's connection; those of other threads close with their threads."""
        self._cache.close()

    def _open(self, sha256: str) -> IO[bytes]:
        """Open the file of an artifact."""
        if not SHA256.match(sha256):
            raise ArtifactMissing(sha256)
        with self._lock:  # put replaces a damaged row and removes its file: never in between
            try:
                reader: IO[bytes] | None = self._cache.get(sha256, read=True)
            except Refused as cause:
                raise ArtifactDamaged(sha256, str(cause)) from cause
            except sqlite3.DatabaseError as cause:
                raise ArtifactStoreDamaged(str(self.folder), str(cause)) from cause
        if reader is None:
            raise ArtifactMissing(sha256)
        return reader

    def _prepare_folder(self) -> None:
        """Make the folder, or refuse one that others could have written to."""
        where = str(self.folder)
        if os.path.expandvars(os.path.expanduser(where)) != where:
            raise NotTrusted(
                where,
                "diskcache would read a variable in its name.",
                "Choose a name without $ or ~.",
            )
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700, parents=True)
            _fsync_folder(self.folder.parent)
        found = self.folder.lstat()
        advice = "Use a folder of your own with mode 0700."
        if not stat.S_ISDIR(found.st_mode):
            raise NotTrusted(where, "it is no folder.", advice)
        if found.st_uid != os.geteuid():
            raise NotTrusted(where, f"it belongs to user {found.st_uid}.", advice)
        if found.st_mode & 0o022:
            raise NotTrusted(where, "other users can write to it.", advice)
        if found.st_mode & 0o077:
            self.folder.chmod(0o700)
            self.warnings.append("other users could read the folder; its mode is 0700 now")

    def _check_settings(self) -> None:
        """Check what the index says before diskcache acts on it, and set it right."""
        index = self.folder / INDEX
        if index.is_symlink():
            raise NotTrusted(str(index), "it is a symbolic link.", "Restore the index itself.")
        if not index.exists():
            return
        try:
            with contextlib.closing(sqlite3.connect(index, timeout=60)) as connection:
                rows = connection.execute("SELECT key, value FROM Settings").fetchall()
                for key, value in rows:
                    self._take_setting(key, value)
                wrong = [(SETTINGS[k], k) for k, v in rows if k in SETTINGS and v != SETTINGS[k]]
                connection.executemany("UPDATE Settings SET value = ? WHERE key = ?", wrong)
                connection.commit()
        except sqlite3.Error as cause:
            if "no such table" in str(cause):
                return  # killed before its first transaction: diskcache makes the tables
            raise ArtifactStoreDamaged(str(self.folder), str(cause)) from cause

    def _take_setting(self, key: Any, value: Any) -> None:
        """Refuse a setting that diskcache does not have; note one that differs."""
        if is_foreign_setting(key, value):
            raise NotTrusted(
                str(self.folder / INDEX),
                f"it holds a setting {key!r} that diskcache does not have.",
                "Restore the folder from a copy.",
            )
        if key in SETTINGS and value != SETTINGS[key]:
            self.warnings.append(f"{key} was {value!r} and is {SETTINGS[key]!r} again")

    def _verify(self) -> None:
        """Check that what we set is what holds now."""
        for key, value in SETTINGS.items():
            if getattr(self._cache, key, None) != value:
                raise ArtifactStoreDamaged(str(self.folder), f"{key} cannot be set to {value!r}")
        _fsync_folder(self.folder)


def is_foreign_setting(key: Any, value: Any) -> bool:
    """Tell whether a row of the settings is none that diskcache writes."""
    return key not in SETTINGS and not (key in _COUNTERS and type(value) is int)


def mend_index(folder: Path, wanted: Iterable[tuple[str, int]]) -> list[str]:
    """Find artifacts again whose index is lost, damaged or another folder's.

    A file is known by the SHA-256 of its bytes, so nothing that an index says has to be believed.
    An unreadable index is set aside whole.

    Parameters
    ----------
    folder : Path
        Where the artifacts are; it need not exist.
    wanted : iterable of (str, int)
        SHA-256 and size of what is recorded.

    Returns
    -------
    list of str
        What was done, a line each; empty where all is as it should be.

    Raises
    ------
    NotTrusted
        As for `DiskArtifacts`.
    ArtifactStoreDamaged
        The index cannot even be made again.
    """
    if not folder.exists():
        return []
    told = []
    try:
        disk = DiskArtifacts(folder)
    except ArtifactStoreDamaged as problem:
        aside = _set_index_aside(folder)
        told.append(f"the artifact index was unreadable ({problem.reason}) and is in {aside.name}")
        disk = DiskArtifacts(folder)
    with contextlib.closing(disk):
        told += disk.warnings
        missing = {sha256: size for sha256, size in wanted if not disk.contains(sha256, size)}
        found = sum(_put_again(disk, path, missing) for path in _loose_files(folder, missing))
    if found:
        told.append(f"{found} artifacts were not in their index and were found by their content")
    return told


def _loose_files(folder: Path, missing: Mapping[str, int]) -> Iterator[Path]:
    """List the value files that have the size of something missing; links are not followed."""
    sizes = set(missing.values())
    for parent, _, names in os.walk(folder) if sizes else ():
        for path in (Path(parent, name) for name in names):
            found = path.lstat()
            inside = VALUE_FILE.match(str(path.relative_to(folder)))
            if inside and stat.S_ISREG(found.st_mode) and found.st_size in sizes:
                yield path


def _put_again(disk: DiskArtifacts, path: Path, missing: Mapping[str, int]) -> bool:
    """Put the bytes of a file that the index does not name; tell whether they were missing."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() not in missing:
        return False
    disk.put(data)
    path.unlink()  # its bytes are on disk in a file that the index names
    return True


def _set_index_aside(folder: Path) -> Path:
    """Move an unreadable index away, with its journal files."""
    number = 1
    while (aside := folder / f"damaged-index-{number}").exists():
        number += 1
    aside.mkdir(mode=0o700)
    for path in folder.glob(f"{INDEX}*"):
        path.rename(aside / path.name)
    _fsync_folder(folder)
    return aside


def _fsync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
