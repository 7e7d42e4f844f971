"""The report of a run: what durability cost it, what it saved, and what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.child import Bench
from support.ticks import Ticks, ends

import durable_nb as dnb
from durable_nb.engine.measures import Own, measure
from durable_nb.engine.usage import UsageReport, report_lines
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Record


@pytest.fixture
def tick():
    return Ticks()


class Told:
    """Records as a run would have written them, without the time that it takes to write them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epoch = 0
        self.add(RUN, Kind.BORN, run_id="0" * 32, name="r")
        self.open()

    def add(self, op: str, kind: Kind, **body) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        self.records.append(Record(len(self.records) + 1, op, kind, now, self.epoch, body))

    def open(self) -> None:
        self.epoch += 1
        self.add(RUN, Kind.OPENED, role="runner")

    def close(self, **body) -> None:
        self.add(RUN, Kind.CLOSED, role="runner", **body)

    def step(self, op: str, kind: Kind = Kind.COMPLETED, attempt: int = 1, **body) -> None:
        self.add(op, Kind.INTENDED, effect="none", attempt=attempt)
        result = {"result": "1"} if kind is Kind.COMPLETED else {}
        self.add(op, kind, attempt=attempt, duration_s=1.0, checkpoint_s=0.0, **result)
        self.records[-1].body.update(body)

    def report(self, own: Own | None = None) -> UsageReport:
        found = measure(Fold.of(self.records), self.records, frozenset(), own)
        return UsageReport("r", tuple(report_lines(found)))


# -- checkpointing -----------------------------------------------------------------------------


def test_a_duration_is_the_body_alone(tick, tmp_path):
    """What is done to record a result is checkpointing, and in nobody's duration."""

    def slow_to_record(value):
        tick(3)
        return value

    with tick.open(tmp_path) as run:
        run.step("act", record=slow_to_record).call(tick, 10)
        told = ends(run)["act#1"]
        line = run.report().about("checkpointing")
    assert (told["duration_s"], told["checkpoint_s"]) == (10, 3)
    assert line.numbers["share"] == 3 / 13
    assert line.says == "23.1% of the time, 3.0 s beside 10.0 s of work"
    assert "Do more in each step" in line.advice


def test_a_small_share_needs_no_advice(tick, tmp_path):
    """Below a tenth of the time there is nothing to do."""
    with tick.open(tmp_path) as run:
        run.step("act", record=lambda value: tick(0.5)).call(tick, 10)
        line = run.report().about("checkpointing")
    assert line.advice == "That is little: nothing to do."


def test_what_checkpointing_cost_after_the_last_outcome_stands_in_the_runs_end():
    """The end of a run tells what no outcome could, and a kernel that goes on tells it too."""
    told = Told()
    told.step("a#1", checkpoint_s=1.0)
    told.close(checkpoint_s=2.0, saved={"operations": 0, "seconds": 0.0, "usd": None})
    told.open()
    own = Own(told.epoch, 4.0, {"operations": 0, "seconds": 0.0, "usd": None})
    assert told.report(own).about("checkpointing").numbers["checkpoint_s"] == 7.0


def test_what_was_recorded_before_it_was_measured_is_not_taken_for_free():
    """Attempts of an earlier version say nothing of checkpointing, and the report says so."""
    told = Told()
    told.step("old#1")
    del told.records[-1].body["checkpoint_s"]
    told.close()
    line = told.report().about("checkpointing")
    assert line.numbers["share"] is None
    assert "not known; 1 attempt was recorded before this was measured" in line.says
    assert told.report().about("replays") is None  # it was the only kernel

    told.open()
    saved = {"operations": 1, "seconds": 1.0, "usd": None}
    assert told.report(Own(told.epoch, 0.0, saved)).about("replays").numbers["at_least"]
    told.step("new#1", checkpoint_s=1.0)
    line = told.report().about("checkpointing")
    assert line.numbers["share"] == 0.5
    assert "1 attempt was recorded before" in line.says


def test_a_run_that_has_done_nothing_says_so(tmp_path):
    """No number is made up where nothing has run."""
    with dnb.run("r", store=tmp_path) as run:
        report = run.report()
    assert [line.about for line in report.lines] == ["checkpointing", "unprotected"]
    assert "not known: nothing has run to its end yet" in report.to_text()


# -- replays -----------------------------------------------------------------------------------


