"""Who may append: epochs, heartbeats and takeovers, on real connections."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from support.child import Child
from support.journals import draft, numbers
from support.postgres import connected

from durable_nb.journal import OwnerInfo
from durable_nb.journal.owner import Life
from durable_nb.journal.postgres import PostgresLease, Server, holders, probe
from durable_nb.model.errors import RunHeld, StaleOwner


def _count(url: str, owned) -> int:
    with connected(url) as con:
        row = con.execute(
            "SELECT count(*) FROM durable_nb.records WHERE run = %s", [owned.lease.key]
        ).fetchone()
    return row[0]


def _age(url: str, run: str, seconds: float) -> None:
    """Let the heartbeat of a run be so old, by the server's clock."""
    with connected(url) as con:
        for table, column in (("leases", "taken"), ("heartbeats", "beat")):
            con.execute(
                f"UPDATE durable_nb.{table} t SET {column} = clock_timestamp() - %s * interval '1 s' "
                "FROM durable_nb.runs r WHERE r.run = t.run AND r.name = %s",
                (seconds, run),
            )


@pytest.mark.parametrize("how", ["UPDATE", "FOR UPDATE"])
def test_an_append_that_meets_a_takeover_under_way_is_refused(store, place, opened, how):
    """It waits for the takeover, looks at the epoch again, and writes nothing."""
    owned = opened(place)
    owned.journal.append([draft(1)])
    refused: list[BaseException] = []

    def late():
        try:
            owned.journal.append([draft(2)])
        except StaleOwner as error:
            refused.append(error)

    with connected(store) as other, other.transaction():
        if how == "FOR UPDATE":
            other.execute(
                "SELECT epoch FROM durable_nb.leases WHERE run = %s FOR UPDATE", [owned.lease.key]
            )
        else:
            other.execute(
                "UPDATE durable_nb.leases SET epoch = epoch + 1 WHERE run = %s", [owned.lease.key]
            )
        thread = threading.Thread(target=late)
        thread.start()
        time.sleep(0.3)
        assert thread.is_alive(), "the append did not wait for the takeover"
        if how == "FOR UPDATE":
            other.execute(
                "UPDATE durable_nb.leases SET epoch = epoch + 1 WHERE run = %s", [owned.lease.key]
            )
    thread.join(10)

    assert len(refused) == 1
    assert _count(store, owned) == 1


def test_a_stale_owner_is_refused_for_good_and_told_who_has_the_run(store, place, opened):
    """Every later call says so as well, its heartbeat too; closing it is quiet and frees nothing."""
    _, _, run = place.partition(" ")
    old = opened(place)
    old.journal.append([draft(1)])
    _age(store, run, 61)
    new = opened(place)
    assert new.journal.epoch == old.journal.epoch + 1
    old.journal.append([draft(8)], lazy=True)
    for again in range(3):
        with pytest.raises(StaleOwner, match=f"epoch {new.journal.epoch}; this process had"):
            old.journal.append([draft(9)], lazy=again == 2)
    with pytest.raises(StaleOwner):
        old.journal.flush()
    with pytest.raises(StaleOwner):
        old.lease.beat()
    assert not old.lease.held
    old.close()
    new.journal.append([draft(2)])
    assert numbers(new) == [1, 2]
    assert probe(Server(store), run).live


def test_a_process_that_stood_still_past_its_lease_is_refused(place, opened, tmp_path: Path):
    """SIGSTOP, a takeover, SIGCONT: its next append is refused, and none of it is between others'."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys
from support.journals import draft, own
from durable_nb.model.errors import StaleOwner
owned = own(sys.argv[1], lease_s=2.0)
owned.lease.start_heartbeat()
n = 0
try:
    while True:
        owned.journal.append([draft(n)])
        n += 1
        if n == 20:
            print("runs", flush=True)
except StaleOwner as error:
    print(n, error.why, flush=True)
"""
    )
    child = Child(program, place)
    assert child.first_line() == "runs\n"
    os.kill(child.pid, signal.SIGSTOP)
    new = opened(place, lease_s=2.0, wait=10)
    there = numbers(new)
    new.journal.append([draft(-1)])
    os.kill(child.pid, signal.SIGCONT)
    said = child.wait().ok().out.strip()
    assert f"process {os.getpid()} " in said
    acknowledged = int(said.split()[0])
    assert len(there) in (acknowledged, acknowledged + 1)
    assert numbers(new) == [*there, -1]


