"""A real server that is stopped in the middle of a run, and what the panels of kernels say of it."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, kernel, lines, wait_for
from support.postgres import Cluster, connected

from durable_nb.notebook.panel import panel as panels

pytestmark = pytest.mark.slow  # each test starts kernels and a server

OPEN = """\
import time
import durable_nb as dnb
%load_ext durable_nb
run = dnb.open_run("r", store={url!r})
%durable panel
"""
LOOK = """\
import durable_nb as dnb
from durable_nb.notebook import panel
panel.show(dnb.watch("r", store={url!r}).place)
"""
#: Steps that each leave a line outside; the server is stopped in the body of the first.
STEPS = """\
def happen(n):
    with open("effects.log", "a") as log:
        log.write(f"{{n}}\\n")
    time.sleep(0.1 if n else 3)
    return "x" * {size}
for n in range(15):
    run.step("s", key=n, effect="external").call(happen, n)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Give a server of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Cluster(f"gone-{time.monotonic_ns() % 10**9}")
    yield made
    made.end()


class Panel:
    """What the panel of a kernel was told to show, as the front end gets it."""

    def __init__(self, seen: Kernel) -> None:
        self._kernel = seen
        self.notes: list[str] = []
        self.said = ""
        self.counts: dict[str, int] = {}
        self.status: dict[str, str] = {}  # by execution, whether it is busy

    def until(self, what: Callable[[], object], seconds: float) -> None:
        """Follow it until something shows."""
        limit = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < limit, (self.notes, self.said, self.counts)
            try:
                self._take(self._kernel.client.get_iopub_msg(timeout=0.2))
            except queue.Empty:
                continue

    def _take(self, got: dict[str, Any]) -> None:
        content = got["content"]
        if got["header"]["msg_type"] == "status":
            asked = got["parent_header"].get("msg_id", "")
            self.status[asked] = content["execution_state"]
        state = content.get("data", {}).get("state", {})
        if "header" in state:
            self.notes = state["header"]["notes"]
            self.counts = state["header"]["counts"]
        if "message" in state:
            self.said = state["message"].get("text", "")


def since(text: str) -> datetime:
    """Take out since when it is."""
    found = re.search(r"since (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", text)
    assert found, text
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


@pytest.mark.parametrize("size", [1, 100_000], ids=["a record", "a large value"])
def test_the_panel_says_what_the_run_waits_for_and_the_run_goes_on(
    tmp_path: Path, server: Cluster, size: int
) -> None:
    """Whatever is to be kept: it waits, says so and since when, and no step is done twice."""
    url = server.new_database()
    with kernel(tmp_path, OPEN.format(url=url)) as k:
        panel, log = Panel(k), tmp_path / "effects.log"
        cell = k.send(STEPS.format(size=size))
        wait_for(log)
        before = datetime.now(UTC) - timedelta(0, 1)
        server.stop()
        panel.until(lambda: "waits for the database since" in " ".join(panel.notes), 15)
        assert before <= since(panel.notes[0]) <= datetime.now(UTC)
        assert lines(log) == ["0"]
        server.start()
        panel.until(lambda: panel.status.get(cell) == "idle", 60)
        panel.until(lambda: panel.counts.get("completed") == 15, 15)
        assert "database" not in " ".join(panel.notes)
        assert lines(log) == [str(n) for n in range(15)]
        assert k.client.get_shell_msg(timeout=10)["content"]["status"] == "ok"


def test_the_panel_of_another_kernel_goes_on_after_the_server_was_away_for_long(
    tmp_path: Path, server: Cluster
) -> None:
    """It says since when it is not current, however long that is, and is current again by itself."""
    url = server.new_database()
    with kernel(tmp_path, OPEN.format(url=url)) as owner:
        owner.run('run.step("a", effect="none").call(lambda: 1)')
        with kernel(tmp_path, LOOK.format(url=url)) as k:
            panel = Panel(k)
            server.stop()
            panel.until(lambda: "the table is not current since" in panel.said, 15)
            assert since(panel.said) <= datetime.now(UTC)
            looks = panels._GIVE_UP + 4  # more than it takes to give up a front end
            away = time.monotonic() + looks * panels.LOOK_S
            panel.until(lambda: time.monotonic() > away, 60)
            server.start()
            owner.run('run.step("b", effect="none").call(lambda: 2)')
            panel.until(lambda: panel.counts.get("completed") == 2, 30)
            assert panel.said == ""


def test_a_kernel_that_was_succeeded_answers_all_the_same(server: Cluster, tmp_path: Path):
    """Its cell ends with what stopped it: whoever executes the notebook would wait for ever else."""
    url = server.new_database()
    with kernel(tmp_path, OPEN.format(url=url)) as k:
        with connected(url) as con:
            con.execute("UPDATE durable_nb.leases SET epoch = epoch + 1")
        shown = k.run("run.step('s', effect='none').call(int)", check=False, timeout=30)
        assert (shown.status, shown.error) == ("error", "StaleOwner")
        assert k.run("1 + 1").results[0]["text/plain"] == "2"
