"""A worker that was silent for so long that the queue has forgotten it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from support.fleet import LEASE_S, Yard
from support.postgres import Cluster, Proxy

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


def test_a_worker_that_is_stopped_while_the_database_is_away_says_so(yard: Yard, own_cluster):
    """It does not wait for the database to come back, and its error is no riddle."""
    yard.store = own_cluster.new_database()
    worker = yard.worker()
    _wait_until(lambda: "slots, for runs of" in worker.said)
    own_cluster.stop()
    _wait_until(lambda: "waits for the database: " in worker.said)

    worker.process.send_signal(signal.SIGTERM)

    assert worker.ended(60) == 1
    assert "cannot be reached: " in worker.said
    assert "What is on record there is unhurt." in worker.said
    assert "This is unexpected" not in worker.said
    own_cluster.start()


def test_a_worker_that_is_stopped_in_the_middle_of_a_look_does_not_wait_for_the_database(
    yard: Yard, cluster: Cluster
):
    """The server went between two statements of a look, which is patient; it ends with the worker."""
    proxy = Proxy(cluster.socket)
    yard.store = proxy.url(cluster.new_database().partition("@/")[2].partition("?")[0])
    worker = yard.worker()
    _wait_until(lambda: "slots, for runs of" in worker.said)
    time.sleep(1)  # it has the connections that it needs
    proxy.cut_marks, proxy.cut_request, proxy.closes = b"WITH touched", True, True
    _wait_until(lambda: proxy.closed)

    worker.process.send_signal(signal.SIGTERM)

    assert worker.ended(40) in (0, 1)
    assert "Traceback" not in worker.said
    proxy.end()


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
