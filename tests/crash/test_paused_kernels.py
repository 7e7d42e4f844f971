"""A kernel that is paused from a shell in the middle of its work, killed, and let go on later."""

from __future__ import annotations

import time

import pytest
from support.child import Bench
from support.ledger import Ledger
from support.terminal import do, document

COUNT = 150

WORK = """
async def aserve(n):
    ledger.add(f"customer {n}")
    await asyncio.sleep(0.02)
    return n

def serve(n):
    ledger.add(f"customer {n}")
    time.sleep(0.02)
    return n

async def go(run):
    for n in range(COUNT):
        if SPELLING == "awaiting":
            await run.step("serve", key=n).call(aserve, n)
        else:
            run.step("serve", key=n).call(serve, n)

COUNT = 150
with dnb.run("r", store=store) as run:
    try:
        asyncio.run(go(run))
        tell(done=len(run.operations()))
    except dnb.RunPaused as stop:
        tell(stopped=stop.op, reason=stop.reason, done=len(run.operations()))
        Path("stopped").touch()
        time.sleep(60 if more else 0)
    tell(outcomes=sorted(set(outcomes(run).values())))
"""


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_a_pause_from_a_shell_stops_a_live_kernel_and_outlives_it(
    bench: Bench, ledger: Ledger, spelling: str
) -> None:
    """It is heeded within 2 s; nothing new begins until it is let go on, whatever is killed."""
    program, there = f"SPELLING = Given({spelling!r})\n{WORK}", ("--store", bench.store)
    with bench.start(program, "stay") as child:
        child.until(lambda: len(ledger.lines()) > 3)
        begun = time.monotonic()
        told = do("pause", "r", "--reason", "the shop moves", "--json", *there)
        assert (told.exit_code, document(told)["verdict"]) == (0, "paused")
        child.until((bench.folder / "stopped").exists)
        assert time.monotonic() - begun < 2
        ended = child.kill()
    assert ended.killed
    assert ended.facts["stopped"] == f"serve[{ended.facts['done']}]#1"
    served = len(ledger.lines())
    assert served == ended.facts["done"] < COUNT

    seen = bench.run(program).ok().facts
    assert (seen["stopped"], seen["reason"]) == (ended.facts["stopped"], "the shop moves")
    assert seen["outcomes"] == ["completed"]
    assert len(ledger.lines()) == served

    shown = do("show", "r", *there)
    assert shown.exit_code == 3
    assert "run r · waiting" in shown.stdout
    assert "paused (the shop moves): go on?\n    durable-nb unpause r --store" in shown.stdout
    assert do("pause", "r", *there).exit_code == 1
    assert do("unpause", "r", "--reason", "moved", *there).exit_code == 0

    seen = bench.run(program).ok().facts
    assert "stopped" not in seen
    assert seen["done"] == COUNT
    assert [what for what, _ in ledger.lines()] == [f"customer {n}" for n in range(COUNT)]
    assert do("show", "r", *there).exit_code == 0
