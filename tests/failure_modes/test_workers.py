"""Failure modes of workers: dead ones, slow ones, and what a resume has to load."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.waiting import eventually

import durable_nb as dnb

pytestmark = pytest.mark.slow  # each starts several processes

SLOW = """
def work():
    print("begun", flush=True)
    time.sleep(60)

run = dnb.open_run(more[0], store=store)
run.call(work)
"""


def test_crashed_runs_indistinguishable_from_long_running(bench: Bench) -> None:
    """A run whose kernel is dead is told from one whose kernel is slow, at once, without a time-out.

    The lease is the system's: it is free the moment that its holder is gone, and never before.
    """
    with bench.start(SLOW, "slow") as slow, bench.start(SLOW, "dead") as dead:
        for child in (slow, dead):
            assert child.first_line() == "begun\n"
        eventually(lambda: set(dnb.runs(store=bench.store)["status"]) == {"open"})
        dead.kill()
        frame = dnb.runs(store=bench.store).set_index("name")
        assert frame.loc["slow", "status"] == "open"
        assert frame.loc["dead", "status"] == "crashed"
        assert dnb.watch("slow", store=bench.store).status_view().counts["unknown"] == 0
        assert dnb.watch("dead", store=bench.store).status_view().counts["unknown"] == 1
