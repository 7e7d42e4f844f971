"""A whole life of a run in every kind of store: the engine knows no folder where it needs none."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Bench
from support.places import KINDS, store_in

import durable_nb as dnb
from durable_nb.engine.context import OPEN
from durable_nb.engine.remote import is_listening
from durable_nb.faces import look
from durable_nb.faces.output import Face
from durable_nb.journal import Store
from durable_nb.journal.errors import FoldersOnly
from durable_nb.model.errors import RunHeld, RunMissing

NOT_FOLDERS = pytest.mark.parametrize("kind", [k for k in KINDS if k != "folder"], indirect=True)

#: What is asked of the files of a run, and how.
ABOUT_FILES = {
    "verify": lambda store, _: dnb.verify("r", store=store),
    "recover": lambda store, _: dnb.recover("r", store=store),
    "run.folder": lambda store, _: dnb.watch("r", store=store).folder,
}


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Iterator[Store]:
    """Give a store of the kind; what is left open in it is closed."""
    yield store_in(kind, tmp_path)
    for run in OPEN.all():
        run.close()


@pytest.fixture
def unseen(kind: str, tmp_path: Path) -> Store:
    """Give a store that is no folder, with a run of one step."""
    store = store_in(kind, tmp_path)
    with dnb.run("r", store=store) as run:
        run.step("a", effect="none").call(lambda: 1)
    return store


KILLED = """
from support.places import KINDS, store_in

with dnb.run("r", store=store_in(more[0], Path(more[1]), "another")) as run:
    run.step("plan", effect="none").call(lambda: "x" * 200_000)
    run.step("charge").call(die)
"""

HELD = """
from support.places import KINDS, store_in

with dnb.run("r", store=store_in(more[0], Path(more[1]), "another")) as run:
    try:
        run.step("charge").call(lambda: 1 / 0)
    except dnb.UnknownOutcome:
        pass
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_run_is_killed_and_resumed_and_settled_and_seen(kind: str, store: Store, tmp_path: Path):
    """Large values, doubts, verdicts, views, audits and SQL are the same wherever it is kept."""
    assert Bench(tmp_path).run(KILLED, kind, tmp_path).killed
    (row,) = dnb.runs(store).to_dict("records")
    assert (row["status"], row["folder"]) == ("crashed", store.place("r").shown)
    seen = dnb.watch("r", store=store)
    assert [view.id for view in seen.unknown()] == ["charge#1"]
    seen.deny("charge", evidence="the provider has none")
    with dnb.run("r", store=store, must_exist=True) as run:
        assert run is dnb.open_run("r", store=store)
        plan = run.step("plan", effect="none", on_change="keep")
        assert plan.call(lambda: "never").count("x") == 200_000
        assert run.step("charge").call(lambda: 7) == 7
        assert seen.here is run
        assert not run.copied
    assert seen.status_view().counts["completed"] == 2
    assert {row["id"] for row in seen.audit_rows()} >= {"plan#1", "charge#1"}
    same = dnb.compare("r", "r", store=store)
    assert list(same["same"]) == [True, True]
    found = dnb.sql("SELECT id FROM operations ORDER BY id", store=store)
    assert list(found["id"]) == ["charge#1", "plan#1"]


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_shown_and_settled(
    kind: str, store: Store, tmp_path: Path
):
    """Its mirror is fetched, and the verdict goes to its owner."""
    with Bench(tmp_path).start(HELD, kind, tmp_path) as child:
        assert "ready" in child.first_line()
        assert is_listening(store.place("r"))
        seen = dnb.watch("r", store=store)
        child.until(lambda: seen.status_view().counts["unknown"] == 1)
        with pytest.raises(RunHeld):
            dnb.run("r", store=store)
        stamp = seen.stamp()
        assert seen.confirm("charge", "paid", evidence="a receipt").outcome == "completed"
        child.until(lambda: seen.status_view().counts["completed"] == 1)
        assert seen.stamp() != stamp
        child.kill()


@pytest.mark.slow
def test_the_command_line_shows_it(kind: str, store: Store, tmp_path: Path):
    """Lists, pictures and the lines that settle something name the store, never a folder of it."""
    assert Bench(tmp_path).run(KILLED, kind, tmp_path).killed
    face = Face(store, True, as_json=True)
    (row,) = look.list_runs(face)
    assert (row["status"], row["folder"]) == ("crashed", store.place("r").shown)
    assert look.taken_up(store, [row]) == []
    seen = look.picture(face, look.watched(face, "r"))
    assert seen.folder == store.place("r").shown
    assert seen.open[0].line.endswith(shlex.join(["--store", store.shown]))
    with look.reading(face, "r") as run:
        assert look.in_journal(run, "charge")["why"]


def test_a_fresh_run_begins_anew(store: Store):
    """What was there is set aside, wherever that is."""
    ids = set()
    for name in "ab":
        with dnb.run("r", store=store, fresh=True) as run:
            run.step(name, effect="none").call(lambda: 1)
            ids.add(run.id)
            assert [state.id for state in run.states()] == [f"{name}#1"]
        with dnb.run("r", store=store, fresh="finished") as run:
            ids.add(run.id)  # which has not come to its end
            run.finish()
    with dnb.run("r", store=store, fresh="finished") as run:
        ids.add(run.id)
    assert len(ids) == 3
    assert store.names() == ["r"]
    with pytest.raises(RunMissing, match="r"):
        dnb.open_run("s", store=store, must_exist=True)
    with pytest.raises(RunMissing, match="r"):
        dnb.watch("s", store=store)


def test_an_owner_on_another_machine_goes_on_with_the_mirror_that_is_there(
    kind: str, store: Store, tmp_path: Path
):
    """It is fetched first, so that what was sealed is not written again."""

    def go_on(steps: int) -> dict[str, int]:
        with dnb.run("r", store=store) as run:
            run.publisher.seal = 5
            for n in range(steps):
                run.step("a", key=n, effect="none").call(lambda: 1)
            run.publisher.publish()
        place = store.place("r")
        place.fetch()
        view = place.view
        return {p.name: p.stat().st_mtime_ns for p in view.glob("operations-*.parquet")}

    before = go_on(7)
    assert before
    shutil.rmtree(tmp_path / "copies", ignore_errors=True)
    assert before.items() <= go_on(8).items()
    assert len(dnb.sql("SELECT * FROM operations", store=store)) == 8


@NOT_FOLDERS
@pytest.mark.parametrize("verb", ABOUT_FILES)
def test_what_is_about_files_is_refused_where_there_are_none(
    unseen: Store, tmp_path: Path, verb: str
):
    """The error names what was asked for, and who can do it."""
    with pytest.raises(FoldersOnly, match="Nothing was read or changed") as refused:
        ABOUT_FILES[verb](unseen, tmp_path)
    assert refused.value.verb == verb
    assert unseen.shown in refused.value.where
    assert unseen.names() == ["r"]


@NOT_FOLDERS
def test_a_run_that_is_kept_elsewhere_is_forked_into_a_folder(unseen: Store, tmp_path: Path):
    """Only where the new run is to be has to be a folder."""
    forked = dnb.watch("r", store=unseen).fork("s", store=tmp_path / "here")
    assert forked.operations == ("a#1",)
    assert forked.folder == tmp_path / "here" / "s"
