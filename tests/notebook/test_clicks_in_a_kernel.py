"""Clicks on a panel as a front end sends them, to a real kernel: beside a cell, and after it."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, kernel

pytestmark = pytest.mark.slow

OPEN = """\
import time, durable_nb as dnb
run = dnb.open_run('job')
def pay():
    raise TimeoutError('no answer')
try:
    run.step('pay').call(pay)
except dnb.UnknownOutcome:
    pass
from durable_nb.notebook.panel.panel import panel_of
from durable_nb.engine.watched import Watched
run.panel()
print(panel_of(Watched(run.place)).table.comm.comm_id, run.get('pay').last_seq)"""
RUNS = """\
import time, durable_nb as dnb
with dnb.open_run('job') as run:
    run.finish()
dnb.panel()
from durable_nb.notebook.panel import overview
table = next(iter(overview._shown.values())).table
print(table.comm.comm_id)"""
BUSY = """\
import pathlib
open('busy', 'w').close()
while not pathlib.Path('go').exists(): time.sleep(0.05)"""


@pytest.fixture
def k(tmp_path: Path) -> Iterator[Kernel]:
    with kernel(tmp_path) as started:
        yield started


def subshell(k: Kernel) -> str:
    """Have the kernel make one, as JupyterLab does for its widgets."""
    session = k.client.session
    message = session.msg("create_subshell_request", {})
    k.client.control_channel.send(message)
    reply = k.client.get_control_msg(timeout=30)
    return str(reply["content"]["subshell_id"])


def click(k: Kernel, comm: str, where: str | None, said: dict[str, Any]) -> None:
    content = {"comm_id": comm, "data": {"method": "custom", "content": said}}
    message = k.client.session.msg("comm_msg", content)
    message["header"]["subshell_id"] = where
    k.client.shell_channel.send(message)


def told(k: Kernel, name: str, right: Callable[[Any], Any]) -> Any:
    """Wait until the front end is told of the right value of a trait."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        with contextlib.suppress(queue.Empty):
            data = k.client.get_iopub_msg(timeout=1)["content"].get("data", {})
            state = data.get("state", {})
            if name in state and right(state[name]):
                return state[name]
    raise TimeoutError("no answer to the click")


@pytest.mark.parametrize("there", [True, False])
def test_a_click_is_answered_beside_a_cell_that_blocks_and_else_after_it(k, there):
    """At once where the front end's subshell is there; it is not lost where that is gone."""
    comm, seq = k.run(OPEN).text.splitlines()[-1].split()
    where = subshell(k) if there else "gone"
    k.send(BUSY)
    k.wait_for("busy")
    time.sleep(2.5)  # until the watcher has published something, in the cell's name
    said = {"request": "r1", "action": "deny", "op": "pay#1", "evidence": "I looked"}
    click(k, comm, where, said | {"seq": int(seq)})
    if not there:
        (k.folder / "go").touch()
    assert told(k, "answer", lambda answer: answer.get("request") == "r1")["ok"]
    (k.folder / "go").touch()
    assert k.run("print(run.get('pay').outcome)").text.split() == ["incomplete"]


@pytest.mark.parametrize("there", [True, False])
def test_a_run_is_opened_from_the_list_beside_a_cell_that_blocks_and_else_after_it(k, there):
    """As with a panel: an old page's subshell, for which the kernel has published, may be gone."""
    comm = k.run(RUNS).text.splitlines()[-1]
    where = subshell(k)
    click(k, comm, where, {"open": "nothing"})
    told(k, "message", bool)  # from that subshell, which is then gone
    k.client.control_channel.send(
        k.client.session.msg("delete_subshell_request", {"subshell_id": where})
    )
    k.client.get_control_msg(timeout=30)
    where = subshell(k) if there else None
    k.send(BUSY)
    k.wait_for("busy")
    click(k, comm, where, {"open": "job"})
    if not there:
        (k.folder / "go").touch()
    told(k, "chosen", lambda name: name == "job")
    (k.folder / "go").touch()
