"""Ctrl-C in the pause between two attempts ends it at once, and there is no further attempt."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger

PAUSED = """
import tenacity

def wait(state):
    ledger.add("pause")
    return 50

tenacity.wait_random_exponential = lambda **_: wait

def work(n=0):
    ledger.add("attempt")
    raise LookupError("not yet")

async def awork(n=0):
    work()

options = {"effect": "none", "retries": 5}

def blocking():
    with dnb.run("r", store=store) as run:
        run.step("work", **options).call(work)

def threads():
    with dnb.run("r", store=store) as run:
        run.map(work, [1], **options)

async def awaiting():
    async with dnb.run("r", store=store) as run:
        await run.step("work", **options).call(awork)

began = time.monotonic()
try:
    asyncio.run(awaiting()) if more[0] == "awaiting" else globals()[more[0]]()
except KeyboardInterrupt:
    tell(interrupted=True)
tell(quick=time.monotonic() - began < 25)
with dnb.run("r", store=store) as run:
    tell(outcome=outcomes(run)["work#1"], kinds=kinds(run, "work#1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "spelling",
    ["threads", *(pytest.param(s, marks=pytest.mark.slow) for s in ("blocking", "awaiting"))],
)
def test_an_interrupt_in_the_pause_stops_at_once(
    bench: Bench, ledger: Ledger, spelling: str
) -> None:
    """What was tried is on record as it was, and nothing is tried after it."""
    with bench.start(PAUSED, spelling) as child:
        child.until(lambda: ledger.count("pause") == 1).interrupt()
        seen = child.wait().ok().facts

    assert seen == {
        "interrupted": True,
        "quick": True,
        "outcome": "incomplete",
        "kinds": ["intended", "raised"],
    }
    assert ledger.count("attempt") == 1
