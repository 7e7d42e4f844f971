"""Opening a run: names, folders, owners, versions, and what a broken one says."""

import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

import durable_nb as dnb
from durable_nb.model.errors import DurableError


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", "", "a\0b", "x" * 300, ".hidden", "-dash", "a\nb", "a\\b"]
)
def test_a_name_that_cannot_be_a_folder_is_refused_and_creates_nothing(tmp_path, name):
    """A run's name never leads out of the store."""
    with pytest.raises(dnb.BadName, match="Nothing was created"):
        dnb.open_run(name, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_the_run_folder_is_the_designs(open_run, tmp_path):
    """Private, ignored by git, relocatable, and everything in one folder."""
    with open_run() as run:
        run.step("s", effect="none").call(lambda: "x" * 100_000)
        folder = run.folder
    found = {p.name for p in folder.iterdir()}
    assert {"journal.duckdb", "owner.lock", "owner.json", "head", "operations.parquet"} <= found
    assert "artifacts" in found
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder.parent / ".gitignore").read_text() == "*\n"
    for path in folder.rglob("*"):
        if path.is_file():
            assert str(tmp_path).encode() not in path.read_bytes(), path


def test_case_21_a_moved_store_goes_on_where_it_was(open_run, tmp_path, effects):
    """Nothing absolute is inside, so the folder can be moved."""
    with open_run() as run:
        big = run.call(effects, "y" * 100_000)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with dnb.run("r", store=tmp_path / "elsewhere") as run:
        assert run.call(effects, "y" * 100_000) == big
    assert effects.count == 1


def test_a_world_writable_store_is_refused_with_the_command_that_mends_it(tmp_path):
    """Somebody else could have planted records there."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o777)
    with pytest.raises(dnb.NotTrusted, match="chmod"):
        dnb.open_run("r", store=tmp_path / "store")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path):
    """As root too: the folder's owner could have written anything."""
    (tmp_path / "store").mkdir(mode=0o700)
    os.chown(tmp_path / "store", 12345, 12345)
    with pytest.raises(dnb.NotTrusted):
        dnb.open_run("r", store=tmp_path / "store")


def test_must_exist_refuses_a_typo_and_names_what_is_there(open_run, tmp_path):
    """Nothing is created, and the runs of the store are listed."""
    open_run("refund-17").close()
    with pytest.raises(dnb.RunMissing, match="refund-17"):
        open_run("refund-71", must_exist=True)
    assert not (tmp_path / "store" / "refund-71").exists()


def test_fresh_sets_the_old_folder_aside_and_mints_a_new_id(open_run, effects, tmp_path):
    """Nothing is deleted, and idempotency keys begin anew."""
    with open_run() as run:
        run.call(effects, 1)
        old = run.id
    with open_run(fresh=True) as run:
        assert run.id != old
        run.call(effects, 1)
    assert effects.count == 2
    assert len(list((tmp_path / "store").glob(".r.old-*/journal.duckdb"))) == 1
    assert list(dnb.runs(store=tmp_path / "store")["name"]) == ["r"]


def test_fresh_when_finished_begins_anew_only_after_the_end(open_run, effects, tmp_path, capsys):
    """So that it may stand in a notebook: a kernel that was killed goes on, and pays once."""
    with open_run(fresh="finished") as run:
        run.call(effects, 1)
        first = run.id
        assert open_run(fresh="finished") is run, "it is open, so it has not come to its end"
    with open_run(fresh="finished") as run:
        run.call(effects, 1)
        assert run.id == first
        run.finish()
    assert effects.count == 1
    assert "is kept as" not in capsys.readouterr().err
    with open_run(fresh="finished") as run:
        run.call(effects, 1)
        assert run.id != first
    assert effects.count == 2
    assert "NEW run r in" in (said := capsys.readouterr().err)
    assert ": all is done anew; the one before it is kept as .r.old-1\n" in said
    with pytest.raises(ValueError, match="fresh is True, False or 'finished', not 'done'"):
        open_run(fresh="done")


def test_it_says_new_or_resumed_and_where(open_run, capsys):
    """A typo in the name is seen at once; stdout is left to the program."""
    open_run().close()
    open_run().close()
    out = capsys.readouterr()
    assert "NEW run r in" in out.err
    assert "resumed run r from" in out.err
    assert "the previous kernel closed it" in out.err
    assert out.out == ""


def test_the_store_is_found_by_variable_else_upwards(tmp_path, monkeypatch):
    """`DURABLE_STORE`, else the nearest `.durable` upwards, else one here."""
    (tmp_path / ".durable").mkdir(mode=0o700)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    monkeypatch.delenv("DURABLE_STORE", raising=False)
    with dnb.run("up") as run:
        assert run.folder.parent == tmp_path / ".durable"
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / "named"))
    with dnb.run("named") as run:
        assert run.folder.parent == tmp_path / "named"


