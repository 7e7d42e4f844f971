"""Servers that a notebook starts and finds again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durable_nb.demo import client, servers

pytestmark = pytest.mark.slow  # each test starts processes of its own


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place of our own for the servers, which end with the test."""
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / ".durable"))
    monkeypatch.delenv(servers.SHOP_VARIABLE, raising=False)
    monkeypatch.delenv(servers.MODEL_VARIABLE, raising=False)
    yield tmp_path / servers.FOLDER
    servers.stop()


def test_servers_outlive_the_kernel_and_are_found_again(folder):
    """The process that started the servers is killed; the next one finds the same servers."""
    code = (
        "import os; from durable_nb.demo import servers; servers.ensure(); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    noted = (folder / "servers.json").read_text()

    found = servers.ensure()

    assert (folder / "servers.json").read_text() == noted
    assert client.healthy(found.shop)
    assert client.healthy(found.model)


def test_servers_that_are_gone_are_started_again_over_the_same_ledger(folder):
    """A dead shop is replaced, and remembers what it paid."""
    before = servers.ensure()
    client.Shop(before.shop).refund("A-1001", 1.0, "key")
    os.kill(before.pids[0], signal.SIGKILL)
    deadline = 100
    while client.healthy(before.shop) and deadline:
        deadline -= 1

    after = servers.ensure()

    assert after.pids != before.pids
    assert len(client.Shop(after.shop).find_refunds("key")) == 1
    assert not client.healthy(before.model)  # the other one was ended, not left behind


def test_stop_ends_both(folder):
    """Nothing is left running when it is told to stop."""
    found = servers.ensure()
    servers.stop()

    assert not client.healthy(found.shop)
    assert not client.healthy(found.model)
    assert Path(found.ledger).parent == folder
    servers.stop()  # twice does no harm


def test_servers_named_by_the_environment_are_used(folder, monkeypatch):
    """A notebook that is given its servers starts none."""
    monkeypatch.setenv(servers.SHOP_VARIABLE, "http://127.0.0.1:1")
    monkeypatch.setenv(servers.MODEL_VARIABLE, "http://127.0.0.1:2")

    assert servers.ensure() == servers.Addresses("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert not folder.exists()


def test_damaged_note_is_replaced(folder):
    """A note that cannot be read leads to new servers, not to an error."""
    folder.mkdir()
    (folder / "servers.json").write_text("{")

    assert client.healthy(servers.ensure().shop)


def test_server_that_cannot_start_is_reported_with_its_words(tmp_path):
    """The error names the command and what it said."""
    with (
        pytest.raises(servers.ServerNotStarted, match="--model nonsense"),
        servers.running(tmp_path, model="nonsense"),
    ):
        pass
