"""Approvals, signals and timers: decided by a person or by time, once, and by id."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import durable_nb as dnb
from durable_nb.engine.store import open_run as open_with
from durable_nb.engine.trajectory import Clock

ASK = "approval[Send?]#1"


def pending(open_run, program):
    """Run a program to the wait that stops it."""
    with (
        pytest.raises((dnb.ApprovalPending, dnb.SignalPending, dnb.TimerPending)) as stop,
        open_run() as run,
    ):
        program(run)
    return stop.value


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clocked(tmp_path):
    """Open a run under a clock that the test sets; what is said is kept."""
    time, said = Time(), []

    def open_():
        found = dnb.Surroundings(origin=lambda: None, say=said.append)
        return open_with("r", store=tmp_path / "store", surroundings=found, clock=Clock(now=time))

    open_.time, open_.said = time, said
    return open_


# -- approvals ---------------------------------------------------------------------------------


def test_an_undecided_approval_stops_the_program_and_an_approved_one_lets_it_on(open_run, effects):
    """What follows has not begun; approved, its record says by whom, and replays."""

    def program(run):
        said = run.approval("Send?", {"to": 40})
        return said, run.step("send").call(effects, "sent")

    stop = pending(open_run, program)
    assert (stop.op, stop.more) == (ASK, "{'to': 40}")
    assert effects.count == 0

    with open_run() as run:
        assert run.approve(ASK, reason="fine").outcome == "completed"
        said, _ = program(run)
    assert said["approved"] is True
    assert (said["reason"], bool(said["by"])) == ("fine", True)
    with open_run() as run:
        assert program(run)[0] == said
    assert effects.count == 1


def test_case_3_what_was_done_before_the_pause_is_not_done_again(open_run, effects):
    """Step A, then an approval; decided in another kernel: A has run once, and only B runs."""

    def program(run):
        run.step("a").call(effects, "a")
        run.approval("Go on?")
        run.step("b").call(effects, "b")

    pending(open_run, program)
    pending(open_run, program)
    assert effects.lines == ["a"]
    with open_run() as run:
        run.approve("approval[Go on?]#1")
        program(run)
    assert effects.lines == ["a", "b"]


@pytest.mark.slow
def test_a_rejected_approval_is_an_error_that_replays_and_is_revoked_by_invalidating(open_run):
    """No is an answer: the same error on each resume, until it is asked again."""
    pending(open_run, lambda run: run.approval("Send?"))
    with open_run() as run:
        run.reject(ASK, reason="not today")
    for _ in range(2):
        with open_run() as run, pytest.raises(dnb.ApprovalRejected, match="not today") as no:
            run.approval("Send?")
        assert (no.value.op, no.value.reason) == (ASK, "not today")
    with open_run() as run:
        run.invalidate(ASK, "they changed their mind")
    pending(open_run, lambda run: run.approval("Send?"))
    with open_run() as run:
        run.approve(ASK)
        assert run.approval("Send?")["approved"]


def test_a_second_decision_is_told_that_it_is_settled(open_run):
    """The first stands; both are in the history."""
    pending(open_run, lambda run: run.approval("Send?"))
    with open_run() as run:
        run.approve(ASK)
        with pytest.raises(dnb.AlreadySettled):
            run.reject(ASK, reason="no")
        with pytest.raises(dnb.AlreadySettled):
            run.approve(ASK)
        assert run.approval("Send?")["approved"]
        kinds = list(run.history(ASK)["kind"])
    assert kinds == ["intended", "approved", "contested", "contested"]


def test_changed_details_ask_again_and_an_operators_stale_look_is_refused(open_run):
    """Who approves sees what it is; the program may have asked for something else meanwhile."""
    pending(open_run, lambda run: run.approval("Send?", {"to": 40}))
    with open_run() as run:
        seen = run.get(ASK)
    pending(open_run, lambda run: run.approval("Send?", {"to": 4000}))
    with open_run() as run:
        with pytest.raises(dnb.VerdictRefused, match="went on after you looked"):
            run.approve(seen)
        assert run.get(ASK).attempt == 2
        run.approve(run.get(ASK))
        run.approval("Send?", {"to": 4000})


def test_an_approval_does_not_cover_other_details(open_run, capsys):
    """Approved for 40, and asked for 4000: it is asked again, and says so."""
    pending(open_run, lambda run: run.approval("Send?", {"to": 40}))
    with open_run() as run:
        run.approve(ASK)
    pending(open_run, lambda run: run.approval("Send?", {"to": 4000}))
    assert "because this changed: input details" in capsys.readouterr().err


def test_the_same_title_is_asked_as_often_as_it_comes_and_a_key_once(open_run):
    """Titles are counted, in order of the calls; an explicit key is unique."""

    def program(run):
        return [run.approval("Send?", n) for n in range(2)]

    pending(open_run, program)
    with open_run() as run:
        run.approve(ASK)
    assert pending(open_run, program).op == "approval[Send?]#2"
    with open_run() as run:
        run.approve("approval[Send?]#2")
        program(run)
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Other?", key="k")
        run.approve("approval[k]#1")
        run.approval("Other?", key="k")
        with pytest.raises(dnb.DuplicateStep):
            run.approval("Other?", key="k")


def test_verdicts_fit_the_kind_of_operation(open_run):
    """An approval is not confirmed, a step not approved, and what does not wait not decided."""
    with open_run() as run:
        run.step("a", effect="none").call(int)
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Send?")
        for refused, why in (
            (lambda: run.confirm(ASK, 1), "approve or reject it"),
            (lambda: run.deny(ASK), "approve or reject it"),
            (lambda: run.approve("a#1"), "it is no approval"),
            (lambda: run.signal(run.get("a#1")), "does not wait for a signal"),
            (lambda: run.signal(ASK), "approve or reject it"),
        ):
            with pytest.raises(dnb.VerdictRefused, match=why):
                refused()
        run.approve(ASK)
        run.invalidate(ASK, "no")
        with pytest.raises(dnb.VerdictRefused, match="does not wait for it now"):
            run.approve(ASK)


def test_an_identity_is_a_wait_or_a_step_and_never_both(open_run):
    """A step of that name does not get an approval's record, nor the other way round."""
    with open_run() as run:
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Send?")
        run.approve(ASK)
        run.step("sleep", effect="none").call(int)
    with open_run() as run:
        with pytest.raises(dnb.DuplicateStep, match="it is a wait"):
            run.step("approval", key="Send?").call(int)
        with pytest.raises(dnb.DuplicateStep, match="it is no wait"):
            run.sleep(0)


