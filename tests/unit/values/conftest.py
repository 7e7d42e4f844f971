"""What the tests of this layer share: artifacts in memory and a round trip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.memory_artifacts import MemoryArtifacts

from durable_nb import values


@pytest.fixture
def artifacts() -> MemoryArtifacts:
    return MemoryArtifacts()


@pytest.fixture
def back(artifacts: MemoryArtifacts) -> Callable[[Any], Any]:
    """Encode and decode."""
    return lambda value: values.decode(values.encode(value, artifacts), artifacts)
