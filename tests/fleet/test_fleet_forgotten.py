"""A worker that was silent for so long that the queue has forgotten it."""

from __future__ import annotations

import signal
import time

import pytest
from support.fleet import LEASE_S, Yard

pytestmark = pytest.mark.slow


def test_a_worker_that_the_queue_has_forgotten_goes_on_working(yard: Yard, happen: str):
    """It stood still past its lease, and another one that began meanwhile struck it off."""
    path = yard.notebook(happen, "happen('done')")
    yard.submit(path, name="first")
    still = yard.worker()
    yard.until(lambda rows: rows["first"]["state"] == "finished")
    still.whole(signal.SIGSTOP)
    time.sleep(LEASE_S + 1)
    assert yard.worker("--once").ended() == 0
    still.whole(signal.SIGCONT)

    yard.submit(path, name="second")

    yard.until(lambda rows: rows["second"]["state"] == "finished", timeout=40)
    assert still.process.poll() is None, still.said
    assert "second: finished" in still.said
