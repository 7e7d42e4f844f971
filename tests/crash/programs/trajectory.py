"""One trajectory (before, target, after) in each spelling of a step.

    trajectory.py STORE LEDGER kill CASE        run it, and die at the case's boundary
    trajectory.py STORE LEDGER resume CASES     go on with the runs of several cases, one by one

A case is a JSON object; each has a store and a ledger of its own below the ones given.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.inside import die_at, note_acknowledged
from support.ledger import Ledger

import durable_nb as dnb

#: Boundary -> the record to die at, and on which side. "inside_effect" is not here: there the
#: body waits, and the test kills.
BOUNDARIES = {
    "before_intent": ("intended", "before"),
    "before_effect": ("intended", "after"),
    "before_outcome": ("completed", "before"),
    "after_outcome": ("completed", "after"),
}

#: Spelling -> identity of the operation that the crash hits.
TARGETS = {"nested": "outer#1/target#1", "map": "target[b]#1", "async_map": "target[b]#1"}

ledger = Ledger(Path(sys.argv[2]))
waits = threading.Event()  #: whether the effect, once begun, never ends


# -- the effects -----------------------------------------------------------------------------


def begin(what: str, key: str) -> None:
    ledger.add(what, key)


def act(idempotency_key: str) -> str:
    begin("target", idempotency_key)
    if waits.is_set():
        time.sleep(600)
    return f"done by {os.getpid()}"


async def aact(idempotency_key: str) -> str:
    begin("target", idempotency_key)
    if waits.is_set():
        await asyncio.sleep(600)
    return f"done by {os.getpid()}"


def before(*, idempotency_key: str) -> str:
    begin("before", idempotency_key)
    return f"before by {os.getpid()}"


def after(*, idempotency_key: str) -> str:
    begin("after", idempotency_key)
    return f"after by {os.getpid()}"


def act_in_cell() -> str:
    operation = dnb.current_operation()
    assert operation is not None
    return act(operation.idempotency_key)


# -- the spellings ---------------------------------------------------------------------------


def call(run: dnb.Run, effect: str) -> Any:
    def target(*, idempotency_key: str) -> str:
        return act(idempotency_key)

    return run.step("target", effect=effect).call(target)


def with_form(run: dnb.Run, effect: str) -> Any:
    with run.step("target", effect=effect) as op:
        if op.needed:
            op.result = act(op.idempotency_key)
    return op.result


def decorator(run: dnb.Run, effect: str) -> Any:
    @dnb.step(effect=effect)
    def target(*, idempotency_key: str) -> str:
        return act(idempotency_key)

    return target()


def run_decorator(run: dnb.Run, effect: str) -> Any:
    @run.step(effect=effect)
    def target(*, idempotency_key: str) -> str:
        return act(idempotency_key)

    return target()


def async_decorator(run: dnb.Run, effect: str) -> Any:
    @dnb.step(effect=effect)
    async def target(*, idempotency_key: str) -> str:
        return await aact(idempotency_key)

    async def main() -> str:
        return await target()

    return asyncio.run(main())


def async_with(run: dnb.Run, effect: str) -> Any:
    async def main() -> Any:
        async with run.step("target", effect=effect) as op:
            if op.needed:
                op.result = await aact(op.idempotency_key)
        return op.result

    return asyncio.run(main())


def nested(run: dnb.Run, effect: str) -> Any:
    def outer() -> Any:
        return call(run, effect)

    return run.step("outer", effect="none").call(outer)


def map_threads(run: dnb.Run, effect: str) -> Any:
    def target(item: str, *, idempotency_key: str) -> str:
        if item == "b":
            return act(idempotency_key)
        begin(f"item {item}", idempotency_key)
        return item

    return run.map(target, ["a", "b", "c"], key=str, limit=1, effect=effect)[1]


def map_async(run: dnb.Run, effect: str) -> Any:
    async def target(item: str, *, idempotency_key: str) -> str:
        if item == "b":
            return await aact(idempotency_key)
        begin(f"item {item}", idempotency_key)
        return item

    async def main() -> Any:
        return (await run.map(target, ["a", "b", "c"], key=str, limit=1, effect=effect))[1]

    return asyncio.run(main())


SPELLINGS: dict[str, Callable[[dnb.Run, str], Any]] = {
    "call": call,
    "with": with_form,
    "decorator": decorator,
    "run_decorator": run_decorator,
    "async": async_decorator,
    "async_with": async_with,
    "nested": nested,
    "map": map_threads,
    "async_map": map_async,
}


# -- one run of one case -----------------------------------------------------------------------


def settle(run: dnb.Run, case: dict[str, Any], verdict: str) -> None:
    target = TARGETS.get(case["spelling"], "target#1")
    if verdict == "confirm":
        cell = case["spelling"] == "cell"  # its result is the names that it binds
        result = {"got": "confirmed"} if cell else "confirmed"
        run.confirm(target, result, evidence="the ledger")
    elif verdict == "deny":
        run.deny(target, evidence="the ledger")


def look(run: dnb.Run) -> dict[str, Any]:
    frame = run.operations()
    history = run.history()
    return {
        "outcomes": dict(zip(frame["id"], frame["outcome"], strict=True)),
        "sources": dict(zip(frame["id"], frame["source"], strict=True)),
        "history": [
            list(row) for row in zip(history["seq"], history["op"], history["kind"], strict=True)
        ],
    }


def play(case: dict[str, Any], verdict: str = "") -> dict[str, Any]:
    """Open or resume the case's run and go through the trajectory as far as it goes."""
    told: dict[str, Any] = {"error": "", "result": None}
    with dnb.run("trip", store=case["store"]) as run:
        told["opened"] = look(run)
        told["headline"] = run.headline
        settle(run, case, verdict)
        try:
            told["before"] = run.call(before)
            told["result"] = SPELLINGS[case["spelling"]](run, case["effect"])
            told["after"] = run.call(after)
        except dnb.UnknownOutcome as doubt:
            told["error"] = type(doubt).__name__
            told["doubted"] = [op.id for op in doubt.operations]
        told["ended"] = look(run)
    return told


