"""A call that finds its record at once, and an operation that is reached: they say the same.

Each situation is played twice, in two stores: once as a program calls a step, and once by making
the operation of that call and entering it. Outcome, value, records and printed lines are equal.
"""

from __future__ import annotations

import asyncio
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import pytest

import durable_nb as dnb
from durable_nb.engine import calls, facets
from durable_nb.engine.called import MISSING
from durable_nb.engine.context import OPEN, frame_of
from durable_nb.engine.options import Options
from durable_nb.engine.store import open_run as open_with
from durable_nb.engine.terms import Terms

ASK = {"on_change": "ask"}


def one(x=1):
    return x + 1


def other(x=1):
    return x + 2


def big(x=1):
    return b"x" * 200_000


def broken(x=1):
    raise ValueError("no")


def token(x=1):
    return "sk-ant-api03-" + "a" * 40


async def aone(x=1):
    return x + 1


# -- the two ways ------------------------------------------------------------------------------


def made(run: dnb.Run, fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]):
    given = Options().with_(options)
    return run.operation(
        frame_of(run),
        "step",
        given,
        inputs=calls.bind(fn, args, {}) if given.inputs is None else dict(given.inputs),
        code=given.code or facets.of_code(fn, run.working),
    )


def quick(run: dnb.Run, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a step as a program does."""
    return run.step("step", **options).call(fn, *args)


def slow(run: dnb.Run, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Make the operation of the same call, and enter it."""
    call = made(run, fn, args, options)

    async def awaited() -> Any:
        async with call() as op:
            if op.needed:
                op.result = await fn(*args)
        return op.result

    if calls.form(fn).is_async:
        return awaited()
    with call() as op:
        if op.needed:
            op.result = fn(*args)
    return op.result


# -- situations --------------------------------------------------------------------------------

#: The two ways are tried one after the other.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


class World:
    """One store, opened by one kernel after another; what is said and raised is kept."""

    def __init__(self, root: Path, call: Callable[..., Any]) -> None:
        self.root, self.call = root, call
        root.mkdir()
        self.seen: list[Any] = []
        self.run: dnb.Run

    def kernel(self, program: Callable[[World], object], **options: Any) -> None:
        OPEN._reached.clear()
        said: list[str] = []
        where = dnb.Surroundings(origin=lambda: None, say=said.append)
        with open_with("r", store=self.root / "store", surroundings=where, **options) as self.run:
            program(self)
            run = self.run
            if run.is_open:
                self.seen += [
                    dict(run.sources),
                    run.meter.operations,
                    [(s.id, str(s.outcome(run.clock.now())), s.result) for s in run.states()],
                    [(r.op, str(r.kind)) for r in run.committed() if r.op],
                    list(run.live),
                    dict(run.unloadable),
                    [v.id for v in run.unreached()],
                ]
        self.seen.append([line.replace(str(self.root), "ROOT") for line in said])

    def does(self, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call, and keep what came of it."""
        return self.keep(lambda: self.call(self.run, fn, *args, **options))

    def awaits(self, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        async def go() -> Any:
            return await self.call(self.run, fn, *args, **options)

        return self.keep(lambda: asyncio.run(go()))

    def keep(self, job: Callable[[], Any]) -> Any:
        try:
            came = job()
        except BaseException as stop:
            text = _MOMENT.sub("MOMENT", str(stop).replace(str(self.root), "ROOT"))
            self.seen.append((type(stop).__name__, text))
            return stop
        self.seen.append(came)
        return came


def again(first: Callable[..., Any], then: Callable[..., Any], **options: Any):
    """Call one function in the first kernel, and another in the next two."""

    def play(w: World) -> None:
        w.kernel(lambda w: w.does(first, **options))
        for _ in range(2):
            w.kernel(lambda w: (w.does(then, **options), w.does(then, **options)))

    return play


def other_input(**options: Any):
    def play(w: World) -> None:
        w.kernel(lambda w: w.does(one, 1, **options))
        w.kernel(lambda w: (w.does(one, 2, **options), w.does(one, 2, **options)))
        w.kernel(lambda w: w.does(one, 2, **options))

    return play


def a_question_withdrawn(w: World) -> None:
    w.kernel(lambda w: w.does(one, 1, **ASK))
    w.kernel(lambda w: w.does(one, 2, **ASK))
    w.kernel(lambda w: (w.does(one, 1, **ASK), w.does(one, 5)))


def vouched(w: World) -> None:
    w.kernel(lambda w: w.does(broken))
    w.kernel(lambda w: (w.run.confirm("step#1", 9), w.does(one), w.does(one, 3)))
    w.kernel(lambda w: w.does(other))


def invalidated(w: World) -> None:
    w.kernel(lambda w: w.does(one, effect="none"))
    w.kernel(lambda w: (w.run.invalidate("step#1", "wrong"), w.does(one, effect="none")))
    w.kernel(lambda w: w.does(one, effect="none"))


def a_failure_observed(w: World) -> None:
    def program(w: World) -> None:
        w.does(broken, effect="none")
        w.does(one, effect="none")

    w.kernel(program)
    w.kernel(program)


def a_wait_of_that_name(w: World) -> None:
    def ask(w: World) -> None:
        w.keep(lambda: w.run.approval("Go?", key="k"))
        w.run.approve("approval[k]#1")

    w.kernel(ask)
    w.kernel(lambda w: w.does(one, 1, key="k"))


def a_file_that_it_uses(w: World) -> None:
    path = w.root / "in.txt"
    path.write_text("1")
    options = {"effect": "none", "uses": [path]}
    for text in ("1", "2", "2"):
        path.write_text(text)
        w.kernel(lambda w: w.does(one, **options))
    path.unlink()
    w.kernel(lambda w: w.does(one, **options))


def a_file_that_it_made(w: World) -> None:
    path = w.root / "out.txt"
    options = {"effect": "none", "produces": [path], "inputs": {}}
    path.write_text("1")
    w.kernel(lambda w: w.does(one, **options))
    w.kernel(lambda w: w.does(one, **options))
    path.write_text("2")
    w.kernel(lambda w: w.does(one, **options))
    w.kernel(lambda w: w.does(one, effect="none", inputs={}))


def files_from_now_on(w: World) -> None:
    path = w.root / "some.txt"
    path.write_text("1")
    for files in ({}, {"uses": [path]}, {}, {"produces": [path]}):
        w.kernel(lambda w, files=files: w.does(one, 1, inputs={}, effect="none", **files))


def an_artifact_lost(w: World) -> None:
    w.kernel(lambda w: w.does(big))
    for path in (w.root / "store" / "r" / "artifacts").rglob("*.val"):
        path.unlink()
    w.kernel(lambda w: (w.does(big), w.does(one, 5)))


def a_class_that_is_gone(w: World) -> None:
    shop = types.ModuleType("shop_of_a_test")
    shop.Item = make_dataclass("Item", ["n"])
    shop.Item.__module__ = "shop_of_a_test"
    sys.modules["shop_of_a_test"] = shop

    def item(x=1):
        import shop_of_a_test

        return shop_of_a_test.Item(x)

    w.kernel(lambda w: w.does(item) and None)
    w.seen = [s for s in w.seen if "Item" not in type(s).__name__]
    del sys.modules["shop_of_a_test"]
    w.kernel(lambda w: w.does(item))


def closed_before_it_is_awaited(w: World) -> None:
    w.kernel(lambda w: w.awaits(aone))

    def program(w: World) -> None:
        async def go() -> Any:
            pending = w.call(w.run, aone)
            w.run.close()
            return await pending

        w.keep(lambda: asyncio.run(go()))

    w.kernel(program)


def forked_before_it_is_awaited(w: World) -> None:
    w.kernel(lambda w: w.awaits(aone))

    def program(w: World) -> None:
        pending = w.call(w.run, aone)
        pid, w.run._pid = w.run._pid, 0  # as it is in a forked child
        kept = w.keep(lambda: asyncio.run(_await(pending)))
        assert isinstance(kept, dnb.RunHeld)
        w.seen[-1] = type(kept).__name__
        w.run._pid = pid
        w.awaits(aone)

    w.kernel(program)


async def _await(what: Any) -> Any:
    return await what


def awaited_in_a_gather(w: World) -> None:
    def program(w: World) -> None:
        async def go() -> Any:
            return await asyncio.gather(*(w.call(w.run, aone, n) for n in range(3)))

        w.keep(lambda: asyncio.run(go()))

    way, w.call = w.call, quick  # else each body ends before the next is begun
    w.kernel(program)
    w.call = way
    w.kernel(program)


def cancelled_before_it_begins(w: World) -> None:
    w.kernel(lambda w: w.awaits(aone))

    def program(w: World) -> None:
        async def go() -> Any:
            task = asyncio.ensure_future(w.call(w.run, aone))
            await asyncio.sleep(0)
            task.cancel()
            return await task

        w.keep(lambda: asyncio.run(go()))

    w.kernel(program)


def a_wait_that_nobody_awaits(w: World) -> None:
    w.kernel(lambda w: w.awaits(aone))

    def program(w: World) -> None:
        async def go() -> Any:
            wait = w.run.approval("Go?")
            got = await w.call(w.run, aone)
            wait.close()
            return got

        w.keep(lambda: asyncio.run(go()))

    w.kernel(program)


def something_else_unknown(w: World) -> None:
    w.kernel(lambda w: (w.does(one), w.does(broken)))
    w.kernel(lambda w: (w.does(one), w.does(broken), w.does(one, 9)))


def paused(w: World) -> None:
    w.kernel(lambda w: (w.does(one), w.run.pause("wait")))
    w.kernel(lambda w: (w.does(one), w.does(one), w.run.unpause(), w.does(one)))


def a_budget_spent(w: World) -> None:
    for _ in range(2):
        w.kernel(lambda w: (w.does(one), w.does(one)), terms=Terms(budget={"calls": 1}))


def facets_of_the_run(w: World) -> None:
    for model in ("a", "b", "b"):
        w.kernel(lambda w: (w.does(one), w.does(one)), terms=Terms(facets={"model": model}))


def undone(w: World) -> None:
    w.kernel(lambda w: w.does(one))
    w.kernel(lambda w: (w.run.compensate("step#1", undo=lambda op: None), w.does(one)))
    w.kernel(lambda w: w.does(one))


def of_a_retired_stretch(w: World) -> None:
    def program(w: World) -> None:
        with w.run.pinned("turns", 0) as loop:
            w.does(one)
            if loop.turn < 2:
                loop.pin(loop.state + 1)
            w.does(one)

    for _ in range(3):
        w.kernel(program)


def late(w: World) -> None:
    def program(w: World) -> None:
        op = made(w.run, one, (), {})()
        op.block = None
        with pytest.raises(KeyboardInterrupt), op:
            assert op.needed
            raise KeyboardInterrupt
        op.result = 2  # a thread that ends after its caller was interrupted

    w.kernel(program)
    w.kernel(lambda w: w.does(one))


def no_digest(w: World) -> None:
    w.kernel(lambda w: (w.does(one, object()), w.does(one, 1)))
    w.kernel(lambda w: (w.does(one, object()), w.does(one, 1)))


@dataclass
class Pressed:
    """An input at whose digest Ctrl-C comes, while it is armed."""

    armed = False
    n: int = 1


def _pressed(value: Pressed) -> dict[str, int]:
    if Pressed.armed:
        raise KeyboardInterrupt
    return {"n": value.n}


dnb.register_codec("test.pressed", Pressed, 1, _pressed, lambda d: Pressed(**d))


def ctrl_c_while_it_looks(w: World) -> None:
    def count(p):
        return p.n

    w.kernel(lambda w: w.does(count, Pressed()))

    def program(w: World) -> None:
        Pressed.armed = True
        w.does(count, Pressed())
        Pressed.armed = False
        w.does(count, Pressed())

    w.kernel(program)


def keep_with(old: Any, changes: Any) -> Any:
    return old * 100


SITUATIONS = {
    "nothing changed": again(one, one),
    "nothing changed, pure": again(one, one, effect="none"),
    "a key": again(one, one, key="k"),
    "with retries": again(one, one, effect="none", retries=2),
    "its code changed, asked": again(one, other),
    "its code changed, pure": again(one, other, effect="none"),
    "its code changed, kept": again(one, other, on_change="keep"),
    "its code changed, migrated": again(one, other, on_change=keep_with),
    "inputs of its own": again(one, one, inputs={"x": 1}),
    "an input changed": other_input(),
    "an input changed, pure": other_input(effect="none"),
    "an input changed, kept": other_input(on_change="keep"),
    "an input changed, migrated": other_input(on_change=keep_with),
    "a large value": again(big, big),
    "a secret": again(token, token),
    "record= and validate=": again(one, one, record=str, validate=str),
    "a failure that was observed": a_failure_observed,
    "a question withdrawn": a_question_withdrawn,
    "vouched": vouched,
    "invalidated": invalidated,
    "a wait of that name": a_wait_of_that_name,
    "a file that it uses": a_file_that_it_uses,
    "a file that it made": a_file_that_it_made,
    "files from now on": files_from_now_on,
    "an artifact lost": an_artifact_lost,
    "a class that is gone": a_class_that_is_gone,
    "something else unknown": something_else_unknown,
    "paused": paused,
    "a budget spent": a_budget_spent,
    "facets of the run": facets_of_the_run,
    "undone": undone,
    "of a retired stretch": of_a_retired_stretch,
    "late": late,
    "no digest": no_digest,
    "Ctrl-C while it looks": ctrl_c_while_it_looks,
    "closed before it is awaited": closed_before_it_is_awaited,
    "forked before it is awaited": forked_before_it_is_awaited,
    "awaited in a gather": awaited_in_a_gather,
    "cancelled before it begins": cancelled_before_it_begins,
    "a wait that nobody awaits": a_wait_that_nobody_awaits,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_both_ways_come_to_the_same(tmp_path, name):
    """What a program, a person and the next kernel see does not tell which way it was."""
    worlds = [World(tmp_path / way.__name__, way) for way in (quick, slow)]
    for world in worlds:
        SITUATIONS[name](world)
    assert worlds[0].seen == worlds[1].seen
    assert worlds[0].seen


@pytest.mark.parametrize(
    ("options", "quickly"),
    [({}, True), ({"key": "k"}, True), ({"effect": "none"}, True), ({"uses": ["x"]}, False)],
)
def test_a_call_that_finds_its_record_needs_no_operation(open_run, tmp_path, options, quickly):
    """Most calls of a resumed program are such."""
    if "uses" in options:
        (tmp_path / "x").write_text("1")
        options = {"uses": [tmp_path / "x"]}
    with open_run() as run:
        quick(run, one, **options)
    with open_run() as run:
        found = made(run, one, (), options).recorded()
        assert (found is not MISSING) is quickly
        assert found is MISSING or found == 2
