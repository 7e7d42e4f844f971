"""Who may take which occurrence of a name."""

import asyncio
import contextvars
import threading

import pytest

import durable_nb as dnb
from durable_nb.engine.scope import Origin
from durable_nb.engine.store import open_run as engine_open
from durable_nb.engine.trajectory import Surroundings


class Notebook:
    """A kernel whose cells are executed by hand: the origin is told, as a front end would."""

    def __init__(self, store):
        self.at = Origin("cell-1", 1)
        self.run = engine_open(
            "r", store=store, surroundings=Surroundings(lambda: self.at, lambda line: None)
        )

    def cell(self, name, *, has_id=True):
        self.at = Origin(name, self.at.execution + 1, has_id)
        return self.run


@pytest.fixture
def notebook(tmp_path, open_run):
    return Notebook(tmp_path / "store")


def ids(run):
    return list(run.operations()["id"])


def test_executing_a_cell_again_replays_it(notebook, effects):
    """Counters return to where the cell first stood: Shift-Enter does not charge again."""
    for _ in range(3):
        run = notebook.cell("a")
        assert [run.call(effects, "x") for _ in range(2)] == [1, 2]
    assert effects.count == 2
    assert len(ids(run)) == 2


def test_a_second_root_occurrence_from_another_cell_is_refused(notebook, effects):
    """Else the next kernel's Run All would hand one cell's record to another."""
    notebook.cell("a").call(effects, "x")

    with pytest.raises(dnb.DuplicateStep, match="another cell"):
        notebook.cell("b").call(effects, "x")

    notebook.cell("b").step("effects", key="b").call(effects, "x")
    assert effects.count == 2


def test_an_edited_cell_without_an_id_takes_over_what_it_had_not_completed(notebook):
    """In a front end without cell ids, mending a failed cell must not lock it out."""

    def work(fail):
        if fail:
            raise ValueError
        return 1

    with pytest.raises(ValueError):  # noqa: PT011 - the tests' own
        notebook.cell("source 1", has_id=False).step(effect="none").call(work, True)

    run = notebook.cell("source 2", has_id=False)
    assert run.step(effect="none", on_change="rerun").call(work, False) == 1


def test_case_45_moving_or_tagging_a_cell_changes_no_identity(notebook, effects):
    """Identity knows neither the position, nor tags, nor execution counts of cells."""
    notebook.cell("a").call(effects, "x")
    notebook.at = Origin("a", 99)

    notebook.run.call(effects, "x")

    assert effects.count == 1


def test_an_error_that_ended_a_cell_is_not_history(notebook):
    """A person saw it, not the program: the next Run All tries it again."""
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return "ok"

    with pytest.raises(ConnectionError):
        notebook.cell("a").step(effect="none").call(flaky)
    notebook.cell("b").step("other", effect="none").call(lambda: 1)

    assert notebook.cell("a").step(effect="none").call(flaky) == "ok"


def test_two_steps_with_one_key_are_refused(open_run, effects):
    """An explicit key is unique per name and parent."""
    with open_run() as run:
        run.step("send", key=7).call(effects)
        with pytest.raises(dnb.DuplicateStep, match="same key"):
            run.step("send", key=7).call(effects)
    assert effects.count == 1


def test_case_01_a_fresh_call_id_of_the_provider_is_no_identity(open_run, effects):
    """The effect of one place in the run happens once; twice on purpose is two places."""

    def refund(order, amount, call_id):
        return effects(order)

    def program(call_id, times=1):
        with open_run() as run:
            step = run.step(inputs={"order": 7, "amount": 5})
            return [step.call(refund, 7, 5, call_id) for _ in range(times)]

    assert program("c1") == program("c2") == [1]
    assert program("c3", times=2) == [1, 2]


def test_a_second_with_block_of_a_script_is_another_origin(open_run, effects):
    """In a script the `with` block stands for the cell."""
    run = dnb.open_run("r", store=open_run().folder.parent)
    with run:
        run.call(effects, "x")
        with pytest.raises(dnb.DuplicateStep), run:
            run.call(effects, "x")


def test_gather_over_a_list_takes_occurrences_in_order(open_run):
    """The occurrence is taken when the step is called, not when its coroutine first runs."""

    async def work(x, wait):
        await asyncio.sleep(wait)
        return x

    async def main(run):
        step = run.step(effect="none")
        return await asyncio.gather(step.call(work, "a", 0.03), step.call(work, "b", 0.0))

    with open_run() as run:
        assert asyncio.run(main(run)) == ["a", "b"]
        assert run.get("work#1").result == "a"
    with open_run() as run:
        assert asyncio.run(main(run)) == ["a", "b"]
        assert run.get("work#1").source == "record"


async def loop_of(run, name, key=None, branch=None):
    async def work(x):
        await asyncio.sleep(0.01)
        return x

    out = []
    for i in range(2):
        step = run.step("work", effect="none", key=None if key is None else f"{name}{i}")
        if branch:
            with run.branch(name):
                pass
        out.append(await step.call(work, f"{name}{i}"))
    return out


def test_concurrent_loops_without_branch_or_key_are_refused(open_run):
    """Which loop came first would differ from kernel to kernel."""

    async def main(run):
        return await asyncio.gather(loop_of(run, "a"), loop_of(run, "b"), return_exceptions=True)

    with open_run() as run:
        _, second = asyncio.run(main(run))
    assert isinstance(second, dnb.DuplicateStep)
    assert "branch" in str(second)


