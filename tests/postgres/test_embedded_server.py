"""The server for trying out: it is there while anybody uses it, however its users end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from support.child import PATIENCE
from support.embedded import (
    USER,
    alive,
    end,
    keepers,
    note,
    notes,
    programs,
    server,
    until,
    until_stopped,
)
from support.postgres import connected
from support.script import ROOT

from durable_nb.journal.postgres.embedded import _remove

pytestmark = pytest.mark.slow


# -- who uses it ------------------------------------------------------------------------------


def test_it_outlives_who_started_it_and_ends_with_its_last_user(embedded_store, user):
    """SIGKILL of the first leaves the second its server, with all that was committed."""
    first, second = user(), user()
    address = first.first_line()
    assert second.first_line() == address
    note(address, "kept")
    running = server(embedded_store)
    assert first.kill().killed
    time.sleep(1.5)  # longer than a keeper looks away
    assert (server(embedded_store), notes(address)) == (running, ["kept"])
    end(second)
    until_stopped(embedded_store)
    assert server(embedded_store) is None


def test_a_killed_last_user_ends_it_too_and_nothing_is_lost(embedded_store, user):
    """The lock of a killed process is nobody's, so the keeper stops the server in order."""
    only = user()
    note(only.first_line(), "kept")
    assert only.kill().killed
    until_stopped(embedded_store)
    assert server(embedded_store) is None
    assert notes(user().first_line()) == ["kept"]


def test_ctrl_c_and_the_end_of_a_terminal_do_not_reach_it(embedded_store, user):
    """The terminal of the one who started it is not the server's, nor the keeper's."""
    terminal, inner = os.openpty()
    program = None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "user.py"
        program.write_text(USER)
        first = subprocess.Popen(
            [sys.executable, program, embedded_store, str(inner)],
            pass_fds=[inner],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        os.close(inner)
        address = os.read(terminal, 1000).decode().strip()
        assert address.startswith("postgresql://")
        second = user()
        assert second.first_line().strip() == address
        note(address, "kept")
        running, keeping = server(embedded_store), keepers(embedded_store)
        os.write(terminal, b"\x03")
        assert first.wait(PATIENCE) == -signal.SIGINT
        os.close(terminal)
        time.sleep(1.5)
        assert (server(embedded_store), keepers(embedded_store)) == (running, keeping)
        assert alive(running)
        assert notes(address) == ["kept"]
    end(second)


@pytest.mark.parametrize("full", [False, True])
def test_who_has_only_the_address_uses_it_too(embedded_store, user, full):
    """A session keeps it, also when there is no room for one that would look."""
    only = user()
    address = only.first_line().strip()
    with contextlib.ExitStack() as sessions:
        with connected(address) as con:
            room = int(con.execute("SHOW max_connections").fetchone()[0])
        for _ in range(room if full else 1):
            sessions.enter_context(connected(address))
        if full:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                psycopg.connect(address)
        assert only.kill().killed
        time.sleep(2.5)
        assert alive(server(embedded_store))
        if not full:
            note(address, "still")
    until_stopped(embedded_store)
    assert notes(user().first_line()) == ["still"] if not full else server(embedded_store) is None


def test_first_users_that_race_get_one_server(embedded_store, user):
    """Five at once: one makes the data, and all are told the same address."""
    racing = [user() for _ in range(5)]
    assert len({child.first_line() for child in racing}) == 1
    assert len(keepers(embedded_store)) == 1


# -- what dies --------------------------------------------------------------------------------


def test_a_killed_server_is_started_again_with_all_that_was_committed(embedded_store, user):
    """Who comes next starts it, while others still use it."""
    first = user()
    address = first.first_line()
    note(address, "kept")
    before = server(embedded_store)
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before))
    second = user()
    assert second.first_line() == address
    assert server(embedded_store) != before
    assert notes(address) == ["kept"]
    assert len(keepers(embedded_store)) == 1


def test_a_killed_keeper_is_replaced_by_who_comes_next(embedded_store, user):
    """The server goes on meanwhile, and still ends with its last user."""
    first = user()
    first.first_line()
    running, (before,) = server(embedded_store), keepers(embedded_store)
    os.kill(before, signal.SIGKILL)
    until(lambda: not keepers(embedded_store))
    second = user()
    second.first_line()
    assert server(embedded_store) == running
    (after,) = keepers(embedded_store)
    assert after != before
    assert first.kill().killed
    assert second.kill().killed
    until_stopped(embedded_store)
    assert server(embedded_store) is None


def test_data_are_made_whole_or_not_at_all(embedded_store, user):
    """Killed while it makes them, a user leaves nothing that the next one takes for data."""
    home = embedded_store / ".postgres"
    first = user()
    first.until(lambda: list(home.glob("new-*/PG_VERSION")))
    assert first.kill().killed
    assert not (home / "data").exists()
    note(user().first_line(), "made")
    until(lambda: not programs(home))  # what the killed one had begun has ended, too
    assert notes(user().first_line()) == ["made"]
    assert not list(home.glob("new-*"))


def test_ctrl_c_while_data_are_made_ends_that(embedded_store, user):
    """It reaches this process alone, which ends what it has begun, and leaves nothing of it."""
    home = embedded_store / ".postgres"
    first = user()
    first.until(lambda: list(home.glob("new-*/PG_VERSION")))
    first.interrupt()
    assert first.wait().code != 0
    until(lambda: not programs(home))
    assert not [*home.glob("data"), *home.glob("new-*")]


#: A program that was ended, and has not heard of it yet.
WRITES = """
import sys, time
from pathlib import Path
folder, ends, n = Path(sys.argv[1]), time.monotonic() + 0.5, 0
while time.monotonic() < ends and folder.exists():
    n += 1
    try:
        (folder / str(n)).touch()
    except FileNotFoundError:
        pass
"""


def test_nothing_is_left_although_what_was_ended_still_writes(tmp_path):
    """It is removed again, until it is gone."""
    draft = tmp_path / "new-1"
    draft.mkdir()
    with subprocess.Popen([sys.executable, "-c", WRITES, str(draft)]):
        until(lambda: list(draft.iterdir()))
        _remove(draft)
        assert not draft.exists()


def test_a_folder_that_was_removed_does_not_end_the_next_server(embedded_store, user):
    """The keeper of the old one leaves the new one alone, which has the same path."""
    first = user()
    first.first_line()
    old, (keeping,) = server(embedded_store), keepers(embedded_store)
    os.kill(old, signal.SIGKILL)
    until(lambda: not alive(old))
    shutil.rmtree(embedded_store)
    address = user().first_line()
    assert first.kill().killed
    until(lambda: keeping not in keepers(embedded_store))
    note(address, "new")
    assert notes(address) == ["new"]


def test_the_number_of_a_dead_server_may_be_another_process(embedded_store, user, tmp_path):
    """It is neither taken for the server nor ended."""
    first = user()
    note(first.first_line(), "kept")
    told = embedded_store / ".postgres" / "data" / "postmaster.pid"
    before = told.read_text()
    end(first)
    until_stopped(embedded_store)
    owner = told.parent.stat()
    other = subprocess.Popen(["sleep", "600"], user=owner.st_uid, group=owner.st_gid)
    try:
        told.write_text("\n".join([str(other.pid), *before.split("\n")[1:]]))
        os.chown(told, owner.st_uid, owner.st_gid)
        assert notes(user().first_line()) == ["kept"]
        assert server(embedded_store) != other.pid
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
