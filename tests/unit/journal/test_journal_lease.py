from __future__ import annotations

import fcntl
import json
import os
import pickle
import platform
import signal
import stat
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from durable_nb.journal import Head, Lease, OwnerInfo, open_journal
from durable_nb.journal.owner import Life, Role, is_alive, probe, processes_with, start_time
from durable_nb.model.errors import JournalUnwritable, RunHeld

HOLD = """
lease = Lease.acquire(folder, run="r", who=OwnerInfo.here(kernel="k-1", notebook="a.ipynb"))
say(os.getpid())
"""
WAIT = "time.sleep(60)"


def _acquire(folder, wait=0.2, dying_wait=0.4, **who):
    return Lease.acquire(
        folder, run="r", who=OwnerInfo.here(**who), wait=wait, dying_wait=dying_wait
    )


@pytest.mark.slow
def test_case_7_a_held_run_is_refused_with_who_holds_it(start, tmp_path):
    """The second process learns host, pid, kernel, notebook, since when, and what to do."""
    child = start(HOLD + WAIT)
    child.line()
    with pytest.raises(RunHeld) as held:
        _acquire(tmp_path)
    text = str(held.value)
    for part in (
        str(child.pid),
        platform.node(),
        "k-1",
        "a.ipynb",
        "since 20",
        "heartbeat",
        "close",
    ):
        assert part in text, part
    assert str(pickle.loads(pickle.dumps(held.value))) == text


@pytest.mark.slow
def test_the_lease_of_a_killed_owner_is_free_at_once(start, tmp_path):
    """No time-out: the system drops the lock with its holder."""
    child = start(HOLD + WAIT)
    child.line()
    child.kill()
    begun = time.monotonic()
    with _acquire(tmp_path, wait=0.0, dying_wait=0.0) as lease:
        assert time.monotonic() - begun < 1
        assert lease.previous.pid == child.pid
        assert not lease.previous.released


def test_a_live_fork_child_does_not_keep_the_lease(start, tmp_path):
    """A multiprocessing child outlives its parent's SIGKILL and holds nothing."""
    child = start(
        HOLD
        + """
import multiprocessing
journal = opened()
journal.append([draft(1)])
forking = multiprocessing.get_context("fork")
at_work = forking.Event()

def work():
    at_work.set()
    time.sleep(60)

process = forking.Process(target=work)
process.start()
at_work.wait()  # a child that has not run yet has had no time to close anything
say(process.pid)
"""
        + WAIT
    )
    child.line()
    grandchild = int(child.line())
    try:
        child.process.send_signal(signal.SIGKILL)
        child.process.wait(10)
        assert is_alive(grandchild)
        _acquire(tmp_path, wait=0.0, dying_wait=0.0).release()
    finally:
        os.kill(grandchild, signal.SIGKILL)


@pytest.mark.slow
def test_surviving_children_that_hold_the_lock_are_named(start, tmp_path):
    """A program that inherited the descriptor on purpose is found and named."""
    child = start(
        HOLD
        + """
import subprocess
sleeper = subprocess.Popen(["sleep", "60"], pass_fds=[lease._fd], stdout=subprocess.DEVNULL)
say(sleeper.pid)
"""
        + WAIT
    )
    child.line()
    sleeper = int(child.line())
    try:
        child.process.send_signal(signal.SIGKILL)
        child.process.wait(10)
        begun = time.monotonic()
        with pytest.raises(RunHeld) as held:
            _acquire(tmp_path, wait=0.1, dying_wait=0.6)
        assert time.monotonic() - begun > 0.5, "it waits longer for what is on its way out"
        assert str(sleeper) in str(held.value)
        assert f"process {child.pid} left behind" in str(held.value)
    finally:
        os.kill(sleeper, signal.SIGKILL)


@pytest.mark.slow
def test_this_notebooks_dying_kernel_is_waited_for(start, tmp_path):
    """A restart: the old kernel of the same notebook gets ten seconds, others one."""
    child = start(HOLD + "time.sleep(1.0)")
    child.line()
    with pytest.raises(RunHeld):
        _acquire(tmp_path, wait=0.1, dying_wait=5, notebook="b.ipynb")
    _acquire(tmp_path, wait=0.1, dying_wait=10, notebook="a.ipynb").release()


