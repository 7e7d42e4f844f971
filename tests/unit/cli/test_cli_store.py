"""The verbs that keep a store: exit codes, one JSON document, and what a person is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.child import Child
from support.folders import tree
from support.terminal import HOLD, ROOT, do, document, records, run_it

import durable_nb as dnb
from durable_nb import values

pytestmark = pytest.mark.slow  # together they take longer than all the rest

# -- verify ------------------------------------------------------------------------------------


def test_verify_exits_with_what_it_found(store: Path) -> None:
    """0 all is well, also while an effect is in doubt; 1 damage; and nothing is changed."""
    lost = records(store, "refund-17")  # killed at the same place, and its records are all there
    before = tree(store)
    assert do("verify", "refund-17").exit_code == 0
    damaged = do("verify", "refund-20")
    assert damaged.exit_code == 1
    assert f"{lost} records were acknowledged, and 0 are in the journal" in damaged.stdout
    assert "Run: durable-nb recover refund-20" in damaged.stdout
    assert tree(store) == before


def test_a_folder_is_what_has_a_slash_in_it(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy elsewhere is verified without a store; a run's name is never taken for a path."""
    shutil.copytree(store / "refund-17", tmp_path / "copy")
    assert do("verify", "./copy").exit_code == 0
    assert do("verify", tmp_path / "copy").exit_code == 0
    monkeypatch.chdir("copy")
    assert do("verify", ".").exit_code == 0
    monkeypatch.chdir("..")
    missing = do("verify", "copy")
    assert missing.exit_code == 1
    assert "no run 'copy'" in missing.stderr


def test_a_held_run_needs_a_person(store: Path, tmp_path: Path) -> None:
    """Exit 3 and who holds it, so that 0 never means "not looked at"."""
    (tmp_path / "hold.py").write_text(HOLD)
    with Child(tmp_path / "hold.py", store) as child:
        child.until(lambda: (store / "live" / "operations.parquet").exists())
        seen = run_it("verify", "live", "--json")
        for verb in (["recover", "live"], ["export", "live", "x.zip"], ["gc", "live", "--yes"]):
            refused = run_it(*verb)
            assert refused.returncode == 1
            assert f"process {child.pid}" in refused.stderr
    found = json.loads(seen.stdout)
    assert seen.returncode == 3
    assert (found["ok"], found["complete"]) == (False, False)
    assert f"process {child.pid}" in found["held_by"]
    assert not (tmp_path / "x.zip").exists()


# -- recover -----------------------------------------------------------------------------------


def test_recover_says_what_was_lost_and_what_settles_it(store: Path) -> None:
    """Exit 3 while something is in doubt, with the line that settles it; 0 on a healthy run."""
    healthy = do("recover", "refund-18")
    assert (healthy.exit_code, "nothing is damaged" in healthy.stdout) == (0, True)

    lost = do("recover", "refund-20")

    assert lost.exit_code == 3
    count = records(store, "refund-17")  # killed at the same place
    assert f"lost: {count} records were acknowledged" in lost.stdout
    assert "durable-nb accept refund-20" in lost.stdout
    assert do("verify", "refund-20").exit_code == 0
    assert do("accept", "refund-20", "--reason", "nothing in the ledger").exit_code == 0
    assert do("recover", "refund-20").exit_code == 0


# -- export, import ----------------------------------------------------------------------------


def test_a_run_moves_in_one_file(store: Path, tmp_path: Path) -> None:
    """Out of one store and into another, with every record; and never over what is there."""
    assert do("export", "refund-17", "r.zip").exit_code == 0
    assert stat.S_IMODE((tmp_path / "r.zip").stat().st_mode) == 0o600
    assert do("export", "refund-17", "r.zip").exit_code == 1

    there = tmp_path / "there"
    came = do("import", "r.zip", "--store", there)

    assert came.exit_code == 0, came.output
    assert "effects happen twice" in came.stdout
    assert records(there, "refund-17") == records(store, "refund-17")
    assert do("show", "refund-17", "--store", there).exit_code == 3
    taken = do("import", "r.zip")
    assert taken.exit_code == 1
    assert "--as NAME" in taken.stderr
    assert do("import", "r.zip", "--as", "other").exit_code == 0
    assert do("import", "r.zip", "--as", "a/b").exit_code == 2
    assert do("import", "nope.zip").exit_code == 1


# -- gc ----------------------------------------------------------------------------------------


