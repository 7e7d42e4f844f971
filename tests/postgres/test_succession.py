"""What becomes of a run whose owner has died, stands still, or has lost its connection."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.child import Child
from support.postgres import connected

from durable_nb.journal.owner import Life, OwnerInfo
from durable_nb.journal.postgres import PostgresLease, Server, probe
from durable_nb.journal.postgres.sessions import look_at
from durable_nb.model.errors import RunHeld

OWNER = """
import os, sys, time
from support.journals import draft, own
owned = own(sys.argv[1])
owned.journal.append([draft(1)])
if sys.argv[2] == "forks" and os.fork() == 0:
    time.sleep(60)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(place: str, tmp_path: Path) -> Callable[[str], Child]:
    """Start an owner of the run."""

    def begin(how: str = "") -> Child:
        program = tmp_path / "owner.py"
        program.write_text(OWNER)
        child = Child(program, place, how)
        child.first_line()
        return child

    return begin


@pytest.mark.slow
def test_a_killed_owner_on_this_machine_is_succeeded_at_once(place, start, opened):
    """The server has lost its session, and there is no such process: nobody waits for a clock."""
    url, _, run = place.partition(" ")
    with start() as child:
        assert probe(Server(url), run).life is Life.LIVE
        child.kill()
    owned = opened(place, wait=5)
    assert owned.journal.epoch == 2
    assert owned.lease.previous.pid == child.pid


@pytest.mark.slow
def test_an_owner_that_is_only_stopped_is_not(place, start, opened):
    """It may go on at any time, so that the lease has to run out first."""
    url, _, run = place.partition(" ")
    with start() as child:
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(RunHeld, match=f"process {child.pid} .* not taken over"):
            opened(place, wait=1)
        assert probe(Server(url), run).life is Life.LIVE


@pytest.mark.slow
def test_what_a_dead_owner_has_started_may_have_its_connection(place, start, opened):
    """Then the server cannot tell that it is dead, and the message says what is in the way."""
    with start("forks") as child:
        os.kill(child.pid, signal.SIGKILL)
        child.until_ended()
        with pytest.raises(RunHeld, match="has ended; what it started has its connection open"):
            opened(place, wait=1)
        child.end_group()
        assert opened(place, wait=5).journal.epoch == 2


def test_an_owner_that_lives_without_its_session_keeps_the_run(store, place, opened):
    """It loses the lock with its connection, and takes it again with the next beat."""
    _, _, run = place.partition(" ")
    owned = opened(place)
    lease = owned.lease

    def is_owned() -> bool:
        with connected(store) as con:
            given = [lease.key, lease.epoch]
            return con.execute("SELECT durable_nb.is_owned(%s, %s)", given).fetchone()[0]

    assert is_owned()
    with connected(store) as con:
        con.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = %s",
            [f"durable_nb lease {run}"],
        )
    assert not is_owned()
    with pytest.raises(RunHeld):
        opened(place)
    assert probe(Server(store), run).life is Life.LIVE
    lease.beat()
    assert is_owned()


def test_of_all_runs_the_same_is_told_of_an_owners_session_as_of_one(store, place):
    """Both statements look whether its lock is held, and find it free once it was released."""
    _, _, run = place.partition(" ")
    look, told = look_at(Server(store)), []
    with PostgresLease.acquire(Server(store), run=run, who=OwnerInfo.here()):
        told.append((look.ask("holder", {"name": run}), look.ask("holders")))
    told.append((look.ask("holder", {"name": run}), look.ask("holders")))
    look.close()
    for (one,), every in told:
        (among,) = [row for row in every if row[0] == run]
        assert (one[1], one[2], one[6]) == (among[1], among[2], among[6])
    assert [one[6] for (one,), _ in told] == [True, False]
