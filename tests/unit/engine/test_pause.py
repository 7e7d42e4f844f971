"""Pause: nothing new begins until a person lets the run go on."""

from __future__ import annotations

import asyncio
import getpass
import threading

import pytest

import durable_nb as dnb
from durable_nb.engine.context import OPEN


def job(run, effects, count=3):
    return [run.step("work", key=n).call(effects, f"work {n}") for n in range(count)]


def kinds(run):
    return [r["kind"] for r in run.records() if r["kind"] not in {"defined", "closed", "opened"}]


@pytest.mark.slow
def test_a_paused_run_replays_what_is_recorded_and_begins_nothing_new(open_run, effects):
    """In this kernel and in the next ones, until it is unpaused."""
    with open_run() as run:
        done = job(run, effects)
        run.pause("the shop moves")
    for _ in range(2):
        with open_run() as run:
            assert job(run, effects) == done
            with pytest.raises(dnb.RunPaused) as stop:
                run.step("more").call(effects, "more")
            assert "more#1" not in set(run.operations()["id"])
        assert effects.count == 3
    with open_run() as run:
        run.unpause()
        assert job(run, effects) == done
        assert run.step("more").call(effects, "more") == 4
    head, who, meaning, python, shell = str(stop.value).splitlines()
    assert head == "more#1 in run 'r' was not started: the run is paused."
    assert who.startswith(f"Paused by {getpass.getuser()}, 20")
    assert who.endswith(" UTC: the shop moves")
    assert meaning == "Nothing was begun. What is recorded still replays, in every kernel."
    assert "run.unpause()" in python
    assert "durable-nb unpause r" in shell


def test_what_is_in_flight_finishes(open_run, effects):
    """A pause that comes in the middle of a step lets it end, and stops the one after it."""

    def work():
        run.pause()
        return effects()

    with open_run() as run:
        assert run.call(work) == 1
        with pytest.raises(dnb.RunPaused):
            run.step("next").call(effects)
        assert run.get("work#1").outcome == "completed"


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_a_pause_stops_a_map_before_its_next_item(open_run, effects, spelling, independent):
    """Independent items too: it is about the run."""

    def work(n):
        if effects(n) == 3:
            run.pause("enough")
        return n

    async def awork(n):
        return work(n)

    async def go():
        return await run.map(dnb.step(awork, name="work"), range(9), **options)

    options = {"key": int, "limit": 1, "independent": independent}
    with open_run() as run:
        with pytest.raises(dnb.RunPaused):
            asyncio.run(go()) if spelling == "awaiting" else run.map(work, range(9), **options)
        assert list(run.operations()["outcome"]) == ["completed"] * 3
    assert effects.count == 3


def test_no_further_attempt_is_made_in_a_paused_run(open_run, effects):
    """A retry is as new as a first attempt."""

    def work():
        effects()
        run.pause()
        raise LookupError("not yet")

    with open_run() as run, pytest.raises(dnb.RunPaused):
        run.step(effect="none", retries=5).call(work)
    assert effects.count == 1


def test_in_a_container_what_is_recorded_replays_and_what_is_new_is_refused(open_run, effects):
    """One that has begun is entered; one that has not is refused itself."""

    def outer(count):
        return [run.step("inner", key=n).call(effects, n) for n in range(count)]

    with open_run() as run:
        with pytest.raises(dnb.RunPaused), run.step("outer", effect="none") as op:
            assert op.needed
            assert outer(2) == [1, 2]
            run.pause()
            run.step("inner", key=2).call(effects, 2)
    with open_run() as run:
        with pytest.raises(dnb.RunPaused) as stop, run.step("outer", effect="none") as op:
            assert op.needed
            assert outer(2) == [1, 2]
            run.step("inner", key=2).call(effects, 2)
        assert stop.value.op == "outer#1/inner[2]#1"
        with pytest.raises(dnb.RunPaused) as stop:
            run.step("other", effect="none").call(str)
        assert stop.value.op == "other#1"
        run.unpause()
    with open_run() as run:
        with run.step("outer", effect="none") as op:
            op.result = op.needed and outer(3)
        assert op.result == [1, 2, 3]


