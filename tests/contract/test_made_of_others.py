"""Runs that are made of what others have on record, and what nothing names: in every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Bench
from support.places import store_in

import durable_nb as dnb
from durable_nb.engine.context import OPEN
from durable_nb.journal import Store
from durable_nb.journal.errors import ArchiveRefused
from durable_nb.model.errors import OperationMissing, RunMissing, VerdictRefused
from durable_nb.values import ArtifactMissing

LARGE = "x" * 100_000


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[Store]:
    """Give a store of the kind; what is left open in it is closed."""
    yield store_in(kind, tmp_path)
    for run in OPEN.all():
        run.close()


def agent(run: dnb.Run, sent: list[str], text: str = "hello") -> None:
    """Plan, pay and mail; what happens outside goes into `sent`."""
    run.step("plan", effect="none", on_change="keep").call(lambda: LARGE)
    run.step("pay", on_change="keep").call(lambda: sent.append("pay"))
    run.step("mail", key=text).call(lambda: sent.append(text))


def put(store: Store, name: str, data: bytes) -> str:
    """Keep a value as an owner does that is killed before its record."""
    artifacts = store.place(name).artifacts()
    try:
        return artifacts.put(data)
    finally:
        artifacts.close()


def there(store: Store, name: str) -> dict[str, int]:
    """List what is kept of a run."""
    artifacts = store.place(name).artifacts()
    try:
        return artifacts.sizes()
    finally:
        artifacts.close()


# -- forks -------------------------------------------------------------------------------------


def test_a_fork_in_the_same_store_replays_and_does_only_its_own(store: Store):
    """By the run that is open and by one that looks; large values come along, grants do not."""
    sent: list[str] = []
    with dnb.run("r", store=store) as run:
        agent(run, sent)
        done = run.fork("s", at="mail", reason="kinder")
    seen = dnb.watch("r", store=store).fork("t")
    assert (done.operations, done.effects) == (("plan#1", "pay#1"), ("pay#1",))
    assert (done.folder, done.elsewhere) == (store.place("s").folder, "")
    assert seen.operations == (*done.operations, "mail[hello]#1")
    assert store.names() == ["r", "s", "t"]
    for _ in range(2):
        with dnb.run("s", store=store) as run:
            assert "a fork of r" in run.status_view().headline
            with pytest.raises(dnb.ScopeDenied):
                agent(run, sent, "goodbye")
            assert run.get("plan").result == LARGE
    assert sent == ["pay", "hello"]
    with dnb.run("s", store=store) as run:
        run.grant("external", by="ada", reason="a test customer")
        agent(run, sent, "goodbye")
    assert sent == ["pay", "hello", "goodbye"]
    assert there(store, "s") == there(store, "r") == there(store, "t")
    assert dnb.watch("r", store=store).status_view().counts["completed"] == 3


def test_a_name_that_is_taken_is_refused(store: Store):
    """Nothing is replaced, and nothing is left of the try."""
    with dnb.run("r", store=store) as run:
        agent(run, [])
        run.fork("s", at="mail")
        for name in ("r", "s"):
            with pytest.raises(VerdictRefused, match=rf"'{name}' in .* already"):
                run.fork(name)
        with pytest.raises(OperationMissing):
            run.fork("t", at="nothing")
    assert store.names() == ["r", "s"]
    assert len(dnb.watch("s", store=store).status_view().views) == 2


def test_a_fork_of_a_fork_and_one_of_a_run_that_is_gone_on_with(store: Store):
    """Each has a lease and an identity of its own, and goes on under later owners."""
    with dnb.run("r", store=store) as run:
        agent(run, [])
        run.fork("s")
        with dnb.run("s", store=store) as fork:
            fork.fork("t", at="mail[hello]#1")
            assert fork.id != run.id
    identities = {str(store.place(name).identity) for name in "rst"}
    assert len(identities) == (1 if store.place("r").identity is None else 3)
    for name in "rst":
        with dnb.run(name, store=store, must_exist=True) as run:
            assert run.get("plan").result == LARGE
            assert not run.copied


HELD = """
from support.places import store_in

with dnb.run("r", store=store_in(more[0], Path(more[1]), "another")) as run:
    run.step("plan", effect="none").call(lambda: "x" * 100_000)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_forked_by_it_and_not_cleared(
    kind: str, store: Store, tmp_path: Path
):
    """The owner makes the fork. What it has stored and not yet recorded would look unneeded."""
    with Bench(tmp_path).start(HELD, kind, tmp_path) as child:
        assert "ready" in child.first_line()
        done = dnb.watch("r", store=store).fork("s")
        assert (done.operations, done.folder) == (("plan#1",), store.place("s").folder)
        sha256 = put(store, "r", b"soon recorded")
        with pytest.raises(dnb.RunHeld):
            dnb.gc("r", delete=True, store=store)
        assert sha256 in there(store, "r")
        with pytest.raises(dnb.RunHeld):
            dnb.export_run("r", tmp_path / "r.zip", store=store)
        child.kill()
    with dnb.run("s", store=store) as fork:
        assert fork.get("plan").result == LARGE


