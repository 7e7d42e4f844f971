"""Workers of a fleet: real processes, real kernels, a real server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.desk import HAPPEN
from support.fleet import LEASE_S, Yard
from support.postgres import Cluster
from support.postgres_fixtures import cluster

__all__ = ["cluster", "yard"]


@pytest.fixture
def yard(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """A folder with notebooks, a database, and workers that end with the test."""
    monkeypatch.setenv("DURABLE_LEASE_S", str(LEASE_S))
    made = Yard(tmp_path, cluster.new_database())
    yield made
    made.end()


@pytest.fixture
def happen() -> str:
    return HAPPEN


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server that this test may stop."""
    made = Cluster(uuid.uuid4().hex[:12])
    yield made
    made.end()
