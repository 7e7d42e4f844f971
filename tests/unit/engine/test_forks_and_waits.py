"""Where forks meet waits and pause: what is undecided in each is decided in each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import durable_nb as dnb
from durable_nb.engine.store import open_run as open_with
from durable_nb.engine.trajectory import Clock

ASK = "approval[Send?]#1"


def program(run, effects):
    """Plan, ask, send."""
    run.step("plan", effect="none").call(abs, 1)
    said = run.approval("Send?", {"to": 40})
    run.step("send").call(effects, run.name)
    return said


def stopped_at(open_run, name, effects, signal=dnb.ApprovalPending):
    with pytest.raises(signal) as stop, open_run(name) as run:
        program(run, effects)
    return stop.value


@pytest.mark.slow
def test_what_waits_in_the_original_waits_in_the_fork_and_each_is_decided_for_itself(
    open_run, effects
):
    """The same question, two runs: a yes to one is none to the other."""
    stopped_at(open_run, "r", effects)
    with open_run("r") as run:
        done = run.fork("what-if")
        assert done.operations == ("plan#1", ASK)
        run.approve(ASK, reason="fine")
    stop = stopped_at(open_run, "what-if", effects)
    assert (stop.op, stop.more) == (ASK, "{'to': 40}")
    with open_run("what-if") as run:
        assert run.status_view().open[0][1] == 'run.approve("approval[Send?]#1")'
        run.reject(ASK, reason="not from here")
        with pytest.raises(dnb.ApprovalRejected, match="not from here"):
            program(run, effects)
        assert list(run.history(ASK)["kind"]) == ["intended", "rejected"]
    with open_run("r") as run:
        assert program(run, effects)["approved"]
    assert effects.lines == ["r"]


@pytest.mark.parametrize("at", [ASK, "send#1"])
def test_a_fork_at_a_wait_asks_anew_and_one_behind_it_has_the_answer(open_run, effects, at):
    """What was decided before replays; what is the fork's to do, it asks for itself."""
    stopped_at(open_run, "r", effects)
    with open_run("r") as run:
        run.approve(ASK, reason="fine")
        said = program(run, effects)
        run.fork("what-if", at=at)
    if at == ASK:
        stopped_at(open_run, "what-if", effects)
        return
    with open_run("what-if") as run:
        run.grant("external", reason="a test")
        assert program(run, effects) == said
    assert effects.lines == ["r", "what-if"]


@pytest.mark.slow
def test_a_signal_is_held_in_the_fork_if_it_came_before_and_nothing_had_taken_it(open_run):
    """What came later came to the original alone."""
    with open_run("r") as run:
        run.signal("early", 1)
        run.step("a", effect="none").call(abs, 1)
        run.signal("later", 2)
        assert run.wait_for("early") == 1
        run.step("b", effect="none").call(abs, 1)
        run.fork("at-a", at="a")
        run.fork("at-early", at="wait_for[early]#1")
        run.fork("at-b", at="b")
        run.fork("all")
    held = {}
    for name in ("at-a", "at-early", "at-b", "all"):
        with open_run(name) as run:
            held[name] = sorted(run.fold.held)
    assert held == {
        "at-a": ["early"],
        "at-early": ["early", "later"],
        "at-b": ["later"],
        "all": ["later"],
    }
    with open_run("at-a") as run:
        assert run.wait_for("early") == 1
        with pytest.raises(dnb.SignalPending):
            run.wait_for("later")
        run.signal("later", 3)
        assert run.wait_for("later") == 3


def test_a_timer_ends_in_the_fork_at_its_recorded_moment(tmp_path):
    """It is the same moment in both."""
    time = [datetime(2026, 1, 1, tzinfo=UTC)]

    def open_(name):
        found = dnb.Surroundings(origin=lambda: None, say=lambda line: None)
        clock = Clock(now=lambda: time[0])
        return open_with(name, store=tmp_path / "store", surroundings=found, clock=clock)

    with pytest.raises(dnb.TimerPending), open_("r") as run:
        run.sleep(60)
    time[0] += timedelta(seconds=30)
    with open_("r") as run:
        run.fork("what-if")
    with pytest.raises(dnb.TimerPending), open_("what-if") as run:
        run.sleep(60)
    time[0] += timedelta(seconds=30)
    with open_("what-if") as run:
        run.sleep(60)


@pytest.mark.slow
@pytest.mark.parametrize("at", [None, "b"])
def test_a_fork_of_a_paused_run_is_not_paused(open_run, at):
    """A pause is about one run, and stays with it."""
    with open_run("r") as run:
        run.step("a", effect="none").call(abs, 1)
        run.step("b", effect="none").call(abs, 1)
        run.pause("let us try it elsewhere")
        run.fork("what-if", at=at)
    with open_run("what-if") as run:
        assert run.fold.paused is None
        run.step("a", effect="none").call(abs, 1)
        run.step("b", effect="none").call(abs, 1)
        run.step("c", effect="none").call(abs, 1)
        run.pause("its own")
    with open_run("r") as run, pytest.raises(dnb.RunPaused, match="let us try it elsewhere"):
        run.step("c", effect="none").call(abs, 1)


def test_a_fork_that_was_paused_in_the_middle_and_went_on_replays(open_run, effects):
    """A pause that is over is no more in the fork than in the original."""
    with open_run("r") as run:
        run.step("a").call(effects, "a")
        run.pause()
        run.unpause()
        run.step("b").call(effects, "b")
        run.fork("what-if")
    with open_run("what-if") as run:
        run.step("a").call(effects, "a")
        run.step("b").call(effects, "b")
    assert effects.lines == ["a", "b"]


def test_an_idempotent_effect_of_a_fork_needs_the_grant(open_run, effects):
    """Under its new key the receiver would take it for a second one."""

    def put(text, *, idempotency_key):
        return effects(f"{text} {idempotency_key}")

    with open_run("r") as run:
        run.step("plan", effect="none").call(abs, 1)
        run.step("put", effect="idempotent").call(put, "x")
        run.fork("what-if", at="put")
    with open_run("what-if") as run:
        run.step("plan", effect="none").call(abs, 1)
        with pytest.raises(dnb.ScopeDenied) as stop:
            run.step("put", effect="idempotent").call(put, "x")
        assert stop.value.missing == ("external",)
        assert effects.count == 1
        run.grant("external", reason="a test")
        run.step("put", effect="idempotent").call(put, "x")
    first, second = (line.split()[1] for line in effects.lines)
    assert first != second
