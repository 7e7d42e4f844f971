"""Two terminals on a laptop: a worker with its own PostgreSQL, and a person who submits."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.embedded import until_stopped
from support.fleet import LEASE_S, Yard

pytestmark = pytest.mark.slow


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    """A folder with a short path that others can pass through, and no store in it yet."""
    folder = Path(tempfile.mkdtemp(prefix="dnb-f-"))
    folder.chmod(0o755)
    monkeypatch.setenv("DURABLE_LEASE_S", str(LEASE_S))
    made = Yard(folder, str(folder / ".durable"))
    yield made
    made.end()
    until_stopped(folder / ".durable")
    shutil.rmtree(folder)


def test_a_worker_brings_its_own_database_and_another_terminal_finds_it(laptop: Yard, happen: str):
    """It stops with the last of them, and what was done is still there the next time."""
    worker = laptop.worker("--postgres", "embedded", "--slots", 1)
    notebook = laptop.notebook(happen, "happen('done')")

    code, out, err = laptop.do("submit", notebook.name, "--run", "r", "--store", "embedded")

    assert (code, err) == (0, "")
    assert out == "run r is queued; see: durable-nb fleet --store embedded\n"
    deadline = time.monotonic() + 90
    while "finished" not in laptop.do("fleet", "--all", "--store", "embedded")[1]:
        assert time.monotonic() < deadline, worker.said
    worker.process.send_signal(signal.SIGINT)
    assert worker.ended() == 0, worker.said
    until_stopped(laptop.folder / ".durable")
    _, out, _ = laptop.do("runs", "--store", "embedded")
    assert out.splitlines()[1].split()[:2] == ["r", "finished"]
    assert laptop.effects() == ["done"]
