"""How fast a killed run is resumed.

A process journals steps and is killed with SIGKILL (of a large run it executes 100, and the other
records are written in bulk as these steps would have left them). Another one opens the run, runs
the same program again, whose steps give what is recorded (inputs digested and compared, the nested
result of about 500 bytes decoded), and does one new step.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.running import Missing, Row, interleaved, parser, program, tell, to_stderr


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, number=2_000, rounds=3)
    made.add_argument("--large", type=int, default=100_000, help="default: %(default)s; 0: without")
    asked = made.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as base:
        return _measure(Path(base), asked)


def _measure(base: Path, asked: Any) -> int:
    def killed(engine: str, number: int) -> float:
        with tempfile.TemporaryDirectory(dir=base) as folder:
            program(engine, "killed", Path(folder), number)
            return float(program(engine, "resumed", Path(folder), number)["step_us"])

    measures = {
        engine: lambda engine=engine: killed(engine, asked.n)
        for engine in ("ours", "langgraph", "dbos")
    }
    found = interleaved(measures, asked.rounds, to_stderr)
    ours = found["ours"]
    rows = [
        Row("replay", 1e6 / ours, "steps/s", ">= 30,000", f"{asked.n} steps, one after the other")
    ]
    rows += [
        Row(f"replay : {other}", found[other] / ours, "x", ">= 6")
        for other in ("langgraph", "dbos")
        if other in found
    ]
    if asked.large:
        folder = base / "large"
        folder.mkdir()
        to_stderr(f"writing the records of {asked.large:,} steps")
        program("ours", "killed", folder, asked.large)
        opened = program("ours", "opened", folder, asked.large)
        again = program("ours", "resumed", folder, asked.large)
        means = "from opening to the end of its first new step"
        rows += [
            Row(f"open, {asked.large:,} operations", opened["first_new_s"], "s", "<= 1.0", means),
            Row("memory for that", opened["more_mb"], "MB", "<= 120", "over an idle import"),
            Row(f"replay of {asked.large:,}", 1e6 / again["step_us"], "steps/s", "", "read again"),
        ]
    return tell("Replay of a killed run", rows, asked)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Missing as why:
        sys.exit(str(why))
