"""Our own package, durable_nb."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from json import loads
from pathlib import Path
from typing import Any

import durable_nb as dnb
from benchmarks.engines.filling import fill
from benchmarks.engines.program import PAYLOAD, die, main, peak_mb, store_in

_TEXT = json.dumps(PAYLOAD)
#: New steps in a run that has grown.
_NEW = 600


def act(n: int, text: str = _TEXT) -> Any:
    """Do a step that does nothing but give a new payload, so that all its time is ours."""
    return loads(text)


def _open(folder: Path) -> dnb.Run:
    with contextlib.redirect_stderr(io.StringIO()):
        return dnb.open_run("bench", store=store_in(folder))


def steps(effect: str) -> Callable[[Path, int], Mapping[str, Any]]:
    """Make the task that journals calls one after the other."""

    def task(folder: Path, number: int) -> Mapping[str, Any]:
        step = dnb.step(effect=effect)(act)
        run = _open(folder)
        began = time.perf_counter()
        for n in range(number):
            step(n)
        taken = time.perf_counter() - began
        run.close()
        return {"step_us": taken / number * 1e6}

    return task


def killed(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal calls, and die in the next one."""
    step = dnb.step(effect="none")(act)
    run = _open(folder)
    if number > 5_000:
        fill(run, step, number)
        run = _open(folder)
        run.publisher.publish()  # as its owner would have done all along
        step, number = dnb.step(effect="none", name="late")(act), 100
    for n in range(number):
        step(n)
    print("{}", flush=True)
    die()
    return {}


def resumed(folder: Path, number: int) -> Mapping[str, Any]:
    """Open the killed run, run the program again, and do one new step."""
    idle = peak_mb()
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    run = _open(folder)
    opened = time.perf_counter()
    step = dnb.step(effect="none")(act)
    for n in range(number):
        step(n)
    replayed = time.perf_counter()
    dnb.step(effect="none", name="new")(act)(0)
    first = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF)
    peak = peak_mb()
    run.close()
    return {
        "open_s": opened - began,
        "step_us": (replayed - opened) / number * 1e6,
        "first_new_ms": (first - replayed) * 1e3,
        "more_mb": peak - idle,
        "cpu_s": after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime,
    }


def opened(folder: Path, number: int) -> Mapping[str, Any]:
    """Open the killed run, and do one new step in another cell's place."""
    idle = peak_mb()
    cpu = time.process_time()
    began = time.perf_counter()
    run = _open(folder)
    ready = time.perf_counter()
    dnb.step(effect="none", name="new")(act)(0)
    first = time.perf_counter()
    cpu = time.process_time() - cpu
    peak = peak_mb()
    run.close()
    return {
        "open_s": ready - began,
        "first_new_s": first - began,
        "cpu_s": cpu,
        "more_mb": peak - idle,
    }


def gathered(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal calls of an async step, all at once."""

    async def aact(n: int) -> Any:
        return loads(_TEXT)

    step = dnb.step(name="act", effect="none")(aact)
    run = _open(folder)

    async def go() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(step(n) for n in range(number)))
        return time.perf_counter() - began

    taken = asyncio.run(go())
    run.close()
    return {"step_us": taken / number * 1e6}


def threaded(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal calls from 32 threads, with the processor time that it takes."""
    run = _open(folder)
    began, cpu = time.perf_counter(), time.process_time()
    run.map(act, range(number), limit=32, effect="none")
    taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    run.close()
    return {"step_us": taken / number * 1e6, "cpu": cpu / taken}


def grown(folder: Path, number: int) -> Mapping[str, Any]:
    """Open a run that was filled with so many records, and do new steps."""
    idle = peak_mb()
    began = time.perf_counter()
    run = _open(folder)
    ready = time.perf_counter()
    # a name of its own in each process: what an earlier one has done would be replayed
    step = dnb.step(name=f"new-{run.epoch}", effect="none")(act)
    taken = []
    for n in range(_NEW):
        start = time.perf_counter()
        step(n)
        taken.append(time.perf_counter() - start)
    peak = peak_mb()
    run.close()
    return {
        "open_s": ready - began,
        "step_us": statistics.median(taken) * 1e6,
        "more_mb": peak - idle,
    }


def filled(folder: Path, number: int) -> Mapping[str, Any]:
    """Fill a run with completed operations, half of which are records of their intents."""
    fill(_open(folder), dnb.step(effect="none")(act), number // 2)
    _open(folder).close()
    disk = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return {"bytes": disk / (number // 2)}


if __name__ == "__main__":
    main(
        {
            "none": steps("none"),
            "idempotent": steps("idempotent"),
            "external": steps("external"),
            "killed": killed,
            "resumed": resumed,
            "opened": opened,
            "gathered": gathered,
            "threaded": threaded,
            "filled": filled,
            "grown": grown,
        }
    )
