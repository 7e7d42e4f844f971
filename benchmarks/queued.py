"""What the fleet's queue costs, with many runs in it: one part of `benchmarks.scale`.

All runs of a database are given to the fleet in bulk: half of them wait, for a person or a signal,
and half are queued. What is measured are the statements that workers send, as they send them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from benchmarks.running import Row
from benchmarks.server import Cluster

#: Bytes of a notebook as it is submitted: twenty short cells.
_NOTEBOOK: Final = 8_000
_FILL: Final = """
INSERT INTO durable_nb.fleet (name, state, seq, submitted)
SELECT r.name, CASE WHEN mod(r.run, 2) = 0 THEN 'waiting' ELSE 'queued' END, 1000000,
       jsonb_build_object('text', (SELECT string_agg(md5(r.run::text || n), '')
                                     FROM generate_series(1, %(parts)s) n))
  FROM durable_nb.runs r;
SET search_path = durable_nb_queue;
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
SELECT 'durable_nb', 'durable_nb.turn', name, name, jsonb_build_object('run', name)
  FROM durable_nb.fleet WHERE state = 'queued';
VACUUM ANALYZE
"""
_SIZES: Final = """
SELECT pg_total_relation_size('durable_nb.fleet'), (SELECT count(*) FROM durable_nb.fleet),
       pg_total_relation_size('durable_nb_queue.procrastinate_jobs')
       + pg_total_relation_size('durable_nb_queue.procrastinate_events'),
       (SELECT count(*) FROM durable_nb_queue.procrastinate_jobs)
"""
_FETCH: Final = "SELECT id FROM procrastinate_fetch_job_v2(ARRAY['durable_nb'], %(worker)s)"


def measure(server: Cluster, database: str, rounds: int) -> list[Row]:
    """Fill the fleet's tables of a database that has many runs, and ask what workers ask.

    Parameters
    ----------
    server : Cluster
        Where.
    database : str
        Its runs are given to the fleet.
    rounds : int
        How often each statement is timed; the median counts.
    """
    from durable_nb.fleet.queue import prepare_queue
    from durable_nb.journal.postgres import Server, prepare
    from durable_nb.journal.postgres.fleet import FleetTable

    there = Server(server.url(database))
    prepare(there)
    prepare_queue(there)
    with server.connected(database) as con, closing(FleetTable(there)) as table:
        for statement in _FILL.split(";\n"):
            con.execute(statement, {"parts": _NOTEBOOK // 32} if "%(parts)s" in statement else None)
        rows, runs, jobs_bytes, jobs = con.execute(_SIZES).fetchone()
        (worker,) = con.execute(
            "INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id"
        ).fetchone()
        assert table.idle() == []  # all that wait are looked at, and none is called
        whole = _ms(rounds, table.idle)
        (since,) = con.execute("SELECT (now() - interval '2 min')::text").fetchone()
        con.execute("UPDATE durable_nb.fleet SET since = since - interval '1 day'")
        con.execute(
            "UPDATE durable_nb.leases SET taken = taken - interval '1 day',"
            " released = released - interval '1 day'"
        )
        con.execute("VACUUM ANALYZE durable_nb.fleet, durable_nb.leases")
        look = _ms(rounds * 5, lambda: table.idle(since))
        fetch = _ms(rounds * 5, lambda: con.execute(_FETCH, {"worker": worker}).fetchone())
        roster = _ms(1, lambda: table.roster(every=True))
    waiting = runs - jobs
    return [
        Row("a run of the fleet", rows / runs, "bytes", means=f"with a notebook of {_NOTEBOOK:,}"),
        Row("its job", jobs_bytes / jobs, "bytes", means="while it is queued or at work"),
        Row("to take a run", fetch, "ms", means=f"of {jobs:,} that are queued"),
        Row("a look at what has changed", look, "ms", means="one worker of all, every 5 s"),
        Row("a look at all", whole, "ms", means=f"{waiting:,} wait; one worker, every 10 min"),
        Row("listing the fleet", roster, "ms", means=f"{runs:,} runs"),
        Row(
            "a look at all, a million that wait",
            whole / 1e3 * 1_000_000 / waiting,
            "s",
            means=f"{whole:,.0f} ms x 1,000,000 : {waiting:,}",
        ),
    ]


def _ms(times: int, do: Callable[[], Any]) -> float:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        do()
        found.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(found)
