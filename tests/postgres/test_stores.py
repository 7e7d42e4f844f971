"""Addresses, rights and versions: what is refused, in words, and with nothing half-made."""

from __future__ import annotations

import pickle
import threading
import traceback

import pytest
from support.journals import draft, numbers, own
from support.postgres import connected

from durable_nb.journal import OwnerInfo
from durable_nb.journal.postgres import (
    PostgresLease,
    Server,
    StoreForbidden,
    StoreRefused,
    StoreTooNew,
    StoreUnreachable,
    prepare,
    read_records,
)
from durable_nb.journal.postgres.schema import VERSION
from durable_nb.model.errors import RunMissing


def _tables(url: str) -> set[str]:
    with connected(url) as con:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'durable_nb'"
        return {name for (name,) in con.execute(query).fetchall()}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://me:s3cret@127.0.0.1:1/runs", "postgresql://me@127.0.0.1:1/runs"),
        ("postgresql://me:s3cret@no-such-host.invalid/runs", "me@no-such-host.invalid"),
        ("postgresql://me:s3cret@[bad/runs", "no address"),
        ("postgresql://me:s3cret%zz@host/runs", "no address"),
        ("postgresql://me:s3cret@host/runs?nonsense=1", "no address"),
        ("mysql://me:s3cret@host/runs", "no address"),
    ],
)
def test_a_wrong_address_is_told_without_its_password(url, says):
    """What, what it means and what to do; the password is in no text, no traceback and no repr."""
    server = Server(url)
    with pytest.raises(StoreUnreachable, match="cannot be reached") as refused:
        prepare(server)
    assert says in str(refused.value)
    assert "Check the address" in str(refused.value)
    shown = "".join(traceback.format_exception(refused.value)).replace(url, "")
    assert "s3cret" not in f"{shown} {server!r} {refused.value!r}"
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value)


def test_a_database_that_is_not_there_is_named(cluster):
    """Nothing is created in its place."""
    with pytest.raises(StoreUnreachable, match='database "nowhere" does not exist'):
        prepare(Server(cluster.url("nowhere")))


def test_a_user_without_the_right_to_create_is_told_what_to_ask_for(cluster):
    """Nothing is half-made; once the administrator has made the schema, all works without more."""
    url = cluster.new_database()
    database = url.partition("@/")[2].partition("?")[0]
    user = f"u_{database}"
    with connected(url) as con:
        con.execute(f'CREATE ROLE "{user}" LOGIN')
        server = Server(cluster.url(database, user))
        with pytest.raises(StoreForbidden, match="permission denied for database") as refused:
            prepare(server)
        assert f'GRANT CREATE ON DATABASE "{database}" TO "{user}"' in str(refused.value)
        assert _tables(url) == set()

        con.execute(f'CREATE SCHEMA durable_nb AUTHORIZATION "{user}"')
        assert prepare(server) == 0
        owned = own(f"{server.url} r")
        owned.journal.append([draft(1)])
        owned.close()
        assert prepare(server) == VERSION

        # and one who may see it, but not write
        con.execute(f'CREATE ROLE "{user}_2" LOGIN')
        with pytest.raises(StoreForbidden, match="permission denied"):
            prepare(Server(cluster.url(database, f"{user}_2")))


def test_a_newer_store_is_refused_and_left_as_it_is(cluster):
    """Tables of a later version are not touched."""
    url = cluster.new_database()
    prepare(Server(url))
    with connected(url) as con:
        con.execute("INSERT INTO durable_nb.versions (version) VALUES (99)")
        with pytest.raises(StoreTooNew, match="version 99") as refused:
            prepare(Server(url))
        assert (refused.value.found, refused.value.known) == (99, VERSION)
        count = con.execute("SELECT count(*) FROM durable_nb.versions").fetchone()
    assert count == (VERSION + 1,)


def test_an_older_store_is_migrated_and_keeps_its_runs(cluster):
    """A run of the first version has a free lease afterwards, and its records."""
    url = cluster.new_database()
    assert prepare(Server(url), version=1) == 0
    assert "leases" not in _tables(url)
    with connected(url) as con:
        con.execute("INSERT INTO durable_nb.runs (name) VALUES ('old')")
    assert prepare(Server(url)) == 1
    owned = own(f"{url} old")
    owned.journal.append([draft(1)])
    assert numbers(owned) == [1]
    owned.close()


