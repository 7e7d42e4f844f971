"""Workers of a fleet: real processes, real kernels, a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.desk import HAPPEN
from support.fleet import Yard
from support.postgres import Cluster
from support.postgres_fixtures import cluster

__all__ = ["cluster", "yard"]


@pytest.fixture
def yard(tmp_path: Path, cluster: Cluster) -> Iterator[Yard]:
    """A folder with notebooks, a database, and workers that end with the test."""
    made = Yard(tmp_path, cluster.new_database())
    yield made
    made.end()


@pytest.fixture
def happen() -> str:
    return HAPPEN