def test_the_same_process_is_told_that_it_has_the_run_itself(tmp_path):
    """Two leases in one process exclude each other like two processes."""
    with _acquire(tmp_path), pytest.raises(RunHeld, match="This kernel has it open already"):
        _acquire(tmp_path)


@pytest.mark.slow
def test_case_51_a_lock_without_an_owner_on_record_says_what_is_known(start, tmp_path):
    """No owner.json, or a torn one: the pid is found all the same, nothing is deleted."""
    child = start(HOLD + WAIT)
    child.line()
    (tmp_path / "owner.json").write_text("{torn")
    with pytest.raises(RunHeld, match=f"process {child.pid}"):
        _acquire(tmp_path)
    assert (tmp_path / "owner.json").read_text() == "{torn"


@pytest.mark.slow
def test_opening_and_closing_the_database_in_the_owner_lets_nobody_in(start, tmp_path):
    """`open(file).close()` drops DuckDB's own lock; the lease does not care."""
    child = start(
        HOLD
        + """
journal = opened()
journal.append([draft(1)])
open(folder / "journal.duckdb", "rb").close()
say("dropped")
"""
        + WAIT
    )
    child.line()
    assert child.line() == "dropped"
    with pytest.raises(RunHeld, match=str(child.pid)):
        _acquire(tmp_path)
    child.kill()
    with _acquire(tmp_path):
        head = Head(tmp_path / "head")
        journal = open_journal(tmp_path / "journal.duckdb", run="r", head=head)
        assert len(journal.load()) == 1
        journal.close()
        head.close()


def test_a_released_run_is_free_and_says_so(tmp_path):
    """Release marks owner.json, unlocks, and is harmless twice."""
    lease = _acquire(tmp_path)
    assert lease.held
    lease.release()
    lease.release()
    assert not lease.held
    assert OwnerInfo.load(tmp_path).released
    assert probe(tmp_path) is None
    with pytest.raises(RunHeld, match="released"):
        lease.update(epoch=3)
    _acquire(tmp_path).release()


def test_the_next_epoch_is_above_every_owner_on_record(tmp_path):
    """Even if the journal lost its last records, no epoch is given twice."""
    for expected in (1, 2, 3):
        with _acquire(tmp_path) as lease:
            assert lease.next_epoch == expected
            lease.update(epoch=lease.next_epoch)
    with _acquire(tmp_path) as lease:
        lease.update(epoch=40)
    with _acquire(tmp_path) as lease:
        assert lease.next_epoch == 41


def test_owner_json_is_private_and_complete(tmp_path):
    """Mode 0600, every fact there, nothing absolute in it, no leftovers beside it."""
    with _acquire(tmp_path, kernel="k", notebook="n.ipynb", role=Role.OPERATOR):
        path = tmp_path / "owner.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        data = json.loads(path.read_text())
        assert data["pid"] == os.getpid()
        assert data["role"] == "operator"
        assert data["host"] == platform.node()
        assert data["started"] == start_time(os.getpid())
        assert str(tmp_path) not in path.read_text()
        assert "/" not in data["python"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["owner.json", "owner.lock"]


def test_a_replaced_lock_file_is_noticed(tmp_path):
    """Somebody deleted owner.lock: the lease knows that it guards nothing any more."""
    with _acquire(tmp_path) as lease:
        (tmp_path / "owner.lock").unlink()
        assert not lease.held
        with _acquire(tmp_path):
            assert not lease.held


def test_a_lock_on_a_folder_that_was_set_aside_meanwhile_is_no_lease(tmp_path, monkeypatch):
    """Locking and renaming may cross: the lock must be on the file that is there now."""
    flock, swapped = fcntl.flock, []

    def crossed(fd, how):
        flock(fd, how)
        if not swapped:
            swapped.append((tmp_path / "owner.lock").rename(tmp_path / "old"))
            (tmp_path / "owner.lock").touch()

    monkeypatch.setattr("durable_nb.journal.lease.fcntl.flock", crossed)
    with _acquire(tmp_path) as lease:
        assert lease.held


def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch):
    """An owner that cannot write owner.json does not get the run, and leaves it free."""

    def full(self, folder):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(OwnerInfo, "save", full)
        with pytest.raises(JournalUnwritable, match="No space left"):
            _acquire(tmp_path)
    _acquire(tmp_path).release()


