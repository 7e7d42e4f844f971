"""An acknowledged record is on disk: the system calls of a real process are counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = 12

PROGRAM = """
import asyncio, os, sys
import durable_nb as dnb

store, effect, how = sys.argv[1:]
acks = os.open(store + ".acks", os.O_WRONLY | os.O_CREAT)

def act(n):
    return n

async def aact(n):
    return n

with dnb.run("r", store=store) as run:
    os.write(acks, b"ack")
    if how == "call":
        for n in range({steps}):
            run.step("act", effect=effect).call(act, n)
            os.write(acks, b"ack")
    else:
        async def go():
            step = run.step("act", effect=effect)
            await asyncio.gather(*(step.call(aact, n) for n in range({steps})))
            os.write(acks, b"ack")
        asyncio.run(go())
""".replace("{steps}", str(STEPS))

pytestmark = [
    pytest.mark.slow,
    # what counts system calls; CI installs it, and as root nothing may be skipped there
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]


def syncs(folder: Path, effect: str, how: str) -> list[int]:
    """Give how often the journal was brought to the disk before each acknowledgement."""
    program, log = folder / "program.py", folder / "calls.txt"
    program.write_text(PROGRAM)
    words = ["strace", "-f", "-y", "-e", "trace=fdatasync,fsync,write", "-o", str(log)]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [*words, sys.executable, str(program), str(folder / "store"), effect, how],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts, count = [], 0
    for line in log.read_text().splitlines():
        if re.search(r"f(?:data)?sync\(\d+<[^>]*journal\.duckdb\.wal>", line):
            count += 1
        elif re.search(r"write\(\d+<[^>]*store\.acks>", line):
            counts.append(count)
            count = 0
    return counts[1:]  # the first one is of the opening


@pytest.mark.parametrize(("effect", "least"), [("none", 1), ("idempotent", 1), ("external", 2)])
def test_a_step_is_on_disk_before_it_returns(tmp_path, effect, least):
    """Its outcome, and of an external one the intent before its body, each have a sync of their own."""
    counts = syncs(tmp_path, effect, "call")
    assert len(counts) == STEPS
    assert min(counts) >= least, counts


@pytest.mark.parametrize(("effect", "least"), [("none", 1), ("external", 2)])
def test_steps_that_are_awaited_together_share_a_commit(tmp_path, effect, least):
    """Many tasks wait for one sync: at least the ones they need, and far fewer than one each."""
    (count,) = syncs(tmp_path, effect, "gather")
    assert least <= count < STEPS // 2
