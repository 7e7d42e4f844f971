"""A whole fleet at once: workers, kernels and the database die, and a person settles doubts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fleet.chaos import Chaos, harmed
from benchmarks.fleet.harm import Harms
from benchmarks.server import cluster as own_cluster

pytestmark = pytest.mark.slow

CHAOS = Chaos(
    workers=2, runs=6, operations=8, harms=Harms(workers=3, kernels=3), seed=1, before=0.2, after=0.1
)  # fmt: skip


def test_a_fleet_that_is_harmed_all_the_time_does_nothing_twice_and_loses_nothing(tmp_path: Path):
    """3 workers and 3 kernels killed, a worker stopped past its lease, two restarts: all is done."""
    with own_cluster() as server:  # which is restarted: not the one that other tests share
        came = harmed(CHAOS, server.new_database("chaos"), tmp_path, print)
    assert came.found.broken == []
    assert came.found.ends == {"finished": CHAOS.runs}
    assert came.found.operations == CHAOS.runs * CHAOS.operations
    assert (came.found.duplicates, came.found.lost) == (0, 0)
    assert came.done == {
        "worker": 3, "kernel": 2, "lost": 1, "stop": 1, "second": 1, "immediate": 1, "fast": 1
    }  # fmt: skip
    assert came.found.verdicts["confirmed"] >= 1, "what the stopped worker had begun had happened"
    assert came.found.verdicts["denied"] >= 1, "what never came had not"