def spend(run, tick, name, seconds, usd=None):
    with run.step(name) as op:
        if op.needed:
            tick(seconds)
            op.spend(usd=usd)
            op.result = None


def test_replays_save_the_recorded_time_and_money(tick, tmp_path):
    """Each replayed operation counts with its recorded duration and cost, over all kernels."""
    for kernel in range(3):
        with tick.open(tmp_path) as run:
            spend(run, tick, "plan", 10, usd=0.5)
            spend(run, tick, "act", 5)
            line = run.report().about("replays")
        if kernel == 0:
            assert line is None
        else:
            expected = {"operations": 2 * kernel, "seconds": 15 * kernel, "usd": 0.5 * kernel}
            assert line.numbers == {**expected, "at_least": False}
    assert line.says == "they saved 4 operations, 30.0 s, $1.00"


def test_an_unknown_price_is_not_zero(tick, tmp_path):
    """Where no replayed step said what it cost, the money saved is not known."""
    for _ in range(2):
        with tick.open(tmp_path) as run:
            spend(run, tick, "act", 5)
            line = run.report().about("replays")
    assert line.numbers["usd"] is None
    assert "$" not in line.says
    assert "not known" in line.advice


def test_a_replayed_container_saves_what_is_inside_of_it(tick, tmp_path):
    """What lies below a completed operation is not reached, and was saved with it."""
    for _ in range(2):
        with tick.open(tmp_path) as run:
            with run.step("box", effect="none") as box:
                if box.needed:
                    tick(1)
                    spend(run, tick, "one", 10, usd=0.25)
                    spend(run, tick, "two", 10, usd=0.5)
                    box.result = None
            line = run.report().about("replays")
    assert line.numbers == {"operations": 3, "seconds": 21, "usd": 0.75, "at_least": False}


def test_a_replayed_failure_is_a_replay(tick, tmp_path):
    """A failure that the program handled is completed: its time is saved too."""

    def fail():
        tick(10)
        raise ValueError("no")

    for _ in range(2):
        with tick.open(tmp_path) as run:
            with pytest.raises(ValueError, match="no"):
                run.step("fail", effect="none").call(fail)
            spend(run, tick, "then", 5)
            line = run.report().about("replays")
    assert (line.numbers["operations"], line.numbers["seconds"]) == (2, 15)


KILLED = """
def work(n):
    time.sleep(0.1)
    return n

with dnb.run("r", store=store) as run:
    for n in range(3):
        with run.step("work", effect="none", key=n) as op:
            if op.needed:
                op.spend(usd=0.25)
                op.result = work(n)
    if more:
        die()
    tell(report=run.report().as_dict(), text=str(run.report()))
"""


@pytest.mark.slow
def test_a_killed_kernel_makes_it_at_least(tmp_path):
    """A kernel that was killed told nothing of what it saved, so that the sum is a lower bound."""
    bench = Bench(tmp_path)
    assert bench.run(KILLED, "die").killed
    assert bench.run(KILLED, "die").killed
    facts = bench.run(KILLED).ok().facts

    numbers = {line["about"]: line["numbers"] for line in facts["report"]["lines"]}
    saved = numbers["replays"]
    assert (saved["operations"], saved["usd"], saved["at_least"]) == (3, 0.75, True)
    assert saved["seconds"] >= 0.3
    assert "they saved at least 3 operations" in facts["text"]
    assert "2 kernels ended without closing the run" in facts["text"]

    report = dnb.watch("r", store=bench.store).report()  # from the journal, which nobody holds
    assert report.about("replays").numbers == saved
    assert report.about("resume").numbers["operations"] == 3


# -- what is not protected ---------------------------------------------------------------------


def test_the_longest_stretch_may_be_a_body(tick, tmp_path):
    """It names the operation, and advises to split it once the stretch is long."""
    with tick.open(tmp_path) as run:
        run.call(tick, 60)
        run.step("short").call(tick, 2)
        line = run.report().about("unprotected")
    says = "the longest stretch without a checkpoint is 60.0 s, in the body of tick#1"
    assert line.says == says
    assert "split it into several steps" in line.advice
    assert "run.pinned" in line.advice


