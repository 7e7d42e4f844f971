"""Artifacts in memory, for values without a store."""

from __future__ import annotations

import hashlib

from durable_nb import values


class MemoryArtifacts:
    """Artifacts in a dict."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return sha256

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise values.ArtifactMissing(sha256)
        return self.blobs[sha256]