def test_concurrent_loops_with_keys_or_branches_are_told_apart(open_run):
    """`key=` or `run.branch(name)` gives each loop identities of its own."""

    async def branched(run, name):
        async def work(x):
            await asyncio.sleep(0.01)
            return x

        with run.branch(name):
            return [await run.step(effect="none").call(work, f"{name}{i}") for i in range(2)]

    async def main(run):
        return await asyncio.gather(
            loop_of(run, "a", key=True), loop_of(run, "b", key=True),
            branched(run, "x"), branched(run, "y"),
        )  # fmt: skip

    with open_run() as run:
        assert asyncio.run(main(run)) == [["a0", "a1"], ["b0", "b1"], ["x0", "x1"], ["y0", "y1"]]
        assert {"x#1/work#1", "x#1/work#2", "y#1/work#1"} <= set(ids(run))


def test_case_30_a_plain_thread_has_no_active_run_unless_it_was_handed_one(open_run):
    """Never a silent new run: `to_thread` finds it, a plain thread is told, or handed it."""

    @dnb.step(effect="none")
    def work(x):
        return x

    found = {}

    def plainly():
        try:
            work("plain")
        except dnb.NoActiveRun as error:
            found["plain"] = str(error)

    async def main(run):
        found["to_thread"] = await asyncio.to_thread(work.options(key="t"), "t")
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, work.options(key="e"), "e")
        except dnb.NoActiveRun as error:
            found["executor"] = str(error)

    with open_run() as run:
        asyncio.run(main(run))
        for target in (
            plainly,
            lambda: found.update(handed=run.call(work.options(key="h"), "h")),
            lambda: contextvars.copy_context(),
        ):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()

    assert (found["to_thread"], found["handed"]) == ("t", "h")
    assert "thread that was not handed the run" in found["plain"]
    assert "thread" in found["executor"]
    assert not list(run.folder.parent.glob("*/journal.duckdb"))[1:]


def test_a_step_outside_a_run_says_how_to_open_one():
    """A decorated function called with no run active is an error."""

    @dnb.step
    def work():
        return 1

    with pytest.raises(dnb.NoActiveRun, match=r"open_run\("):
        work()


def test_map_gives_results_in_the_order_of_the_items_and_replays(open_run, effects):
    """Fan-out with threads; equal keys are refused."""

    def fetch(url):
        effects(url)
        return url.upper()

    urls = [f"u{i}" for i in range(20)]
    for _ in range(2):
        with open_run() as run:
            assert run.map(fetch, urls, key=str, limit=8) == [u.upper() for u in urls]
    assert effects.count == 20
    with open_run("other") as run, pytest.raises(dnb.DuplicateStep):
        run.map(fetch, ["a", "a"], key=str)


def test_map_raises_the_first_error_once_those_in_flight_have_ended(open_run):
    """What has not begun is not begun; what runs is recorded."""
    gate = threading.Event()

    def fetch(i):
        if i == 0:
            gate.wait(5)
            return i
        gate.set()
        raise ValueError(i)

    with open_run() as run:
        with pytest.raises(ValueError, match="1"):
            run.map(fetch, range(10), key=str, limit=2, effect="none")
        frame = run.operations()
        assert run.get("fetch[0]").outcome == "completed"
        assert len(frame) < 10


def test_map_of_an_async_function_is_awaited(open_run):
    """The same spelling, awaitable."""

    async def fetch(i):
        await asyncio.sleep(0)
        return i * i

    async def main(run):
        return await run.map(fetch, range(5), key=str, limit=2, effect="none")

    for _ in range(2):
        with open_run() as run:
            assert asyncio.run(main(run)) == [0, 1, 4, 9, 16]


def test_a_failed_item_that_the_program_saw_is_history(open_run):
    """`map` inside try: the failure replays, and the fallback too."""

    def fetch(i):
        raise ValueError("no")

    def program():
        with open_run() as run:
            try:
                run.map(fetch, [1], key=str, effect="none")
            except ValueError as error:
                run.step("fallback", effect="none").call(lambda: 1)
                return str(error)

    assert program() == program() == "no"


def test_a_failure_that_a_gathering_task_saw_is_history_also_through_wrappers(open_run):
    """The task that started the others saw their failures; a sibling that goes on did not."""

    async def flaky(i):
        raise ValueError(i)

    async def worker(run, i):
        return await run.step("flaky", effect="none", key=i).call(flaky, i)

    async def main():
        async with open_run() as run:
            tasks = [worker(run, i) for i in range(3)]
            got = await asyncio.gather(*tasks, return_exceptions=True)
            run.step("after", effect="none").call(lambda: 1)
            return [type(e).__name__ for e in got], run.get("flaky[1]").attempt

    assert asyncio.run(main()) == (["ValueError"] * 3, 1)
    assert asyncio.run(main()) == (["ValueError"] * 3, 1)


def test_a_sibling_that_goes_on_has_not_seen_the_failure(open_run):
    """Else a transient failure beside other work would be fixed for ever."""

    async def flaky(fail):
        if fail:
            raise ValueError
        return "ok"

    async def steady(i):
        await asyncio.sleep(0.01)
        return i

    async def first(run, fail):
        return await run.step("flaky", effect="none", inputs={}).call(flaky, fail)

    async def second(run):
        return [await run.step("steady", effect="none", key=i).call(steady, i) for i in range(3)]

    async def main(fail):
        async with open_run() as run:
            return await asyncio.gather(first(run, fail), second(run))

    with pytest.raises(ValueError):  # noqa: PT011 - the tests' own
        asyncio.run(main(fail=True))
    assert asyncio.run(main(fail=False)) == ["ok", [0, 1, 2]]


def test_a_loop_is_not_concurrent_with_the_thread_that_runs_it(open_run):
    """Blocking calls before `asyncio.run` and awaited ones in it count on."""

    async def main(run):
        return run.step("work", effect="none").call(lambda: 2)

    with open_run() as run:
        assert run.step("work", effect="none").call(lambda: 1) == 1
        assert asyncio.run(main(run)) == 2
