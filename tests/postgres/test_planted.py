"""Forks that are made in a database: whole or not at all, whatever happens in the middle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Bench
from support.postgres import Cluster, Proxy, connected
from support.waiting import eventually

import durable_nb as dnb
from durable_nb.journal import store_of
from durable_nb.journal.postgres.sessions import looks
from durable_nb.model.errors import VerdictRefused

PASSWORD = "hunter2hunter2"

#: All that a run has in the tables, but for what it says to its owner and its mirror.
TABLES = ("runs", "leases", "heartbeats", "records", "artifacts", "artifact_parts")


#: Keeps what is sent to owners: they remove it.
SPY = """
CREATE TABLE spied (body BYTEA);
CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO public.spied VALUES (NEW.body); RETURN NEW; END $$;
CREATE TRIGGER spying AFTER INSERT ON durable_nb.messages FOR EACH ROW EXECUTE FUNCTION spy();
"""


@pytest.fixture
def url(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of a new store with a run in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = cluster.new_database()
    with dnb.run("r", store=made) as run:
        run.step("plan", effect="none").call(lambda: "x" * 100_000)
        run.step("x-marks").call(lambda: 1)
    yield made
    for look in looks():
        look.close()


def by_proxy(proxy: Proxy, url: str) -> str:
    return proxy.url(url.partition("@/")[2].partition("?")[0])


def counted(url: str) -> dict[str, int]:
    """Count all rows."""
    with connected(url) as con:
        found = {}
        for table in TABLES:
            row = con.execute(f"SELECT count(*) FROM durable_nb.{table}").fetchone()  # type: ignore[call-overload]
            found[table] = row[0]
        return found


def waiting(url: str) -> int:
    """Count the sessions that wait for a lock."""
    with connected(url) as con:
        row = con.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])


DIE_AT = """
from durable_nb.journal.postgres import sessions

run_it, (url, at) = sessions.Session.run, more

def run(self, name, *given, **more):
    if name == at and "plant" in self._purpose:
        die()
    return run_it(self, name, *given, **more)

sessions.Session.run = run
dnb.watch("r", store=url).fork("s")
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["copy_artifact", "plant_records", "name_run", "commit"])
def test_a_kill_in_the_middle_of_forking_leaves_nothing(url: str, tmp_path: Path, at: str):
    """Not a row, and the name is free."""
    before = counted(url)
    assert Bench(tmp_path).run(DIE_AT, url, at).killed
    eventually(lambda: counted(url) == before)
    assert dnb.watch("r", store=url).fork("s").operations == ("plan#1", "x-marks#1")
    assert store_of(url).names() == ["r", "s"]


@pytest.mark.parametrize("landed", [True, False])
def test_a_fork_whose_answer_is_lost_is_made_once(url: str, proxy: Proxy, landed: bool):
    """Sent again, it finds itself there, or makes itself."""
    other = store_of(by_proxy(proxy, url))
    if landed:
        proxy.ends, proxy.cut_answer = b"COMMIT\0", 0
    else:
        proxy.cut_request = True
    before = counted(url)
    done = dnb.watch("r", store=url).fork("s", store=other)
    assert proxy.cuts == int(landed)
    assert not proxy.cut_request
    assert done.elsewhere == other.shown
    assert {name: n - before[name] for name, n in counted(url).items()} == {
        "runs": 1, "leases": 1, "heartbeats": 1, "artifacts": 1, "artifact_parts": 1,
        "records": len(dnb.watch("s", store=url).records()),
    }  # fmt: skip


@pytest.mark.parametrize("lands", [True, False])
def test_of_two_that_want_a_name_one_gets_it(url: str, lands: bool):
    """The second waits for what the first becomes, and is refused, or has the name."""
    got: list[object] = []

    def fork() -> None:
        try:
            got.append(dnb.watch("r", store=url).fork("s").name)
        except VerdictRefused as refused:
            got.append(refused)

    with connected(url) as con:
        con.execute("BEGIN")
        con.execute("INSERT INTO durable_nb.runs (name) VALUES ('s')")
        thread = threading.Thread(target=fork)
        thread.start()
        eventually(lambda: waiting(url) == 1, 10)
        con.execute("COMMIT" if lands else "ROLLBACK")
        thread.join(20)
    assert [type(found) for found in got] == [VerdictRefused if lands else str]
    assert store_of(url).names() == (["r"] if lands else ["r", "s"])


def test_a_lost_value_of_the_original_is_lost_in_the_fork(url: str):
    """As it is: the fork is made, and says of the value what the original says."""
    with connected(url) as con:
        con.execute("DELETE FROM durable_nb.artifacts")
    dnb.watch("r", store=url).fork("s")
    for name in "rs":
        with dnb.run(name, store=url) as run:
            assert "plan#1" in run.unloadable


