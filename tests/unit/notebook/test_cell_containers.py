"""A container that is completed is entered again where it, or what it reaches, has changed."""

from __future__ import annotations

import pytest
from support.ticks import Ticks, ends

from durable_nb.engine.trajectory import Clock

LINE = "s; it runs again on each resume until this cell is completed: put it into a step\n"


def test_a_container_that_was_edited_is_entered_again_and_its_steps_replay(opened):
    """Its own code runs again, which is said; what its steps did is not done again."""
    opened.ok("ran = []\ndef one():\n    ran.append(1)\n    return 1")
    opened.ok("%%durable turn\nx = run.call(one)")
    assert "from record" in opened.ok("%%durable turn\nx = run.call(one)  # a comment").out

    shown = opened.ok("%%durable turn\nx = run.call(one)\nx += 5")

    assert "turn#1: running again, because this changed: code of the step" in shown.out
    assert opened.names["x"] == 6
    assert opened.names["ran"] == [1]


def test_a_container_is_entered_again_for_what_it_reaches(opened):
    """A new ticket in the list, or another helper: its new steps are taken, the old ones replay."""
    opened.ok("ran, todo = [], ['a']\ndef one(x):\n    ran.append(x)\n    return x")
    loop = "%%durable turn\nout = [run.step('one', key=t).call(one, t) for t in todo]"
    opened.ok(loop)
    opened.ok("todo = ['a', 'b']")
    opened.ok(loop)
    assert opened.names["out"] == opened.names["ran"] == ["a", "b"]


@pytest.mark.slow
def test_a_container_says_how_long_it_was_outside_of_its_steps(opened):
    """From a second on it is one line at the end of the cell, failed ones too; a replay has none."""
    opened.ok("import time\ndef one():\n    time.sleep(0.1)")
    cell = "%%durable turn\ntime.sleep(1.1)\nrun.call(one)"

    failed = opened.run(f"{cell}\n1 / 0")
    assert "code outside of its steps took 1.1 s" in failed.out
    shown = opened.ok(cell)

    assert shown.out.startswith("code outside of its steps took 1.1 ")
    assert shown.out.endswith(LINE)
    assert "1.1 s outside of steps" in opened.ok("%durable status").out
    assert "outside" not in opened.ok(cell).out
    report = opened.ok("%durable report").out
    assert "code outside of steps took 1.1 s in turn#1" in report


@pytest.mark.slow
def test_a_container_that_keeps_to_its_steps_says_nothing(opened):
    """Below a second no line with a time is shown, neither in the cell nor in the status."""
    opened.ok("import time\ndef one():\n    time.sleep(1.1)")
    assert opened.ok("%%durable turn\ntime.sleep(0.1)\nrun.call(one)").out == ""
    assert "outside" not in opened.ok("%durable status").out


def test_what_is_looked_at_before_a_cell_is_no_code_outside_of_its_steps(opened):
    """Comparing the notebook's names before the body runs is checkpointing, and told as that."""
    tick = Ticks()
    opened.names["run"].clock = Clock(monotonic=lambda: tick.now)
    opened.names["tick"] = tick
    opened.ok("class Slow:\n    pass\nslow = Slow()\ndef one():\n    tick(5)")
    look = "dnb.register_codec('slow-to-look-at', Slow, 1, lambda slow: tick(10), lambda n: Slow())"
    opened.ok(f"import durable_nb as dnb\n{look}")
    opened.ok("%%durable turn\ntick(2)\nrun.call(one)\nslow.seen = 1")

    told = ends(opened.names["run"])["turn#1"]
    assert (told["outside_s"], told["duration_s"]) == (2, 7)
    assert told["checkpoint_s"] >= 10
