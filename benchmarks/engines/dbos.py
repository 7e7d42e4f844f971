"""DBOS on SQLite or PostgreSQL: `@DBOS.step` in a `@DBOS.workflow`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.engines.program import PAYLOAD, die, main, store_in

_told: dict[str, Any] = {"dies": False}


@DBOS.step()
def act(n: int) -> Any:
    """Do a step that does nothing."""
    return PAYLOAD


@DBOS.step()
async def aact(n: int) -> Any:
    """Do the same, awaited."""
    return PAYLOAD


@DBOS.workflow()
def flow(number: int) -> int:
    """Call the step one after the other."""
    began = time.perf_counter()
    for n in range(number):
        act(n)
    _told["s"] = time.perf_counter() - began
    if _told["dies"]:
        print("{}", flush=True)
        die()
    return number


@DBOS.workflow()
async def fan(number: int) -> int:
    """Call the step many times at once."""
    began = time.perf_counter()
    await asyncio.gather(*(aact(n) for n in range(number)))
    _told["s"] = time.perf_counter() - began
    return number


def _launch(folder: Path) -> None:
    store = store_in(folder)
    url = store if isinstance(store, str) else f"sqlite:///{store / 'dbos.sqlite'}"
    config: Any = {"name": "bench", "system_database_url": url, "run_admin_server": False}
    DBOS(config=config)
    DBOS.logger.setLevel(logging.ERROR)
    DBOS.launch()


def none(folder: Path, number: int) -> Mapping[str, Any]:
    """Record calls one after the other."""
    _launch(folder)
    with SetWorkflowID("bench"):
        flow(number)
    DBOS.destroy()
    return {"step_us": _told["s"] / number * 1e6}


def killed(folder: Path, number: int) -> Mapping[str, Any]:
    """Record calls, and die before the end."""
    _told["dies"] = True
    _launch(folder)
    with SetWorkflowID("bench"):
        flow(number)
    return {}


def resumed(folder: Path, number: int) -> Mapping[str, Any]:
    """Launch again, which recovers the killed workflow: its steps give what is recorded."""
    began = time.perf_counter()
    _launch(folder)
    DBOS.retrieve_workflow("bench").get_result()
    all_s = time.perf_counter() - began
    DBOS.destroy()
    return {"step_us": _told["s"] / number * 1e6, "all_s": all_s}


def gathered(folder: Path, number: int) -> Mapping[str, Any]:
    """Record calls of an async step, all at once."""
    _launch(folder)

    async def go() -> None:
        with SetWorkflowID("bench"):
            await fan(number)

    asyncio.run(go())
    DBOS.destroy()
    return {"step_us": _told["s"] / number * 1e6}


if __name__ == "__main__":
    main({"none": none, "killed": killed, "resumed": resumed, "gathered": gathered})