def test_a_migration_that_fails_leaves_nothing_behind(cluster):
    """Each is one transaction: what stood in the way is told by the server, and all is as before."""
    url = cluster.new_database()
    with connected(url) as con:
        con.execute("CREATE SCHEMA durable_nb")
        con.execute("CREATE TABLE durable_nb.records (mine int)")
    with pytest.raises(StoreRefused, match='relation "records" already exists'):
        prepare(Server(url))
    assert _tables(url) == {"records"}


def test_first_starters_that_race_make_the_tables_once(cluster):
    """Six at once: the lock lets one make them, the others find all done."""
    url = cluster.new_database()
    found: list[object] = []
    ready = threading.Barrier(6)

    def first():
        ready.wait()
        try:
            found.append(prepare(Server(url)))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=first) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(isinstance(one, int) for one in found), found
    with connected(url) as con:
        versions = con.execute("SELECT version FROM durable_nb.versions ORDER BY 1").fetchall()
    assert versions == [(n + 1,) for n in range(VERSION)]


def test_runs_that_race_for_their_birth_are_one_run(store, place):
    """Six that open a new name at once: one has it, and there is one row of it."""
    _, _, run = place.partition(" ")
    ready, got = threading.Barrier(6), []

    def begin():
        ready.wait()
        try:
            got.append(PostgresLease.acquire(Server(store), run=run, who=OwnerInfo.here(), wait=0))
        except BaseException as error:
            got.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    leases = [one for one in got if isinstance(one, PostgresLease)]
    assert len(leases) == 1, got
    assert {type(one).__name__ for one in got} == {"PostgresLease", "RunHeld"}
    assert leases[0].epoch == 1
    leases[0].release()


def test_a_row_that_was_changed_is_damage(store, place, opened):
    """The running digest is kept with each row."""
    from durable_nb.model.errors import JournalDamaged

    owned = opened(place)
    owned.journal.append([draft(n) for n in range(3)])
    owned.close()
    with connected(store) as con:
        con.execute(
            "UPDATE durable_nb.records SET body = '{\"n\":7}' WHERE run = %s AND seq = 2",
            [owned.lease.key],
        )
    with pytest.raises(JournalDamaged, match="record 2 is not as it was written"):
        opened(place)


def test_a_long_run_is_resumed_without_making_all_its_records(place, opened):
    """All rows are checked; what can wait is told by place, and read again when it is asked for."""
    from durable_nb.journal.loading import FEW
    from durable_nb.model.outcomes import Kind
    from durable_nb.model.records import Draft

    owned = opened(place)
    intent = {"effect": "none", "attempt": 1, "inputs": ""}
    result = {"result": "1", "duration_s": 0.1, "checkpoint_s": 0.1, "attempt": 1}
    count = FEW // 2 + 10
    owned.journal.append(
        [
            said
            for n in range(count)
            for said in (
                Draft(f"s#{n}", Kind.INTENDED, intent),
                Draft(f"s#{n}", Kind.COMPLETED, result),
            )
        ]
    )
    owned.close()
    again = opened(place, whole=False)
    loaded = again.journal.resume()
    assert loaded.records == []
    assert len(loaded.unfolded.operations.places) == count
    assert [r.body for r in again.journal.read(1, 2)] == [intent, result]
    assert len(again.journal.load()) == 2 * count
    again.close()


def test_records_are_read_without_the_lease(store, place, opened):
    """Others may look while a run is held; of a run that is not there they are told so."""
    _, _, run = place.partition(" ")
    owned = opened(place)
    owned.journal.append([draft(n) for n in range(5)])
    assert [r.body["n"] for r in read_records(Server(store), run, 2, 3)] == [1, 2]
    with pytest.raises(RunMissing):
        read_records(Server(store), "nobody's", 1, 1)


def test_a_session_has_time_outs_below_the_lease_and_commits_for_good(store):
    """None of them is 0, the default; whoever switched durable commits off gets them all the same."""
    with connected(store) as con:
        con.execute("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            ours = Server(store, 5.0).connect("records x")
        finally:
            con.execute("ALTER ROLE postgres RESET synchronous_commit")
    names = "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"
    found = [ours.execute(f"SHOW {name}").fetchone()[0] for name in names]
    assert found == ["2500ms", "1250ms", "2500ms"]
    assert ours.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert ours.execute("SHOW application_name").fetchone() == ("durable_nb records x",)
    ours.close()