def test_a_released_lease_lets_nothing_through(place, opened):
    """Once given back, the epoch is no longer good for an append, even if nobody took the run."""
    owned = opened(place)
    owned.lease.release()
    owned.lease.release()
    with pytest.raises(StaleOwner, match="given back"):
        owned.journal.append([draft(1)])


@pytest.mark.slow
def test_heartbeats_and_appends_never_wait_for_each_other_in_a_circle(store, place, opened):
    """1,000 of each at once: no deadlock, nothing refused."""
    owned = opened(place)
    failed: list[BaseException] = []

    def beats():
        try:
            for _ in range(1000):
                owned.lease.beat()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=beats)
    thread.start()
    for n in range(1000):
        owned.journal.append([draft(n)])
    thread.join(60)

    assert not thread.is_alive()
    assert failed == []
    assert _count(store, owned) == 1000
    with connected(store) as con:
        con.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert con.execute(query).fetchone() == (0,)


def test_a_heartbeat_does_not_wait_for_an_append_that_stands_still(store, place, opened):
    """An open append keeps the lease row; the heartbeat has a row of its own."""
    owned = opened(place, lease_s=4.0)
    with connected(store) as other, other.transaction():
        lock = "SELECT FROM durable_nb.leases WHERE run = %s FOR SHARE"
        other.execute(lock, [owned.lease.key])
        begun = time.monotonic()
        owned.lease.beat()
        assert time.monotonic() - begun < 1


def test_a_lease_that_an_open_transaction_holds_is_taken_over(store, place, opened):
    """An owner that stands still in a transaction of ours is thrown out by the server in time."""
    owned = opened(place, lease_s=2.0)
    time.sleep(1.6)
    stuck = Server(store, 2.0).connect("records stuck")
    stuck.execute("BEGIN")
    stuck.execute("SELECT FROM durable_nb.leases WHERE run = %s FOR SHARE", [owned.lease.key])
    begun = time.monotonic()

    taken = opened(place, lease_s=2.0, wait=10)

    assert 0.8 < time.monotonic() - begun < 5, "it took the row from under an open transaction"
    assert taken.journal.epoch == owned.journal.epoch + 1
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stuck.execute("COMMIT")
    stuck.close()


def test_a_strangers_transaction_is_waited_for_and_then_named(store, place, opened):
    """One without our time-outs can keep the row: the takeover says so instead of hanging."""
    owned = opened(place, lease_s=1.0)
    with connected(store) as other, other.transaction():
        lock = "SELECT FROM durable_nb.leases WHERE run = %s FOR SHARE"
        other.execute(lock, [owned.lease.key])
        time.sleep(1.1)
        begun = time.monotonic()
        with pytest.raises(RunHeld, match="a transaction that stands still"):
            opened(place, lease_s=1.0)
        assert time.monotonic() - begun < 5


def test_a_lively_lease_is_not_taken_over(place, opened):
    """Heartbeats keep it for longer than it lasts; without them it is free after that time."""
    owned = opened(place, lease_s=2.0)
    owned.lease.start_heartbeat()
    with pytest.raises(RunHeld, match="open already"):
        opened(place, lease_s=2.0, wait=2.5)
    assert owned.lease.held
    assert owned.lease.trouble == ""
    owned.lease._heart.stop()
    assert opened(place, lease_s=2.0, wait=9).journal.epoch == 2
    assert not owned.lease.held


