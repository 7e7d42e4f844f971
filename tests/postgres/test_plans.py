"""What the server does for one run does not grow with the number of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support.keeping import key_of
from support.postgres import Cluster, connected

import durable_nb as dnb
from durable_nb.journal.postgres import Server, prepare
from durable_nb.journal.postgres.sessions import look_at, looks
from durable_nb.journal.sql import queries

#: Tables whose rows are of runs.
_TABLES = ("runs", "records", "leases", "heartbeats", "artifacts", "artifact_parts")
_TABLES += ("messages", "mirrors")
#: What reads a table; a bitmap's rows are those of the index below it.
_SCANS = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}
#: Statements that are about all runs.
_OF_ALL = {"runs", "holders", "mirror_stamps"}
_OF_ONE = sorted(
    name
    for name, text in queries("postgres").items()
    if name not in _OF_ALL
    and not name.startswith("migration_")
    and any(f"durable_nb.{table}" in text for table in _TABLES)
)
_FILLING = """
INSERT INTO durable_nb.runs (name) SELECT 'r' || n FROM generate_series(1, 2000) n;
INSERT INTO durable_nb.leases SELECT run, 1, '{}', now(), now() FROM durable_nb.runs;
INSERT INTO durable_nb.heartbeats (run, epoch) SELECT run, 1 FROM durable_nb.runs;
INSERT INTO durable_nb.records SELECT run, n, 'op', 'completed', n, 1, '{}', '\\x00'
  FROM durable_nb.runs, generate_series(1, 20) n;
INSERT INTO durable_nb.artifacts SELECT run, 'a' || n, 3, 1 FROM durable_nb.runs, generate_series(1, 3) n;
INSERT INTO durable_nb.artifact_parts SELECT run, sha256, 0, 'abc' FROM durable_nb.artifacts;
INSERT INTO durable_nb.messages (run, id, body) SELECT run, 'm' || n, '{}'
  FROM durable_nb.runs, generate_series(1, 3) n;
INSERT INTO durable_nb.mirrors SELECT run, 'operations.parquet', 'abc', 1, 20 FROM durable_nb.runs;
VACUUM ANALYZE
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """Give a session on a store of 2,000 runs, which the server has analysed."""
    url = cluster.new_database()
    prepare(Server(url))
    with connected(url, prepare_threshold=None) as con:
        for statement in _FILLING.split(";\n"):
            con.execute(statement)  # type: ignore[call-overload]
        yield con


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _read_whole(con: psycopg.Connection[Any], name: str) -> set[str]:
    """Name the tables that a statement reads from end to end, whatever it is given."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)[sb]", number, queries("postgres")[name]).replace("%%", "%")
    con.execute(f"PREPARE asked AS {text}")  # type: ignore[call-overload]
    try:
        nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
        row = con.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked{nulls}").fetchone()  # type: ignore[call-overload]
    finally:
        con.execute("DEALLOCATE asked", prepare=False)
    (explained,) = row[0] if not isinstance(row[0], str) else json.loads(row[0])
    scans = [n for n in _nodes(explained["Plan"]) if n["Node Type"] in _SCANS]
    return {n.get("Relation Name") for n in scans if "Index Cond" not in n} & set(_TABLES)


@pytest.mark.parametrize("name", _OF_ONE)
def test_a_statement_about_one_run_reads_no_other(filled, name):
    """Also by the plan that the server makes for whatever run, which it keeps for a session."""
    filled.execute("SET plan_cache_mode = force_generic_plan")
    assert _read_whole(filled, name) == set()


def test_a_statement_about_all_runs_is_seen_to_read_them(filled):
    """The test before this one can fail."""
    filled.execute("SET plan_cache_mode = force_generic_plan")
    assert "mirrors" in _read_whole(filled, "mirror_stamps")


def _questions(url: str, trace: Path) -> int:
    """Count what a listing asks the server, by what goes over the wire."""
    dnb.runs(url)  # brings the mirrors here
    con = look_at(Server(url))._session.connected()
    with trace.open("wb") as file:
        con.pgconn.trace(file.fileno())
        dnb.runs(url)
        con.pgconn.untrace()
    return sum("\tSync" in line for line in trace.read_text().splitlines())


def test_a_listing_asks_as_often_whatever_the_number_of_runs(cluster, tmp_path, monkeypatch):
    """On another machine each question is a way there and back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url, asked = cluster.new_database(), []
    for number in (2, 8):
        for n in range(number):
            dnb.open_run(f"r{n}", store=url).close()
        asked.append(_questions(url, tmp_path / f"trace-{number}"))
    for look in looks():
        look.close()
    assert asked[0] == asked[1] > 0
    assert key_of(url, "r7")