# -- what nothing names ------------------------------------------------------------------------


def test_gc_removes_what_no_record_names_and_nothing_else(store: Store):
    """Counted first; what only the history names stays, and so does what is another run's."""
    with dnb.run("r", store=store) as run:
        run.step("a", effect="none").call(lambda: LARGE)
        run.step("b", effect="none").call(lambda: [b"y" * 80_000, b"z" * 70_000])
        run.invalidate("b", reason="wrong")
        run.fork("s")
    kept = there(store, "r")
    for name in "rs":
        put(store, name, b"left behind")
    found = dnb.gc("r", store=store)
    assert (found.run, found.artifacts, found.size, found.removed) == ("r", 1, 11, False)
    assert len(there(store, "r")) == len(kept) + 1
    found = dnb.gc("r", delete=True, store=store)
    assert (found.artifacts, found.size, found.removed) == (1, 11, True)
    assert there(store, "r") == kept
    assert len(there(store, "s")) == len(kept) + 1
    assert dnb.gc("r", store=store).artifacts == 0
    with dnb.run("r", store=store, must_exist=True) as run:
        assert run.get("a").result == LARGE
    with pytest.raises(RunMissing):
        dnb.gc("nothing", store=store)


def test_what_was_removed_may_be_kept_again(store: Store):
    """The same bytes, by the next owner."""
    with dnb.run("r", store=store) as run:
        run.step("a", effect="none").call(lambda: 1)
    sha256 = put(store, "r", LARGE.encode())
    dnb.gc("r", delete=True, store=store)
    artifacts = store.place("r").artifacts()
    with pytest.raises(ArtifactMissing):
        artifacts.get(sha256)
    assert artifacts.put(LARGE.encode()) == sha256
    assert artifacts.get(sha256) == LARGE.encode()
    artifacts.close()


# -- archives ----------------------------------------------------------------------------------


def test_a_run_goes_through_a_file_into_a_folder_and_back(kind: str, store: Store, tmp_path: Path):
    """Records, values and doubts are the same; who goes on with it first says what it is."""
    with dnb.run("r", store=store) as run:
        run.step("plan", effect="none", on_change="keep").call(lambda: LARGE)
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(lambda: 1 / 0)
        first = run.id
    put(store, "r", b"left behind")

    def told(store: Store | Path, name: str) -> list[tuple[object, ...]]:
        rows = dnb.watch(name, store=store).records()
        return [(r["seq"], r["kind"], r["op"], r["ts"], r["epoch"], r["detail"]) for r in rows]

    out = dnb.export_run("r", tmp_path / "out.zip", store=store)
    came = dnb.import_run(out.file, store=tmp_path / "here")
    assert dnb.verify("r", store=tmp_path / "here").ok
    back = dnb.export_run("r", tmp_path / "back.zip", store=tmp_path / "here")
    again = dnb.import_run(back.file, "again", store=store)

    assert {out.run_id, came.run_id, back.run_id, again.run_id} == {first}
    assert out.records == came.records == back.records == again.records
    assert (came.folder, again.folder) == (tmp_path / "here" / "r", store.place("again").folder)
    assert again.twins == ("r",)
    assert told(store, "r") == told(tmp_path / "here", "r") == told(store, "again")
    assert [v.id for v in dnb.watch("again", store=store).unknown()] == ["pay#1"]
    for found, name in ((tmp_path / "here", "r"), (store, "again")):
        if kind != "unseen":  # it tells no identity that could be another one
            with pytest.raises(dnb.RunCopied):
                dnb.run(name, store=found)
        with dnb.run(name, store=found, adopt="abandoned") as run:
            assert run.step("plan", effect="none", on_change="keep").call(lambda: 1 / 0) == LARGE


def test_an_archive_replaces_nothing_and_what_is_damaged_is_not_taken(store: Store, tmp_path: Path):
    """Neither out of a store nor into one."""
    with dnb.run("r", store=store) as run:
        run.step("plan", effect="none").call(lambda: LARGE)
    out = dnb.export_run("r", tmp_path / "r.zip", store=store)
    with pytest.raises(FileExistsError):
        dnb.export_run("r", tmp_path / "r.zip", store=store)
    with pytest.raises(ArchiveRefused, match=r"'r' in .* already"):
        dnb.import_run(out.file, store=store)
    bad = tmp_path / "bad.zip"
    data = out.file.read_bytes()
    at = data.rindex(b"x" * 50_000)
    bad.write_bytes(data[:at] + b"?" + data[at + 1 :])
    with pytest.raises(ArchiveRefused):
        dnb.import_run(bad, "s", store=store)
    with pytest.raises(RunMissing):
        dnb.export_run("s", tmp_path / "s.zip", store=store)
    assert store.names() == ["r"]
    with dnb.run("r", store=store) as run:
        assert run.artifacts.remove(run.artifacts.sizes(), run.epoch)
    with pytest.raises(dnb.RunDamaged, match="missing"):
        dnb.export_run("r", tmp_path / "gone.zip", store=store)
    assert not (tmp_path / "gone.zip").exists()