def play_cell(case: dict[str, Any], verdict: str = "") -> dict[str, Any]:
    """Do the same as a notebook: each part is a cell of an IPython shell."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    told: dict[str, Any] = {"error": "", "result": None}

    def cell(source: str) -> BaseException | None:
        done = shell.run_cell(source, store_history=True)
        problem: BaseException | None = done.error_before_exec or done.error_in_exec
        return problem

    def must(source: str) -> None:
        problem = cell(source)
        if problem is not None:
            raise problem

    shell.user_ns.update(dnb=dnb, act=act_in_cell, before=before, after=after, where=case["store"])
    must("%load_ext durable_nb")
    must('run = dnb.open_run("trip", store=where)')
    run = shell.user_ns["run"]
    told["opened"], told["headline"] = look(run), run.headline
    settle(run, case, verdict)
    must("first = run.call(before)")
    told["before"] = shell.user_ns["first"]
    problem = cell(f"%%durable target --effect {case['effect']}\ngot = act()")
    if problem is None:
        told["result"] = shell.user_ns.get("got")
        problem = cell("last = run.call(after)")
        told["after"] = shell.user_ns.get("last")
    if isinstance(problem, dnb.UnknownOutcome):
        told["error"] = type(problem).__name__
        told["doubted"] = [op.id for op in problem.operations]
    elif problem is not None:
        raise problem
    told["ended"] = look(run)
    run.close()
    return told


def player(case: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    return play_cell if case["spelling"] == "cell" else play


def main() -> None:
    global ledger
    mode, cases = sys.argv[3], json.loads(sys.argv[4])
    if mode == "kill":
        (case,) = cases
        ledger = Ledger(Path(case["ledger"]))
        if case["boundary"] == "inside_effect":
            waits.set()
        note_acknowledged(Path(case["acknowledged"]))
        if not waits.is_set():
            die_at(TARGETS.get(case["spelling"], "target#1"), *BOUNDARIES[case["boundary"]])
        player(case)(case)
        return
    for case in cases:
        ledger = Ledger(Path(case["ledger"]))
        told = player(case)(case, case["verdict"] if mode == "settle" else "")
        told["effects"] = ledger.lines()
        print(json.dumps({case["id"]: told}), flush=True)


if __name__ == "__main__":
    main()