def test_a_record_is_not_given_up_in_a_paused_run(open_run, effects):
    """What would be done again for a change stays as it is, until that may be done."""

    def plan(question):
        return effects(question)

    def do(run, question):
        return run.step(effect="none", on_change="rerun").call(plan, question)

    def outer(run, question):
        with run.step(
            "outer", effect="none", inputs={"question": question}, on_change="rerun"
        ) as op:
            if op.needed:
                op.result = do(run, question)
        return op.result

    with open_run() as run:
        assert (do(run, "old"), outer(run, "old")) == (1, 2)
        run.pause()
    with open_run() as run:
        for again in (do, outer):
            with pytest.raises(dnb.RunPaused):
                again(run, "new")
        assert set(run.operations()["outcome"]) == {"completed"}
        run.unpause()
    with open_run() as run:
        assert (do(run, "new"), outer(run, "new")) == (3, 4)


def test_what_takes_an_effect_back_is_exempt(open_run, effects):
    """A pause is often there to clean up."""
    with open_run() as run:
        run.step("pay").call(effects, "pay")
        run.pause("wrong customer")
        run.compensate("pay", undo=lambda op: effects("undo"))
    assert effects.lines == ["pay", "undo"]


def test_verdicts_and_reconcilers_are_given_in_a_paused_run(open_run, effects):
    """They settle what has begun, and begin nothing."""

    def pay():
        effects("pay")
        raise ConnectionError

    found = dnb.Happened(7, evidence="seen")
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.call(pay)
        run.pause()
        assert run.reconcile(pay=lambda op: found) == []
        assert run.get("pay#1").result == 7


def test_pausing_twice_and_unpausing_what_runs_change_nothing(open_run):
    """Both say so."""
    with open_run() as run:
        with pytest.raises(dnb.VerdictRefused, match="cannot unpause run 'r': it is not paused"):
            run.unpause()
        run.pause("one")
        with pytest.raises(dnb.VerdictRefused, match=r"it is paused \(one\) already, by"):
            run.pause("two")
        run.unpause("done")
        assert kinds(run) == ["born", "paused", "unpaused"]
        assert [r["detail"] for r in run.records()][-2:] == ["one", "done"]


def test_a_paused_run_is_shown_as_waiting_with_the_line_that_lets_it_go_on(open_run, capsys):
    """Its question is answered with `unpause`, and opening it says that it is paused."""
    with open_run() as run:
        run.pause("the shop moves")
        view = run.status_view()
        assert (view.status, view.paused) == ("open", "paused (the shop moves)")
        assert view.open == (("paused (the shop moves): go on?", "run.unpause()"),)
    assert run.status() == "waiting"
    assert "is paused" not in capsys.readouterr().err
    with open_run() as run:
        said = capsys.readouterr().err
        assert "run r is paused (the shop moves): nothing new begins in it until" in said
        run.unpause()
        assert run.status_view().open == ()
    assert run.status() == "closed"


def test_a_reason_is_redacted_and_stays_one_line(open_run, effects):
    """It is shown to everybody who comes to the run."""
    token = "ghp_" + "a1B2" * 9
    with open_run() as run:
        run.pause(f"first\nsecond {token}")
        with pytest.raises(dnb.RunPaused) as stop:
            run.step("work").call(effects)
        assert token not in str(run.records())
        assert len(str(stop.value).splitlines()) == 5


@pytest.mark.slow
@pytest.mark.parametrize("held", [True, False])
def test_it_is_paused_from_outside_whoever_holds_it(open_run, effects, tmp_path, held):
    """`watch` does the same, in the process that holds it or under a lease of its own."""
    run = open_run()
    if not held:
        run.close()
    seen = dnb.watch("r", store=tmp_path / "store")
    seen.pause("look first")
    assert seen.status_view().paused == "paused (look first)"
    with pytest.raises(dnb.VerdictRefused):
        seen.pause()
    run = open_run()
    with pytest.raises(dnb.RunPaused, match="look first"):
        run.step("work").call(effects)
    seen.unpause("looked")
    run.step("work").call(effects)
    assert effects.count == 1


def test_a_pause_from_another_thread_reaches_a_loop_that_blocks(open_run, effects):
    """It is heeded before the next operation, whatever the main thread does."""
    with open_run() as run:
        at_work = threading.Event()

        def work(n):
            at_work.set()
            threading.Event().wait(0.01)
            return effects(n)

        def other():
            at_work.wait()
            run.pause("from another thread")

        thread = threading.Thread(target=other)
        thread.start()
        with pytest.raises(dnb.RunPaused):
            for n in range(500):
                run.step("work", key=n).call(work, n)
        thread.join()
        assert set(run.operations()["outcome"]) == {"completed"}
        assert effects.count == len(run.operations()) < 500
    assert OPEN.latest() is None
