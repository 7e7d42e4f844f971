"""What the tests of this layer share: artifacts in memory and a round trip."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

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


@pytest.fixture
def artifacts() -> MemoryArtifacts:
    return MemoryArtifacts()


@pytest.fixture
def back(artifacts: MemoryArtifacts) -> Callable[[Any], Any]:
    """Encode and decode."""
    return lambda value: values.decode(values.encode(value, artifacts), artifacts)
