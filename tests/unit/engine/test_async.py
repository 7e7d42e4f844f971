"""Async bodies: shielded from their callers, stopped by us, and never lost."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import durable_nb as dnb
from durable_nb.engine.scope import Origin
from durable_nb.engine.store import open_run as engine_open
from durable_nb.engine.trajectory import Surroundings


def test_a_cancelled_caller_awaits_the_body_and_its_outcome_is_recorded(open_run, effects):
    """A TaskGroup's failing sibling must not cut an effect in two."""

    async def slow():
        await asyncio.sleep(0.05)
        return effects()

    async def fails():
        await asyncio.sleep(0.01)
        raise ValueError("sibling")

    async def main(run):
        async with asyncio.TaskGroup() as group:
            group.create_task(run.step("slow").call(slow))
            group.create_task(run.step("fails", effect="none").call(fails))

    with open_run() as run:
        with pytest.raises(ExceptionGroup):
            asyncio.run(main(run))
        assert run.get("slow").outcome == "completed"
        assert run.get("slow").result == 1


def test_a_persons_interrupt_reaches_the_shielded_body(open_run):
    """Only our SIGINT and the step's own time-out cancel a body."""

    async def slow():
        await asyncio.sleep(30)

    async def main(run):
        task = asyncio.ensure_future(run.step("slow").call(slow))
        await asyncio.sleep(0.02)
        run.interrupt()
        task.cancel()
        await task

    with open_run() as run:
        begun = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main(run))
        assert time.monotonic() - begun < 5
        assert run.get("slow").outcome == "unknown"
        assert "interrupted" in list(run.history("slow#1")["kind"])


@pytest.mark.parametrize(
    ("effect", "raised"), [("none", TimeoutError), ("external", dnb.UnknownOutcome)]
)
def test_a_time_out_of_the_step_cancels_its_body(open_run, effect, raised):
    """A time-out after sending proves nothing; of a pure step it is an ordinary failure."""

    async def slow():
        await asyncio.sleep(30)

    with open_run() as run, pytest.raises(raised):
        asyncio.run(run.step(effect=effect, timeout=0.05).call(slow))


def test_a_blocking_step_has_no_time_out(open_run):
    """Nothing can stop a blocking body safely, so it is said instead of pretended."""
    with open_run() as run, pytest.raises(TypeError, match="async"):
        run.step("s", timeout=1).call(lambda: 1)


def test_a_late_result_wins_over_an_interruption(open_run):
    """A worker thread may finish the effect although its cell was interrupted."""
    with open_run() as run:
        with pytest.raises(KeyboardInterrupt):
            with run.step("send") as op:
                if op.needed:
                    raise KeyboardInterrupt
        assert run.get("send").outcome == "unknown"
        op.result = {"id": 1}
        assert run.get("send").outcome == "completed"
        assert run.get("send").result == {"id": 1}


def test_a_late_result_after_a_later_attempt_is_a_suspected_duplicate_and_stops_the_run(tmp_path):
    """It was denied and done again, and then the first one turned out to have happened."""
    cell = iter(Origin("cell", n) for n in range(1, 9))
    at = [next(cell)]
    with engine_open(
        "r", store=tmp_path, surroundings=Surroundings(lambda: at[0], lambda line: None)
    ) as run:
        with pytest.raises(KeyboardInterrupt):
            with run.step("send") as first:
                if first.needed:
                    raise KeyboardInterrupt
        run.deny("send#1")
        at[0] = next(cell)
        with run.step("send") as second:
            if second.needed:
                second.result = 2
        first.result = 1
        assert run.get("send").outcome == "unknown"
        with pytest.raises(dnb.UnknownOutcome, match="twice"):
            run.step("next").call(lambda: 1)


def test_signals_in_a_task_group_are_unwrapped(open_run):
    """Groups that hold only signals show the signal, not a group."""

    async def send():
        raise TimeoutError

    async def outer(run):
        async with asyncio.TaskGroup() as group:
            group.create_task(run.step("send").call(send))

    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        asyncio.run(run.step("outer", effect="none", inputs={}).call(outer, run))


@pytest.mark.slow
def test_closing_awaits_the_threads_that_the_engine_started(open_run):
    """What is in flight when the program is interrupted is recorded all the same."""
    begun, end = threading.Event(), threading.Event()

    def slow(i):
        begun.set()
        end.wait(5)
        return i

    with open_run() as run:
        threading.Timer(1.0, end.set).start()
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            run.map(slow, [1], key=str)
        assert run.get("slow[1]").live
    with open_run() as run:
        assert run.get("slow[1]").result == 1


@pytest.mark.slow
def test_case_32_the_heartbeat_needs_no_event_loop(open_run):
    """It is a thread of its own, so that a blocked or ended loop does not stop it."""
    import json

    with open_run() as run:
        first = json.loads((run.folder / "owner.json").read_text())["heartbeat"]
        deadline = time.monotonic() + 10
        while json.loads((run.folder / "owner.json").read_text())["heartbeat"] == first:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_closing_an_async_run_awaits_its_tasks(open_run, effects):
    """`async with` waits for bodies whose callers are gone."""

    async def slow():
        await asyncio.sleep(0.05)
        return effects()

    async def main():
        async with open_run() as run:
            task = asyncio.ensure_future(run.call(slow))
            await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(main())
    with open_run() as run:
        assert run.get("slow").outcome == "completed"


CTRL_C = """
import asyncio, os, signal, sys, threading, time
import durable_nb as dnb

@dnb.step
async def slow():
    await asyncio.sleep(30)

async def main():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    await slow()

begun = time.monotonic()
try:
    with dnb.run("r", store=sys.argv[1]) as run:
        try:
            asyncio.run(main())
        finally:
            print(run.get("slow").outcome, round(time.monotonic() - begun) < 5)
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.slow
def test_one_ctrl_c_stops_a_script_that_awaits_a_step(tmp_path):
    """The body is cancelled, recorded as interrupted, and the handler is put back."""
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout.splitlines() == ["unknown True", "interrupted True"], done.stderr
