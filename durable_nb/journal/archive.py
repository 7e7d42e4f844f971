"""One run in one file: a zip archive whose content is named, sized and digested in a manifest.

Members are stored uncompressed, so that a small file cannot unfold into a large one, and only the
names that a run's folder has are taken, so that nothing lands elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from durable_nb.journal.errors import ArchiveRefused
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE

MANIFEST: Final = "manifest.json"
FORMAT: Final = "durable_nb run"
VERSION: Final = 1

#: Bytes of a manifest: half a million artifacts.
_MANIFEST_LIMIT: Final = 1 << 26
_CHUNK: Final = 1 << 20
#: The earliest time that a zip archive can say: equal runs make equal archives.
_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3
_VALUE: Final = re.compile(r"artifacts/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}\.val\Z")
_INDEX: Final = "artifacts/cache.db"
_OTHERS: Final = frozenset({JOURNAL_FILE, HEAD_FILE, _INDEX})
_AGAIN: Final = "Export the run again, or copy the file again."


@dataclass(frozen=True, slots=True)
class Content:
    """One file of an archive: its size in bytes and its SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive says of itself.

    Attributes
    ----------
    run, run_id : str
        Name and id of the run.
    last_seq : int
        Its last record.
    digest : str
        The running digest up to it, in hexadecimal.
    files : Mapping
        Name in the archive to size and SHA-256; the manifest itself is not among them.
    """

    run: str
    run_id: str
    last_seq: int
    digest: str
    files: Mapping[str, Content]

    def to_json(self) -> bytes:
        """Write it."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(body, indent=1).encode("ascii")


def is_value(name: str) -> bool:
    """Tell whether a file of an archive is an artifact."""
    return bool(_VALUE.match(name))