# -- the heartbeat -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_heartbeat_tells_that_the_owner_lives(tmp_path):
    """It rewrites owner.json, brings the head to the disk and calls back, from its own thread."""
    head = Head(tmp_path / "head")
    beats = []
    with _acquire(tmp_path) as lease:
        first = OwnerInfo.load(tmp_path).heartbeat
        lease.start_heartbeat(head, lambda: beats.append(time.monotonic()), every=0.05)
        deadline = time.monotonic() + 5
        while len(beats) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert OwnerInfo.load(tmp_path).heartbeat > first
    count = len(beats)
    assert count >= 3
    time.sleep(0.2)
    assert len(beats) == count, "a released lease beats no more"
    assert OwnerInfo.load(tmp_path).released
    head.close()


def test_a_failing_heartbeat_raises_to_nobody_and_goes_on(tmp_path):
    """Its failure is kept, the next beat is tried."""
    beats = []

    def fails():
        beats.append(1)
        raise ValueError("boom")

    with _acquire(tmp_path) as lease:
        lease.start_heartbeat(on_beat=fails, every=0.03)
        deadline = time.monotonic() + 5
        while len(beats) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(beats) >= 3
        assert "boom" in lease.trouble


# -- probing -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_probing_tells_live_from_crashed_without_touching_the_lock(start, tmp_path):
    """Who is on record and whether that process lives; the lock file is not even opened."""
    assert probe(tmp_path) is None
    child = start(HOLD + WAIT)
    child.line()
    (tmp_path / "owner.lock").rename(tmp_path / "hidden")
    assert probe(tmp_path).live
    (tmp_path / "hidden").rename(tmp_path / "owner.lock")
    child.kill()
    holder = probe(tmp_path)
    assert holder.life is Life.CRASHED
    assert not holder.live
    assert str(child.pid) in str(holder)
    assert holder.heartbeat_age() < 60


@pytest.mark.parametrize(
    ("change", "life"),
    [
        ({}, Life.LIVE),
        ({"started": 12345}, Life.CRASHED),  # the pid was given to another process
        ({"boot": "another boot"}, Life.CRASHED),
        ({"pid": 2**22 + 1}, Life.CRASHED),
        ({"host": "elsewhere.example"}, Life.ELSEWHERE),
    ],
)
def test_a_reused_pid_or_another_boot_is_no_live_owner(tmp_path, change, life):
    """Alive means: same host, same boot, same pid, same start time."""
    replace(OwnerInfo.here(), **change).save(tmp_path)
    assert probe(tmp_path).life is life


def test_a_zombie_holds_nothing():
    """A killed child that nobody waited for is dead: its locks are gone."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    deadline = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)
    os.waitpid(pid, 0)
    assert is_alive(os.getpid())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"pid": "7"}', '{"pid": true}', "[" * 100_000, '{"pid": 1, "epoch": "9"}'],
)
def test_a_strange_owner_json_is_nobody_and_no_crash(tmp_path, text):
    """The file explains; it is never evidence, and nothing in it can break an opening."""
    (tmp_path / "owner.json").write_text(text)
    with _acquire(tmp_path) as lease:
        assert lease.next_epoch == 1


def test_heartbeat_age_is_counted_from_the_file(tmp_path):
    """Seconds since the last beat, whatever the time zone of the reader."""
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    replace(OwnerInfo.here(), heartbeat=(now - timedelta(seconds=90)).isoformat()).save(tmp_path)
    assert probe(tmp_path).heartbeat_age(now) == 90


def test_the_processes_that_have_a_file_open_are_found(tmp_path):
    """From /proc, by device and inode."""
    path = tmp_path / "f"
    with path.open("w"):
        assert os.getpid() in processes_with(path)
    assert processes_with(path) == []
    assert processes_with(tmp_path / "none") == []
