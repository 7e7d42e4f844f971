"""Where pinned loops meet waits: a stretch may wait, and what it has taken stays taken."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import durable_nb as dnb
from durable_nb.engine import inbox
from durable_nb.engine.store import open_run as open_with
from durable_nb.engine.trajectory import Clock
from durable_nb.journal import Inbox
from durable_nb.model.fold import Fold


def whole(run: dnb.Run) -> Fold:
    """Fold all records of a run, where the run itself may have left out what is retired."""
    return Fold.of(run.committed())


def test_a_pin_over_a_wait_that_nobody_has_decided_is_refused(open_run):
    """It would retire the question, so that no answer could ever reach it."""
    with open_run() as run, run.pinned("turns", 0) as loop:
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Go?")
        with pytest.raises(dnb.VerdictRefused, match="waits, undecided: decide it first") as no:
            loop.pin(1)
        assert [op.id for op in no.value.operations] == ["turns#1/approval[Go?]#1"]
        assert (loop.turn, loop.state) == (0, 0)
        run.approve("turns#1/approval[Go?]#1")
        assert run.approval("Go?")["approved"]
        loop.pin(1)
        assert list(run.fold.operations) == ["turns#1"]


def test_a_pin_while_another_task_awaits_a_decision_is_refused(open_run):
    """The one that awaits is answered afterwards, and the loop is pinned then."""

    async def go(run):
        async with run.pinned("turns", 0) as loop:

            async def ask():
                return await run.approval("Go?")

            asked = asyncio.create_task(ask())
            while "turns#1/approval[Go?]#1" not in run.fold.operations:
                await asyncio.sleep(0.01)
            with pytest.raises(dnb.VerdictRefused, match="waits, undecided"):
                loop.pin(1)
            run.approve("turns#1/approval[Go?]#1")
            assert (await asked)["approved"]
            loop.pin(1)
            return loop.turn

    with open_run() as run:
        assert asyncio.run(go(run)) == 1


@pytest.mark.slow
def test_each_turn_asks_for_itself_and_an_answer_is_asked_for_once(open_run, effects):
    """Three turns, three questions of one title; each resume goes on at the one that waits."""

    def program(run):
        with run.pinned("turns", 0) as loop:
            for n in range(loop.state, 3):
                run.approval("Send?", {"turn": n})
                run.step("send").call(effects, n)
                loop.pin(n + 1)

    for turn in range(1, 4):
        with pytest.raises(dnb.ApprovalPending) as stop, open_run() as run:
            program(run)
        assert stop.value.op == f"turns#{turn}/approval[Send?]#1"
        with open_run() as run:
            run.approve(stop.value.op)
    with open_run() as run:
        program(run)
        with pytest.raises(dnb.OperationMissing, match="retired"):
            run.approve("turns#2/approval[Send?]#1")
    assert effects.lines == ["0", "1", "2"]


def test_a_held_signal_that_a_stretch_has_taken_is_not_there_a_second_time(open_run):
    """The wait that took it is retired with the stretch, and not loaded; the taking holds."""

    def turn(run, loop):
        got = run.wait_for("go")
        loop.pin([*loop.state, got])

    with open_run() as run:
        run.signal("go", 1)
        with run.pinned("turns", []) as loop:
            turn(run, loop)
            with pytest.raises(dnb.SignalPending):
                turn(run, loop)
    with open_run() as run:
        assert "turns#1/wait_for[go]#1" not in run.fold.operations
        assert run.fold.held == whole(run).held == {}
        with run.pinned("turns", []) as loop, pytest.raises(dnb.SignalPending):
            turn(run, loop)


@pytest.mark.slow
def test_a_signal_that_nothing_has_taken_is_held_over_pins(open_run):
    """It came early, for whatever waits for it first: here a later turn, in a later kernel."""
    with open_run() as run:
        run.signal("go", 1)
        run.signal("later", 2)
        with run.pinned("turns", []) as loop:
            assert run.wait_for("go") == 1
            loop.pin([1])
    with open_run() as run:
        assert list(run.fold.held) == list(whole(run).held) == ["later"]
        run.signal("go", 3)
        with run.pinned("turns", []) as loop:
            assert [run.wait_for("later"), run.wait_for("go")] == [2, 3]
            loop.pin([1, 2, 3])
    with open_run() as run:
        assert run.fold.held == whole(run).held == {}


@pytest.mark.slow
def test_a_timer_of_a_stretch_ends_at_its_own_recorded_moment(tmp_path):
    """Each turn sleeps anew, and a resume in the middle of a turn sleeps for the rest."""
    time = [datetime(2026, 1, 1, tzinfo=UTC)]

    def open_():
        found = dnb.Surroundings(origin=lambda: None, say=lambda line: None)
        clock = Clock(now=lambda: time[0])
        return open_with("r", store=tmp_path / "store", surroundings=found, clock=clock)

    def program(run):
        with run.pinned("turns", 0) as loop:
            for n in range(loop.state, 2):
                run.sleep(60)
                loop.pin(n + 1)
            return loop.turn

    for turn in (1, 2):
        for _ in range(2):
            with pytest.raises(dnb.TimerPending) as stop, open_() as run:
                program(run)
            assert stop.value.op == f"turns#{turn}/sleep#1"
            time[0] += timedelta(seconds=30)
    with open_() as run:
        assert program(run) == 2


def test_a_rejection_that_the_loop_handles_is_history_at_the_pin(open_run):
    """No is an answer: the loop goes on, and the next turn asks anew."""
    with open_run() as run, run.pinned("turns", 0) as loop:
        with pytest.raises(dnb.ApprovalPending):
            run.approval("Go?")
        run.reject("turns#1/approval[Go?]#1", reason="not yet")
        with pytest.raises(dnb.ApprovalRejected):
            run.approval("Go?")
        loop.pin("refused")
        with pytest.raises(dnb.ApprovalPending) as stop:
            run.approval("Go?")
        assert stop.value.op == "turns#2/approval[Go?]#1"
    with open_run() as run, run.pinned("turns", 0) as loop:
        assert loop.state == "refused"
        rows = run.history("turns#1/approval[Go?]#1")
        assert list(rows["kind"]) == ["intended", "rejected"]


def test_a_signal_whose_owner_was_killed_before_it_could_answer_is_not_sent_twice(open_run):
    """Its message is still there, and what it did is retired: it is answered, and no more."""
    with open_run() as run:
        box = Inbox(run.folder)
        with run.pinned("turns", []) as loop:
            with pytest.raises(dnb.SignalPending):
                run.wait_for("go")
            said = {"actor": "ada", "arguments": {"name": "go", "value": "1"}}
            sent = box.send("signal", said)
            (message,) = box.folder.glob(f"*{sent}*.json")
            text = message.read_text()
            inbox.drain(run)
            assert run.wait_for("go") == 1
            loop.pin([1])
    for answer in box.folder.rglob(f"*{sent}*"):
        answer.unlink()
    message.write_text(text)

    with open_run() as run:
        assert box.answer_to(sent, 0)["said"] == "it was recorded already"
        assert run.fold.held == {}
        with run.pinned("turns", []), pytest.raises(dnb.SignalPending):
            run.wait_for("go")
