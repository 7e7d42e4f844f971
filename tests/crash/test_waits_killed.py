"""Kernels that are killed while they wait for a decision, or just after it was given."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger
from support.waiting import eventually

import durable_nb as dnb

ASK = "approval[Send?]#1"

MAILS = """
@dnb.step
def collect():
    ledger.add("collect")
    return 40

@dnb.step
def send(count):
    if "early" in more:
        die()
    ledger.add("send")
    if "late" in more:
        die()
    return count

details = {"to": 4000 if "changed" in more else 40}
for where in ("intended", "approved", "rejected", "completed"):
    for when in ("before", "after"):
        if f"{when} {where}" in more:
            die_at("send#1" if where == "completed" else "approval[Send?]#1", where, when)

with dnb.run("r", store=store) as run:
    count = collect()
    if "yes" in more:
        run.approve("approval[Send?]#1")
    if "no" in more:
        run.reject("approval[Send?]#1", reason="not today")
    try:
        said = run.approval("Send?", details)
        tell(said=said["approved"], sent=send(count))
    except dnb.ApprovalPending as stop:
        tell(pending=stop.op, details=stop.more)
    except dnb.ApprovalRejected as no:
        tell(rejected=no.reason)
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations])
    tell(outcomes=outcomes(run), kinds=kinds(run, "approval[Send?]#1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_case_3_killed_as_it_asks_it_asks_again_and_repeats_nothing(
    bench: Bench, ledger: Ledger, when: str
) -> None:
    """What was done before the pause is done once; approved from outside, only the rest runs."""
    assert bench.run(MAILS, f"{when} intended").killed
    seen = bench.run(MAILS).ok().facts
    assert (seen["pending"], seen["details"]) == (ASK, "{'to': 40}")
    assert seen["kinds"] == ["intended"]  # the same question is asked once

    dnb.watch("r", store=bench.store).approve(ASK, reason="fine")
    seen = bench.run(MAILS).ok().facts

    assert (seen["said"], seen["sent"]) == (True, 40)
    assert (ledger.count("collect"), ledger.count("send")) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("when", "asks"), [("before", True), ("after", False)])
def test_an_approval_counts_once_it_is_on_record(
    bench: Bench, ledger: Ledger, when: str, asks: bool
) -> None:
    """Killed before it, nobody has decided; killed after it, nobody is asked again."""
    assert "pending" in bench.run(MAILS).ok().facts
    assert bench.run(MAILS, "yes", f"{when} approved").killed
    assert ledger.count("send") == 0

    seen = bench.run(MAILS).ok().facts

    assert ("pending" in seen) is asks
    assert ledger.count("send") == (0 if asks else 1)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "count"), [("early", 0), ("late", 1), ("before completed", 1)])
def test_killed_in_the_approved_effect_it_is_unknown_and_not_done_on_the_old_yes(
    bench: Bench, ledger: Ledger, where: str, count: int
) -> None:
    """A yes is no licence to repeat: the doubt is settled by evidence."""
    assert "pending" in bench.run(MAILS).ok().facts
    assert bench.run(MAILS, "yes", where).killed

    seen = bench.run(MAILS).ok().facts

    assert seen["doubt"] == ["send#1"]
    assert seen["outcomes"][ASK] == "completed"
    assert ledger.count("send") == count


@pytest.mark.slow
def test_details_that_changed_across_the_kill_are_asked_about_anew(
    bench: Bench, ledger: Ledger
) -> None:
    """Pending or approved, a yes to the old ones does not count for the new ones."""
    assert bench.run(MAILS, "after intended").killed
    assert bench.run(MAILS, "changed").ok().facts["details"] == "{'to': 4000}"
    assert bench.run(MAILS, "changed", "yes", "after approved").killed

    seen = bench.run(MAILS).ok()

    assert seen.facts["details"] == "{'to': 40}"
    assert "because this changed: input details: {'to': 4000} -> {'to': 40}" in seen.err
    assert seen.facts["kinds"] == ["intended", "intended", "approved", "rerun", "intended"]
    assert ledger.count("send") == 0


def test_a_rejection_replays_after_the_kill(bench: Bench, ledger: Ledger) -> None:
    """No stays no, in the same words, in each kernel."""
    assert "pending" in bench.run(MAILS).ok().facts
    assert bench.run(MAILS, "no", "after rejected").killed
    for _ in range(2):
        assert bench.run(MAILS).ok().facts["rejected"] == "not today"
    assert ledger.count("send") == 0


