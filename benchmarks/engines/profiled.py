"""Our own package under a profiler: what a step of a fan-out spends its time on."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from json import loads
from pathlib import Path
from typing import Any

import durable_nb as dnb
from benchmarks.engines.ours import _TEXT, _open
from benchmarks.engines.program import main

#: A piece of a file's path -> the part that it belongs to; the first that fits. Profilers do not
#: see DuckDB's own functions, whose time counts for those that call them.
_PARTS = {
    "journal/landing": "duckdb", "journal/duckdb": "duckdb",
    "durable_nb/engine": "engine", "durable_nb/journal": "journal", "durable_nb/model": "model",
    "durable_nb/values": "values", "asyncio": "asyncio", "benchmarks": "body", "json/": "body",
}  # fmt: skip


async def act(n: int) -> Any:
    """Do nothing but give a new payload."""
    return loads(_TEXT)


async def bare(n: int) -> Any:
    """Do the same with what a step has of tasks and futures: a body shielded, a commit awaited."""
    loop = asyncio.get_running_loop()
    over, committed = loop.create_future(), loop.create_future()
    body = asyncio.ensure_future(act(n))
    body.add_done_callback(lambda _: over.set_result(None))
    await over
    loop.call_soon(committed.set_result, None)
    await committed
    return body.result()


async def _all(step: Callable[[int], Awaitable[Any]], number: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(step(n) for n in range(number)))
    return time.perf_counter() - began


def gathered(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal calls of an async step, all at once, with and without a profiler."""
    plain = asyncio.run(_all(bare, number))
    run = _open(folder)
    collected: list[float] = []

    def count(phase: str, info: Mapping[str, int]) -> None:
        now = time.perf_counter()
        collected.append(-now if phase == "start" else now)

    gc.callbacks.append(count)
    cpu = time.process_time()
    taken = asyncio.run(_all(dnb.step(name="first", effect="none")(act), number))
    cpu = time.process_time() - cpu
    gc.callbacks.remove(count)
    with cProfile.Profile() as profile:
        asyncio.run(_all(dnb.step(name="second", effect="none")(act), number))
    run.close()
    return {
        "step_us": taken / number * 1e6,
        "cpu": cpu / taken,
        "bare_us": plain / number * 1e6,
        "garbage_us": sum(collected) / number * 1e6,
        **shares(pstats.Stats(profile)),
    }


def shares(stats: pstats.Stats) -> dict[str, float]:
    """Give the share of each part; what C does counts for whom it does it."""
    spent: Counter[str] = Counter()
    for function, (_, _, own, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if function[0] != "~":
            spent[_part(function[0])] += own
        else:
            for caller, (_, _, own_for, _) in callers.items():
                spent[_part(caller[0])] += own_for
    whole = sum(spent.values())
    return {part: spent[part] / whole for part in {"other", *_PARTS.values()}}


def _part(file: str) -> str:
    return next((part for piece, part in _PARTS.items() if piece in file), "other")


if __name__ == "__main__":
    main({"gathered": gathered})