def test_a_fork_comes_from_a_folder_with_its_values(url: str, tmp_path: Path):
    """Also where only the new run is in a database; two parts of a value, and what is one."""
    with dnb.run("f", store=tmp_path / "here") as run:
        run.step("plan", effect="none", on_change="keep").call(lambda: b"y" * 9_000_000)
        done = run.fork("s", store=url)
    assert (done.folder, done.elsewhere) == (None, store_of(url).shown)
    with dnb.run("s", store=url) as run:
        plan = run.step("plan", effect="none", on_change="keep")
        assert plan.call(lambda: b"") == b"y" * 9_000_000
        assert not run.copied


HELD = """
with dnb.run("held", store=more[0]) as run:
    run.step("plan", effect="none").call(lambda: 1)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_an_owner_that_forks_into_another_database_is_told_no_password(
    url: str, cluster: Cluster, tmp_path: Path
):
    """Whoever may read this database would read that of the other one: its owner has it itself."""
    other = cluster.new_database().replace("postgres@", f"postgres:{PASSWORD}@")
    with connected(url) as con:
        con.execute(SPY)
        with Bench(tmp_path).start(HELD, url) as child:
            assert "ready" in child.first_line()
            seen = dnb.watch("held", store=url)
            assert seen.fork("s", store=other).elsewhere == store_of(other).shown
            assert seen.fork("t", store=url.replace("postgres@", f"postgres:{PASSWORD}@"))
            child.kill()
        bodies = [bytes(body) for (body,) in con.execute("SELECT body FROM spied").fetchall()]
    assert len([body for body in bodies if b"fork" in body]) == 2
    assert not [body for body in bodies if PASSWORD.encode() in body]
    assert (store_of(url).names(), store_of(other).names()) == (["held", "r", "t"], ["s"])


def test_a_run_that_comes_from_another_database_is_told_from_it(
    url: str, cluster: Cluster, tmp_path: Path
):
    """Also where it has the same number there: whoever goes on with it first says what it is."""
    file = dnb.export_run("r", tmp_path / "r.zip", store=url).file
    other = cluster.new_database()
    dnb.import_run(file, store=other)
    here, there = store_of(url).place("r").identity, store_of(other).place("r").identity
    assert here is not None
    assert there is not None
    assert here[0] == there[0]
    with pytest.raises(dnb.RunCopied, match="another place"):
        dnb.run("r", store=other)
    with dnb.run("r", store=other, adopt="fork") as run:
        assert run.get("plan").result == "x" * 100_000


# -- what nothing names ------------------------------------------------------------------------


def test_what_an_owner_that_was_succeeded_removes_stays(url: str):
    """The successor may have found it there, and named it: the epoch is asked for at the removal."""
    place = store_of(url).place("r")
    artifacts = place.artifacts()
    sha256 = artifacts.put(b"left behind")
    with dnb.run("r", store=url) as run:
        assert not artifacts.remove([sha256], run.epoch - 1)
        assert artifacts.sizes()[sha256] == 11
        assert artifacts.remove([sha256], run.epoch)
        assert sha256 not in artifacts.sizes()
    artifacts.close()


def test_a_removal_waits_for_a_takeover_that_is_under_way(url: str):
    """And then removes nothing."""
    artifacts = store_of(url).place("r").artifacts()
    sha256 = artifacts.put(b"left behind")
    got: list[bool] = []
    with dnb.run("r", store=url) as run, connected(url) as con:
        con.execute("BEGIN")
        con.execute("UPDATE durable_nb.leases SET epoch = epoch + 1")
        thread = threading.Thread(target=lambda: got.append(artifacts.remove([sha256], run.epoch)))
        thread.start()
        eventually(lambda: waiting(url) >= 1 or got, 10)
        con.execute("COMMIT")
        thread.join(20)
        con.execute("UPDATE durable_nb.leases SET epoch = epoch - 1")
    assert got == [False]
    assert sha256 in artifacts.sizes()
    artifacts.close()


def test_gc_says_that_it_was_succeeded(url: str, monkeypatch: pytest.MonkeyPatch):
    """It stops as soon as it is; what it has not removed stays."""
    place = store_of(url).place("r")
    artifacts = place.artifacts()
    sha256 = artifacts.put(b"left behind")

    def tell(text: str) -> None:
        if text.startswith("removing"):
            with connected(url) as con:
                con.execute("UPDATE durable_nb.leases SET epoch = epoch + 1")

    with pytest.raises(BaseException, match="no longer owns run 'r'"):
        dnb.gc("r", delete=True, store=url, tell=tell)
    assert sha256 in artifacts.sizes()
    artifacts.close()
