"""Forks of runs that were killed, forks that are killed, and kills in the middle of forking."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.folders import tree
from support.ledger import Ledger

import durable_nb as dnb

AGENT = """
name, mode = more

def plan(order):
    return {"order": order, "mails": 2, "text": "x" * 70_000}

@dnb.step
def charge(order, *, idempotency_key):
    ledger.add("charge", idempotency_key)
    return "ch_1"

@dnb.step
def mail(n, *, idempotency_key):
    ledger.add(f"mail{n}", idempotency_key)
    if n == 1 and mode == "die":
        die()
    return n

with dnb.run(name, store=store) as run:
    if mode == "grant":
        run.grant("external", by="ada", reason="a test customer")
    if mode == "deny":
        run.deny("mail[1]#1", evidence="not in the mail server's log")
    plan_ = run.step("plan", effect="none").call(plan, "o-1")
    charge(plan_["order"])
    try:
        for n in range(plan_["mails"]):
            mail.options(key=n)(n)
    except dnb.ScopeDenied as stop:
        tell(denied=list(stop.missing), op=stop.op, told=str(stop))
    except dnb.UnknownOutcome as stop:
        tell(unknown=[op.id for op in stop.operations])
    tell(outcomes=outcomes(run), sources={op: run.get(op).source for op in outcomes(run)})
"""

FORK = """
if more[0] == "artifacts":
    from durable_nb.values import DiskArtifacts
    DiskArtifacts.put = lambda self, data: die()
elif more[0] == "rename":
    os.rename = lambda *_: die()
else:
    from durable_nb.journal import transplant
    plant = transplant.plant
    def planted(*arguments):
        if more[0] == "after":
            plant(*arguments)
        die()
    import durable_nb.journal.folder_place
    durable_nb.journal.folder_place.plant = planted
dnb.watch("refund-17", store=store).fork("what-if", at="mail[0]#1")
"""


def test_a_fork_of_a_killed_run_repeats_no_effect_and_does_its_own_once(
    bench: Bench, ledger: Ledger
) -> None:
    """Forked before the mail that the kill left in doubt; new effects wait for a grant."""
    assert bench.run(AGENT, "refund-17", "die").killed
    before = tree(bench.store / "refund-17")

    done = dnb.watch("refund-17", store=bench.store).fork("what-if", at="mail[1]#1")

    assert (done.effects, done.unknown) == (("charge#1", "mail[0]#1"), ())
    assert tree(bench.store / "refund-17") == before
    seen = bench.run(AGENT, "what-if", "go").ok().facts
    assert (seen["denied"], seen["op"]) == (["external"], "mail[1]#1")
    assert set(seen["sources"].values()) == {"record"}
    assert ledger.count("charge") == ledger.count("mail0") == ledger.count("mail1") == 1

    assert bench.run(AGENT, "what-if", "grant").ok().facts["outcomes"]["mail[1]#1"] == "completed"
    bench.run(AGENT, "what-if", "go").ok()

    assert ledger.count("charge") == ledger.count("mail0") == 1
    assert len(set(ledger.keys("mail1"))) == ledger.count("mail1") == 2, "one there, one here"
    assert tree(bench.store / "refund-17") == before


@pytest.mark.slow
def test_a_doubt_that_is_forked_along_is_settled_in_each_of_the_two(
    bench: Bench, ledger: Ledger
) -> None:
    """The fork stops at it; denied there and granted, it is done under the key that was sent."""
    assert bench.run(AGENT, "refund-17", "die").killed

    done = dnb.watch("refund-17", store=bench.store).fork("what-if")

    assert done.unknown == ("mail[1]#1",)
    assert bench.run(AGENT, "what-if", "go").ok().facts["unknown"] == ["mail[1]#1"]
    assert bench.run(AGENT, "what-if", "deny").ok().facts["denied"] == ["external"]
    bench.run(AGENT, "what-if", "grant").ok()
    assert ledger.count("mail1") == 2
    assert len(set(ledger.keys("mail1"))) == 1
    assert bench.run(AGENT, "refund-17", "go").ok().facts["unknown"] == ["mail[1]#1"]


@pytest.mark.slow
def test_a_fork_that_is_killed_is_resumed_like_any_run(bench: Bench, ledger: Ledger) -> None:
    """What it was doing is unknown in it, and in it alone."""
    assert bench.run(AGENT, "refund-17", "go").code == 0
    dnb.watch("refund-17", store=bench.store).fork("what-if", at="mail[1]#1")
    with dnb.run("what-if", store=bench.store) as run:
        run.grant("external", reason="a test customer")

    assert bench.run(AGENT, "what-if", "die").killed

    assert bench.run(AGENT, "what-if", "go").ok().facts["unknown"] == ["mail[1]#1"]
    assert "unknown" not in bench.run(AGENT, "refund-17", "go").ok().facts
    assert (ledger.count("charge"), ledger.count("mail1")) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        *(pytest.param(w, marks=pytest.mark.slow) for w in ("artifacts", "before", "after")),
        "rename",
    ],
)
def test_a_kill_in_the_middle_of_forking_leaves_no_half_made_run(
    bench: Bench, ledger: Ledger, where: str
) -> None:
    """Nothing there counts as a run, the original is as it was, and forking again works."""
    assert bench.run(AGENT, "refund-17", "die").killed
    before = tree(bench.store / "refund-17")

    assert bench.run(FORK, where).killed

    assert tree(bench.store / "refund-17") == before
    assert not (bench.store / "what-if").exists()
    dnb.watch("refund-17", store=bench.store).fork("what-if", at="mail[0]#1")
    assert dnb.verify("what-if", store=bench.store).ok
    assert list(dnb.runs(store=bench.store)["name"]) == ["refund-17", "what-if"]
    assert bench.run(AGENT, "what-if", "go").ok().facts["denied"] == ["external"]
    assert (ledger.count("charge"), ledger.count("mail0")) == (1, 1)


AUDIT = """
import durable_nb.faces.forking as forking
from click.testing import CliRunner
from durable_nb import cli
if more[0] == "die":
    forking.os.replace = lambda *_: die()
done = CliRunner().invoke(cli.cli, ["audit", "refund-17", "-o", "audit.jsonl", "--store", str(store)])
tell(code=done.exit_code, output=done.output)
"""


@pytest.mark.slow
def test_a_kill_while_the_audit_is_written_leaves_the_file_as_it_was(bench: Bench) -> None:
    """It is whole, or the one of before: never a part of one."""
    assert bench.run(AGENT, "refund-17", "die").killed
    before = tree(bench.store / "refund-17")
    file = bench.folder / "audit.jsonl"
    file.write_text("as it was")

    assert bench.run(AUDIT, "die").killed

    assert file.read_text() == "as it was"
    assert bench.run(AUDIT, "go").ok().facts["code"] == 0
    assert len(file.read_text().splitlines()) == 4
    assert tree(bench.store / "refund-17") == before
