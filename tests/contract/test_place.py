"""What every kind of store promises: the seam between the engine and where runs are kept."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.child import Bench
from support.places import store_in

from durable_nb.journal import FolderStore, Mirror, OwnerInfo, Store, mirror, store_of
from durable_nb.journal.owner import Life
from durable_nb.journal.postgres import StoreUnreachable
from durable_nb.model.adoption import is_elsewhere
from durable_nb.model.errors import BadName, JournalDamaged, RunClosed, RunHeld
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Draft

BORN = Draft(RUN, Kind.BORN, {"run_id": "1" * 32, "name": "r"})


def now() -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC)


def who(role: str = "runner") -> OwnerInfo:
    return OwnerInfo.here(role=role)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Store:
    """Give a store of the kind, which is made."""
    made = store_in(kind, tmp_path)
    made.prepare()
    return made


def test_a_store_lists_the_runs_that_have_a_journal(store: Store):
    """A place need not exist, and one that was only looked at is no run."""
    place = store.place("r")
    assert (place.name, place.exists(), store.names()) == ("r", False, [])
    lease = place.acquire(who())
    assert (place.exists(), store.names()) == (False, [])
    journal = lease.open_journal(now, whole=True)
    journal.append([BORN])
    journal.close()
    lease.release()
    assert (place.exists(), store.names()) == (True, ["r"])
    place.check_trusted()


def test_a_place_is_known_by_its_store_and_its_name(kind: str, store: Store, tmp_path: Path):
    """The engine finds by it what this process holds."""
    again = store_in(kind, tmp_path)
    assert (again, hash(again)) == (store, hash(store))
    assert {store.place("r"): 1}[again.place("r")] == 1
    assert store.place("r") != store.place("s")
    assert store.place("r").store == store
    assert store_of(store) is store


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-x"])
def test_a_name_that_no_run_can_have_is_refused(store: Store, name: str):
    """Wherever runs are kept, they may be moved into a folder."""
    with pytest.raises(BadName):
        store.place(name)


def test_one_owner_at_a_time_and_others_are_told_who(store: Store):
    """A held run is refused, and free once it was released; releasing twice is harmless."""
    place = store.place("r")
    assert place.probe() is None
    lease = place.acquire(who())
    holder = place.probe()
    assert holder is not None
    assert (holder.life, holder.is_here, holder.info.role) == (Life.LIVE, True, "runner")
    assert place.standing("closed") == "open"
    with pytest.raises(RunHeld, match="This kernel has it open"):
        place.acquire(who("operator"))
    lease.release()
    lease.release()
    assert place.probe() is None
    assert place.standing("closed") == "closed"
    place.acquire(who()).release()


KILLED = """
from datetime import UTC, datetime
from durable_nb.journal import OwnerInfo
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft
from support.places import store_in

there = store_in(more[0], Path(more[1]))
there.prepare()
lease = there.place("r").acquire(OwnerInfo.here(role="runner"))
journal = lease.open_journal(lambda: datetime.now(UTC), whole=True)
journal.append([Draft("", Kind.BORN, {"run_id": "1" * 32, "name": "r"})])
lease.keep_run_id("1" * 32)
journal.append([Draft("", Kind.OPENED, {"role": "runner"})])
lease.update(epoch=journal.epoch)
die()
"""


@pytest.mark.slow
def test_a_killed_owner_is_known_as_crashed_and_its_records_are_there(kind: str, tmp_path: Path):
    """SIGKILL after the acknowledgement loses neither records nor the run's id."""
    assert Bench(tmp_path).run(KILLED, kind, tmp_path).killed
    place = store_in(kind, tmp_path).place("r")
    holder = place.probe()
    assert holder is not None
    assert (holder.life, place.standing("open")) == (Life.CRASHED, "crashed")
    lease = place.acquire(who())
    journal = lease.open_journal(now, whole=True)
    assert [record.kind for record in journal.load()] == [Kind.BORN, Kind.OPENED]
    assert journal.epoch == holder.info.epoch + 1
    assert lease.run_id == ("" if kind == "postgres" else "1" * 32)
    assert (journal.lost, journal.recovered) == (None, None)
    journal.close()
    lease.release()


def test_records_are_read_again_after_closing_unless_another_journal_is_there(store: Store):
    """What a resume has left out is read later; what was set aside is not taken for it."""
    place = store.place("r")
    lease = place.acquire(who())
    journal = lease.open_journal(now, whole=True)
    journal.append([BORN])
    closed = place.closed_reader()
    journal.close()
    with pytest.raises(RunClosed):
        journal.read(1, 1)
    lease.release()
    closed.check()
    assert [record.kind for record in closed.read(1, 1)] == [Kind.BORN]
    fresh = place.acquire(who()).set_aside()
    again = fresh.open_journal(now, whole=True)
    assert again.load() == []
    assert (fresh.aside[:7], fresh.aside in store.names()) == (".r.old-", False)
    again.append([BORN])
    again.close()
    fresh.release()
    with pytest.raises(JournalDamaged):
        closed.check()
    assert store.names() == ["r"]


def test_nothing_is_set_aside_of_a_run_without_records_and_nobody_else_gets_it_meanwhile(
    store: Store,
):
    """A lease that was taken to look at the records is the one under which they are set aside."""
    place = store.place("r")
    lease = place.acquire(who())
    assert lease.set_aside() is lease
    assert lease.aside == ""
    lease.open_journal(now, whole=True).close()
    with pytest.raises(RunHeld):
        place.acquire(who())
    lease.release()


