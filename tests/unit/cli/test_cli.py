"""The command line: exit codes, one JSON document, and nothing recorded acts on you."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.terminal import ROOT, do, document, run_it

import durable_nb as dnb
from durable_nb.engine.store import open_run
from durable_nb.faces import look
from durable_nb.faces.plain import clean, to_json

# -- exit codes --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_effect_needs_a_person_until_it_is_confirmed(store: Path) -> None:
    """`show` exits 3 while something is unknown, and 0 once a person has settled it."""
    shown = run_it("show", "refund-17")
    assert (shown.returncode, shown.stderr.count("Traceback")) == (3, 0)
    assert "mail#1" in shown.stdout

    settled = run_it("confirm", "refund-17", "mail#1", '{"id": "m_1"}', "--evidence", "in the log")
    assert settled.returncode == 0, settled.stderr

    assert run_it("show", "refund-17").returncode == 0
    assert "{'id': 'm_1'}" in do("show", "refund-17").stdout


def test_the_row_number_and_the_only_name_settle_too(store: Path) -> None:
    """A verdict takes what `show` prints: an id, the row's number, or a name that only one has."""
    assert do("deny", "refund-17", "3", "--evidence", "no such mail").exit_code == 0
    assert do("deny", "refund-18", "charge", "--evidence", "no such charge").exit_code == 0
    assert do("show", "refund-17").exit_code == do("show", "refund-18").exit_code == 0


