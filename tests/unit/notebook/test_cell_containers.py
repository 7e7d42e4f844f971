"""A container that is completed is entered again where it, or what it reaches, has changed."""

from __future__ import annotations


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
