"""Kills in a loop that pins its state: it goes on from its last pin, and nothing happens twice."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger

import durable_nb as dnb

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


@pytest.mark.slow
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


SHAKEN = """
import random
from durable_nb.journal.duckdb_journal import DuckDBJournal
seed, turns = int(more[0]), int(more[1])
append, left = DuckDBJournal.append, random.Random(seed).randrange(3, 30)

def watched(self, drafts, *, lazy=False):
    global left
    left -= 1
    if seed and left == 0:
        die()
    records = append(self, drafts, lazy=lazy)
    if seed and left == 1 and seed % 2:
        die()
    return records

DuckDBJournal.append = watched

def act(n):
    ledger.add(f"act{n}")
    return n

with dnb.run("r", store=store) as run:
    for op in run.unknown():
        n = len(ledger.lines()) - 1
        last = int(ledger.lines()[-1][0][3:]) if n >= 0 else -1
        happened = last == int(op.inputs["n"])
        run.confirm(op, last, evidence="ledger") if happened else run.deny(op, evidence="ledger")
    with run.pinned("turns", 0) as loop:
        while loop.state < turns:
            run.call(act, loop.state)
            loop.pin(loop.state + 1)
    tell(turn=loop.turn, calls=run.spent()["calls"], outcomes=outcomes(run),
         counts=dict(run.status_view().counts))
"""


@pytest.mark.slow
def test_no_effect_is_lost_or_doubled_over_many_kills(bench: Bench, ledger: Ledger) -> None:
    """Killed at six places, settled from the ledger each time, a loop does each turn once."""
    killed = [bench.run(SHAKEN, seed, 40).killed for seed in range(1, 7)]

    seen = bench.run(SHAKEN, 0, 40).ok().facts

    assert killed == [True] * 6
    assert [what for what, _ in ledger.lines()] == [f"act{n}" for n in range(40)]
    assert len(set(ledger.keys("act7"))) == 1
    assert (seen["turn"], seen["outcomes"]) == (40, {"turns#40": "completed"})
    assert seen["counts"] == {"completed": 80, "incomplete": 0, "unknown": 0}


DOUBT = """
mode = more[0]

def act(n):
    ledger.add(f"act{n}")
    if mode == "die" and n == 1:
        die()
    return n

with dnb.run("r", store=store) as run:
    problem = ""
    if mode in ("confirm", "deny"):
        getattr(run, mode)("turns#2/act#1", *([1] if mode == "confirm" else []))
    with run.pinned("turns", 0) as loop:
        try:
            if mode == "pin":
                loop.pin(9)
            while loop.state < 3:
                run.call(act, loop.state)
                loop.pin(loop.state + 1)
        except dnb.UnknownOutcome as doubt:
            problem = doubt.operations[0].id
    tell(problem=problem, turn=loop.turn, state=loop.state)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("verdict", "times"), [("confirm", 1), ("deny", 2)])
def test_a_pin_waits_for_what_a_kill_left_unknown(
    bench: Bench, ledger: Ledger, verdict: str, times: int
) -> None:
    """Neither the pin nor the step goes over the doubt; a verdict lets both go on."""
    assert bench.run(DOUBT, "die").killed
    for mode in ("pin", "go"):
        seen = bench.run(DOUBT, mode).ok().facts
        assert seen == {"problem": "turns#2/act#1", "turn": 1, "state": 1}

    seen = bench.run(DOUBT, verdict).ok().facts

    assert seen == {"problem": "", "turn": 3, "state": 3}
    assert [ledger.count(f"act{n}") for n in range(3)] == [1, times, 1]


ASKING = """
where = more[0]
if where == "asked":
    die_at("turns#2/approval[Go?]#1", "intended", "after")
elif where == "approved":
    die_at("turns#2/act#1", "completed", "before")
elif where == "pinned":
    die_at("turns#2", "pinned", "after")

def act(n):
    ledger.add(f"act{n}")
    return n

with dnb.run("r", store=store) as run:
    if "signal" in more:
        run.signal("word", 7)
    with run.pinned("turns", 0) as loop:
        resumed = loop.turn
        try:
            while loop.state < 3:
                if "signal" in more:
                    run.wait_for("word")
                if loop.state == 1:
                    run.approval("Go?", {"turn": loop.state})
                run.step("act", effect="idempotent").call(act, loop.state)
                loop.pin(loop.state + 1)
        except (dnb.ApprovalPending, dnb.SignalPending) as stop:
            tell(pending=stop.op)
    tell(resumed=resumed, state=loop.state, outcomes=outcomes(run))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "resumed"), [("asked", 1), ("approved", 1), ("pinned", 2)])
def test_an_approval_in_a_stretch_outlives_kills_and_is_asked_once(
    bench: Bench, ledger: Ledger, where: str, resumed: int
) -> None:
    """Killed as it asks, in what follows the yes, or after the pin: one question, one yes."""
    assert bench.run(ASKING, where).killed is (where == "asked")
    seen = bench.run(ASKING, "go").ok().facts
    assert seen["pending"] == "turns#2/approval[Go?]#1"
    dnb.watch("r", store=bench.store).approve(seen["pending"])
    if where != "asked":
        assert bench.run(ASKING, where).killed

    seen = bench.run(ASKING, "go").ok().facts

    assert (seen["resumed"], seen["state"]) == (resumed, 3)
    assert "pending" not in seen
    rows = dnb.watch("r", store=bench.store).history("turns#2/approval[Go?]#1")
    assert list(rows["kind"]) == ["intended", "approved"]
    done = [what for what, _ in ledger.lines()]
    assert done == ["act0", "act1", *(["act1"] if where == "approved" else []), "act2"]


def test_a_signal_that_a_retired_turn_has_taken_is_not_taken_again_after_a_kill(
    bench: Bench, ledger: Ledger
) -> None:
    """The next turn waits for its own, in the kernel that was killed and in the next one."""
    seen = bench.run(ASKING, "go", "signal").ok().facts
    assert (seen["pending"], seen["state"]) == ("turns#2/wait_for[word]#1", 1)
    dnb.watch("r", store=bench.store).signal("word", 8)
    dnb.watch("r", store=bench.store).signal("word", 9)

    assert bench.run(ASKING.replace('run.signal("word", 7)', "pass"), "asked", "signal").killed
    code = ASKING.replace('run.signal("word", 7)', "pass")
    dnb.watch("r", store=bench.store).approve("turns#2/approval[Go?]#1")
    seen = bench.run(code, "go", "signal").ok().facts

    assert seen["state"] == 3
    assert [what for what, _ in ledger.lines()] == ["act0", "act1", "act2"]
    assert bench.run(code, "go", "signal").ok().facts["state"] == 3