def test_an_approval_inside_of_an_effect_is_refused(open_run):
    """An effect that is interrupted to ask would be unknown."""
    with (
        open_run() as run,
        pytest.raises(dnb.NestedEffect),
        run.step("a", effect="idempotent") as op,
    ):
        assert op.needed
        run.approval("Send?")


def test_nobody_is_asked_while_something_is_unknown(open_run):
    """A wait is a new operation like any other."""
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("send").call(int, "no number")
        with pytest.raises(dnb.UnknownOutcome):
            run.approval("Send?")
        assert len(run.operations()) == 1


def test_a_wait_costs_no_call(open_run):
    """A budget of calls counts what is called."""
    with open_run(budget={"calls": 1}) as run:
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Send?")
        run.approve(ASK)
        run.approval("Send?")
        assert run.step("a", effect="none").call(int) == 0
        assert run.spent()["calls"] == 1


def test_a_run_at_rest_waits_and_shows_what_for(open_run):
    """Its status, its rows and its questions say it; a timer is no question for a person."""

    def program(run):
        run.step("a", effect="none").call(int)
        run.sleep(3600)

    pending(open_run, program)
    pending(open_run, lambda run: run.approval('Send "it"?', [1]))
    pending(open_run, lambda run: run.wait_for("paid"))
    with open_run() as run:
        shown = run.status_view()
    assert run.status() == "waiting"
    assert [r.note for r in shown.rows[1:]] == [
        "waits until its time", "waits for approval", "waits for a signal",
    ]  # fmt: skip
    assert [line for _, line in shown.open] == [
        'run.approve("approval[Send \\"it\\"?]#1")',
        'run.reject("approval[Send \\"it\\"?]#1", reason="...")',
        'run.signal("wait_for[paid]#1", value)',
    ]
    assert "(details: [1])" in shown.open[0][0]
    assert "2026" not in shown.to_text()


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, "key sk-" + "a1B2" * 12])
def test_a_title_is_one_short_line_without_secrets(open_run, title):
    """It is part of the identity, which is shown everywhere."""
    with open_run() as run, pytest.raises(dnb.BadName):
        run.approval(title)


# -- signals -----------------------------------------------------------------------------------


def test_a_signal_gives_its_value_to_what_waits_for_it(open_run):
    """By name, where one waits; the value replays."""
    stop = pending(open_run, lambda run: run.wait_for("paid"))
    assert 'run.signal("paid", value)' in str(stop)
    with open_run() as run:
        assert run.signal("paid", {"usd": 12}).id == "wait_for[paid]#1"
        assert run.wait_for("paid") == {"usd": 12}
    with open_run() as run:
        assert run.wait_for("paid") == {"usd": 12}
        with pytest.raises(dnb.AlreadySettled):
            run.signal("wait_for[paid]#1", {"usd": 13})


