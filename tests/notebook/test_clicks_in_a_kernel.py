"""Clicks on a panel as a front end sends them, to a real kernel: beside a cell, and after it."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
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


def click(k: Kernel, comm: str, seq: int, where: str | None) -> None:
    said = {"request": "r1", "action": "deny", "op": "pay#1", "seq": seq, "evidence": "I looked"}
    content = {"comm_id": comm, "data": {"method": "custom", "content": said}}
    message = k.client.session.msg("comm_msg", content)
    message["header"]["subshell_id"] = where
    k.client.shell_channel.send(message)


def answered(k: Kernel) -> dict[str, Any]:
    """Give the panel's answer."""
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        with contextlib.suppress(queue.Empty):
            data = k.client.get_iopub_msg(timeout=1)["content"].get("data", {})
            answer = data.get("state", {}).get("answer", {})
            if answer.get("request") == "r1":
                return dict(answer)
    raise TimeoutError("no answer to the click")


@pytest.mark.parametrize("there", [True, False])
def test_a_click_is_answered_beside_a_cell_that_blocks_and_else_after_it(k, there):
    """At once where the front end's subshell is there; it is not lost where that is gone."""
    comm, seq = k.run(OPEN).text.splitlines()[-1].split()
    where = subshell(k) if there else "gone"
    k.send(BUSY)
    k.wait_for("busy")
    time.sleep(2.5)  # until the watcher has published something, in the cell's name
    click(k, comm, int(seq), where)
    if not there:
        (k.folder / "go").touch()
    assert answered(k)["ok"]
    (k.folder / "go").touch()
    assert k.run("print(run.get('pay').outcome)").text.split() == ["incomplete"]
