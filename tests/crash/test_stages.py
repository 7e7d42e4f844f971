"""Kernels that are killed in the middle of a stage, or of taking an effect back."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger

import durable_nb as dnb

STAGE = """
def die_here(where):
    if more and more[0] == where:
        die()

@dnb.step(effect="none")
def read():
    ledger.add("read")
    return [1, 2]

@dnb.step
def send(table):
    ledger.add("send")
    return len(table)

def program(run):
    with run.stage("extract", outputs={"table", "sent"}, validate={"table": len}) as stage:
        if stage.needed:
            stage["table"] = read()
            die_here("between")
            stage["sent"] = send(stage["table"])
            die_here("end")
    return stage

if more and more[0] in {"before", "after"}:
    die_at("extract#1", "completed", more[0])
with dnb.run("r", store=store) as run:
    stage = program(run)
    tell(result=stage.result, source=run.get("extract").source, outcomes=outcomes(run))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    ["between", "after", *(pytest.param(w, marks=pytest.mark.slow) for w in ("end", "before"))],
)
def test_a_stage_that_was_killed_goes_on_from_the_step_that_it_had_reached(
    bench: Bench, ledger: Ledger, where: str
) -> None:
    """Its body is entered again, its finished steps replay, and its outputs are whole."""
    assert bench.run(STAGE, where).killed

    seen = bench.run(STAGE).ok().facts

    assert seen["result"] == {"sent": 2, "table": [1, 2]}
    assert seen["source"] == ("record" if where == "after" else "ran")
    assert set(seen["outcomes"].values()) == {"completed"}
    assert ledger.count("read") == ledger.count("send") == 1


FILE = """
def make():
    Path("out.csv").write_text("a" * 1000)
    ledger.add("make")
    return "made"

if more:
    die_at("make#1", "completed", more[0])
with dnb.run("r", store=store) as run:
    tell(made=run.step(effect="none", produces=["out.csv"]).call(make))
    tell(size=Path("out.csv").stat().st_size, kinds=kinds(run, "make#1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "count"), [("before", 2), pytest.param("after", 1, marks=pytest.mark.slow)]
)
def test_a_file_counts_once_its_record_does(
    bench: Bench, ledger: Ledger, when: str, count: int
) -> None:
    """Killed before it, the file is made again; after it, it is there as recorded."""
    assert bench.run(FILE, when).killed

    seen = bench.run(FILE).ok().facts

    assert seen["size"] == 1000
    assert seen["kinds"][-1] == "completed"
    assert ledger.count("make") == count


UNDO = """
op_id = "compensate[charge%231@0]#1"

def undo(op, *, idempotency_key):
    if "early" in more:
        die()
    ledger.add("undo " + op.result, idempotency_key)
    if "late" in more:
        die()
    return "back"

@dnb.step(compensate=undo)
def charge(*, idempotency_key):
    ledger.add("charge", idempotency_key)
    return "ch_1"

for where in more:
    if where in {"before", "after"}:
        die_at(op_id, "completed", where)
with dnb.run("r", store=store) as run:
    charge()
    try:
        run.compensate("charge", "wrong customer")
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations])
    tell(outcomes=outcomes(run), kinds=kinds(run, "charge#1"), undo=kinds(run, op_id))
    if "settle" in more:
        run.deny(op_id) if not ledger.keys("undo ch_1") else run.confirm(op_id, "seen")
        run.compensate("charge")
        tell(after=outcomes(run))
"""

OP = "compensate[charge%231@0]#1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["late", *(pytest.param(w, marks=pytest.mark.slow) for w in ("early", "before"))]
)
def test_a_compensation_that_was_killed_is_in_doubt_and_not_repeated(
    bench: Bench, ledger: Ledger, where: str
) -> None:
    """What it was to take back still counts; once it is settled, it is taken back, and once."""
    assert bench.run(UNDO, where).killed

    seen = bench.run(UNDO).ok().facts
    assert seen["doubt"] == [OP]
    assert seen["outcomes"] == {"charge#1": "completed", OP: "unknown"}
    settled = bench.run(UNDO, "settle").ok().facts

    assert settled["after"] == {"charge#1": "incomplete", OP: "completed"}
    assert ledger.count("undo ch_1") == 1
    assert ledger.count("charge") == 1


@pytest.mark.slow
def test_no_kill_leaves_a_result_that_counts_and_an_effect_that_is_gone(
    bench: Bench, ledger: Ledger
) -> None:
    """The compensation and the end of what it took back are one commit; asking again is harmless."""
    assert bench.run(UNDO, "after").killed
    with dnb.run("r", store=bench.store) as run:
        assert run.get("charge").outcome == "incomplete"
        assert run.compensate("charge", undo=lambda op: 1 / 0).outcome == "incomplete"
        assert list(run.history("charge")["kind"]) == ["intended", "completed", "invalidated"]
    assert ledger.count("undo ch_1") == 1
