"""What dead workers have left: found by all, taken once."""

from __future__ import annotations

import psycopg
import pytest
from support.fleet import LEASE_S, Yard

import durable_nb as dnb
from durable_nb.engine.supervised import PLAN, Plan
from durable_nb.fleet.notebooks import submit
from durable_nb.fleet.queue import prepare_queue, put
from durable_nb.fleet.turns import signed
from durable_nb.journal.postgres import Server, prepare
from durable_nb.journal.postgres.fleet import FleetTable

pytestmark = pytest.mark.slow

ORPHANS = 200

#: As a worker leaves them that was killed.
_BEGIN = """
WITH dead AS (
    INSERT INTO durable_nb_queue.procrastinate_workers (last_heartbeat)
    VALUES (now() - interval '1 hour') RETURNING id
)
UPDATE durable_nb_queue.procrastinate_jobs SET status = 'doing', worker_id = dead.id FROM dead
"""


def test_two_workers_that_race_for_200_orphans_take_each_once(yard: Yard, monkeypatch):
    """Each is queued again once, and has one more turn; no kernel owns a run twice."""
    server = Server(yard.store, lease_s=LEASE_S)
    prepare(server)
    prepare_queue(server)
    submitted = submit(yard.notebook("pass"), {})
    names = [f"r{n:03}" for n in range(ORPHANS)]
    table = FleetTable(server)
    monkeypatch.setenv(PLAN, str(yard.folder / "plan.json"))
    for name in names:
        Plan(name, submitted.as_json()).save(yard.folder / "plan.json")
        with dnb.open_run(name, store=yard.store) as run:
            run.finish()
        document = {**submitted.as_json(), "needs": {"packages": {}, "files": {}}}
        table.add(name, signed(name, document))
        assert table.begin(name, "a dead worker") is not None
        put(server, name)
    with psycopg.connect(yard.store, autocommit=True) as con:
        con.execute("SET search_path = durable_nb_queue")
        con.execute(_BEGIN)
        epochs = dict(
            con.execute(
                "SELECT name, epoch FROM durable_nb.runs JOIN durable_nb.leases USING (run)"
            ).fetchall()
        )
    assert {row["state"] for row in yard.fleet().values()} == {"orphaned"}

    workers = [yard.worker("--slots", 4) for _ in range(2)]
    yard.until(lambda rows: all(row["state"] == "finished" for row in rows.values()), 240)

    queued = [
        line for worker in workers for line in worker.said.splitlines() if "queued again" in line
    ]
    assert sorted(line.partition(":")[0] for line in queued) == names
    with psycopg.connect(yard.store, autocommit=True) as con:
        turns = con.execute("SELECT name, turn FROM durable_nb.fleet ORDER BY name").fetchall()
        now = dict(
            con.execute(
                "SELECT name, epoch FROM durable_nb.runs JOIN durable_nb.leases USING (run)"
            ).fetchall()
        )
    assert turns == [(name, 3) for name in names]  # the dead one's, taken from it, and the last
    assert len({now[name] - epochs[name] for name in names}) == 1  # each was looked at as often


def test_a_job_whose_answer_was_lost_is_given_back(yard: Yard, happen: str):
    """The queue says that this worker does it, and this worker has never heard of it."""
    worker = yard.worker()
    yard.until(lambda rows: _workers(yard) != [])
    (number,) = _workers(yard)
    table = FleetTable(Server(yard.store))
    submitted = submit(yard.notebook(happen, "happen('done')"), {})
    document = {**submitted.as_json(), "needs": {"packages": {}, "files": {}}}
    table.add("r", signed("r", document))
    with psycopg.connect(yard.store, autocommit=True) as con:
        con.execute("SET search_path = durable_nb_queue")
        con.execute(
            "INSERT INTO procrastinate_jobs"
            " (queue_name, task_name, lock, queueing_lock, args, status, worker_id)"
            " VALUES ('durable_nb', 'durable_nb.turn', 'r', 'r', '{\"run\": \"r\"}', 'doing', %s)",
            [number],
        )

    yard.until(lambda rows: rows["r"]["state"] == "finished")

    assert yard.effects() == ["done"]
    assert worker.process.poll() is None


def test_a_run_whose_submitter_was_killed_before_it_queued_it_is_queued(yard: Yard, happen: str):
    """The row is there; any worker sees that nothing is in the queue for it."""
    yard.submit(yard.notebook(happen, "happen('done')"))
    with psycopg.connect(yard.store, autocommit=True) as con:
        con.execute("SET search_path = durable_nb_queue")
        con.execute("DELETE FROM durable_nb_queue.procrastinate_jobs")

    yard.worker()
    yard.until(lambda rows: rows["r"]["state"] == "finished")

    assert yard.effects() == ["done"]


def test_a_notebook_that_somebody_else_has_put_there_is_not_executed(yard: Yard, happen: str):
    """Whoever can write to the database is not yet this worker's user."""
    yard.submit(yard.notebook(happen, "happen('mine')"))
    with psycopg.connect(yard.store, autocommit=True) as con:
        con.execute(
            "UPDATE durable_nb.fleet SET submitted ="
            " replace(submitted::text, '(''mine'')', '(''theirs'')')::jsonb"
        )

    assert yard.worker("--once").ended() == 0

    row = yard.fleet()["r"]
    assert row["state"] == "parked"
    assert "not submitted with the key of this worker's user" in row["why"]
    assert yard.effects() == []
    code, _, err = yard.do("submit", "--run", "r")
    assert (code, "its notebook was not submitted by you" in err) == (1, True)


def _workers(yard: Yard) -> list[int]:
    with psycopg.connect(yard.store) as con:
        try:
            rows = con.execute("SELECT id FROM durable_nb_queue.procrastinate_workers").fetchall()
        except psycopg.errors.UndefinedTable:
            return []
    return [number for (number,) in rows]
