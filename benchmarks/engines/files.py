"""Bare writes, below which nothing durable can go: a file, SQLite, DuckDB, and PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.engines.program import PAYLOAD, main, store_in

#: The bytes of a record that holds the payload: what a step of ours writes as its outcome.
BODY = json.dumps(
    {
        "result": json.dumps(PAYLOAD, separators=(",", ":")),
        "duration_s": 0.000012,
        "attempt": 1,
    },
    separators=(",", ":"),
).encode()


def _timed(write: Callable[[int], object], number: int) -> Mapping[str, Any]:
    began = time.perf_counter()
    for n in range(number):
        write(n)
    return {"step_us": (time.perf_counter() - began) / number * 1e6}


def append(folder: Path, number: int) -> Mapping[str, Any]:
    """Append to a file and wait for the disk."""
    fd = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(_: int) -> None:
        os.write(fd, BODY)
        getattr(os, "fdatasync", os.fsync)(fd)

    return _timed(write, number)


def sqlite(folder: Path, number: int) -> Mapping[str, Any]:
    """Insert a row in WAL mode with synchronous=FULL, which waits for the disk."""
    con = sqlite3.connect(folder / "log.sqlite", isolation_level=None)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("PRAGMA synchronous=FULL")
    con.execute("CREATE TABLE records (seq, op, kind, ts, epoch, body)")
    row = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)"
    return _timed(lambda n: con.execute(row, (n, "act#1", "completed", n, 1, BODY)), number)


def duckdb_writer(folder: Path) -> Callable[[int], object]:
    """Give what inserts a row of the same bytes into a file with the same options as ours."""
    con = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "512MB"})
    con.execute(f"ATTACH '{folder / 'log.duckdb'}' AS j (BLOCK_SIZE 16384)")
    con.execute(
        "CREATE TABLE j.main.records "
        "(seq BIGINT, op VARCHAR, kind VARCHAR, ts BIGINT, epoch BIGINT, body BLOB)"
    )
    con.execute("CHECKPOINT j")
    row = "INSERT INTO j.main.records VALUES (?, ?, ?, ?, ?, ?)"
    return lambda n: con.execute(row, (n, "act#1", "completed", n, 1, BODY))


def bare_duckdb(folder: Path, number: int) -> Mapping[str, Any]:
    """Insert rows into a DuckDB file, each autocommitted."""
    return _timed(duckdb_writer(folder), number)


def postgres_writer(folder: Path) -> Callable[[int], object]:
    """Give what inserts a row of the same bytes into a table of a server, and commits it."""
    import psycopg

    con = psycopg.connect(str(store_in(folder)), autocommit=True)
    with contextlib.suppress(psycopg.IntegrityError, psycopg.errors.DuplicateTable):
        con.execute(
            "CREATE TABLE records (run BIGINT, seq BIGINT, op TEXT, kind TEXT, ts BIGINT, "
            "epoch BIGINT, body BYTEA, digest BYTEA, PRIMARY KEY (run, seq))"
        )
    row = f"INSERT INTO records VALUES ({os.getpid()}, %s, %s, %s, %s, %s, %b, %b)"
    given = ("act#1", "completed", 1, 1, BODY, bytes(32))
    return lambda n: con.execute(row, (n, *given), prepare=True)


def postgres(folder: Path, number: int) -> Mapping[str, Any]:
    """Insert rows into a table of a server, each autocommitted."""
    return _timed(postgres_writer(folder), number)


if __name__ == "__main__":
    main({"append": append, "sqlite": sqlite, "duckdb": bare_duckdb, "postgres": postgres})