def test_gc_removes_only_with_yes(store: Path) -> None:
    """Without it they are counted, and the line that removes them is shown."""
    disk = values.DiskArtifacts(store / "refund-17" / "artifacts")
    disk.put(b"x" * 70_000)
    disk.close()
    dry = do("gc", "refund-17")
    assert "1 artifacts (70,000 bytes) are named by no record" in dry.stdout
    assert "durable-nb gc refund-17 --yes" in dry.stdout
    assert "were removed" in do("gc", "refund-17", "--yes").stdout
    assert "every artifact is named" in do("gc", "refund-17").stdout


# -- all of them -------------------------------------------------------------------------------

CALLS = (
    ("verify", "refund-17"),
    ("verify", "refund-20"),
    ("recover", "refund-17"),
    ("recover", "refund-20"),
    ("export", "refund-17", "r.zip"),
    ("export", "refund-20", "r.zip"),
    ("import", "nope.zip"),
    ("gc", "refund-17"),
    ("gc", "refund-17", "--yes"),
    ("gc", "nope"),
)


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_json_is_one_document(store: Path, arguments: tuple[str, ...]) -> None:
    """With `--json` stdout is one strict JSON document, errors included, with the same exit code."""
    copy = store.with_name("copy")
    shutil.copytree(store, copy)
    plain = do(*arguments)
    (store.parent / "r.zip").unlink(missing_ok=True)
    told = do(*arguments, "--json", "--store", copy)
    found = json.loads(told.stdout, parse_constant=pytest.fail)
    assert told.exit_code == plain.exit_code
    assert ("error" in found) == (told.exit_code == 1 and arguments[0] != "verify")


def test_import_tells_its_document(store: Path) -> None:
    """The run id says that it is the same run, and `twins` where else it is here."""
    assert do("export", "refund-17", "r.zip", "--json").exit_code == 0
    do("runs")
    found = document(do("import", "r.zip", "--as", "b", "--json"))
    assert found["run"] == "b"
    assert found["twins"] == ["refund-17"]
    assert found["run_id"] == document(do("verify", "refund-17", "--json"))["run_id"]


def test_recorded_text_is_shown_and_never_obeyed(store: Path) -> None:
    """A planted name in a finding can neither colour the terminal nor break the line."""
    hostile = "\x1b[31m[red]x"
    with dnb.run("h", store=store) as run:
        run.step(hostile, effect="none").call(lambda: "x" * 100_000)
    next((store / "h").glob("artifacts/*/*/*.val")).unlink()
    (store / "h" / hostile).write_text("x")
    for call in (("verify", "h"), ("recover", "h"), ("export", "h", "h.zip")):
        for result in (do(*call), do(*call, "--json")):
            assert all(c.isprintable() or c == "\n" for c in result.output), call
            assert result.exit_code == 1


SLOW = """\
import sys, time
from durable_nb.engine import read_values
from durable_nb.values.survey import Survey

def slow(*_):
    print("reading", flush=True)
    time.sleep(60)

Survey.check = slow
from durable_nb import cli
sys.argv = ["durable-nb", *sys.argv[1:]]
cli.main()
"""


def test_ctrl_c_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    """In the middle of an export: exit 130, one line, no file, no lock, no private copy."""
    with dnb.run("big", store=store) as run:
        run.step("big", effect="none").call(lambda: "x" * 100_000)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    before = tree(store)
    with subprocess.Popen(
        [sys.executable, "slow.py", "export", "big", "big.zip"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        assert list((tmp_path / "tmp").iterdir())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not list(tmp_path.glob("*.zip")) + list(tmp_path.glob(".export*"))
    assert tree(store) == before
    assert do("verify", "big").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [("runs",), ("show", "r"), ("verify", "r"), ("sql", "SELECT 1"), ("resume", "--all")],
    ids=lambda arguments: str(arguments[0]),
)
def test_an_address_of_a_database_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """It keeps both of its slashes, makes no folder, and its password is told to nobody."""
    monkeypatch.chdir(tmp_path)
    address = "postgresql://me:secret@127.0.0.1:1/db"
    named = do(*arguments, "--store", address)
    monkeypatch.setenv("DURABLE_STORE", address)
    for told in (named, do(*arguments)):
        assert told.exit_code == 1
        assert "the store postgresql://me@127.0.0.1:1/db cannot be reached" in told.stderr or (
            "verify is about the files of a run" in told.stderr
        )
        assert "secret" not in told.output + told.stderr
    assert list(tmp_path.iterdir()) == []
