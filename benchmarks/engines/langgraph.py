"""LangGraph's functional API: `@task` with the SQLite saver and ``durability="sync"``."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task

from benchmarks.engines.program import PAYLOAD, die, main

_CONFIG: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": 1_000_000}


@task
def act(n: int) -> Any:
    """Do a step that does nothing."""
    return PAYLOAD


def _flow(folder: Path, *, dies: bool = False) -> tuple[Any, dict[str, float]]:
    con = sqlite3.connect(folder / "graph.sqlite", check_same_thread=False)
    told: dict[str, float] = {}

    @entrypoint(checkpointer=SqliteSaver(con))
    def flow(number: int) -> int:
        began = time.perf_counter()
        for n in range(number):
            act(n).result()
        told["s"] = time.perf_counter() - began
        if dies:
            print("{}", flush=True)
            die()
        return number

    return flow, told


def none(folder: Path, number: int) -> Mapping[str, Any]:
    """Record calls one after the other."""
    flow, told = _flow(folder)
    flow.invoke(number, config=_CONFIG, durability="sync")
    return {"step_us": told["s"] / number * 1e6}


def killed(folder: Path, number: int) -> Mapping[str, Any]:
    """Record calls, and die before the end."""
    flow, _ = _flow(folder, dies=True)
    flow.invoke(number, config=_CONFIG, durability="sync")
    return {}


def resumed(folder: Path, number: int) -> Mapping[str, Any]:
    """Resume the killed one: its calls give what is recorded."""
    flow, told = _flow(folder)
    began = time.perf_counter()
    flow.invoke(None, config=_CONFIG, durability="sync")
    return {"step_us": told["s"] / number * 1e6, "all_s": time.perf_counter() - began}


if __name__ == "__main__":
    main({"none": none, "killed": killed, "resumed": resumed})
