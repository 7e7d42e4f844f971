"""`runs`, `show`, `history` and `sql`: looking records nothing, and hides nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.child import Child
from support.terminal import HOLD, do, document, records

import durable_nb as dnb

# -- looking -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_looking_records_nothing_and_forgets_nothing(store: Path) -> None:
    """However often one looks, the journal stays as it was, and so does how the kernel ended."""
    before = records(store, "refund-17")
    for _ in range(2):
        for verb in (["runs"], ["show", "refund-17"], ["history", "refund-17"]):
            do(*verb)
        assert "its last kernel ended without closing the run" in do("show", "refund-17").stdout
    assert records(store, "refund-17") == before


def test_a_doubt_is_explained(store: Path) -> None:
    """`show RUN OP` says why the outcome is not known, its inputs, key and records."""
    shown = do("show", "refund-17", "mail#1")
    assert shown.exit_code == 3
    for part in ("its kernel ended before an outcome", "ada@example.org", "dnb-", "intended"):
        assert part in shown.stdout
    assert do("show", "refund-17", "plan#1").exit_code == 0


@pytest.mark.slow
def test_lost_records_need_a_person_and_looking_does_not_hide_them(store: Path) -> None:
    """A journal that went back in time is shown as doubt, again and again, until accepted."""
    for _ in range(2):
        shown = do("show", "refund-20")
        assert shown.exit_code == 3
        assert "records of this run are lost" in shown.stdout
    line = document(do("show", "refund-20", "--json"))["open"][-1]["line"]
    assert do(*shlex.split(line.replace("…", "nothing in the shop"))[1:]).exit_code == 0
    assert do("show", "refund-20").exit_code == 0

    again = do("accept", "refund-20", "--reason", "once more")
    assert again.exit_code == 1
    assert "none of its records is lost" in again.stderr


@pytest.mark.slow
def test_a_run_that_cannot_be_read_does_not_hide_the_others(store: Path) -> None:
    """`runs` lists a damaged run with what is wrong, beside those that are well."""
    broken = store / "broken"
    broken.mkdir(mode=0o700)
    (broken / "journal.duckdb").write_bytes(b"no database" * 1000)
    listed = do("runs")
    assert listed.exit_code == 0
    assert "refund-17" in listed.stdout
    assert "broken" in listed.stdout
    assert "broken:" in listed.stderr
    note = {r["name"]: r["note"] for r in document(do("runs", "--json"))}
    assert note["broken"]
    assert note["refund-17"] is None


def test_expected_steps_are_shown_as_not_begun(store: Path) -> None:
    """What was announced and not reached stands in the table, and is no question for a person."""
    dnb.open_run("soon", store=store, expect=["plan", "mail"]).close()
    shown = do("show", "soon")
    assert shown.exit_code == 0
    assert shown.stdout.count("expected, not begun") == 2
    assert document(do("show", "soon", "--json"))["expected"] == ["plan", "mail"]


@pytest.mark.slow
def test_sql_answers_over_the_whole_store(store: Path) -> None:
    """A run whose kernel died between two publications is in the answer all the same."""
    query = "SELECT run, id FROM operations WHERE outcome = 'unknown' ORDER BY run"
    found = document(do("sql", query, "--json"))
    assert {"run": "refund-17", "id": "mail#1"} in found
    assert {"run": "refund-18", "id": "charge[o-1]#1"} in found


# -- a run that somebody holds -----------------------------------------------------------------


@pytest.mark.slow
def test_a_held_run_is_shown_from_its_mirror_and_its_owner_judges(store: Path) -> None:
    """A live run can be looked at, with who holds it; a verdict goes to its owner."""
    program = store.parent / "hold.py"
    program.write_text(HOLD)
    with Child(program, store) as child:
        child.until(lambda: "mail" in do("show", "live", "--json").stdout)

        shown = do("show", "live")
        assert shown.exit_code == 0, "what is running is not unknown"
        assert str(child.pid) in shown.stderr
        assert "its mirror, published" in shown.stderr
        assert "running" in shown.stdout
        assert do("show", "live", "mail#1").exit_code == 0
        found = document(do("show", "live", "--json"))
        assert (found["status"], str(child.pid) in found["held_by"]) == ("open", True)

        refused = do("confirm", "live", "mail#1", "1", "--evidence", "x", "--json")
        assert refused.exit_code == 1
        assert document(refused)["error"]["type"] == "StillRunning"
        assert "mail#1 is still running" in refused.stderr
        records = document(do("history", "live", "--json"))
        assert "mail#1" in {record["op"] for record in records}, "its owner tells its history"
        told = document(do("show", "live", "mail#1", "--json"))
        assert [record["kind"] for record in told["history"]] == ["intended"]

        status = {r["name"]: (r["status"], r["note"]) for r in document(do("runs", "--json"))}
        assert status["live"][0] == "open"
        assert str(child.pid) in status["live"][1]
        child.kill()

    status = {r["name"]: (r["status"], r["unknown"]) for r in document(do("runs", "--json"))}
    assert status["live"] == ("crashed", 1)
    assert do("show", "live").exit_code == 3


@pytest.mark.slow
def test_a_run_that_was_just_reopened_is_not_called_closed(store: Path) -> None:
    """The owner's process counts more than a mirror that it has not published yet."""
    dnb.open_run("again", store=store).close()
    status = {r["name"]: r["status"] for r in document(do("runs", "--json"))}
    assert status["again"] == "closed"
    run = dnb.open_run("again", store=store)
    status = {r["name"]: r["status"] for r in document(do("runs", "--json"))}
    assert status["again"] == "open"
    assert document(do("show", "again", "--json"))["status"] == "open"
    run.close()
