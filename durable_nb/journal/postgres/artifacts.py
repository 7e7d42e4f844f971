"""The artifacts of a run in PostgreSQL: bytes by their SHA-256, in parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from durable_nb import values
from durable_nb.journal.folder_artifacts import Checked
from durable_nb.journal.postgres.patience import PATIENCE_S, Patient
from durable_nb.journal.postgres.server import Server

#: Bytes of a part: more would be read, sent and kept in memory at once.
PART: Final = 8 << 20

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LARGEST: Final = 2**63


def parts_of(data: bytes) -> list[memoryview]:
    """Cut bytes into the parts in which they are kept; nothing is copied."""
    whole = memoryview(data)
    return [whole[at : at + PART] for at in range(0, len(data), PART)]


class PostgresArtifacts:
    """The large values of one run; connected when the first is needed, safe in several threads.

    It has a connection of its own, so that nothing of it is ever part of a record's transaction:
    what a record names was committed before.

    Parameters
    ----------
    server : Server
        A store that was prepared.
    key : int
        The number of the run in it.
    patience_s : float
        Seconds to go on trying once the server is gone.
    """

    def __init__(self, server: Server, key: int, *, patience_s: float = PATIENCE_S) -> None:
        self._key = key
        self._insisting = Patient(server, f"artifacts of run {key}", patience_s)

    @property
    def trouble(self) -> str:
        """What it waits for."""
        return self._insisting.trouble

    def put(self, data: bytes) -> str:
        """Store bytes; they are committed when this returns, equal content once.

        What is there under the same digest is compared part by part, by the server, and mended.

        Returns
        -------
        str
            Their SHA-256 in hexadecimal.

        Raises
        ------
        StoreUnreachable, StoreRefused
            It may not be there.
        """
        if type(data) is not bytes:
            raise TypeError(f"artifacts are bytes, not {type(data).__name__}")
        sha256 = hashlib.sha256(data).hexdigest()
        self._insisting(lambda: self._put(sha256, len(data), parts_of(data)))
        return sha256

    def get(self, sha256: str) -> bytes:
        """Read bytes back, checked against their digest.

        Raises
        ------
        ArtifactMissing
            There is no such artifact.
        ArtifactDamaged
            A part is missing or was changed.
        StoreUnreachable, StoreRefused
        """
        if not _SHA256.fullmatch(sha256):
            raise values.ArtifactMissing(sha256)
        data = self._insisting(lambda: self._get(sha256))
        if hashlib.sha256(data).hexdigest() != sha256:
            raise values.ArtifactDamaged(sha256, f"its {len(data)} bytes have another digest")
        return data

    def check(self, refs: Collection[tuple[str, int]], *, mend: bool) -> Checked:
        """Check that artifacts are there in their full size, unread.

        Parameters
        ----------
        refs : collection of (str, int)
            SHA-256 and size in bytes.
        mend : bool
            Not used: there is no index that could be lost on its own.
        """
        asked = [
            (sha256, size)
            for sha256, size in refs
            if _SHA256.fullmatch(sha256) and type(size) is int and 0 <= size < _LARGEST
        ]
        if not asked:
            return Checked(frozenset(refs))
        sha256s, sizes = map(list, zip(*asked, strict=True))
        rows = self._insisting(
            lambda: self._run("artifacts_whole", sha256s=sha256s, sizes=sizes).fetchall()
        )
        return Checked(frozenset(refs) - {(sha256, size) for sha256, size in rows})

    def sizes(self) -> dict[str, int]:
        """Give SHA-256 to bytes of all that are there."""
        return dict(self._insisting(lambda: self._run("artifact_sizes").fetchall()))

    def remove(self, sha256s: Collection[str], epoch: int) -> bool:
        """Remove what no record names, under the epoch of the run's owner.

        A successor may find an artifact there, and name it instead of keeping it again: so the
        epoch is checked in the statement that removes one.
        """
        for sha256 in sha256s:  # one at a time: the lease is not locked for long
            given = {"sha256": sha256, "epoch": epoch}
            (held,) = self._insisting(partial(self._one, "remove_artifact", **given))
            if not held:
                return False
        return True

    def close(self) -> None:
        """Let go of the connection; twice is harmless."""
        self._insisting.close()

    def _put(self, sha256: str, size: int, parts: list[memoryview]) -> None:
        """Write it in one transaction, unless all of it is there."""
        expected = [(n, hashlib.sha256(part).digest()) for n, part in enumerate(parts)]
        if self._there(sha256) == (size, len(parts), expected):
            return
        try:
            self._run("begin")
            self._run("put_artifact", sha256=sha256, size=size, parts=len(parts))
            for number, part in enumerate(parts):
                self._run("put_part", sha256=sha256, part=number, data=part)
            self._run("commit")
        except BaseException:
            self._insisting.session.drop()  # whatever it was: nothing of it stays
            raise

    def _there(self, sha256: str) -> tuple[int, int, list[tuple[int, bytes]]] | None:
        """Tell what is there: size, number of parts, and the digest of each."""
        rows = self._run("artifact_digests", sha256=sha256).fetchall()
        if not rows:
            return None
        found = [(part, bytes(digest)) for *_, part, digest in rows if part is not None]
        return rows[0][0], rows[0][1], found

    def _get(self, sha256: str) -> bytes:
        """Read part after part."""
        parts: list[bytes] = []
        count = 1
        while len(parts) < count:
            row = self._run("artifact_part", sha256=sha256, part=len(parts)).fetchone()
            if row is None:
                raise values.ArtifactMissing(sha256)
            count, data = row
            if data is None and count:
                why = f"part {len(parts) + 1} of {count} is missing"
                raise values.ArtifactDamaged(sha256, why)
            parts.append(data or b"")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _one(self, name: str, **given: Any) -> Any:
        """Send a statement about this run that has one row."""
        return self._run(name, **given).fetchone()

    def _run(self, name: str, **given: Any) -> Any:
        """Send a statement about this run."""
        return self._insisting.session.run(name, {"run": self._key, **given}, binary=True)