def test_the_longest_stretch_may_be_outside_of_steps(tick, tmp_path):
    """It names the container, and advises to put the code into a step."""
    with tick.open(tmp_path) as run:
        with run.step("box", effect="none") as box:
            tick(30)
            run.call(tick, 20)
            box.result = box.needed
        report = run.report()
    line = report.about("unprotected")
    assert line.numbers == {"seconds": 30, "op": "box#1", "outside": True}
    assert "put that code into a step" in line.advice
    outside = report.about("outside")
    assert outside.says == "code outside of steps took 30.0 s in box#1"
    assert "runs again on each resume" in outside.advice


def test_a_short_stretch_needs_no_advice(tick, tmp_path):
    """What nobody minds to lose is left as it is."""
    with tick.open(tmp_path) as run:
        run.call(tick, 4)
        line = run.report().about("unprotected")
    assert line.advice == "A kill in there loses no more than that: nothing to do."


# -- small steps, and the next resume ----------------------------------------------------------


def test_small_steps_are_named_where_they_matter():
    """Steps whose checkpoints take longer than their bodies are listed by name, most costly first."""
    told = Told()
    for n in range(1, 101):
        told.step(f"tiny#{n}", duration_s=0.0001, checkpoint_s=0.002)
    told.step("few#1", duration_s=0.0001, checkpoint_s=0.002)
    told.step("few#2", duration_s=0.0001, checkpoint_s=0.002)
    told.step("large#1", duration_s=50.0, checkpoint_s=0.002)
    line = told.report().about("small steps")
    assert list(line.numbers["steps"]) == ["tiny"]
    assert "tiny (100 calls, each 0.1 ms of work and 2 ms of checkpointing)" in line.says
    assert "Do many in one step" in line.advice
    assert "run.map" in line.advice


def test_a_loop_that_grows_without_a_pin_is_named():
    """More than 1,000 operations of one scope that each resume comes to: the report advises a pin."""
    told = Told()
    for n in range(1, 1001):
        told.step(f"turn#{n}")
    line = told.report().about("resume")
    assert (line.numbers["largest"], line.advice) == (1000, "That is quick: nothing to do.")

    told.step("turn#1001")
    told.step("box#1/one#1")
    told.step("box#1")
    line = told.report().about("resume")
    assert line.numbers == {"operations": 1002, "largest": 1002, "scope": ""}
    assert "1,002 of them at the root of the run" in line.says
    assert "pin" in line.advice


# -- failures ----------------------------------------------------------------------------------


def test_attempts_without_a_result_are_priced(tick, tmp_path):
    """What failed attempts took and cost is told apart, and what a kill cut short is not guessed."""
    told = Told()
    told.step("act#1", Kind.RAISED, duration_s=2.0, usd=0.01)
    told.step("act#1", Kind.INTERRUPTED, 2, duration_s=1.0)
    told.add("act#1", Kind.INTENDED, effect="none", attempt=3)
    told.step("act#1", attempt=4)
    told.add("ask#1", Kind.INTENDED, effect="external", attempt=1, wait="approval")
    report = told.report()
    assert report.about("failures").says == "2 attempts without a result took 3.0 s, $0.01"
    assert report.about("cut short").says == "1 attempt ended with the kernel"
    assert "none of these numbers" in report.about("cut short").advice


# -- faces -------------------------------------------------------------------------------------


def test_a_report_can_be_handed_on(tick, tmp_path):
    """It is plain data for another process, and HTML in which nothing that was recorded is markup."""
    with tick.open(tmp_path) as run:
        run.step("<b>act</b>").call(tick, 60)
        report = run.report()
    assert UsageReport.told(report.as_dict()) == report
    assert "<b>act" not in report._repr_html_()
    assert "&lt;b&gt;act" in report._repr_html_()
    assert report.to_text().splitlines()[0] == "run r: what durability cost, and what it saved"


HOLD = """
with dnb.run("r", store=store) as run:
    run.step("quick", effect="none").call(lambda: None)
    def slow():
        print("begun", flush=True)
        time.sleep(60)
    run.call(slow)
"""


@pytest.mark.slow
def test_a_run_that_another_process_holds_reports_through_it(tmp_path):
    """Its owner tells, while it is busy; what is at work is not taken for cut short."""
    bench = Bench(tmp_path)
    with bench.start(HOLD) as child:
        child.first_line()
        report = dnb.watch("r", store=bench.store).report()
        assert report.about("resume").numbers["operations"] == 1
        assert report.about("cut short") is None
        child.kill()
    after = dnb.watch("r", store=bench.store).report()
    assert after.about("cut short").numbers == {"attempts": 1}