def test_large_values_are_found_by_their_digest_and_what_is_missing_is_named(store: Store):
    """A check reads nothing, and a run without large values has nothing to check."""
    lease = store.place("r").acquire(who())
    artifacts = store.place("r").artifacts()
    assert artifacts.check([], mend=True).told == []
    ref = artifacts.put(b"x" * 100)
    assert artifacts.get(ref) == b"x" * 100
    found = artifacts.check([(ref, 100), (ref, 99), ("0" * 64, 5)], mend=True)
    assert (found.missing, found.problem) == ({(ref, 99), ("0" * 64, 5)}, None)
    artifacts.close()
    artifacts.close()
    lease.release()


def test_a_message_is_taken_or_withdrawn_and_answered(store: Store):
    """Its sender has the answer, and what is taken cannot be taken back."""
    lease = store.place("r").acquire(who())
    sender, owner = store.place("r").inbox(), store.place("r").inbox(now)
    first, second = sender.send("deny", {"op": "a#1"}), sender.send("deny", {"op": "b#1"})
    assert [message.op for message in owner.pending()] == ["a#1", "b#1"]
    assert owner.take(first)
    assert (sender.withdraw(first), sender.withdraw(second)) == (False, True)
    assert not owner.take(second)
    owner.put_back(first)
    assert [message.id for message in owner.pending()] == [first]
    assert owner.take(first)
    owner.answer(first, {"ok": True})
    assert sender.answer_to(first, 1.0) == {"ok": True}
    assert (owner.pending(), owner.refused) == ([], [])
    lease.release()


def test_a_mirror_that_was_published_is_seen_by_others(kind: str, store: Store, tmp_path: Path):
    """Its files are handed over whole, and SQL over the store shows where the run is."""
    place = store.place("r")
    lease = place.acquire(who())
    journal = lease.open_journal(now, whole=True)
    journal.append([BORN])
    assert place.lags()
    place.fetch()
    before = place.stamp(held=True)
    Mirror(place.view).publish([], {"name": "r", "status": "open"})
    place.published()
    assert not place.lags()
    assert place.stamp(held=True) != before
    journal.close()
    lease.release()
    other = store_in(kind, tmp_path)
    shutil.rmtree(tmp_path / "copies", ignore_errors=True)
    other.place("r").fetch()
    assert Mirror.tail(other.place("r").view)[1]["status"] == "open"
    (row,) = mirror.query(other.views(), "SELECT * FROM runs", other.place).to_dict("records")
    assert (row["name"], row["status"], row["folder"]) == ("r", "open", place.shown)


def test_one_supervisor_a_run(store: Store):
    """A second one is told who it is; another run is not in its way."""
    with store.claimed("r"), store.claimed("s"):
        with pytest.raises(RunHeld, match="supervisor"), store.claimed("r"):
            pass
    with store.claimed("r"):
        pass


def test_a_copy_is_told_from_the_original(kind: str, store: Store):
    """Each place has an identity of its own, which stays; but for a store that tells none."""
    leases = [store.place(name).acquire(who()) for name in "rs"]
    mine, other = store.place("r").identity, store.place("s").identity
    assert (mine is None) == (kind == "unseen")
    assert mine is None or is_elsewhere(mine, other)
    assert store.place("r").identity == mine
    for lease in leases:
        lease.release()


def test_a_store_is_found_by_what_somebody_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As given, else `DURABLE_STORE`, else a folder; an address of a database is never a path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DURABLE_STORE", raising=False)
    assert store_of("here") == store_of(Path("here")) == FolderStore(tmp_path / "here")
    assert store_of() == FolderStore(tmp_path / ".durable")
    assert store_of(store_of("here").address) == store_of("here")
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / "named"))
    assert store_of() == FolderStore(tmp_path / "named")
    for address in ("postgresql://me:secret@host/db", "postgres://me@host/db"):
        monkeypatch.setenv("DURABLE_STORE", address)
        for found in (store_of(address), store_of()):
            assert (found.shown, found.address) == ("postgresql://me@host/db", address)
            assert "secret" not in repr(found)
            assert (found, hash(found)) == (
                store_of("postgresql://me:another@host/db"),
                hash(found),
            )
    with pytest.raises(StoreUnreachable, match="no address") as refused:
        store_of("postgresql://me:secret@host:bad port/db?secret")
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_one_question_tells_of_all_runs_what_each_place_tells(store: Store):
    """Who holds a run, and whether its mirror lags; a run begins with its first record."""

    def begin(name: str):
        lease = store.place(name).acquire(who())
        journal = lease.open_journal(now, whole=True)
        journal.append([BORN])
        journal.close()
        return lease

    begin("given-back").release()
    shown = begin("shown")
    place = store.place("shown")
    place.fetch()
    Mirror(place.view).publish([], {"name": "shown", "status": "done", "run_id": "1"})
    place.published()
    shown.release()
    held, only_looked_at = begin("held"), store.place("empty").acquire(who())
    only_looked_at.release()

    found = store.overview()
    assert list(found) == store.names() == ["given-back", "held", "shown"]
    for name, (holder, lags) in found.items():
        alone = store.place(name).probe()
        assert (holder is None) == (alone is None) == (name != "held")
        assert lags == store.place(name).lags() == (name != "shown")
    seen = found["held"].holder
    assert seen is not None
    assert (seen.life, seen.info.pid) == (Life.LIVE, who().pid)
    held.release()
