"""One supervisor a run: two connections of real processes, and what stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest
from support.desk import REPOSITORY

from durable_nb.journal.postgres import Server
from durable_nb.journal.postgres.claim import claimed
from durable_nb.model.errors import RunHeld

LEASE_S = 2.0

CHILD = """
import sys, time
from durable_nb.journal.postgres import Server
from durable_nb.journal.postgres.claim import claimed
with claimed(Server(sys.argv[1], lease_s=float(sys.argv[2])), "r"):
    print("claimed", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def server(cluster) -> Server:
    return Server(cluster.new_database(), lease_s=LEASE_S)


@pytest.fixture
def other(server: Server) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed the run."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url, str(LEASE_S)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "claimed\n"
    yield child
    child.kill()
    child.wait()


def _is_refused(server: Server) -> bool:
    try:
        with claimed(server, "r"):
            return False
    except RunHeld:
        return True


def test_a_supervisor_that_only_says_nothing_new_keeps_its_claim(server, other):
    """It beats, from a thread of its own: a long step is none of its business."""
    time.sleep(LEASE_S * 2)
    with pytest.raises(RunHeld, match=f"supervisor process {other.pid} on "), claimed(server, "r"):
        pass


def test_one_that_stands_still_for_a_lease_loses_its_claim(server, other):
    """Not before: then its session is ended by the server, and it does not get it back."""
    other.send_signal(signal.SIGSTOP)
    try:
        assert _is_refused(server)
        time.sleep(LEASE_S * 1.5)
        with claimed(server, "r"):
            other.send_signal(signal.SIGCONT)
            time.sleep(LEASE_S)
            with psycopg.connect(server.url) as con:
                found = con.execute(
                    "SELECT application_name FROM pg_stat_activity"
                    " WHERE application_name LIKE 'durable_nb supervisor%'"
                ).fetchall()
            assert [name.split()[3] for (name,) in found] == [str(os.getpid())]
    finally:
        other.send_signal(signal.SIGCONT)


def test_one_that_is_killed_loses_its_claim_at_once(server, other):
    """The server drops it with the session."""
    other.kill()
    other.wait()
    deadline = time.monotonic() + 5
    while _is_refused(server):
        assert time.monotonic() < deadline


def test_one_whose_session_is_lost_claims_the_run_again(server, other):
    """A server that starts again has forgotten all sessions; who was at work goes on."""
    with psycopg.connect(server.url, autocommit=True) as con:
        con.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'durable_nb supervisor%'"
        )
    time.sleep(LEASE_S)
    assert _is_refused(server)
