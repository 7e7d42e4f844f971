"""The mirrors of runs in PostgreSQL, and this user's copies of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.postgres import connected

from durable_nb.journal import Mirror, OwnerInfo, store_of
from durable_nb.journal.columns import schema
from durable_nb.journal.postgres.place import PostgresPlace
from durable_nb.journal.postgres.sessions import looks
from durable_nb.journal.segments import Sealed
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Draft


@pytest.fixture
def run(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresPlace]:
    """Give the place of a new run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url, _, name = place.partition(" ")
    yield store_of(url).place(name)  # type: ignore[misc]
    for look in looks():
        look.close()


def _begin(run: PostgresPlace):
    """Hold a run that has one record."""
    lease = run.acquire(OwnerInfo.here())
    journal = lease.open_journal(lambda: datetime.now(UTC), whole=True)
    journal.append([Draft(RUN, Kind.BORN, {"run_id": "1" * 32, "name": run.name})])
    journal.close()
    return lease


def _tell(run: PostgresPlace, status: str, sealed: Sealed | None = None) -> None:
    Mirror(run.view).publish([], {"name": run.name, "status": status, "run_id": "1"}, sealed)


def _seen(run: PostgresPlace) -> str:
    """Tell what another process sees."""
    run.store.views()
    return Mirror.tail(run.store.copies / run.name)[1]["status"]


def test_what_an_owner_has_not_handed_over_is_not_replaced_by_a_reader(run):
    """An owner writes in a folder of its own, which is gone once it lets go."""
    lease = _begin(run)
    run.fetch()
    _tell(run, "open")
    run.published()
    _tell(run, "waiting")
    mine = run.view
    run.fetch()
    assert _seen(run) == "open"
    assert Mirror.tail(mine)[1]["status"] == "waiting"
    run.published()
    assert _seen(run) == "waiting"
    lease.release()
    assert not mine.exists()
    assert oct(run.store.copies.stat().st_mode)[-3:] == "700"


def test_an_owner_that_was_succeeded_hides_nothing(run, store):
    """Its mirror is refused as its records are."""
    lease = _begin(run)
    _tell(run, "open")
    run.published()
    with connected(store) as con:
        con.execute(
            "UPDATE durable_nb.leases l SET epoch = 2 FROM durable_nb.runs r "
            "WHERE r.run = l.run AND r.name = %s",
            [run.name],
        )
    _tell(run, "late")
    run.published()
    assert _seen(run) == "open"
    lease.release()


def test_only_what_is_newer_is_fetched_and_what_does_not_count_goes(run):
    """A sealed segment never changes, so it is sent once in either direction."""
    lease = _begin(run)
    mirror = Mirror(run.view)
    size = mirror.seal(1, schema().empty_table(), {"run_id": "1"})
    _tell(run, "open", Sealed(first=1, sizes=(size,)))
    run.published()
    _seen(run)
    copy = run.store.copies / run.name
    segment = (copy / "operations-1.parquet").stat()
    _tell(run, "waiting", Sealed(first=1, sizes=(size,)))
    run.published()
    assert _seen(run) == "waiting"
    assert (copy / "operations-1.parquet").stat() == segment
    (run.view / "operations-1.parquet").unlink()
    _tell(run, "closed")
    run.published()
    assert _seen(run) == "closed"
    assert [path.name for path in copy.glob("operations*")] == ["operations.parquet"]
    lease.release()


def test_what_a_killed_owner_left_is_removed_by_the_next_one(run):
    """Only on the machine where that process is gone."""
    lease = _begin(run)
    left = run.view.with_name(run.view.name.replace(f"-{os.getpid()}@", "-4194305@"))
    elsewhere = run.view.with_name("elsewhere-4194305@1-1")
    left.mkdir()
    elsewhere.mkdir()
    lease.release()
    run.acquire(OwnerInfo.here()).release()
    assert (left.exists(), elsewhere.exists()) == (False, True)


def test_a_run_that_was_set_aside_is_seen_no_more(run):
    """Its copy goes, and its records stay under another name."""
    lease = _begin(run)
    _tell(run, "open")
    run.published()
    lease.release()
    assert _seen(run) == "open"
    assert not run.lags()
    fresh = run.acquire(OwnerInfo.here()).set_aside()
    fresh.release()
    run.store.views()
    assert not list((run.store.copies / run.name).glob("operations*"))
    assert run.name not in run.store.names()
