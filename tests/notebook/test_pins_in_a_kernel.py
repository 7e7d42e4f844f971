"""Pinned loops in real kernels: cells that are executed again, durable cells, and a kill."""

from pathlib import Path

import pytest
from kernels import LOAD, kernel, lines

pytestmark = pytest.mark.slow  # each starts two kernels

OPEN = "import durable_nb as dnb\nrun = dnb.open_run('job')"
ACT = """
import os, signal

def act(n, stop):
    with open({ledger!r}, "a") as file:
        file.write(f"{{n}}\\n")
    return n
"""
LOOP = """
async def agent(stop):
    with run.pinned("turns", 0) as loop:
        print("from", loop.turn)
        while loop.state < stop:
            run.step("act", inputs={}).call(act, loop.state, stop)
            loop.pin(loop.state + 1)

await agent(STOP)
"""


@pytest.mark.parametrize("magic", ["", "%%durable whole\n"])
def test_a_loop_goes_on_at_its_last_pin_in_the_same_kernel_and_in_the_next(
    tmp_path: Path, magic: str
) -> None:
    """Executing its cell again, also after a kill, does no turn twice; in a durable cell as well."""
    ledger = tmp_path / "effect.log"
    act = ACT.format(ledger=str(ledger))
    loop = f"{magic}{LOOP}"
    with kernel(tmp_path, LOAD, OPEN, act) as one:
        first = one.run(
            loop.replace("STOP", "3") + "\nraise KeyError('stop')", cell_id="c", check=False
        )
        assert "from 0" in first.all
        again = one.run(
            loop.replace("STOP", "4") + "\nraise KeyError('stop')", cell_id="c", check=False
        )
        assert "from 3" in again.all
        one.kill()
    with kernel(tmp_path, LOAD, OPEN, act) as two:
        shown = two.run(loop.replace("STOP", "6"), cell_id="c")
        assert "from 4" in shown.all
    assert lines(ledger) == [str(n) for n in range(6)]
