"""How long a body is outside of its steps."""

from __future__ import annotations

import asyncio
import time

import pytest
from support.ticks import Ticks, ends

import durable_nb as dnb
from durable_nb.engine.published import published
from durable_nb.notebook.panel.model import detail_of


@pytest.fixture
def tick():
    return Ticks()


def container(run, tick, body):
    """Enter a container that runs `body`, and give what its outcome tells of the time outside."""
    with run.step("box", effect="none") as box:
        if box.needed:
            body()
            box.result = None
    told = ends(run)["box#1"]
    return told.get("outside_s"), told.get("outside_longest_s"), told["duration_s"]


def test_time_outside_is_the_body_less_its_steps(tick, tmp_path):
    """The stretches before, between and after the steps of a container add up; the longest is told."""
    with tick.open(tmp_path) as run:

        def body():
            tick(3)
            run.call(tick, 10)
            tick(5)
            run.call(tick, 20)
            tick(1)

        assert container(run, tick, body) == (9, 5, 39)


def test_a_body_without_steps_tells_nothing_of_the_kind(tick, tmp_path):
    """Only what opened steps has a time outside of them."""
    with tick.open(tmp_path) as run:
        assert container(run, tick, lambda: tick(7)) == (None, None, 7)


def test_steps_of_a_branch_are_steps_of_the_body_around_it(tick, tmp_path):
    """A branch is a scope, and no code outside of steps."""
    with tick.open(tmp_path) as run:

        def body():
            tick(2)
            with run.branch("left"):
                run.call(tick, 10)
                tick(4)

        assert container(run, tick, body) == (6, 4, 16)


def test_steps_inside_of_steps_are_no_time_outside(tick, tmp_path):
    """Only direct children count: what is outside of the inner steps is the inner body's."""
    with tick.open(tmp_path) as run:

        def body():
            tick(1)
            with run.step("inner", effect="none") as inner:
                tick(2)
                run.call(tick, 10)
                tick(3)
                inner.result = inner.needed

        assert container(run, tick, body) == (1, 1, 16)
        assert ends(run)["box#1/inner#1"]["outside_s"] == 5


def test_a_step_that_raises_is_over(tick, tmp_path):
    """After a failure that the body handles, it is outside of its steps again."""
    with tick.open(tmp_path) as run:

        def fail():
            tick(10)
            raise dnb.NotApplied("no")

        def body():
            with pytest.raises(dnb.NotApplied):
                run.call(fail)
            tick(2)

        assert container(run, tick, body) == (2, 2, 12)


def test_a_refused_step_is_over(tick, tmp_path):
    """A call that is refused before its intent leaves the body outside of its steps."""
    with tick.open(tmp_path, name="r") as run:

        def body():
            run.call(tick, 1)
            with pytest.raises(FileNotFoundError):
                run.step("read", uses=["nowhere.csv"]).call(tick, 50)
            tick(2)

        assert container(run, tick, body) == (2, 2, 3)


def test_replayed_steps_are_steps(tick, tmp_path):
    """Entered anew, a container is outside of its steps as long as before: replays count as steps."""

    def body(run, stop):
        tick(3)
        run.step("work", effect="none").call(tick, 10)
        tick(1)
        if stop:
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"), tick.open(tmp_path) as run:
        container(run, tick, lambda: body(run, stop=True))
    with tick.open(tmp_path) as run:
        assert container(run, tick, lambda: body(run, stop=False)) == (4, 3, 4)


def test_looking_at_inputs_is_no_code_of_the_user(tick, tmp_path):
    """What it takes to digest the arguments of a step is checkpointing, and not outside of it."""

    class Slow:
        pass

    def look(value):
        tick(10)
        return 1

    dnb.register_codec("slow-to-look-at", Slow, 1, look, lambda n: Slow())
    with tick.open(tmp_path) as run:

        def body():
            tick(1)
            run.step("work", effect="none").call(lambda slow: tick(2), Slow())

        outside, _, _ = container(run, tick, body)
        assert outside == 1
        assert ends(run)["box#1/work#1"]["checkpoint_s"] >= 10


def test_the_block_of_a_script_tells_its_time_outside(tick, tmp_path):
    """The record of a run's end tells how long its `with` block was outside of all operations."""
    with tick.open(tmp_path) as run:
        tick(3)
        run.call(tick, 10)
        tick(4)
    with tick.open(tmp_path, role="reader") as run:
        end = ends(run)[""]
    assert (end["outside_s"], end["outside_longest_s"]) == (7, 4)


@pytest.mark.slow
def test_concurrent_steps_count_once(tmp_path):
    """While any of several steps is at work, the body is not outside of its steps."""
    with dnb.run("r", store=tmp_path) as run:

        def nap(n):
            time.sleep(0.2)

        def body():
            run.map(nap, range(4), limit=4, effect="none")

        outside, longest, took = container(run, None, body)
    assert took > 0.2
    assert 0 <= longest <= outside < took - 0.15


def test_a_step_that_begins_and_ends_within_another_changes_nothing(tick, tmp_path):
    """Steps that overlap are one stretch, from the first one's begin to the last one's end."""

    async def main():
        begun, over = asyncio.Event(), asyncio.Event()

        async def first():
            tick(10)
            begun.set()
            await over.wait()
            tick(30)

        async def second():
            await begun.wait()
            tick(20)

        async def both():
            async def later():
                await begun.wait()
                await run.step("second", effect="none").call(second)
                over.set()

            await asyncio.gather(run.step("first", effect="none").call(first), later())

        with tick.open(tmp_path) as run:
            async with run.step("box", effect="none") as box:
                if box.needed:
                    tick(1)
                    await both()
                    tick(2)
                    box.result = None
            return ends(run)["box#1"]

    told = asyncio.run(main())
    assert told["duration_s"] == 63
    assert (told["outside_s"], told["outside_longest_s"]) == (3, 2)


@pytest.mark.slow
def test_async_steps_that_overlap_count_once(tmp_path):
    """The same with tasks: what they await together is no time outside."""

    async def nap(n):
        await asyncio.sleep(0.2)

    async def main():
        async with dnb.run("r", store=tmp_path) as run:
            async with run.step("box", effect="none") as box:
                if box.needed:
                    await asyncio.gather(*(run.step("nap", key=n).call(nap, n) for n in range(4)))
                    box.result = None
            return ends(run)["box#1"]

    told = asyncio.run(main())
    assert told["duration_s"] > 0.2
    assert told["outside_s"] < told["duration_s"] - 0.15


def test_the_status_says_it_only_above_a_second(tick, tmp_path):
    """A note that changes from run to run stands in the status only where it matters."""
    with tick.open(tmp_path) as run:
        for name, seconds in (("long", 3.2), ("short", 0.9)):
            with run.step(name, effect="none") as box:
                tick(seconds)
                run.call(tick, 10)
                box.result = box.needed
        text = run.status_view().to_text().splitlines()
        assert run.get("short#1").outside_s == 0.9
        run.publisher.publish()  # for other processes, which read the mirror
        for status in (run.status_view(), published(run.place)):
            shown = {view.id: detail_of(view) for view in status.views}
            assert shown["long#1"]["note"] == "3.2 s outside of steps"
            assert shown["long#1"]["outside"] == "3.2 s outside of steps"
            assert shown["short#1"]["outside"] == ""
    rows = {line.split()[1]: line for line in text if "#1" in line}
    assert rows["long#1"].endswith("3.2 s outside of steps")
    assert "outside" not in rows["short#1"]
