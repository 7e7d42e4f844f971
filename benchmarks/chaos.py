"""A fleet whose workers, kernels and database die all the time, and a person who settles doubts.

Workers are real processes on a real PostgreSQL server; each operation asks a ledger outside, which
counts every request and every effect. Workers and kernels are killed, one worker stands still for
longer than its lease in the middle of an external effect, the database is restarted twice, and
somebody wants a run by hand that a worker has just begun. A person looks into the ledger and
confirms or denies what is unknown.

At the end every run is finished or waits for a person, no effect has happened twice unless a denial
allowed it, none is lost, and what the stopped worker commits late is refused. Exits 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.fleet.chaos import Came, Chaos, harmed
from benchmarks.fleet.harm import Harms
from benchmarks.running import to_stderr
from benchmarks.server import cluster


def main() -> int:
    """Harm a fleet, and tell what came of it."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--workers", type=int, default=4, help="default: %(default)s")
    made.add_argument("--slots", type=int, default=3, help="of each; default: %(default)s")
    made.add_argument("--runs", type=int, default=40, help="default: %(default)s")
    made.add_argument("--operations", type=int, default=25, help="of each; default: %(default)s")
    made.add_argument("--kills", type=int, default=8, help="of workers; default: %(default)s")
    made.add_argument("--kernels", type=int, default=16, help="killed; default: %(default)s")
    made.add_argument("--seed", type=int, default=None, help="of what comes when; default: any")
    made.add_argument("--json", action="store_true", help="one JSON document on stdout")
    asked = made.parse_args()
    seed = random.SystemRandom().randrange(10_000) if asked.seed is None else asked.seed
    harms = Harms(asked.kills, asked.kernels)
    chaos = Chaos(asked.workers, asked.runs, asked.operations, harms, seed, asked.slots)
    with tempfile.TemporaryDirectory(prefix="dnb-chaos-") as at, cluster() as server:
        os.environ["XDG_DATA_HOME"] = str(Path(at) / "data")  # a key of its own
        came = harmed(chaos, server.new_database("chaos"), Path(at), to_stderr)
    _tell(came, as_json=asked.json)
    return int(bool(came.found.broken))


def _tell(came: Came, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**came.as_rows(), "broken": came.found.broken}, indent=2))
        return
    table = Table("what", "", title="A harmed fleet")
    for heading, said in came.as_rows().items():
        table.add_row(heading, str(said))
    console = Console()
    console.print(table)
    for line in came.found.broken:
        console.print(f"BROKEN: {line}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