AWAITED = """
@dnb.step
def collect():
    ledger.add("collect")
    return 40

@dnb.step
def send(count):
    ledger.add("send")
    return count

for op, where in (("approval[Send?]#1", "approved"), ("", "signalled")):
    for when in ("before", "after"):
        if f"{when} {where}" in more:
            die_at(op, where, when)

async def program():
    async with dnb.run("r", store=store) as run:
        count = collect()
        await run.sleep(0.2)
        ledger.add("asking")
        said = await run.approval("Send?", {"to": count})
        tell(by=bool(said["by"]), sent=send(count))
        ledger.add("listening")
        got = await run.wait_for("paid")
        tell(got=got, kinds=kinds(run, "wait_for[paid]#1"), all=list(run.history()["kind"]))

asyncio.run(program())
"""


@pytest.mark.slow
def test_an_awaited_approval_is_decided_from_another_process(bench: Bench, ledger: Ledger) -> None:
    """Its owner applies it while it awaits; a second decision is told that it is settled."""
    with bench.start(AWAITED) as child:
        child.until(lambda: ledger.count("asking") == 1)
        outside = dnb.watch("r", store=bench.store)
        eventually(lambda: ASK in [v.id for v in outside.status_view().views])
        assert outside.approve(ASK).outcome == "completed"
        with pytest.raises(dnb.OwnerRefused, match="already settled"):
            outside.reject(ASK, reason="no")
        child.until(lambda: ledger.count("listening") == 1)
        outside.signal("paid", {"usd": 5})
        seen = child.wait().ok().facts
    assert (seen["by"], seen["sent"], seen["got"]) == (True, 40, {"usd": 5})
    assert (ledger.count("collect"), ledger.count("send")) == (1, 1)


@pytest.mark.slow
def test_killed_while_it_awaits_it_goes_on_where_it_waited(bench: Bench, ledger: Ledger) -> None:
    """The next kernel finds what was decided meanwhile, and the signal that was held for it."""
    with bench.start(AWAITED) as child:
        child.until(lambda: ledger.count("asking") == 1)
        outside = dnb.watch("r", store=bench.store)
        eventually(lambda: ASK in [v.id for v in outside.status_view().views])
        assert child.kill().killed
    outside.approve(ASK)
    assert outside.signal("paid", 7) is None

    seen = bench.run(AWAITED).ok().facts

    assert (seen["sent"], seen["got"]) == (40, 7)
    assert seen["kinds"] == ["intended", "signalled"]
    assert (ledger.count("collect"), ledger.count("send")) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_owner_that_is_killed_as_it_approves_leaves_one_answer(
    bench: Bench, ledger: Ledger, when: str
) -> None:
    """What was sent to it is applied once: by it, or by the next one that opens the run."""
    with bench.start(AWAITED, f"{when} approved") as child:
        child.until(lambda: ledger.count("asking") == 1)
        outside = dnb.watch("r", store=bench.store)
        eventually(lambda: ASK in [v.id for v in outside.status_view().views])
        with pytest.raises(dnb.OwnerRefused):
            outside.approve(ASK)
        assert child.wait().killed
    outside.signal("paid", 7)

    seen = bench.run(AWAITED).ok().facts

    assert (seen["sent"], seen["got"]) == (40, 7)
    assert seen["all"].count("approved") == 1
    assert ledger.count("send") == 1


@pytest.mark.slow
def test_a_signal_whose_owner_is_killed_as_it_takes_it_comes_once(
    bench: Bench, ledger: Ledger
) -> None:
    """It is on record, unanswered; the next owner answers it, and holds no second one."""
    with bench.start(AWAITED, "after signalled") as child:
        child.until(lambda: ledger.count("asking") == 1)
        outside = dnb.watch("r", store=bench.store)
        with pytest.raises(dnb.OwnerRefused):
            outside.signal("paid", 7)
        assert child.wait().killed
    outside.approve(ASK)

    seen = bench.run(AWAITED).ok().facts

    assert seen["got"] == 7
    assert seen["all"].count("signalled") == 2  # held, and taken
    assert "contested" not in seen["all"]
