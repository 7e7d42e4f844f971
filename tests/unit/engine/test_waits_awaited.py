"""Waits in async code: awaited they go on once they are decided; forgotten, nothing goes past."""

from __future__ import annotations

import asyncio
import gc

import pytest

import durable_nb as dnb

ASK = "approval[Send?]#1"


def test_awaited_waits_go_on_once_they_are_decided(open_run, effects):
    """A verdict from another task reaches what is awaited, which is never live."""

    async def program(run):
        said = await run.approval("Send?")
        got = await run.wait_for("paid")
        await run.sleep(0.05)
        return said["approved"], got, run.step("send").call(effects, "sent")

    async def decide(run):
        while ASK not in set(run.operations()["id"]):
            await asyncio.sleep(0.01)
        assert run.get(ASK).waits
        assert not run.get(ASK).live
        run.approve(ASK)
        run.signal("paid", 5)

    async def main():
        async with open_run() as run:
            return (await asyncio.gather(program(run), decide(run)))[0]

    assert asyncio.run(main()) == (True, 5, 1)

    async def again():
        async with open_run() as run:
            return await program(run)

    assert asyncio.run(again()) == (True, 5, 1)
    assert effects.count == 1


@pytest.mark.slow
def test_gathered_waits_are_told_apart_by_the_order_of_their_calls(open_run):
    """The occurrence is taken when it is called; tasks may be made of them."""

    async def main():
        async with open_run() as run:
            run.signal("b", 2)
            one = asyncio.create_task(run.wait_for("a"))
            two = run.wait_for("b")
            both = asyncio.gather(one, two, run.sleep(0.01))
            await asyncio.sleep(0.15)
            run.signal("a", 1)
            return await both

    assert asyncio.run(main()) == [1, 2, None]


def test_a_cancelled_wait_records_nothing_and_is_asked_again_as_the_same(open_run):
    """Ctrl-C, a time-out of the caller, a sibling that failed: none of them decides."""

    async def main():
        async with open_run() as run:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(run.approval("Send?"), 0.05)
            never = asyncio.create_task(run.approval("Send?"))
            never.cancel()
            with pytest.raises(asyncio.CancelledError):
                await never
            assert list(run.history(ASK)["kind"]) == ["intended"]
            run.approve(ASK)
            assert (await asyncio.wait_for(run.approval("Send?"), 5))["approved"]
            assert list(run.operations()["id"]) == [ASK]

    asyncio.run(main())


def test_blocking_code_below_an_async_function_decides_or_stops(open_run):
    """A plain helper cannot wait: it is stopped, whoever calls it."""

    async def main():
        def helper():
            return run.approval("Send?")

        async with open_run() as run:
            with pytest.raises(dnb.ApprovalPending):
                helper()
            run.approve(ASK)
            assert helper()["approved"]

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["if", "all", "bare", "kept"])
def test_an_approval_that_was_not_awaited_lets_no_effect_through(open_run, effects, how, capsys):
    """An awaitable is true, whatever it will say: so it has no truth, and nothing goes past it."""

    async def program(run):
        kept = None
        if how == "if":
            with pytest.raises(TypeError, match="write `await`"):
                if run.approval("Send?"):
                    run.call(effects)
        elif how == "all":
            with pytest.raises(TypeError, match="write `await`"):
                all(run.approval("Send?", n) for n in range(2))
        elif how == "bare":
            run.approval("Send?")
        else:
            kept = run.approval("Send?")
        gc.collect()
        if how == "kept":  # it may still be awaited, and this is harmless
            assert run.step("pure", effect="none").call(int) == 0
        else:
            with pytest.raises(dnb.NotAwaited):
                run.step("pure", effect="none").call(int)
        with pytest.raises(dnb.NotAwaited, match="was called in async code and not awaited"):
            run.call(effects)
        return kept

    async def main():
        async with open_run() as run:
            kept = await program(run)
            del kept
            assert set(run.operations()["id"]) <= {"pure#1"}

    asyncio.run(main())
    assert effects.count == 0
    assert "not awaited, so nobody was asked" in capsys.readouterr().err


def test_other_tasks_work_while_a_wait_is_prepared(open_run, effects):
    """Only the task that called it would go past it."""

    async def other(run):
        return run.call(effects)

    async def main():
        async with open_run() as run:
            wait = run.approval("Send?")
            assert await asyncio.create_task(other(run)) == 1
            with pytest.raises(dnb.NotAwaited):
                run.step("b").call(effects)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait, 0.02)
            assert run.step("b").call(effects) == 2

    asyncio.run(main())
