"""Failure modes of effects: repeated without a rule, and taken for done beside what is not."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger

pytestmark = pytest.mark.slow  # each starts several processes

REPEATED = """
rule, mode = more[0], more[1]
early = "early" in more

def pay(*, idempotency_key):
    if mode == "die" and early:
        die()
    ledger.add("pay", idempotency_key)
    if mode == "die":
        die()
    return "paid"

def look_up(op):
    if ledger.keys("pay") == [op.idempotency_key]:
        return dnb.Happened("paid", "it is in the ledger")
    return dnb.DidNotHappen("it is not in the ledger")

rules = {
    "nothing": {},
    "key": {"effect": "idempotent"},
    "key remembered": {"effect": "idempotent", "key_ttl": 3600.0},
    "key forgotten": {"effect": "idempotent", "key_ttl": 1e-3},  # a new process takes longer
    "reconciler": {"reconcile": look_up, "settle_after": 0},
}
with dnb.run("r", store=store) as run:
    paid = run.step("pay", **rules[rule]).call(pay)
    tell(paid=paid, verdicts=[k for k in kinds(run, "pay#1") if k in {"denied", "confirmed"}])
"""


@pytest.mark.parametrize(
    ("rule", "killed", "payments", "verdicts"),
    [
        ("nothing", "early", 0, None),
        ("nothing", "late", 1, None),
        ("key", "late", 2, []),
        ("key remembered", "late", 2, []),
        ("key forgotten", "late", 1, None),
        ("reconciler", "early", 1, ["denied"]),
        ("reconciler", "late", 1, ["confirmed"]),
    ],
)
def test_external_mutation_repeated_without_key_rule_or_reconciliation(
    bench: Bench, ledger: Ledger, rule: str, killed: str, payments: int, verdicts: list[str] | None
) -> None:
    """A payment cut short goes out again only under its key, or once a reconciler has denied it.

    Without either, and where the receiver has forgotten the key, it is unknown, and the run stops.
    """
    assert bench.run(REPEATED, rule, "die", killed).killed

    seen = bench.run(REPEATED, rule, "go")

    assert ledger.count("pay") == payments
    assert len(set(ledger.keys("pay"))) <= 1  # the receiver knows a repetition by its key
    if verdicts is None:
        assert "UnknownOutcome: pay#1 in run 'r' may or may not have happened" in seen.err
        assert seen.facts == {}
    else:
        assert seen.ok().facts == {"paid": "paid", "verdicts": verdicts}


STAGE = """
mode = more[0]

def part(name):
    ledger.add(name)
    if name == "summary" and mode == "failed":
        raise LookupError("the model is down")
    if name == "summary" and mode == "killed":
        die()
    return "" if name == "summary" and mode == "unvalidated" else name

def not_empty(text):
    return text != ""

names = ["table", "summary", "letter"]
with dnb.run("r", store=store) as run:
    try:
        with run.stage("extract", outputs=names, validate={"summary": not_empty}) as stage:
            if stage.needed:
                stage["table"] = run.step("table", effect="none").call(part, "table")
                stage["letter"] = run.step("letter").call(part, "letter")
                try:
                    stage["summary"] = part("summary")
                except LookupError:
                    pass  # as an agent goes on without what failed
        tell(result=stage.result)
    except dnb.ResultLost as lost:
        tell(lost=str(lost))
    tell(outcomes=outcomes(run))
    if mode != "go":
        die()
"""


@pytest.mark.parametrize(
    ("sibling", "says"),
    [
        ("failed", "did not produce summary"),
        ("unvalidated", "not_empty refused summary"),
        ("killed", ""),
    ],
)
def test_stage_complete_with_a_failed_or_unvalidated_sibling(
    bench: Bench, ledger: Ledger, sibling: str, says: str
) -> None:
    """A stage is completed only with all of its outputs, each let through: never in part.

    Two of three outputs are good and their steps are done; those replay once the third is there.
    """
    first = bench.run(STAGE, sibling)
    assert first.killed
    if says:
        assert says in first.facts["lost"]
        assert first.facts["outcomes"]["extract#1"] == "incomplete"
        assert first.facts["outcomes"]["extract#1/letter#1"] == "completed"
    assert "result" not in first.facts

    seen = bench.run(STAGE, "go").ok().facts

    assert seen["result"] == {name: name for name in ("letter", "summary", "table")}
    assert set(seen["outcomes"].values()) == {"completed"}
    assert [what for what, _ in ledger.lines()] == ["table", "letter", "summary", "summary"]