def test_the_second_verdict_is_refused_and_the_first_one_stands(store: Path) -> None:
    """Two operators, one question: the second gets `AlreadySettled`, exit 1."""
    assert do("confirm", "refund-17", "mail#1", "1", "--evidence", "seen").exit_code == 0

    second = do("deny", "refund-17", "mail#1", "--evidence", "not seen")

    assert second.exit_code == 1
    assert "already settled: confirmed by ada" in second.stderr
    row = document(do("show", "refund-17", "mail#1", "--json"))
    assert row["operation"]["result"] == "1"
    assert [r["kind"] for r in row["history"]][-1] == "contested"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", "nope"), 1),
        (("show", "refund-17", "nope"), 1),
        (("confirm", "refund-17", "plan", "1", "--evidence", "x"), 1),
        (("deny", "nope", "x"), 1),
        (("sql", "SELECT"), 1),
        (("show", "a/b"), 2),
        (("show", ".."), 2),
        (("show", "a\0b"), 2),
        (("show", "x" * 300), 2),
        (("show",), 2),
        (("nothing",), 2),
        (("confirm", "refund-17", "mail#1", "1"), 2),
        (("invalidate", "refund-17", "plan", "--reason", "x", "--effect", "gone"), 2),
        (("reconcile", "refund-17"), 3),
        (("runs",), 0),
    ],
)
def test_exit_codes(store: Path, arguments: tuple[str, ...], code: int) -> None:
    """0 done, 1 error, 2 wrong call, 3 a person is needed; never a traceback."""
    result = do(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    if code in (1, 2):
        assert result.stderr.strip()
        assert result.stdout == ""


def test_a_missing_run_creates_nothing(tmp_path: Path) -> None:
    """Looking for a run in a store that is not there leaves no folder behind."""
    for verb in (["show"], ["history"], ["deny"], ["reconcile"]):
        more = ["x"] if verb == ["deny"] else []
        assert do(*verb, "nope", *more, "--store", tmp_path / "s").exit_code == 1
    assert do("runs", "--store", tmp_path / "s").exit_code == 0
    assert not (tmp_path / "s").exists()


def test_the_traceback_is_shown_on_demand_only(store: Path) -> None:
    """An error is one paragraph; `--debug` adds where it came from."""
    assert "Traceback" not in do("show", "nope").output
    assert "Traceback" in do("show", "nope", "--debug").stderr


def test_an_unexpected_error_is_told_and_not_swallowed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody foresaw exits 1, names its class, and says how to see more."""

    def broken(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(look, "list_runs", broken)
    result = do("runs")
    assert result.exit_code == 1
    assert "KeyError" in result.stderr
    assert "--debug" in result.stderr


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_one_line(store: Path) -> None:
    """An interrupt is no error of the run: one line, and nothing is recorded of the question."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    asked = [sys.executable, "-m", "durable_nb.cli", "reconcile", "refund-18"]
    with subprocess.Popen(
        [*asked, "--reconciler", "charge=lookups:slow"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "interrupted"
    assert "Traceback" not in said
    assert do("show", "refund-18").exit_code == 3


# -- JSON --------------------------------------------------------------------------------------

JSON_CALLS: tuple[tuple[str, ...], ...] = (
    ("runs",),
    ("show", "refund-17"),
    ("show", "refund-17", "mail#1"),
    ("history", "refund-17"),
    ("history", "refund-17", "plan#1"),
    ("sql", "SELECT id, started, usd FROM operations ORDER BY run, row"),
    ("reconcile", "refund-18"),
    ("reconcile", "refund-18", "--reconciler", "charge=lookups:find"),
    ("confirm", "refund-17", "mail#1", "1", "--evidence", "x"),
    ("deny", "refund-17", "mail#1"),
    ("invalidate", "refund-18", "plan#1", "--reason", "x"),
    ("invalidate", "refund-18", "plan#1", "--reason", "x", "--yes"),
    ("keep", "refund-17", "charge"),
    ("rerun", "refund-17", "plan"),
    ("accept", "refund-20", "--reason", "looked"),
    ("show", "nope"),
    ("accept", "refund-17", "--reason", "x"),
    ("sql", "SELECT nothing"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", JSON_CALLS, ids=" ".join)
def test_json_is_one_document_on_stdout(store: Path, arguments: tuple[str, ...]) -> None:
    """With `--json` stdout is one strict JSON document, errors included; words go to stderr."""
    plain, told = do(*arguments), do(*arguments, "--json")
    found = json.loads(told.stdout, parse_constant=pytest.fail)
    assert told.exit_code in (plain.exit_code, 1, 0)
    if told.exit_code == 1:
        assert found["error"]["exit_code"] == 1
        assert found["error"]["message"] in told.stderr
    assert told.stdout.isascii()


@pytest.mark.slow
def test_json_uses_the_names_of_the_design_and_utc(store: Path) -> None:
    """Operations have the columns of `run.operations()`, and their times are UTC in ISO form."""
    row = document(do("show", "refund-17", "--json"))["operations"][0]
    run = open_run("refund-17", store=store, role="reader")
    columns = set(run.operations().columns)
    run.close()
    assert set(row) == columns
    assert row["started"].endswith("+00:00")
    assert isinstance(row["attempt"], int)
    found = document(do("runs", "--json"))
    assert set(dnb.runs(store).columns) <= set(found[0])
    assert {r["name"]: r["status"] for r in found} == {
        f"refund-{n}": "crashed" for n in range(17, 21)
    }


def test_values_that_json_lacks_become_null_or_text() -> None:
    """NaN and missing times are null, so that every JSON reader takes the document."""
    import numpy as np
    import pandas as pd

    found = {"a": float("nan"), "b": pd.NaT, "c": pd.NA, "d": np.int64(3), "e": b"x", "f": 1e400}
    assert to_json(found) == {"a": None, "b": None, "c": None, "d": 3, "e": "b'x'", "f": "inf"}


# -- what a run recorded is text ---------------------------------------------------------------

HOSTILE = "\x1b[31m[red]x[/red]\u202e\x07"


@pytest.mark.slow
def test_recorded_text_is_shown_and_never_obeyed(store: Path) -> None:
    """Names, keys, inputs, results and errors can hold markup and escapes; both are shown."""
    name = "[red]mail[bold] :smile:"
    with dnb.run(name, store=store) as run:
        run.step(HOSTILE, effect="none", key=HOSTILE).call(str, HOSTILE)
        with pytest.raises(ValueError, match="invalid literal"):
            run.step("bad", effect="none").call(int, HOSTILE)
        run.invalidate(1, reason=HOSTILE)
    for call in (
        ("runs",),
        ("show", name),
        ("show", name, "1"),
        ("show", name, "2"),
        ("history", name),
        ("sql", "SELECT * FROM operations"),
        ("invalidate", name, "bad", "--reason", HOSTILE),
        ("reconcile", name),
        ("show", HOSTILE),
    ):
        for result in (do(*call), do(*call, "--json")):
            shown = result.output
            assert all(c.isprintable() or c == "\n" for c in shown), (call, shown)
    listed = {r["name"]: r["incomplete"] for r in document(do("runs", "--json"))}
    assert listed[name] == 2, "brackets in a path are no pattern"
    assert name in do("runs").stdout
    assert "[red]" in do("show", name, "2").stdout
    assert "\\x1b" in do("show", name, "2").stdout
    assert "[red]x" in do("show", HOSTILE).stderr


def test_clean_text_is_one_printable_line() -> None:
    """Controls, invisible characters, line ends and lone surrogates are shown as escapes."""
    assert clean("a\x1b\n\u202e\ud800é") == "a\\x1b\\n\\u202e\\ud800é"


@pytest.mark.slow
def test_no_colour_reaches_a_pipe(store: Path) -> None:
    """Where stdout is no terminal there are no escapes, and no row is broken in two."""
    shown = run_it("show", "refund-17")
    assert "\x1b" not in shown.stdout + shown.stderr
    listed = run_it("runs").stdout.splitlines()
    assert len(listed) == 5
    assert all(line == line.rstrip() for line in listed)
