"""Cells that wait for a person, in a real kernel that is killed, interrupted or just told."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernels import kernel
from support.waiting import eventually

import durable_nb as dnb

pytestmark = pytest.mark.slow  # each test starts kernels

OPEN = "import durable_nb as dnb\n%load_ext durable_nb\nrun = dnb.open_run('mails')"
STEPS = """\
def note(text):
    with open("effect.log", "a") as log:
        log.write(text + "\\n")
@dnb.step(effect="external")
def collect():
    note("collect")
    return 40
@dnb.step(effect="external")
def send(count):
    note("send")
    return count
"""
BLOCKING = "count = collect()\nsaid = run.approval('Send them?', {'count': count})\nsend(count)"
AWAITING = "%%durable mails\n" + BLOCKING.replace("run.approval", "await run.approval")
ASK = "mails#1/approval[Send them?]#1"


def effects(folder: Path) -> list[str]:
    log = folder / "effect.log"
    return log.read_text().splitlines() if log.exists() else []


def test_case_3_a_cell_that_waits_is_killed_and_goes_on_with_what_was_approved(
    tmp_path: Path,
) -> None:
    """It shows its lines and the panel, nothing before the pause is repeated, only the rest runs."""
    cell = BLOCKING
    with kernel(tmp_path, OPEN, STEPS) as k:
        shown = k.run(cell, "c", check=False)
        assert shown.error == "ApprovalPending"
        assert 'run.approve("approval[Send them?]#1")' in shown.traceback
        assert any("waits for approval" in d.get("text/plain", "") for d in shown.displays)
        k.kill()
    outside = dnb.watch("mails", store=tmp_path / "store")
    outside.approve("approval[Send them?]#1", reason="fine")
    with kernel(tmp_path, OPEN, STEPS) as k:
        k.run(cell, "c")
        assert "fine" in k.run("print(said)").text
    assert effects(tmp_path) == ["collect", "send"]


def test_case_77_an_awaiting_cell_is_decided_from_a_second_process(tmp_path: Path) -> None:
    """It goes on at once; the second of two decisions is told that it is settled."""
    with kernel(tmp_path, OPEN, STEPS) as k:
        waiting = k.send(AWAITING, "c")
        outside = dnb.watch("mails", store=tmp_path / "store")
        eventually(lambda: ASK in [v.id for v in outside.status_view().views], 15)
        outside.approve(ASK, reason="fine")
        with pytest.raises(dnb.OwnerRefused, match="already settled"):
            outside.reject(ASK, reason="no")
        assert k.wait(waiting).status == "ok"
        assert "fine" in k.run("print(said)").text
    assert effects(tmp_path) == ["collect", "send"]


def test_an_awaiting_cell_is_interrupted_at_once_killed_and_decided_by_its_own_kernel(
    tmp_path: Path,
) -> None:
    """Ctrl-C decides nothing; in the next kernel a background task approves what a cell awaits."""
    with kernel(tmp_path, OPEN, STEPS) as k:
        outside = dnb.watch("mails", store=tmp_path / "store")
        waiting = k.send(AWAITING, "c")
        eventually(lambda: ASK in [v.id for v in outside.status_view().views], 15)
        k.interrupt()
        shown = k.wait(waiting)
        assert shown.error == "KeyboardInterrupt"
        assert shown.seconds < 15
        kinds = f"print(list(run.history({ASK!r})['kind']))"
        assert "['intended']" in k.run(kinds).text
        waiting = k.send(AWAITING, "c")
        k.kill()
    decide = """\
import asyncio
async def decide():
    while not any(v.waits for v in run.status_view().views) or not ready:
        await asyncio.sleep(0.05)
    run.approve("mails#1/approval[Send them?]#1")
ready = []
task = asyncio.create_task(decide())"""
    with kernel(tmp_path, OPEN, STEPS, decide) as k:
        k.run("ready.append(1)\n" + kinds)
        k.run(AWAITING, "c")
        assert k.run("print(said['approved'])").text == "True\n"
    assert effects(tmp_path) == ["collect", "send"]


def test_a_forgotten_await_in_a_cell_lets_no_effect_through(tmp_path: Path) -> None:
    """Not in this cell and not in the next; once the cell is mended, all is well."""
    wrong = "async def job():\n    global ok\n    ok = run.approval('Send them?')\nawait job()"
    asked = "approval[Send them?]#1"
    with kernel(tmp_path, OPEN, STEPS) as k:
        assert k.run(wrong + "\nif ok: send(1)", "c", check=False).error == "TypeError"
        k.run(wrong, "c")
        assert k.run("send(1)", "d", check=False).error == "NotAwaited"
        k.run("del ok")
        assert k.run("send(1)", "d", check=False).error == "NotAwaited"
        # IPython compiles each statement alone: without an await in it, this one blocks, and stops
        plain = "import asyncio\nawait asyncio.sleep(0)\nok = run.approval('Send them?')"
        assert k.run(plain, "c", check=False).error == "ApprovalPending"
        waiting = k.send(wrong.replace("= run", "= await run"), "c")
        outside = dnb.watch("mails", store=tmp_path / "store")
        eventually(lambda: asked in [v.id for v in outside.status_view().views], 15)
        outside.approve(asked)
        assert k.wait(waiting).status == "ok"
        k.run("send(1)", "d")
    assert effects(tmp_path) == ["send"]
