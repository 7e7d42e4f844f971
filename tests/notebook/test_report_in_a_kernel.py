"""Code outside of steps, and the report, in kernels that are really killed."""

from __future__ import annotations

import pytest
from kernels import LOAD, kernel, lines

OPEN = "%durable run job"
STEPS = """\
import time
import durable_nb as dnb

@dnb.step(effect='none')
def read(n):
    with open('ledger', 'a') as f:
        f.write(f'read {n}\\n')
    time.sleep(0.2)
    dnb.current_operation().spend(usd=0.25)
    return n

@dnb.step(effect='none')
def think(n):
    open('thinking', 'w').close()
    time.sleep(0 if done else 60)
    return n * 2
"""
CELL = """\
%%durable turn
time.sleep(1.2)
first, second = read(1), read(2)
answer = think(first + second)
"""
LINE = "it runs again on each resume until this cell is completed: put it into a step"


@pytest.mark.slow
def test_a_container_cell_that_was_killed_points_out_its_code_outside_of_steps(tmp_path):
    """The cell says how long it was outside of its steps; the report, what its replays saved.

    Its kernel was killed in the middle, inside of its third step: the first two come from the
    record, and the code before them ran again.
    """
    with kernel(tmp_path, LOAD, OPEN, "done = False", STEPS) as k:
        k.send(CELL)
        k.wait_for("thinking")
        k.kill()

    with kernel(tmp_path, LOAD, OPEN, "done = True", STEPS) as k:
        told = [line for line in k.run(CELL).text.splitlines() if "outside" in line]
        assert lines(tmp_path / "ledger") == ["read 1", "read 2"]
        assert len(told) == 1
        assert told[0].startswith("code outside of its steps took 1.")
        assert told[0].endswith(LINE)
        assert "s outside of steps" in k.run("%durable status").text

        report = k.run("%durable report").text
        assert "they saved at least 2 operations, 0." in report
        assert ", $0.50" in report
        assert "1 kernel ended without closing the run" in report
        assert "in the code of turn#1 (attempt 2) that is outside of its steps" in report
        assert "code outside of steps took 1." in report

        again = k.run(CELL).text
        assert "from record" in again
        assert "outside" not in again  # a replay says nothing of times
        shown = k.run("run.report()")
        assert "<table>" in shown.results[0]["text/html"]
        assert "they saved at least 6 operations" in shown.results[0]["text/plain"]


@pytest.mark.slow
def test_a_cell_that_keeps_to_its_steps_says_nothing(tmp_path):
    """Below a second, and in cells without steps, no line with a time is shown."""
    quick = "%%durable quick\ntime.sleep(0.2)\nx = read(1)"
    opaque = "%%durable opaque --effect none\ntime.sleep(1.2)"
    awaiting = "%%durable awaiting\nimport asyncio\nawait asyncio.sleep(1.1)\ny = read(2)"
    with kernel(tmp_path, LOAD, OPEN, STEPS) as k:
        assert "outside" not in k.run(quick).text
        assert "outside" not in k.run(opaque).text
        assert "outside" not in k.run("%durable status").text
        assert LINE in k.run(awaiting).text