def test_a_signal_that_comes_early_is_held_for_the_first_that_waits(open_run):
    """One a name; a second is told so, and the wait that takes it clears it."""
    with open_run() as run:
        assert run.signal("paid", 1) is None
        with pytest.raises(dnb.AlreadySettled, match="held"):
            run.signal("paid", 2)
    with open_run() as run:
        assert run.wait_for("paid") == 1
        with pytest.raises(dnb.SignalPending):
            run.wait_for("paid")
        assert run.signal("paid", 3).id == "wait_for[paid]#2"
    with open_run() as run:
        assert [run.wait_for("paid") for _ in range(2)] == [1, 3]


def test_a_signal_for_which_several_wait_is_refused_by_name(open_run):
    """Order never decides: an id does."""
    with open_run() as run:
        for branch in "ab":
            with run.branch(branch), pytest.raises(dnb.SignalPending):
                run.wait_for("paid")
        with pytest.raises(dnb.VerdictRefused, match=r"a#1/wait_for\[paid\]#1, b#1"):
            run.signal("paid", 1)
        run.signal("b#1/wait_for[paid]#1", 2)
        run.signal("paid", 1)
        for branch, value in (("a", 1), ("b", 2)):
            assert run.get(f"{branch}#1/wait_for[paid]#1").result == value
        with pytest.raises(dnb.OperationMissing):
            run.signal("wait_for[paied]#1", 1)


# -- time --------------------------------------------------------------------------------------


def test_a_timer_ends_at_its_recorded_moment_in_whatever_kernel(clocked):
    """`sleep(seconds)` counts from its first call; due, it is completed and never waits again."""
    for _ in range(2):
        pending(clocked, lambda run: run.sleep(60))
        clocked.time.now += timedelta(seconds=29)
    clocked.time.now += timedelta(seconds=2)
    for _ in range(2):
        with clocked() as run:
            assert run.sleep(60) is None
            assert list(run.history("sleep#1")["kind"]) == ["intended", "completed"]


def test_the_recorded_moment_holds_although_a_resume_computes_another(clocked):
    """Programs add to the clock; the difference is said while it is pending."""

    def program(run):
        run.sleep(until=clocked.time.now + timedelta(seconds=60))

    pending(clocked, program)
    clocked.time.now += timedelta(seconds=50)
    pending(clocked, program)
    told = "sleep#1: its recorded time holds: 2026-01-01 00:01:00 UTC, not 2026-01-01 00:01:50 UTC"
    assert told in clocked.said
    clocked.time.now += timedelta(seconds=10)
    with clocked() as run:
        program(run)
    clocked.time.now += timedelta(seconds=10)
    with clocked() as run:
        program(run)


def test_a_wait_that_nobody_decides_in_time_is_completed_with_a_timeout(clocked):
    """It replays, and a decision that comes later is refused."""

    def program(run):
        run.approval("Send?", timeout=60)

    pending(clocked, program)
    clocked.time.now += timedelta(seconds=61)
    for _ in range(2):
        with clocked() as run, pytest.raises(TimeoutError, match="not decided within 60 s"):
            program(run)
    with clocked() as run, pytest.raises(dnb.VerdictRefused):
        run.approve(ASK)


def test_a_wait_depends_on_its_inputs_alone(open_run):
    """A run that goes on under another model has waited as long as before, and asks nobody."""
    for model in ("m-1", "m-2"):
        with open_run(facets={"model": model}) as run:
            run.signal("go" if model == "m-1" else "other")
            run.sleep(0)
            run.wait_for("go")
            assert list(run.history("sleep#1")["kind"]) == ["intended", "completed"]


@pytest.mark.parametrize(
    "given", [{}, {"seconds": 1, "until": datetime.now(UTC)}, {"until": datetime(2026, 1, 1)}]
)
def test_sleep_takes_seconds_or_a_moment_with_a_time_zone(open_run, given):
    """One of the two, and no guess."""
    with open_run() as run, pytest.raises(TypeError):
        run.sleep(**given)


# -- from elsewhere ----------------------------------------------------------------------------


@pytest.mark.slow
def test_waits_are_decided_from_outside_where_nobody_holds_the_run(open_run, tmp_path):
    """`watch` takes the lease for a moment; what it saw is what it decides on."""
    pending(open_run, lambda run: run.approval("Send?"))
    seen = dnb.watch("r", store=tmp_path / "store")
    assert seen.status_view().status == "waiting"
    assert seen.approve(ASK, reason="seen").outcome == "completed"
    with pytest.raises(dnb.AlreadySettled):
        seen.reject(ASK, reason="no")
    assert seen.signal("paid", (1, 2)) is None
    with open_run() as run:
        assert run.approval("Send?")["reason"] == "seen"
        assert run.wait_for("paid") == (1, 2)