def write_archive(
    target: Path,
    manifest: Manifest,
    sources: Mapping[str, Callable[[], IO[bytes]]],
    check: Callable[[Path], None],
) -> None:
    """Write an archive aside, check it, and put it in its place; mode 0600, on disk at the end.

    Parameters
    ----------
    target : Path
        It does not exist.
    manifest : Manifest
        Of what is in `sources`; what differs from it when it is read is refused.
    sources : Mapping
        Name in the archive to what opens the bytes.
    check : callable
        Is given the file before it gets its name; what it raises leaves nothing behind.
    """
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already. Nothing was written. Name another file.")
    fd, name = tempfile.mkstemp(prefix=".export-", dir=target.parent)  # mode 0600
    part = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_info(MANIFEST), manifest.to_json())
                for member, content in manifest.files.items():
                    with sources[member]() as source:
                        _write_member(archive, member, content, source)
            file.flush()
            os.fsync(file.fileno())
        check(part)
        os.rename(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.create_system, info.external_attr = _UNIX, (stat.S_IFREG | 0o600) << 16
    return info


def _write_member(archive: zipfile.ZipFile, name: str, content: Content, source: IO[bytes]) -> None:
    """Copy one file in, and check that it is what the manifest says."""
    digest, size = hashlib.sha256(), 0
    with archive.open(_info(name), "w", force_zip64=True) as member:
        while piece := source.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
            member.write(piece)
    if Content(size, digest.hexdigest()) != content:
        raise OSError(f"{name} changed while it was exported. Nothing was written. Try again.")


class Archive:
    """An archive to read from; what it holds is checked before it is given.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    manifest : Manifest
        What it says of itself.

    Raises
    ------
    ArchiveRefused
        It is not an archive of a run, of a newer form, or holds what no run has.
    OSError
        It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not stat.S_ISREG(path.stat().st_mode):
            raise self._refused("it is no plain file", "Name the file that export wrote.")
        try:
            self._zip = zipfile.ZipFile(path)
        # NotImplementedError is zipfile's own: a form of archive that it cannot read
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise self._refused(f"it is no zip archive ({error})", _AGAIN) from error
        try:
            self._members = self._listed()
            self.manifest = self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def read(self, name: str) -> bytes:
        """Read a file whole."""
        return b"".join(self._pieces(name))

    def extract(self, name: str, target: Path) -> None:
        """Write a file out to a path that the caller chose."""
        with target.open("xb") as file:
            for piece in self._pieces(name):
                file.write(piece)

    def check(self, name: str) -> None:
        """Read a file, and check it."""
        for _ in self._pieces(name):
            pass

    def _pieces(self, name: str) -> Iterator[bytes]:
        """Give the bytes of a file; the last come only if all are those of the manifest."""
        content, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        with self._unbroken(), self._zip.open(self._members[name]) as member:
            while piece := member.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
                yield piece
        if Content(size, digest.hexdigest()) != content:
            raise self._refused(f"{name} is damaged: its digest is another one", _AGAIN)

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        """List the members, refusing what an export never writes."""
        found: dict[str, zipfile.ZipInfo] = {}
        total = 0
        for info in self._zip.infolist():
            name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
            known = name == MANIFEST or name in _OTHERS or is_value(name)
            why = ""
            if not known or name != info.orig_filename:
                why = "which no run has"
            elif name in found:
                why = "twice"
            elif kind not in (0, stat.S_IFREG):
                why = "which is no plain file"
            elif info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                why = "compressed or encrypted, which an export never is"
            if why:
                shown = info.orig_filename[:80]
                raise self._refused(
                    f"it holds {shown!r}, {why}", "Do not trust where it came from."
                )
            found[name] = info
            total += info.file_size
        if total > self.path.stat().st_size:
            why = f"it claims to hold {total:,} bytes, which is more than it has"
            raise self._refused(why, "Do not trust where it came from.")
        return found

    def _read_manifest(self) -> Manifest:
        """Read what the archive says of itself, and compare that with its members."""
        info = self._members.get(MANIFEST)
        if info is None or info.file_size > _MANIFEST_LIMIT:
            raise self._refused("it has no manifest, so it is no run", "Name another file.")
        with self._unbroken():
            raw = self._zip.read(info)
        try:
            body = json.loads(raw)
            if body["format"] != FORMAT:
                raise ValueError(f"its format is {body['format']!r}")
            if type(body["version"]) is int and body["version"] > VERSION:
                raise self._refused(
                    f"it is of version {body['version']}, and this program reads up to {VERSION}",
                    "Upgrade durable_nb first.",
                )
            manifest = _manifest(body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = f"its manifest is not one of a run ({type(error).__name__}: {error})"
            raise self._refused(why, _AGAIN) from error
        sizes = {name: i.file_size for name, i in self._members.items() if name != MANIFEST}
        said = {name: content.size for name, content in manifest.files.items()}
        if sizes != said or JOURNAL_FILE not in said:
            wrong = sorted(n for n in sizes.keys() | said.keys() if sizes.get(n) != said.get(n))
            why = f"its files are not those of its manifest ({', '.join(wrong[:3]) or 'none'})"
            raise self._refused(why, _AGAIN)
        return manifest

    @contextlib.contextmanager
    def _unbroken(self) -> Iterator[None]:
        """Tell what zipfile finds damaged as a refusal."""
        try:
            yield
        # zipfile's own: NotImplementedError for another compression, RuntimeError for a password
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
            raise self._refused(f"it is damaged ({error})", _AGAIN) from error

    def _refused(self, why: str, advice: str) -> ArchiveRefused:
        return ArchiveRefused(str(self.path), why, advice)


def _manifest(body: Mapping[str, Any]) -> Manifest:
    """Read a manifest, and check each of its fields; raises ValueError, KeyError or TypeError."""
    if body["version"] != VERSION:
        raise ValueError(f"its version is {body['version']!r}")
    files = {}
    for name, content in body["files"].items():
        if type(content["size"]) is not int or not re.fullmatch("[0-9a-f]{64}", content["sha256"]):
            raise ValueError(f"what it says of {name[:80]!r}")
        files[name] = Content(content["size"], content["sha256"])
    run, run_id, last_seq, digest = (body[k] for k in ("run", "run_id", "last_seq", "digest"))
    if type(run) is not str or type(run_id) is not str or type(last_seq) is not int:
        raise TypeError("run, run_id or last_seq")
    if not re.fullmatch("[0-9a-f]{32}", digest):
        raise ValueError("digest")
    return Manifest(run, run_id, last_seq, digest, files)


def content_of(path: Path) -> Content:
    """Give size and digest of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
    return Content(size, digest.hexdigest())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
