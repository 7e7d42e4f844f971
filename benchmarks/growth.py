"""What a long run costs: a step, opening, memory and disk, at more and more records.

A run is filled in bulk with completed operations, two records each, and closed; another process
opens it and does 600 new steps, of which the median counts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.running import Row, parser, program, tell, to_stderr


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, rounds=5)
    made.add_argument("--records", type=int, nargs="+", default=[100, 10_000, 1_000_000])
    asked = made.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as base:
        sizes = sorted(asked.records)
        steps: dict[int, list[float]] = {size: [] for size in sizes}
        opened: dict[int, dict[str, float]] = {}
        disk: dict[int, float] = {}
        for size in sizes:
            folder = Path(base) / str(size)
            folder.mkdir()
            to_stderr(f"filling with {size:,} records")
            disk[size] = float(program("ours", "filled", folder, size)["bytes"])
        for n in range(asked.rounds):
            for size in sizes:
                found = program("ours", "grown", Path(base) / str(size), size)
                steps[size].append(found["step_us"])
                opened.setdefault(size, found)
            to_stderr(f"round {n + 1} of {asked.rounds} done")
        medians = {size: sorted(found)[len(found) // 2] for size, found in steps.items()}
        for size in sizes:
            rows += [
                Row(f"step at {size:,} records", medians[size], "µs"),
                Row(f"open {size:,} records", opened[size]["open_s"], "s"),
                Row(f"memory at {size:,} records", opened[size]["more_mb"], "MB"),
                Row(f"disk an operation at {size:,} records", disk[size], "bytes"),
            ]
        first, last = sizes[0], sizes[-1]
        ratio = medians[last] / medians[first]
        rows.append(Row(f"step at {last:,} : at {first:,}", ratio, "x", "<= 1.1"))
    return tell("Growth", rows, asked)


if __name__ == "__main__":
    sys.exit(main())
