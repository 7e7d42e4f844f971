"""Our own package in PostgreSQL, with many runs and many owners: what `benchmarks.scale` asks."""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import durable_nb as dnb
from benchmarks.engines.files import postgres_writer
from benchmarks.engines.ours import act
from benchmarks.engines.program import main, peak_mb, store_in
from durable_nb.journal import store_of

#: Operations of a run that is like most: as `benchmarks.scale` counts them.
OPERATIONS: Final = 50
#: Bytes of a value that is kept beside the records.
LARGE: Final = 200_000
#: Runs that are opened, of which the median counts.
_OPENED: Final = 15


def _open(folder: Path, name: str, **options: Any) -> dnb.Run:
    with contextlib.redirect_stderr(io.StringIO()):
        return dnb.open_run(name, store=store_in(folder), **options)


def whole(folder: Path, number: int) -> Mapping[str, Any]:
    """Do so many runs of `OPERATIONS` steps, one after the other."""
    step = dnb.step(effect="none")(act)
    for n in range(number):
        run = _open(folder, f"whole-{os.getpid()}-{n:06}")
        for at in range(OPERATIONS):
            step(at)
        run.close()
    return {}


def steps(effect: str) -> Callable[[Path, int], Mapping[str, Any]]:
    """Make the task that does so many steps in one run."""

    def task(folder: Path, number: int) -> Mapping[str, Any]:
        step = dnb.step(effect=effect)(act)
        run = _open(folder, f"steps-{effect}-{number}")
        began = time.perf_counter()
        for n in range(number):
            step(n)
        taken = time.perf_counter() - began
        run.close()
        return {"step_us": taken / number * 1e6}

    return task


def steady(effect: str) -> Callable[[Path, int], Mapping[str, Any]]:
    """Make the task that does steps for so many seconds, once it is told to begin."""

    def task(folder: Path, number: int) -> Mapping[str, Any]:
        step, done = dnb.step(effect=effect)(act), 0
        run = _open(folder, f"steady-{effect}-{os.getpid()}")
        step(-1)
        print("ready", flush=True)
        sys.stdin.readline()
        began, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < number:
            step(done)
            done += 1
        taken, cpu = time.perf_counter() - began, time.process_time() - cpu
        print("done", flush=True)
        sys.stdin.readline()  # no other one is disturbed by what closing takes
        run.close()
        return {"steps_s": done / taken, "steps": done, "cpu_us": cpu / done * 1e6}

    return task


def steady_bare(folder: Path, number: int) -> Mapping[str, Any]:
    """Commit single rows for so many seconds, and nothing else."""
    write, done = postgres_writer(folder), 0
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < number:
        write(done)
        done += 1
    taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    print("done", flush=True)
    sys.stdin.readline()
    return {"steps_s": done / taken, "steps": done, "cpu_us": cpu / done * 1e6}


def idle(folder: Path, number: int) -> Mapping[str, Any]:
    """Own a run for so many seconds, and do nothing."""
    run = _open(folder, f"idle-{number}")
    dnb.step(effect="none")(act)(0)
    time.sleep(number)
    run.close()
    return {}


def large(folder: Path, number: int) -> Mapping[str, Any]:
    """Do so many steps whose results are bytes of `LARGE`, no two the same."""
    run = _open(folder, "large")

    def act_large(n: int) -> bytes:
        return os.urandom(LARGE)

    step = dnb.step(effect="none")(act_large)
    for n in range(number):
        step(n)
    run.close()
    return {}


def opened(folder: Path, number: int) -> Mapping[str, Any]:
    """Open some of the runs that are there, and do one new step in each."""
    store = store_of(store_in(folder))
    began = time.perf_counter()
    names = [name for name in store.names() if name.startswith("bulk-")]
    listed = time.perf_counter() - began
    some = names[:: max(1, len(names) // _OPENED)][:_OPENED]
    _open(folder, names[-1]).close()  # what is done once a process is not counted
    step, taken, closing = dnb.step(effect="none", name="new")(act), [], []
    for name in some:
        began = time.perf_counter()
        run = _open(folder, name)
        step(0)
        ready = time.perf_counter()
        run.close()
        taken.append(ready - began)
        closing.append(time.perf_counter() - ready)
    return {
        "names_s": listed,
        "open_ms": statistics.median(taken) * 1e3,
        "close_ms": statistics.median(closing) * 1e3,
    }


def listed(folder: Path, number: int) -> Mapping[str, Any]:
    """List the runs twice: with no copy of a mirror at hand, and with all."""
    idle_mb = peak_mb()
    began = time.perf_counter()
    count = len(dnb.runs(store_in(folder)))
    first = time.perf_counter()
    dnb.runs(store_in(folder))
    return {
        "count": count,
        "first_s": first - began,
        "again_s": time.perf_counter() - first,
        "more_mb": peak_mb() - idle_mb,
    }


if __name__ == "__main__":
    main(
        {
            "whole": whole,
            "none": steps("none"),
            "external": steps("external"),
            "steady-bare": steady_bare,
            "steady-none": steady("none"),
            "steady-external": steady("external"),
            "idle": idle,
            "large": large,
            "opened": opened,
            "listed": listed,
        }
    )
