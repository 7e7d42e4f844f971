"""The audit trail: all that was ever recorded, an operation a row."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.child import Child
from support.folders import tree

import durable_nb as dnb
from durable_nb.engine.audit import COLUMNS, to_jsonl, to_parquet

PROMPT = "Answer in one line. " * 20


def ask(question: str, *, api_key: str) -> dict[str, Any]:
    dnb.current_operation().spend(usd=0.25, tokens=30)
    return {"answer": question.upper(), "sure": True, "tries": (1, 2), "token": "sk-A1b2C3d4E5f6G7"}


def rows_of(run: Any) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in run.audit_rows()}


@pytest.fixture
def story(open_run) -> Path:
    """A model turn, a large value, an effect in doubt that was confirmed, and one taken back."""

    def lost() -> None:
        raise TimeoutError("no answer; password=hunter2hunter2")

    with open_run("r", facets={"model": "m-1", "prompt": PROMPT}) as run:
        run.step("ask", effect="none").call(ask, "where?", api_key="sk-A1b2C3d4E5f6G7")
        run.step("large", effect="none").call(lambda: "x" * 100_000)
        run.step("path", effect="none").call(lambda: Path("a"))
        with pytest.raises(dnb.UnknownOutcome):
            run.step("charge", key="o-1").call(lost)
        run.confirm("charge", {"id": "ch_1"}, evidence="seen in the ledger")
        with pytest.raises(dnb.AlreadySettled):
            run.deny("charge", evidence="not there")
        run.step("plan", effect="none").call(str, "p")
        run.invalidate("plan", "wrong customer")
    with open_run("r") as run:
        run.step("plan", effect="none").call(str, "p")
    return run.folder


def test_a_row_says_what_went_in_what_came_out_and_under_what(story):
    """Inputs, result as JSON, model and prompt whole, cost."""
    row = rows_of(dnb.watch("r", store=story.parent))["ask#1"]
    assert (row["run"], row["name"], row["key"], row["effect"]) == ("r", "ask", None, "none")
    assert row["outcome"] == "completed"
    assert row["inputs"] == {"question": "'where?'", "api_key": "[redacted]"}
    assert set(row["input_digests"]) == {"question", "api_key"}
    assert (row["model"], row["prompt"]) == ("m-1", PROMPT), "not cut off as what is shown"
    assert len(row["facets"]["prompt"]["shown"]) < len(PROMPT)
    assert (row["usd"], row["tokens"]) == (0.25, 30)
    assert row["result"] == {
        "answer": "WHERE?", "sure": True, "tries": [1, 2], "token": "[redacted]",
    }  # fmt: skip


def test_large_results_are_named_by_digest_and_what_json_does_not_know_is_shown(story):
    """Nothing is loaded that does not fit into a line."""
    found = rows_of(dnb.watch("r", store=story.parent))
    (stored,) = found["large#1"]["result"]["artifacts"]
    assert stored["size"] == 100_000
    assert len(stored["sha256"]) == 64
    assert "a" in found["path#1"]["result"]
    assert isinstance(found["path#1"]["result"], str)


def test_attempts_and_verdicts_say_who_why_and_on_what_evidence(story):
    """The second verdict is there too, and does not stand."""
    row = rows_of(dnb.watch("r", store=story.parent))["charge[o-1]#1"]
    (attempt,) = row["attempts"]
    assert (attempt["number"], attempt["epoch"], attempt["how"]) == (1, 1, "raised")
    assert "no answer" in attempt["error"]
    assert "hunter2" not in json.dumps(row)
    assert attempt["started"] <= attempt["ended"]
    assert attempt["idempotency_key"].startswith("dnb-")
    first, second = row["verdicts"]
    assert (first["kind"], first["stands"], first["evidence"]) == (
        "confirmed", True, "seen in the ledger",
    )  # fmt: skip
    assert first["actor"]
    assert first["seq"] < second["seq"]
    assert (second["kind"], second["stands"]) == ("deny", False)
    assert row["result"] == {"id": "ch_1"}


@pytest.mark.slow
def test_what_was_taken_back_stays_in_the_trail(story):
    """An invalidated result was recorded all the same: its attempt, and why it no longer counts."""
    row = rows_of(dnb.watch("r", store=story.parent))["plan#1"]
    assert [a["how"] for a in row["attempts"]] == ["completed", "completed"]
    assert [a["epoch"] for a in row["attempts"]] == [1, 2]
    (verdict,) = row["verdicts"]
    assert (verdict["kind"], verdict["reason"]) == ("invalidated", "wrong customer")


def test_a_kept_result_is_told_with_the_prompt_that_made_it(open_run):
    """An evaluation of prompts would be wrong otherwise; the question and its answer are there."""

    def answer() -> str:
        dnb.current_operation().spend(usd=1)
        return "a"

    with open_run("r", facets={"prompt": "Be kind."}) as run:
        run.step("ask", effect="none").call(answer)
    with open_run("r", facets={"prompt": "Be curt."}) as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("ask", effect="none").call(answer)
        run.keep("ask", reason="the same answer")
        run.step("ask", effect="none").call(answer)
        row = rows_of(run)["ask#1"]
    assert row["prompt"] == "Be kind."
    (question,) = row["questions"]
    assert question["changes"] == ["prompt: 'Be kind.' -> 'Be curt.'"]
    assert [(v["kind"], v["reason"]) for v in row["verdicts"]] == [("kept", "the same answer")]


@pytest.mark.slow
def test_what_a_killed_kernel_left_has_no_end(folder: Path):
    """An intent without an outcome is an attempt that nobody saw the end of."""
    row = rows_of(dnb.watch("r", store=folder.parent))["charge#1"]
    assert (row["outcome"], row["result"], row["verdicts"]) == ("unknown", None, [])
    (attempt,) = row["attempts"]
    assert (attempt["how"], attempt["ended"]) == ("no end on record", None)


@pytest.mark.slow
def test_a_frame_of_the_same_rows_and_nothing_changes_by_reading(story, open_run):
    """`run.audit()` of an open run, `watch(...).audit()` of one that nobody holds."""
    before = tree(story)
    frame = dnb.watch("r", store=story.parent).audit()
    assert tree(story) == before
    assert tuple(frame.columns) == COLUMNS
    with open_run("r") as run:
        assert (
            list(run.audit()["id"]) == list(frame["id"]) == [v.id for v in run.status_view().views]
        )


def test_an_evaluation_set_is_three_lines_of_pandas(story, tmp_path: Path):
    """As the guide says: JSON lines and Parquet hold the same rows."""
    rows = dnb.watch("r", store=story.parent).audit_rows()
    (tmp_path / "audit.jsonl").write_text(to_jsonl(rows))
    (tmp_path / "audit.parquet").write_bytes(to_parquet(rows))

    trail = pd.read_json(tmp_path / "audit.jsonl", lines=True)
    turns = trail[trail["model"].notna() & (trail["outcome"] == "completed")]
    cases = turns[["inputs", "prompt", "result", "usd"]]

    assert next(iter(cases["inputs"])) == {"question": "'where?'", "api_key": "[redacted]"}
    table = pd.read_parquet(tmp_path / "audit.parquet")
    assert tuple(table.columns) == COLUMNS
    for name in ("inputs", "attempts", "verdicts", "facets"):
        assert [json.loads(text) for text in table[name]] == [row[name] for row in rows]
    results = table.set_index("id")["result"].dropna()
    assert {op: json.loads(text) for op, text in results.items()} == {
        row["id"]: row["result"] for row in rows if row["result"] is not None
    }
    assert list(table["prompt"]) == [r["prompt"] for r in rows]


def test_what_readers_of_json_and_parquet_cannot_take_is_shown_as_text(open_run):
    """Whole numbers above 64 bits, numbers without an end, and lone surrogates."""
    with open_run("r", facets={"prompt": "a \ud800 b"}) as run:
        run.step("big", effect="none").call(lambda: 10**5000)
        run.step("odd", effect="none").call(lambda: [float("nan"), float("inf")])
        run.step("lone", effect="none", key="\ud800").call(lambda: "\ud800")
        rows = run.audit_rows()
    assert [type(row["result"]) for row in rows] == [str, str, str]
    assert len(pd.read_json(io.StringIO(to_jsonl(rows)), lines=True)) == 3
    assert len(pd.read_parquet(io.BytesIO(to_parquet(rows)))) == 3


LIVE = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
run.step("plan", effect="none").call(str, "p")


def mail():
    print("mailing", flush=True)
    time.sleep(120)


run.call(mail)
"""


@pytest.mark.slow
def test_the_owner_of_a_live_run_tells_its_trail(tmp_path: Path):
    """Also while its cell blocks; what it is doing is under way."""
    program = tmp_path / "live.py"
    program.write_text(LIVE)
    with Child(program, tmp_path / "store") as child:
        assert child.first_line() == "mailing\n"
        found = rows_of(dnb.watch("live", store=tmp_path / "store"))
        child.kill()
    assert found["plan#1"]["result"] == "p"
    assert found["mail#1"]["attempts"][0]["how"] == "under way"
    assert found["mail#1"]["outcome"] == "incomplete"
