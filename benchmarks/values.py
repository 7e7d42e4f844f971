"""How long values take to be written and read back.

Rows of the table:

tool result
    `round_trip` of a nested result of about 500 bytes of plain JSON, as most tools give it: its
    text and the value that `decode` makes of that. It is what a live call takes. Target: at most
    60 µs.
tool result, typed
    The same size with a tuple, a set, a Decimal, a date and bytes inside, which JSON has no form
    for: the text is read back, and each of these is compared with what was written. Target: at
    most 60 µs.
..., on replay
    `decode` of that text, which is what a replay takes.
..., read twice
    `encode` of it, then `decode`: the proof is thrown away, and the text is read once more.
frame, ours
    `encode` of a frame of float64 (100 MB unless told otherwise) with artifacts on disk, plus
    `decode`: written, read back, compared with the original, hashed, fsynced, and read again.
frame, pandas
    `to_parquet` plus `read_parquet` of the same frame in the same folder, with pandas' defaults.
frame, speed
    pandas' time divided by ours. Target: at least 0.5, that is at most twice the time.

Every number is a median; ours and pandas' rounds alternate, so that a busy machine slows both.
The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.engines.program import PAYLOAD
from durable_nb import values

#: Columns of the frame; its rows follow from its size.
COLUMNS: Final = 10

PLAIN: Final[Any] = PAYLOAD

TYPED: Final[Any] = {
    "id": "re_1NmwGpLkdIwHu7ix",
    "at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    "total": Decimal("118.75"),
    "range": (1, 5),
    "tags": {"new", "paid"},
    "body": b"\x00\x01\x02",
    "items": [{"sku": f"A-{n:04}", "count": n, "price": n * 1.25} for n in range(4)],
    "customer": {"name": "Zoë Müller", "mail": "zoe@example.org", "note": None},
}


@dataclass(frozen=True)
class Row:
    """One number, and whether it is as good as it should be."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the target is met, or None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


class _NoArtifacts:
    """Small values need none."""

    def put(self, data: bytes) -> str:
        """Refuse."""
        raise AssertionError("a small value asked for an artifact")

    get = put


def _seconds(work: Callable[[], Any]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


_NOWHERE: Final[Any] = _NoArtifacts()


def small(call: Callable[[], Any], rounds: int, calls: int = 500) -> float:
    """Give the microseconds that a call takes."""

    def work() -> None:
        for _ in range(calls):
            call()

    work()
    return statistics.median(_seconds(work) for _ in range(rounds)) / calls * 1e6


def frames(megabytes: int, rounds: int) -> tuple[float, float]:
    """Give the seconds that we and pandas need for a frame, there and back."""
    cells = np.random.default_rng(0).random((megabytes * 10**6 // 8 // COLUMNS, COLUMNS))
    frame = pd.DataFrame(cells, columns=[f"c{n}" for n in range(COLUMNS)])
    ours, theirs = [], []
    for _ in range(rounds + 1):  # the first round warms both up
        with tempfile.TemporaryDirectory() as folder:
            artifacts = values.DiskArtifacts(Path(folder) / "artifacts")
            plain = Path(folder) / "frame.parquet"
            ours.append(_seconds(lambda: values.decode(values.encode(frame, artifacts), artifacts)))  # noqa: B023  # called at once
            theirs.append(_seconds(lambda: (frame.to_parquet(plain), pd.read_parquet(plain))))  # noqa: B023  # the same
            artifacts.close()
    return statistics.median(ours[1:]), statistics.median(theirs[1:])


def measure(rounds: int, megabytes: int) -> list[Row]:
    """Measure every row."""
    plain = small(lambda: values.round_trip(PLAIN, _NOWHERE), rounds)
    typed = small(lambda: values.round_trip(TYPED, _NOWHERE), rounds)
    text = values.encode(TYPED, _NOWHERE)
    replay = small(lambda: values.decode(text, _NOWHERE), rounds)
    twice = small(lambda: values.decode(values.encode(TYPED, _NOWHERE), _NOWHERE), rounds)
    ours, theirs = frames(megabytes, rounds)
    return [
        Row("tool result", plain, "µs", 60.0),
        Row("tool result, typed", typed, "µs", 60.0),
        Row("tool result, typed, on replay", replay, "µs"),
        Row("tool result, typed, read twice", twice, "µs"),
        Row(f"frame, ours ({megabytes} MB)", ours * 1e3, "ms"),
        Row(f"frame, pandas ({megabytes} MB)", theirs * 1e3, "ms"),
        Row("frame, speed", theirs / ours, "x", 0.5, at_most=False),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table("what", "median", "target", "met")
    for column in table.columns[1:3]:
        column.justify = "right"
    for row in rows:
        sign = "≤" if row.at_most else "≥"
        target = "" if row.target is None else f"{sign} {row.target:g} {row.unit}"
        met = {None: "", True: "yes", False: "NO"}[row.met]
        number = f"{row.value:.2f}" if row.unit == "x" else f"{row.value:.0f}"
        table.add_row(row.name, f"{number} {row.unit}", target, met)
    Console().print(table)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.values",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--rounds", type=int, default=7, help="rounds per row (default 7)")
    parser.add_argument("--megabytes", type=int, default=100, help="size of the frame")
    given = parser.parse_args(arguments)
    rows = measure(given.rounds, given.megabytes)
    if given.json:
        print(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=1))
    else:
        show(rows)
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