def test_only_the_servers_clock_counts(store, place, opened, monkeypatch):
    """A clock that is an hour off, either way, neither takes a live run nor keeps a dead one."""
    _, _, run = place.partition(" ")

    class Late(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=1)

    early = opened(place, clock=lambda: datetime.now(UTC) - timedelta(hours=1))
    early.journal.append([draft(1)])
    monkeypatch.setattr("durable_nb.journal.postgres.lease.datetime", Late)
    with pytest.raises(RunHeld):
        opened(place)
    assert probe(Server(store), run).life is Life.LIVE
    _age(store, run, 61)
    assert probe(Server(store), run).life is Life.CRASHED
    late = opened(place, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    late.journal.append([draft(2)])
    late.close()
    again = opened(place, clock=lambda: datetime.now(UTC) - timedelta(hours=1))
    again.journal.append([draft(3)])
    assert numbers(again) == [1, 2, 3]


@pytest.mark.slow
def test_200_orphans_are_taken_once_each(cluster, tmp_path: Path):
    """Two processes race for all of them from one list: no run has two owners.

    Both live until both are through: what a process that has ended held is an orphan again.
    """
    from durable_nb.journal.postgres import prepare

    url = cluster.new_database()
    prepare(Server(url))
    with connected(url) as con:
        con.execute(
            "INSERT INTO durable_nb.runs (name) SELECT 'orphan' || n FROM generate_series(1, 200) n"
        )
        con.execute(
            "INSERT INTO durable_nb.leases SELECT run, 7, '{\"pid\": 1}', "
            "now() - interval '2 hours' FROM durable_nb.runs"
        )
        con.execute(
            "INSERT INTO durable_nb.heartbeats SELECT run, 7, now() - interval '1 hour' "
            "FROM durable_nb.runs"
        )
    code = """
import glob, json, os, sys, time
from durable_nb.journal import OwnerInfo
from durable_nb.journal.postgres import *
from durable_nb.model.errors import RunHeld
server = Server(sys.argv[1])
names = [name for name, holder in holders(server).items() if not holder.live]
print(len(names), flush=True)
while not os.path.exists(sys.argv[2]):
    pass
taken = []
for name in names:
    try:
        taken.append((name, PostgresLease.acquire(server, run=name, who=OwnerInfo.here(), wait=0).epoch))
    except RunHeld:
        pass
open(f"{sys.argv[2]}-{os.getpid()}", "w").close()
while len(glob.glob(f"{sys.argv[2]}-*")) < 2:
    time.sleep(0.01)
print(json.dumps({"taken": taken}), flush=True)
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    racing = [Child(program, url, tmp_path / "go") for _ in range(2)]
    listed = [child.first_line() for child in racing]
    (tmp_path / "go").touch()
    ended = [child.wait().ok() for child in racing]
    taken = [name for child in ended for name, _ in child.facts["taken"]]
    assert listed == ["200\n", "200\n"]
    assert Counter(taken) == Counter({f"orphan{n}": 1 for n in range(1, 201)})
    assert {epoch for child in ended for _, epoch in child.facts["taken"]} == {8}
    assert all(child.facts["taken"] for child in ended), "one was too late to race"


def test_the_owner_before_and_what_an_owner_says_of_itself_are_kept(store, place, opened):
    """Any text may be in it; `probe` tells it to others until the run is given back."""
    _, _, run = place.partition(" ")
    server = Server(store)
    assert probe(server, run) is None
    who = OwnerInfo.here(kernel="k", notebook="a\ud800b\0c.ipynb")
    with PostgresLease.acquire(server, run=run, who=who) as lease:
        assert lease.previous is None
        lease.update(epoch=lease.epoch, kernel="k2")
        holder = probe(server, run)
        assert (holder.info.kernel, holder.info.notebook) == ("k2", "a?b?c.ipynb")
        assert holder.info.epoch == lease.next_epoch == 1
        assert holder.heartbeat_age() < 5
        with pytest.raises(ValueError, match="epoch"):
            lease.update(epoch=9)
    assert probe(server, run) is None
    assert holders(server)[run] is None
    with PostgresLease.acquire(server, run=run, who=OwnerInfo.here()) as lease:
        assert (lease.previous.kernel, bool(lease.previous.released)) == ("k2", True)