def test_a_database_that_is_not_there_is_not_made_a_folder(tmp_path, monkeypatch):
    """A store never silently falls back to another."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DurableError, match="cannot be reached"):
        dnb.open_run("r", store="postgresql://127.0.0.1:1/x")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_a_newer_version_is_refused_unchanged(open_run, tmp_path):
    """Readers upcast older versions; a newer one needs a newer package."""
    import duckdb

    open_run().close()
    file = tmp_path / "store" / "r" / "journal.duckdb"
    con = duckdb.connect(":memory:")
    con.execute(f"ATTACH '{file}' AS j")
    con.execute("UPDATE j.meta SET schema_version = 99")
    con.close()
    before = file.read_bytes()
    with pytest.raises(dnb.JournalTooNew, match="99"):
        open_run()
    assert file.read_bytes() == before


def test_runs_and_sql_answer_over_the_whole_store(open_run, tmp_path):
    """One query over all runs, as a DataFrame."""
    for name in ("a", "b"):
        with open_run(name) as run:
            run.step("s", effect="none").call(lambda: 1)
    store = tmp_path / "store"
    assert list(dnb.runs(store=store)["status"]) == ["closed", "closed"]
    frame = dnb.sql("SELECT run, id, outcome FROM operations ORDER BY run", store=store)
    assert frame.values.tolist() == [["a", "s#1", "completed"], ["b", "s#1", "completed"]]


def test_expected_steps_are_shown_before_they_are_reached(open_run):
    """What was announced is incomplete; what nobody announced is not known."""
    with open_run(expect=["plan", "send"]) as run:
        run.step("plan", effect="none").call(lambda: 1)
        view = run.status_view()
    assert view.counts == {"completed": 1, "incomplete": 1, "unknown": 0}
    assert "expected, not begun" in view.to_text()
    with open_run() as run:
        assert run.status_view().expected == ("send",)


@pytest.mark.slow
def test_a_run_that_failed_says_so_and_a_signal_makes_it_wait(open_run, tmp_path):
    """`status` tells failed, waiting, closed and finished apart."""

    def status():
        return list(dnb.runs(store=tmp_path / "store")["status"])

    with pytest.raises(ZeroDivisionError), open_run() as run:
        1 / 0
    assert status() == ["failed"]
    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.step("s").call(lambda: 1 / 0)
    assert status() == ["waiting"]
    with open_run() as run:
        run.deny("s#1")
        run.finish()
    assert status() == ["finished"]


def test_a_closed_run_takes_nothing_more(open_run):
    """And says how to open it again."""
    with open_run() as run:
        pass
    with pytest.raises(dnb.RunClosed, match="open_run"):
        run.step("s").call(lambda: 1)


HOLD = """
import sys, time, durable_nb as dnb
run = dnb.open_run("r", store=sys.argv[1])
run.step("s", effect="none").call(lambda: 1)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_case_07_a_held_run_is_refused_with_its_holder_and_nothing_is_written(tmp_path):
    """Two kernels can never both own a run; the second learns who has it and what to do."""
    store = tmp_path / "store"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "held\n"
        owner = (store / "r" / "owner.json").read_text()
        with pytest.raises(dnb.RunHeld) as held:
            dnb.open_run("r", store=store)
        text = str(held.value)
        assert str(child.pid) in text
        assert "Nothing was written" in text
        assert (
            json.loads(owner)["pid"] == json.loads((store / "r" / "owner.json").read_text())["pid"]
        )
    finally:
        child.communicate("")
    with dnb.run("r", store=store, must_exist=True) as run:
        assert run.get("s").outcome == "completed"


@pytest.mark.slow
def test_a_program_that_ends_in_order_closes_its_run(tmp_path):
    """A kernel that was shut down is not called crashed."""
    code = textwrap.dedent(HOLD).replace("sys.stdin.read()", "")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], check=True,
                   capture_output=True)  # fmt: skip
    assert list(dnb.runs(store=tmp_path / "s")["status"]) == ["closed"]


@pytest.mark.parametrize(
    "options", [{"efect": "none"}, {"effect": "pure"}, {"on_change": "maybe"}, {"key": 1.5}]
)
def test_an_option_that_does_not_exist_is_told_before_anything_is_recorded(open_run, options):
    """A typo in `effect=` must not silently mean external."""
    with open_run() as run:
        with pytest.raises(TypeError):
            run.step("s", **options)
        assert run.operations().empty


def test_names_from_users_are_shown_as_text(open_run):
    """Separators in names and keys are escaped in the identity, and shown as written."""
    with open_run() as run:
        run.step("a/b[c]#1", key="k/k", effect="none").call(lambda: 1)
        view = run.get(1)
    assert (view.name, view.key, view.parent) == ("a/b[c]#1", "k/k", "")


@pytest.mark.parametrize("name", ["", "  ", "x" * 300])
def test_a_step_name_has_to_be_a_name(open_run, name):
    """Empty and endless names are refused before anything is recorded."""
    with open_run() as run:
        with pytest.raises((dnb.BadName, TypeError)):
            with run.step(name):
                pass
        with pytest.raises(dnb.BadName, match="lambda"):
            run.call(lambda: 1)
        assert run.operations().empty
