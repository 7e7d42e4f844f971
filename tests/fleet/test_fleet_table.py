"""The table of the fleet: whose turn it is, and what is called back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from support.desk import REPOSITORY

import durable_nb as dnb
from durable_nb.fleet.queue import prepare_queue, put
from durable_nb.journal.postgres import Server, prepare
from durable_nb.journal.postgres.errors import StoreRefused
from durable_nb.journal.postgres.fleet import FleetState, FleetTable

#: Rows of the queue, as procrastinate keeps them.
JOBS = "SELECT queueing_lock, status::text FROM durable_nb_queue.procrastinate_jobs ORDER BY id"


@pytest.fixture
def server(cluster) -> Server:
    """A database that nobody has used."""
    return Server(cluster.new_database(), lease_s=5)


@pytest.fixture
def table(server: Server) -> Iterator[FleetTable]:
    prepare(server)
    prepare_queue(server)
    with closing(FleetTable(server)) as made:
        yield made


def _sql(server: Server, text: str, *given: Any) -> list[Any]:
    with psycopg.connect(server.url, autocommit=True) as con:
        done = con.execute(text, given)  # type: ignore[call-overload]
        return done.fetchall() if done.description else []


def _age(server: Server, name: str, seconds: float) -> None:
    _sql(
        server,
        "UPDATE durable_nb.fleet SET since = since - make_interval(secs => %s) WHERE name = %s",
        seconds,
        name,
    )


def test_whoever_was_succeeded_changes_nothing_any_more(table: FleetTable):
    """A worker that stood still, and comes back after another one has the run."""
    table.add("r", {"text": ""})
    stale = table.begin("r", "first")
    assert stale is not None
    table.orphaned("r", "gone")
    current = table.begin("r", "second")
    assert current is not None

    table.put_down(stale, FleetState.FINISHED)

    (row,) = table.roster(every=True)
    assert (row.state, current.number) == (FleetState.ORPHANED, stale.number + 2)
    table.put_down(current, FleetState.PARKED, "no")
    (row,) = table.roster(every=False)
    assert (row.state, row.why) == (FleetState.PARKED, "no")
    assert table.begin("r", "third") is None


def test_a_run_at_work_is_not_given_out_again_by_a_person_with_an_old_list(table: FleetTable):
    """Nor is its notebook changed under a worker."""
    table.add("r", {"text": "old"})
    table.begin("r", "first")
    assert not table.again("r", {"text": "new"})
    known = table.known("r")
    assert known is not None
    assert (known.state, known.worker, known.submitted) == ("working", "first", {"text": "old"})


@pytest.mark.parametrize(
    ("state", "due_s", "is_called"),
    [
        ("waiting", 0.0, True),
        ("waiting", 3600.0, False),
        ("waiting", None, False),
        ("person needed", None, False),
        ("parked", 0.0, False),
        ("finished", 0.0, False),
        ("queued", None, True),
    ],
)
def test_what_is_put_down_is_called_back_when_it_is_due(table, server, state, due_s, is_called):
    """What should be queued and is not was to be put there by somebody who was killed."""
    table.add("r", {})
    turn = table.begin("r", "w")
    table.put_down(turn, FleetState(state), due_s=due_s)
    _age(server, "r", 60)
    assert table.idle() == (["r"] if is_called else [])
    put(server, "r")
    assert table.idle() == []


def test_a_run_that_was_only_just_added_is_left_to_whoever_adds_it(table, server):
    """It puts it into the queue in a moment."""
    table.add("r", {})
    assert table.idle() == []
    _age(server, "r", 60)
    assert table.idle() == ["r"]


def test_whatever_is_new_on_record_calls_a_waiting_run_back(table: FleetTable, server: Server):
    """A verdict, a signal, or a message that nobody has read yet."""
    with dnb.open_run("r", store=server.url) as run:
        run.step("one", effect="none").call(lambda: 1)
        seq = run.fold.last_seq + 1  # closing it is a record as well
    table.add("r", {})
    turn = table.begin("r", "w")
    assert turn is not None
    table.put_down(turn, FleetState.PERSON_NEEDED, seq=seq)
    assert table.idle() == []
    _sql(
        server,
        "INSERT INTO durable_nb.messages (run, id, body) SELECT run, 'm', '' FROM durable_nb.runs",
    )
    assert table.idle() == ["r"]
    _sql(server, "DELETE FROM durable_nb.messages")
    assert table.idle() == []
    with dnb.open_run("r", store=server.url) as run:
        run.step("two", effect="none").call(lambda: 2)
    assert table.idle() == ["r"]


def _looked(table: FleetTable) -> list[str]:
    with table.looking() as names:
        return names


@pytest.fixture
def settled(table: FleetTable, server: Server) -> FleetTable:
    """A table with a run that was put down an hour ago, and looked at since."""
    with dnb.open_run("r", store=server.url) as run:
        seq = run.fold.last_seq + 1
    table.add("r", {})
    turn = table.begin("r", "w")
    assert turn is not None
    table.put_down(turn, FleetState.WAITING, seq=seq)
    _age(server, "r", 3600)
    _sql(
        server,
        "UPDATE durable_nb.leases SET taken = taken - interval '1 hour',"
        " released = released - interval '1 hour'",
    )
    _sql(
        server, "UPDATE durable_nb.fleet_looks SET looked = now() - interval '10 s', whole = now()"
    )
    return table


def test_a_look_begins_where_the_last_one_did_and_finds_what_was_touched(settled, server):
    """What waits untouched is not even looked at; whoever looks next sees nothing twice."""
    assert _looked(settled) == []
    _look_again(server)
    with dnb.open_run("r", store=server.url) as run:
        run.step("new", effect="none").call(lambda: 1)
    assert _looked(settled) == ["r"]
    assert _looked(settled) == []  # only just looked
    _sql(
        server,
        "UPDATE durable_nb.leases SET taken = taken - interval '1 hour',"
        " released = released - interval '1 hour'",
    )
    _look_again(server)
    assert _looked(settled) == []  # untouched since
    _sql(server, "UPDATE durable_nb.fleet_looks SET whole = now() - interval '1 hour'")
    _look_again(server)
    assert _looked(settled) == ["r"]  # by a look at all


@pytest.mark.parametrize("how", ["message", "due", "put down"])
def test_whatever_calls_a_run_back_is_seen_as_a_touch(settled, server, how):
    """A message, its time, or the end of a turn that came after what it had judged."""
    if how == "message":
        _sql(
            server,
            "INSERT INTO durable_nb.messages (run, id, body)"
            " SELECT run, 'm', '' FROM durable_nb.runs",
        )
    elif how == "due":
        _sql(server, "UPDATE durable_nb.fleet SET due = now()")
    else:
        _sql(server, "UPDATE durable_nb.fleet SET since = now(), seq = 0")
    assert _looked(settled) == ["r"]


def test_one_that_is_killed_in_the_middle_of_a_look_leaves_it_to_the_next(settled, server):
    """Nothing counts as looked at before it is in the queue; and two never look at once."""
    _sql(server, "UPDATE durable_nb.fleet SET due = now()")
    with closing(FleetTable(server)) as other:
        with pytest.raises(KeyboardInterrupt), settled.looking() as names:
            assert names == ["r"]
            assert _looked(other) == []
            raise KeyboardInterrupt
        assert _looked(other) == ["r"]


def test_one_that_stands_still_in_the_middle_of_a_look_keeps_others_from_it_for_a_lease(
    settled, server
):
    """Nothing that it holds outlives that, not even while its session does."""
    _sql(server, "UPDATE durable_nb.fleet SET due = now()")
    with closing(FleetTable(server)) as other, settled.looking():
        assert _looked(other) == []
        _sql(server, "UPDATE durable_nb.fleet_looks SET busy = busy - interval '5 s'")
        assert _looked(other) == ["r"]


def _look_again(server: Server) -> None:
    _sql(server, "UPDATE durable_nb.fleet_looks SET looked = looked - interval '10 s'")


def test_the_queue_is_made_once_by_whoever_comes_first(server: Server):
    """Eight at the same time; and a second time there is nothing to do."""
    prepare(server)
    problems: list[BaseException] = []

    def make() -> None:
        try:
            prepare_queue(server)
            put(server, "r")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert _sql(server, JOBS) == [("r", "todo")]


def test_scripts_of_a_newer_procrastinate_are_done_once(server: Server, monkeypatch, tmp_path):
    """Those that were done are on record; the others follow in their order."""
    prepare(server)
    prepare_queue(server)
    from procrastinate.schema import SchemaManager

    for old in os.listdir(SchemaManager.get_migrations_path()):
        (tmp_path / old).write_text("SELECT 1 / 0")
    (tmp_path / "99.00.00_01_pre.sql").write_text("CREATE TABLE later (n int)")
    (tmp_path / "99.00.00_50_post.sql").write_text("INSERT INTO later VALUES (1)")
    monkeypatch.setattr(SchemaManager, "get_migrations_path", staticmethod(lambda: str(tmp_path)))

    prepare_queue(server)
    prepare_queue(server)

    assert _sql(server, "SELECT n FROM durable_nb_queue.later") == [(1,)]


def test_without_the_right_to_make_the_queue_nothing_is_made(server: Server):
    """The refusal names the right."""
    prepare(server)
    _sql(server, "CREATE ROLE guest LOGIN")
    try:
        url = server.url.replace("postgresql://postgres@", "postgresql://guest@")
        with pytest.raises(StoreRefused, match="permission denied for database"):
            prepare_queue(Server(url))
        assert _sql(server, "SELECT to_regnamespace('durable_nb_queue')") == [(None,)]
    finally:
        _sql(server, "DROP OWNED BY guest; DROP ROLE guest")


def test_a_lease_that_is_no_number_is_refused():
    """Before anything is opened, with what to set."""
    code = "import durable_nb as dnb; dnb.submit(None, 'r', store='postgresql://u@127.0.0.1:1/d')"
    for said in ("soon", "0", "nan", "inf"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            env=os.environ | {"DURABLE_LEASE_S": said, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        assert f"DURABLE_LEASE_S is '{said}', and has to be a number of seconds" in done.stderr
