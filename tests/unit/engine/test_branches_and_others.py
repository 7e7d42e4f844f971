"""Where independent branches and pause meet pins, waits and forks."""

from __future__ import annotations

import asyncio
import threading

import pytest

import durable_nb as dnb

BOTH = pytest.mark.parametrize("spelling", ["blocking", "awaiting"])


def mapped(run, work, items, spelling, **options):
    """Map a function of one item, in threads or in tasks."""
    options = {"key": str, "independent": True, "effect": "none", **options}

    async def awork(n):
        found = work(n)
        return await found if asyncio.iscoroutine(found) else found

    async def go():
        return await run.map(dnb.step(awork, name="work"), items, **options)

    if spelling == "awaiting":
        return asyncio.run(go())
    return run.map(dnb.step(work, name="work"), items, **options)


def test_a_wait_of_one_item_does_not_keep_the_others_from_being_called(open_run, effects):
    """Each item is a branch of its own, and so is what it waits for."""

    def work(n):
        run = dnb.current_run()
        if n == 1:
            run.approval("Go?", {"n": n})
        return run.step("send").call(effects, n)

    with open_run() as run:
        with pytest.raises(dnb.ApprovalPending) as stop:
            mapped(run, work, range(4), "blocking", limit=1)
        assert stop.value.op == "work[1]#1/approval[Go?]#1"
        assert effects.lines == ["0", "2", "3"]
        run.approve(stop.value.op)
    with open_run() as run:
        mapped(run, work, range(4), "blocking")
    assert effects.lines == ["0", "2", "3", "1"]


def test_awaiting_items_go_on_while_one_of_them_waits(open_run, effects):
    """The answer is given by what the others do."""

    async def work(n):
        run = dnb.current_run()
        if n == 1:
            await run.approval("Go?")
        sent = run.step("send").call(effects, n)
        if n == 3:
            run.approve("work[1]#1/approval[Go?]#1")
        return sent

    with open_run() as run:
        assert mapped(run, work, range(4), "awaiting") == [1, 4, 2, 3]


@BOTH
def test_a_doubt_in_an_item_refuses_the_pin_of_the_loop_that_it_is_in(open_run, effects, spelling):
    """And no pin of another loop."""

    def work(n):
        effects(n)
        if n == 1:
            raise ConnectionError
        return n

    with open_run() as run:
        with run.pinned("turns", 0) as loop:
            with pytest.raises(dnb.UnknownOutcome):
                mapped(run, work, range(3), spelling, effect="external")
            with pytest.raises(dnb.UnknownOutcome, match=r"turns#1/work\[1\]#1"):
                loop.pin(1)
        with run.pinned("others", 0) as loop:
            loop.pin(1)
    assert effects.count == 3
    with open_run() as run, run.pinned("turns", 0) as loop:
        run.confirm("turns#1/work[1]#1", 1)
        assert mapped(run, work, range(3), spelling, effect="external") == [0, 1, 2]
        loop.pin(1)
    assert effects.count == 3


@pytest.mark.slow
def test_a_loop_in_an_independent_branch_pins_beside_the_doubt_of_another(open_run, effects):
    """A doubt stops its own branch, in which no pin is made over it either."""

    def send(n):
        effects(n)
        if n == 10:
            raise ConnectionError
        return n

    def customer(run, c):
        with run.branch("customer", key=c, independent=True), run.pinned("turns", 0) as loop:
            while loop.state < 2:
                run.call(send, c * 10 + loop.state)
                loop.pin(loop.state + 1)
            return loop.turn

    with open_run() as run:
        assert customer(run, 0) == 2
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            customer(run, 1)
        assert doubt.value.branch == "customer[1]#1"
        assert customer(run, 2) == 2
    with open_run() as run:
        assert [v.id for v in run.unknown()] == ["customer[1]#1/turns#1/send#1"]
        assert (customer(run, 0), customer(run, 2), customer(run, 3)) == (2, 2, 2)
        run.confirm("customer[1]#1/turns#1/send#1", 10)
        assert customer(run, 1) == 2
    assert effects.lines == ["0", "1", "10", "20", "21", "30", "31", "11"]


