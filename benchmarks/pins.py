"""How long a run with a pinned loop takes to open, whatever lies before its last pin.

For each number of turns, a process of its own runs the loop (one external step and one pin a turn)
and kills itself with SIGKILL after the last pin. Then other processes, one after the other, open
copies of that run.

open
    From `dnb.open_run` to its return, median of the processes. The write-ahead file that the kill
    left is replayed in there.
first step after
    From then on to the end of `run.pinned` and of the first new external step in it.
memory for
    How much the resident memory grew from before the opening to after it.
file of, write-ahead file of
    The sizes of the database file and of the write-ahead file that the kill left.

The runs are opened in turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.running import Row, parser, tell

#: The largest run may take this many times the time of the smallest.
LIMIT: Final = 1.2

PROGRAM: Final = """
import gc, os, signal, sys, time
from pathlib import Path
import durable_nb as dnb

store, mode, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])

def act(n):
    return {"n": n, "text": "x" * 200}

def resident():
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0

before, begun = resident(), time.perf_counter()
run = dnb.open_run("r", store=store, adopt="moved")
opened, after = time.perf_counter(), resident()
with run.pinned("turns", {"n": 0}) as loop:
    if mode == "work":
        while loop.state["n"] < turns:
            run.call(act, loop.state["n"])
            loop.pin({"n": loop.state["n"] + 1, "notes": "y" * 200})
        os.kill(os.getpid(), signal.SIGKILL)
    assert loop.state["n"] == loop.turn == turns, loop
    run.call(act, loop.state["n"])
stepped = time.perf_counter()
import json
print(json.dumps({"open": opened - begun, "step": stepped - opened, "memory": after - before}))
"""


def _child(folder: Path, store: Path, mode: str, turns: int) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, str(program), str(store), mode, str(turns)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def measure(turns: list[int], rounds: int, base: Path) -> list[dict[str, Any]]:
    """Make the runs, open each of them several times, and give a row for each."""
    with tempfile.TemporaryDirectory(prefix="pins-", dir=base) as name:
        folder = Path(name)
        seen: dict[int, list[dict[str, float]]] = {n: [] for n in turns}
        for n in turns:
            done = _child(folder, folder / f"made-{n}", "work", n)
            if done.returncode != -signal.SIGKILL:
                raise RuntimeError(
                    f"the run of {n} turns ended with {done.returncode}: {done.stderr}"
                )
        for _ in range(rounds):
            for n in turns:
                store = folder / "copy"
                shutil.copytree(folder / f"made-{n}", store)
                os.sync()  # else the opening's first commit waits for the copy, which is ours
                done = _child(folder, store, "open", n)
                if done.returncode:
                    raise RuntimeError(f"the run of {n} turns was not opened: {done.stderr}")
                seen[n].append(json.loads(done.stdout.splitlines()[-1]))
                shutil.rmtree(store)
        return [_row(n, seen[n], folder / f"made-{n}" / "r" / "journal.duckdb") for n in turns]


def _row(turns: int, seen: list[dict[str, float]], file: Path) -> dict[str, Any]:
    wal = file.with_name(f"{file.name}.wal")
    return {
        "turns": turns,
        "open_ms": round(1e3 * statistics.median(s["open"] for s in seen), 1),
        "first_step_ms": round(1e3 * statistics.median(s["step"] for s in seen), 1),
        "memory_mb": round(statistics.median(s["memory"] for s in seen) / 1e6, 1),
        "wal_kb": wal.stat().st_size // 1024 if wal.exists() else 0,
        "file_kb": file.stat().st_size // 1024,
    }


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, rounds=9)
    made.add_argument("--turns", type=int, nargs="+", default=[100, 1_000, 10_000])
    asked = made.parse_args()
    seen = measure(sorted(asked.turns), asked.rounds, asked.folder)
    rows = [
        Row(f"{said} {of['turns']:,} turns", of[what], unit)
        for of in seen
        for said, what, unit in (
            ("open", "open_ms", "ms"), ("first step after", "first_step_ms", "ms"),
            ("memory for", "memory_mb", "MB"), ("file of", "file_kb", "KB"),
            ("write-ahead file of", "wal_kb", "KB"),
        )
    ]  # fmt: skip
    first, last = seen[0], seen[-1]
    ratio = last["open_ms"] / first["open_ms"]
    what = f"open {last['turns']:,} turns : {first['turns']:,}"
    return tell("Pins", [*rows, Row(what, ratio, "x", f"<= {LIMIT}")], asked)


if __name__ == "__main__":
    sys.exit(main())
