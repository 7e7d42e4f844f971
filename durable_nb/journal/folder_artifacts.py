"""The artifacts of a run that is kept in a folder."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from durable_nb import values
from durable_nb.model.errors import NotTrusted


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of recorded values that are too large for a record.

    Attributes
    ----------
    missing : frozenset of (str, int)
        What is not there in its full size, by SHA-256 and size in bytes.
    told : list of str
        What was noticed or mended, a line each.
    problem : Exception or None
        Why none of them can be read.
    """

    missing: frozenset[tuple[str, int]] = frozenset()
    told: list[str] = field(default_factory=list)
    problem: Exception | None = None


class FolderArtifacts:
    """Opened when the first is needed: most runs have none.

    Parameters
    ----------
    folder : Path
        Where they are; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._store: values.DiskArtifacts | None = None

    @property
    def trouble(self) -> str:
        """Nothing: a disk answers, or fails."""
        return ""

    def _opened(self) -> values.DiskArtifacts:
        with self._lock:
            if self._store is None:
                self._store = values.DiskArtifacts(self._folder)
            return self._store

    def put(self, data: bytes) -> str:
        """Store bytes, durably; give their SHA-256 in hexadecimal."""
        return self._opened().put(data)

    def get(self, sha256: str) -> bytes:
        """Read bytes back, checked."""
        return self._opened().get(sha256)

    def check(self, refs: Collection[tuple[str, int]], *, mend: bool) -> Checked:
        """Check that artifacts are there in their full size, unread.

        Parameters
        ----------
        refs : collection of (str, int)
            SHA-256 and size in bytes.
        mend : bool
            Find those again whose index is lost.
        """
        if not refs and not self._folder.exists():
            return Checked()
        told: list[str] = []
        try:
            if mend:
                told += values.mend_index(self._folder, refs)
            with closing(values.DiskArtifacts(self._folder)) as artifacts:
                told += artifacts.warnings
                missing = frozenset(ref for ref in refs if not artifacts.contains(*ref))
        except (values.ArtifactStoreDamaged, NotTrusted) as problem:
            return Checked(told=told, problem=problem)
        return Checked(missing, told)

    def sizes(self) -> dict[str, int]:
        """Give SHA-256 to bytes of all that are there."""
        return self._opened().sizes() if self._folder.exists() else {}

    def remove(self, sha256s: Collection[str], epoch: int) -> bool:
        """Remove what no record names; the lock keeps other owners out as long as this one is."""
        for sha256 in sha256s:
            self._opened().remove(sha256)
        return True

    def close(self) -> None:
        """Let go of what was opened; twice is harmless."""
        with self._lock:
            if self._store is not None:
                self._store.close()
