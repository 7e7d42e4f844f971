"""Fork, compare and audit from the command line."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pandas as pd
import pytest
from support.folders import tree
from support.terminal import do, document

import durable_nb as dnb


@pytest.fixture(autouse=True)
def tidy(store: Path) -> None:
    """The lent store is restored after each test, forks included."""


def test_a_fork_says_what_was_copied_and_changes_nothing_of_the_original(store: Path) -> None:
    """The run was killed in a mail: forked before it, nothing is in doubt."""
    before = tree(store / "refund-17")
    result = do("fork", "refund-17", "what-if", "--at", "mail", "--reason", "another text")
    assert result.exit_code == 0
    assert result.stdout == (
        "run what-if is a fork of refund-17, as it stood before mail#1\n"
        "  copied: plan#1, charge[o-1]#1\n"
        "  effects outside that are not repeated: charge[o-1]#1\n"
        "  unknown, in the fork too, until settled there: nothing\n"
        "Effects outside of its own are refused until they are granted in it:\n"
        '    run.grant("external", by="...", reason="...")\n'
        "Go on with it:\n"
        '    run = dnb.open_run("what-if")\n'
    )
    assert tree(store / "refund-17") == before
    assert "another text" in do("history", "what-if").stdout


@pytest.mark.slow
def test_a_fork_as_one_document(store: Path) -> None:
    """Its fields are those of `Forked`; what is unknown is named."""
    told = document(do("fork", "refund-17", "what-if", "--json"))
    assert told == {
        "name": "what-if",
        "folder": str(store / "what-if"),
        "of": "refund-17",
        "at": "",
        "operations": ["plan#1", "charge[o-1]#1", "mail#1"],
        "effects": ["charge[o-1]#1"],
        "unknown": ["mail#1"],
        "elsewhere": "",
    }
    assert do("show", "what-if").exit_code == 3


@pytest.mark.slow
def test_refusals_make_nothing(store: Path) -> None:
    """A name that is taken, or that none can have; an operation that is none; a lost journal."""
    names = sorted(p.name for p in store.iterdir())
    for arguments, said in (
        (("refund-17", "refund-18"), "already"),
        (("refund-17", "a/b"), "cannot be the name of a run"),
        (("refund-17", "new", "--at", "nail"), "nail"),
        (("refund-20", "new"), "verify refund-20"),
        (("nowhere", "new"), "no run 'nowhere'"),
        (("refund-17", "new", "--reason", "…"), "say in words"),
    ):
        result = do("fork", *arguments)
        assert result.exit_code in (1, 2)
        assert said in result.stderr
    assert sorted(p.name for p in store.iterdir()) == names


@pytest.mark.slow
def test_the_lines_of_a_refused_effect_grant_it(store: Path) -> None:
    """What a person reads leads to the grant, and the grant is in the history of the fork."""
    do("fork", "refund-17", "what-if", "--at", "charge")

    def charge() -> str:
        return "ch_2"

    with dnb.run("what-if") as run, pytest.raises(dnb.ScopeDenied) as stop:
        run.step(key="o-1").call(charge)
    assert 'durable-nb grant what-if external --reason "..."' in str(stop.value)
    assert do("grant", "what-if", "external", "--reason", "a test customer").exit_code == 0
    with dnb.run("what-if") as run:
        assert run.step(key="o-1").call(charge) == "ch_2"


@pytest.mark.slow
def test_two_runs_side_by_side(store: Path) -> None:
    """A table of both; durations are in the document only, because they never repeat."""
    shown = do("compare", "refund-17", "refund-18").stdout.splitlines()
    assert shown[0].split("  ")[0] == "operation"
    assert "duration" not in shown[0]
    assert [line.split()[0] for line in shown[1:]] == ["plan#1", "charge[o-1]#1", "mail#1"]
    told = document(do("compare", "refund-17", "refund-18", "--json"))
    plan, charge, mail = told["operations"]
    assert (plan["same"], charge["same"], mail["outcome_b"]) == (True, None, None)
    assert charge["outcome_b"] == "unknown"
    assert plan["duration_a"] >= 0


@pytest.mark.slow
def test_the_trail_is_json_lines_or_a_file(store: Path, tmp_path: Path) -> None:
    """On standard output, one object a line; in a file of mode 0600, replaced as a whole."""
    lines = do("audit", "refund-17").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == ["plan#1", "charge[o-1]#1", "mail#1"]
    assert rows[1]["result"] == {"id": "re_1", "order": "o-1"}
    assert document(do("audit", "refund-17", "--json")) == rows

    file = tmp_path / "audit.jsonl"
    file.write_text("as it was")
    result = do("audit", "refund-17", "-o", file)
    assert result.stdout == f"run refund-17: 3 operations are in {file}\n"
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    told = document(
        do("audit", "refund-17", "--format", "parquet", "-o", tmp_path / "a.parquet", "--json")
    )
    assert (told["format"], told["operations"]) == ("parquet", 3)
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert [json.loads(text) for text in table["inputs"]] == [row["inputs"] for row in rows]
    assert sorted(p.name for p in tmp_path.glob(".audit-*")) == []


def test_a_parquet_file_needs_a_name(store: Path) -> None:
    """It is not for a terminal."""
    result = do("audit", "refund-17", "--format", "parquet")
    assert result.exit_code == 2
    assert "-o FILE" in result.stderr