@BOTH
def test_in_a_fork_a_doubt_stops_its_own_item_only(open_run, effects, spelling):
    """It is unknown there too, and what is independent of it goes on once it is granted."""

    def work(n):
        effects(n)
        if n == 1:
            raise ConnectionError
        return n

    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            mapped(run, work, range(3), spelling, effect="external")
        done = run.fork("what-if")
        assert done.unknown == ("work[1]#1",)
    with open_run("what-if") as run:
        run.grant("external", reason="a test")
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            mapped(run, work, range(5), spelling, effect="external")
        assert [op.id for op in doubt.value.operations] == ["work[1]#1"]
        assert sorted(effects.lines) == ["0", "1", "2", "3", "4"]


@BOTH
def test_items_of_a_fork_that_are_refused_do_not_stop_what_needs_no_grant(
    open_run, effects, spelling
):
    """A refusal is about the run, and is raised; nothing outside has happened."""
    with open_run() as run:
        run.step("plan", effect="none").call(abs, 1)
        run.fork("what-if")
    with open_run("what-if") as run:
        with pytest.raises(dnb.ScopeDenied):
            mapped(run, effects.__call__, range(3), spelling, effect="external")
        assert effects.count == 0
        run.step("look", effect="none").call(abs, 1)


# -- pause -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_approval_is_decided_while_the_run_is_paused_and_what_follows_is_refused(
    open_run, effects
):
    """An answer is no new operation; the effect that it allows is one."""

    def program(run):
        run.approval("Send?")
        run.step("send").call(effects)

    with open_run() as run, pytest.raises(dnb.ApprovalPending):
        program(run)
    with open_run() as run:
        run.pause("the shop moves")
        with pytest.raises(dnb.RunPaused):
            program(run)
        run.approve("approval[Send?]#1")
        with pytest.raises(dnb.RunPaused) as stop:
            program(run)
        assert stop.value.op == "send#1"
        assert effects.count == 0
    with open_run() as run:
        run.unpause()
        program(run)
    assert effects.count == 1


@pytest.mark.slow
def test_an_awaiting_approval_gets_its_answer_in_a_paused_run(open_run, effects):
    """It was asked before the pause, and goes on waiting; its answer reaches it."""

    async def go(run):
        asked = asyncio.create_task(ask(run))
        while "approval[Send?]#1" not in run.fold.operations:
            await asyncio.sleep(0.01)
        run.pause()
        await asyncio.sleep(0.25)
        assert not asked.done()
        run.approve("approval[Send?]#1")
        with pytest.raises(dnb.RunPaused) as stop:
            await asked
        return stop.value.op

    async def ask(run):
        await run.approval("Send?")
        run.step("send").call(effects)

    with open_run() as run:
        assert asyncio.run(go(run)) == "send#1"
        assert run.get("approval[Send?]#1").outcome == "completed"
    assert effects.count == 0


def test_a_pause_from_another_thread_stops_a_map_and_what_has_begun_is_recorded(open_run, effects):
    """Nothing new begins; unpaused, each item is done once."""
    begun, go_on = threading.Event(), threading.Event()

    def work(n):
        begun.set()
        go_on.wait(10)
        return effects(n)

    def pause(run):
        begun.wait(10)
        run.pause("enough")
        go_on.set()

    with open_run() as run:
        pausing = threading.Thread(target=pause, args=(run,))
        pausing.start()
        with pytest.raises(dnb.RunPaused):
            run.map(dnb.step(work, inputs={}), range(6), key=str, limit=2)
        pausing.join()
        assert 1 <= effects.count <= 2
    with open_run() as run:
        run.unpause()
        run.map(dnb.step(work, inputs={}), range(6), key=str, limit=2)
    assert sorted(effects.lines) == list("012345")


def test_a_pause_in_a_pinned_loop_lets_the_turn_be_pinned_and_stops_the_next(open_run, effects):
    """What has happened is kept: a pin is no operation, and begins nothing."""

    def program(run, pause_at=None):
        with run.pinned("turns", 0) as loop:
            while loop.state < 4:
                run.step("act").call(effects, loop.state)
                if loop.state == pause_at:
                    run.pause("enough")
                loop.pin(loop.state + 1)
            return loop.turn

    with open_run() as run:
        with pytest.raises(dnb.RunPaused) as stop:
            program(run, pause_at=2)
        assert stop.value.op == "turns#4/act#1"
        run.unpause()
        run.pause("not yet")
        with pytest.raises(dnb.RunPaused):
            program(run)
    with open_run() as run:
        with pytest.raises(dnb.RunPaused):
            program(run)
        run.unpause()
        assert program(run) == 4
    assert effects.lines == ["0", "1", "2", "3"]
