"""What a step costs, beside a bare write and other engines.

Each engine runs in a process of its own; rounds alternate, and the figure is the median of the
rounds. A step does nothing but give a nested result of about 500 bytes.

append, sqlite, duckdb
    One bare durable write: append and fdatasync; SQLite in WAL mode with synchronous=FULL; a
    DuckDB row, autocommitted, of the same bytes into a file with the same options.
none, idempotent, external
    A step of this package; `external` waits for the disk twice, intent and outcome.
langgraph, dbos
    `@task` with the SQLite saver, durability="sync"; `@DBOS.step` on SQLite. Neither records an
    intent.

With ``--store postgres``, all of it on one PostgreSQL server with its default settings, started for
this in the temporary folder:

psycopg
    One bare row of the same bytes, committed.
none, idempotent, external
    A step of this package, its run in a database of that server.
dbos
    `@DBOS.step`, its system database on that server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Final

from benchmarks.running import Row, in_folder, interleaved, parser, tell, to_stderr
from benchmarks.server import cluster

#: (name, engine, task), by where things are kept
_MEASURED: Final = {
    "files": (
        ("append", "files", "append"),
        ("sqlite", "files", "sqlite"),
        ("duckdb", "files", "duckdb"),
        ("none", "ours", "none"),
        ("idempotent", "ours", "idempotent"),
        ("external", "ours", "external"),
        ("langgraph", "langgraph", "none"),
        ("dbos", "dbos", "none"),
    ),
    "postgres": (
        ("psycopg", "files", "postgres"),
        ("none", "ours", "none"),
        ("idempotent", "ours", "idempotent"),
        ("external", "ours", "external"),
        ("dbos", "dbos", "none"),
    ),
}

#: (ours, theirs, at most)
_TARGETS: Final = {
    "files": (
        ("none", "duckdb", 1.1),
        ("idempotent", "duckdb", 1.1),
        ("external", "duckdb", 2.0),
        ("none", "langgraph", 0.85),
        ("idempotent", "langgraph", 0.85),
        ("none", "dbos", 0.4),
        ("idempotent", "dbos", 0.4),
        ("external", "dbos", 0.75),
    ),
    "postgres": (("none", "dbos", 0.5), ("idempotent", "dbos", 0.5), ("external", "dbos", 0.9)),
}

_TITLES: Final = {
    "files": "Overhead of a step",
    "postgres": "Overhead of a step in PostgreSQL",
}

_MEANS: Final = {
    "append": "the least that durability can cost on this disk",
    "sqlite": "a row in SQLite",
    "duckdb": "a row in DuckDB: what ours is measured against",
    "psycopg": "a row in PostgreSQL, without a step",
    "none": "a step without effect: its intent rides with its outcome, one commit",
    "idempotent": "a step that is harmless to repeat: the same",
    "external": "a step with an effect: intent on disk before it, outcome after it, two commits",
    "langgraph": "no intent is recorded: an effect is repeated after a kill",
    "dbos": "no intent is recorded: an effect is repeated after a kill",
}


def main() -> int:
    """Measure and tell."""
    made = parser(__doc__, number=2_000)
    made.add_argument(
        "--store", choices=list(_MEASURED), default="files", help="default: %(default)s"
    )
    asked = made.parse_args()
    if asked.store == "files":
        return _measured(asked, lambda: "")
    with cluster() as server:
        return _measured(asked, lambda: server.new_database("bench"), also=server.version)


def _measured(asked: argparse.Namespace, new_store: Callable[[], str], *, also: str = "") -> int:
    measures = {
        name: lambda engine=engine, task=task: float(
            in_folder(engine, task, asked.n, asked.folder, store=new_store())["step_us"]
        )
        for name, engine, task in _MEASURED[asked.store]
    }
    found = interleaved(measures, asked.rounds, to_stderr)
    rows = [Row(name, value, "µs", means=_MEANS[name]) for name, value in found.items()]
    rows += [
        Row(f"{ours} : {theirs}", found[ours] / found[theirs], "x", f"<= {limit}")
        for ours, theirs, limit in _TARGETS[asked.store]
        if theirs in found
    ]
    return tell(_TITLES[asked.store], rows, asked, also=also)


if __name__ == "__main__":
    sys.exit(main())
