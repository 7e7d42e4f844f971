"""The timeline of a run, as data made of its records."""

from __future__ import annotations

import json

import pytest
from support.told_timeline import BIRTH, Told

from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN
from durable_nb.model.timeline import KernelEnd, Timeline, timeline_of


def bars_of(timeline: Timeline) -> dict[tuple[str, int], tuple[float, float, str, str]]:
    return {(b.op, b.attempt): (b.begin, b.end, b.ended, b.outcome) for b in timeline.bars}


def test_a_bar_is_an_attempt_from_its_intent_to_its_end():
    """Times are seconds since the run's birth; depth and what is below are those of the identity."""
    told = Told().open().at(1).begin("a#1").step("a#1/b#1", 2, 3).at(4).end("a#1").close()
    found = told.timeline()
    assert bars_of(found) == {
        ("a#1", 1): (1, 4, "completed", "completed"),
        ("a#1/b#1", 1): (2, 3, "completed", "completed"),
    }
    assert [(b.depth, b.holds, b.kernel) for b in found.bars] == [(0, True, 1), (1, False, 1)]
    assert (found.length, found.operations, found.unknown) == (4, 2, ())


@pytest.mark.parametrize("kind", [Kind.CLOSED, Kind.FAILED, Kind.FINISHED])
def test_a_kernel_that_ends_in_order_ends_at_its_record(kind):
    """How it ended is the kind of that record, and what it took from the record is its own word."""
    told = Told().open().step("a#1", 0, 1).at(2).close(kind, saved={"operations": 3})
    (band,) = told.timeline().bands
    assert (band.begin, band.end, band.ended, band.restored) == (0, 2, KernelEnd(kind), 3)


def test_a_kernel_that_says_nothing_has_crashed_at_its_last_record():
    """Whether it died then or later nobody knows; the effect that it was at is unknown."""
    told = Told().open().at(5).begin("mail#1", "external").at(90).open().at(91).close()
    found = told.timeline()
    first, second = found.bands
    assert (first.ended, first.begin, first.end) == (KernelEnd.CRASHED, 0, 5)
    assert (second.ended, second.begin, second.number) == (KernelEnd.CLOSED, 90, 2)
    assert bars_of(found) == {("mail#1", 1): (5, 5, "cut", "unknown")}
    assert found.unknown == ("mail#1",)


def test_a_death_that_a_supervisor_saw_ends_the_band_when_it_saw_it():
    """The record of the death tells the signal and what was at work."""
    told = Told().open().at(1).begin("mail#1", "external")
    told.at(7).open("operator").add(RUN, Kind.DIED, reason="signal 9, in mail#1")
    found = told.close(role="operator").at(60).open().timeline(executing=True)
    died, live = found.bands
    assert (died.ended, died.end, died.why) == (KernelEnd.DIED, 7, "signal 9, in mail#1")
    assert bars_of(found)["mail#1", 1][:3] == (1, 7, "cut")
    assert (live.number, live.ended) == (2, KernelEnd.LIVE)


def test_what_only_settles_is_no_kernel():
    """An operator's opening is no band, and its verdict does not move the dead kernel's end."""
    told = Told().open().at(1).begin("mail#1", "external").at(50).open("operator")
    told.at(51).end("mail#1", Kind.CONFIRMED, actor="ada").close(role="operator")
    found = told.timeline()
    assert [(b.ended, b.end) for b in found.bands] == [(KernelEnd.CRASHED, 1)]
    assert [(v.op, v.at, v.kind, v.actor) for v in found.verdicts] == [
        ("mail#1", 51, "confirmed", "ada")
    ]
    assert bars_of(found)["mail#1", 1] == (1, 1, "cut", "completed")


def test_what_is_at_work_goes_on_until_now_and_is_not_unknown():
    """While a kernel executes the run, its bars and its band reach this moment."""
    told = Told().open().at(1).begin("mail#1", "external").at(9)
    found = told.timeline(executing=True, live=frozenset({"mail#1"}))
    assert bars_of(found) == {("mail#1", 1): (1, 9, "", "incomplete")}
    assert (found.bands[0].ended, found.bands[0].end, found.length) == (KernelEnd.LIVE, 9, 9)


def test_a_wait_outlives_its_kernel_and_ends_with_its_answer():
    """It is one bar from when it was asked for, whoever executes the run meanwhile."""
    told = Told().open().at(1).begin("approval[x]#1", wait="approval").at(2).close()
    assert bars_of(told.timeline())["approval[x]#1", 1] == (1, 2, "", "incomplete")
    told.at(500).open().at(600).end("approval[x]#1", Kind.APPROVED, actor="ada").close()
    assert bars_of(told.timeline())["approval[x]#1", 1] == (1, 600, "approved", "completed")


def test_a_later_kernel_replays_until_it_begins_something_new():
    """What was completed before it is told; so is when it first did something itself."""
    told = Told().open().step("a#1", 0, 1).step("b#1", 1, 2).at(3)
    told.open().at(5).begin("c#1").at(6).end("c#1").close()
    first, second = told.timeline().bands
    assert (first.known, second.known, second.begun, second.restored) == (0, 2, 5, None)


def test_an_attempt_whose_result_was_taken_back_is_pale():
    """So is what a fork has copied; what is done again is a bar of its own."""
    told = Told().open().step("a#1", 0, 1).at(2).add("a#1", Kind.INVALIDATED, reason="r")
    assert [b.pale for b in told.timeline().bars] == [True]
    told.step("a#1", 3, 4, attempt=2)
    assert [(b.attempt, b.pale, b.outcome) for b in told.timeline().bars] == [
        (1, True, "incomplete"),
        (2, False, "completed"),
    ]
    forked = Told().step("a#1", 0, 1).add(RUN, Kind.FORKED, of="r0").open().step("b#1", 2, 3)
    assert [(b.op, b.pale, b.kernel) for b in forked.timeline().bars] == [
        ("a#1", True, 0),
        ("b#1", False, 1),
    ]


def test_a_clock_that_is_set_back_draws_nothing_backwards():
    """Order is that of the records: time stands still, and goes on from there."""
    told = Told().open().at(100).begin("a#1").at(40).end("a#1").step("b#1", 41, 43).close()
    found = told.timeline()
    assert bars_of(found)["a#1", 1][:2] == (100, 100)
    assert bars_of(found)["b#1", 1][:2] == (101, 103)
    assert found.length == 103


def test_it_goes_to_another_process_and_comes_back_the_same():
    """The document is JSON's own types, and has everything."""
    told = Told().open().at(1).begin("mail#1", "external").at(50).open("operator")
    told.at(51).end("mail#1", Kind.DENIED, actor="ada").close(role="operator").at(60).open()
    found = told.timeline(executing=True)
    document = json.loads(json.dumps(found.as_dict()))
    assert Timeline.told(document) == found
    assert document["born"] == BIRTH.isoformat()
    assert [k["ended"] for k in document["kernels"]] == ["crashed", "live"]


def test_a_run_without_records_has_a_timeline():
    """Nothing is in it, and nothing fails."""
    assert timeline_of("r", [], now=BIRTH) == Timeline("r", 0.0)
