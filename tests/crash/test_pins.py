"""Kills in a loop that pins its state: it goes on from its last pin, and nothing happens twice."""

from __future__ import annotations

import random

import pytest
from support.child import Bench
from support.ledger import Ledger

LOOP = """
where, turns = more[0], int(more[1])
if where == "inside":
    die_at("turns#2/act#1", "completed", "after")
elif where != "go":
    die_at("turns#3", "pinned", where)

def act(n):
    ledger.add(f"act{n}")
    return n

with dnb.run("r", store=store) as run:
    run.step("plan", effect="none").call(lambda: "plan")
    with run.pinned("turns", 0) as loop:
        resumed = loop.turn
        while loop.state < turns:
            run.call(act, loop.state)
            loop.pin(loop.state + 1)
    tell(resumed=resumed, state=loop.state, outcomes=outcomes(run), spent=run.spent()["calls"])
"""


@pytest.mark.parametrize(("where", "resumed"), [("inside", 1), ("before", 2), ("after", 3)])
def test_a_loop_goes_on_from_its_last_pin(
    bench: Bench, ledger: Ledger, where: str, resumed: int
) -> None:
    """A kill before, in or after a pin: the next kernel begins at the last one on record."""
    assert bench.run(LOOP, where, 5).killed

    seen = bench.run(LOOP, "go", 5).ok().facts

    assert (seen["resumed"], seen["state"], seen["spent"]) == (resumed, 5, 6)
    assert seen["outcomes"] == {"plan#1": "completed", "turns#5": "completed"}
    assert [what for what, _ in ledger.lines()] == [f"act{n}" for n in range(5)]
