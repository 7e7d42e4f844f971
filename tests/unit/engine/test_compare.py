"""Two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.child import Child
from support.folders import tree

import durable_nb as dnb
from durable_nb.engine.compare import COLUMNS


def rows(*runs: Any, **more: Any) -> dict[str, dict[str, Any]]:
    frame = dnb.compare(*runs, **more)
    assert tuple(frame.columns) == COLUMNS
    found = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return {row["op"]: row for row in found}


def answer(question: str) -> str:
    dnb.current_operation().spend(usd=0.5)
    return f"an answer to {question}"


@pytest.mark.slow
def test_a_fork_beside_its_original_shows_what_differs(open_run):
    """What was copied is the same; what was done anew has its own result, cost and cause."""
    with open_run("a", facets={"prompt": "Be kind."}) as run:
        run.step("plan", effect="none").call(str, "p")
        run.step("ask", effect="none").call(answer, "one")
        run.step("gone", effect="none").call(str, "only there")
        run.fork("b", at="ask")
    with open_run("b", facets={"prompt": "Be curt."}, on_change="keep") as run:
        run.step("plan", effect="none").call(str, "p")
        run.step("ask", effect="none").call(answer, "two")
        run.step("more", effect="none").call(str, "only here")
    store = run.folder.parent

    found = rows("a", "b", store=store)

    assert list(found) == ["plan#1", "ask#1", "gone#1", "more#1"]
    assert found["plan#1"]["same"] is True
    ask = found["ask#1"]
    assert ask["same"] is False
    assert (ask["result_a"], ask["result_b"]) == ("'an answer to one'", "'an answer to two'")
    assert (ask["outcome_a"], ask["usd_a"], ask["usd_b"]) == ("completed", 0.5, 0.5)
    assert ask["duration_a"] >= 0 <= ask["duration_b"]
    assert "prompt: 'Be kind.' -> 'Be curt.'" in ask["changes"]
    assert "input question: 'one' -> 'two'" in ask["changes"]
    assert (found["gone#1"]["same"], found["gone#1"]["outcome_b"]) == (None, "")
    assert (found["more#1"]["outcome_a"], found["more#1"]["result_b"]) == ("", "'only here'")


@pytest.mark.slow
def test_results_are_compared_by_value_and_not_by_what_is_shown_of_them(open_run):
    """Two long texts with one beginning differ; a dict in another order is the same."""
    for name, text, pairs in (("a", "x", "kv"), ("b", "y", "vk")):
        with open_run(name) as run:
            run.step("long", effect="none").call(lambda text: "-" * 500 + text, text)
            run.step("large", effect="none").call(lambda text: "-" * 70_000 + text, text)
            run.step("dict", effect="none").call(lambda pairs: dict.fromkeys(pairs, 1), pairs)
    found = rows("a", "b", store=run.folder.parent)
    assert found["long#1"]["result_a"] == found["long#1"]["result_b"]
    assert found["large#1"]["result_a"] == found["large#1"]["result_b"]
    assert [found[op]["same"] for op in ("long#1", "large#1", "dict#1")] == [False, False, True]


@pytest.mark.slow
def test_failures_and_doubts_have_no_result_and_are_shown(open_run):
    """A failure that the program handled is compared by its words."""

    def fail(why: str) -> None:
        raise ValueError(why)

    for name, why in (("a", "this"), ("b", "that")):
        with open_run(name) as run:
            with pytest.raises(ValueError, match=why):
                run.step("fail", effect="none").call(fail, why)
            run.step("go on", effect="none").call(str, 1)
            with pytest.raises(dnb.UnknownOutcome):
                run.step("charge").call(fail, "no answer")
    found = rows("a", "b", store=run.folder.parent)
    assert found["fail#1"]["same"] is False
    assert found["fail#1"]["result_a"] == "ValueError: this"
    assert found["charge#1"]["outcome_b"] == "unknown"


@pytest.mark.slow
def test_runs_are_named_or_handed_over(open_run):
    """An open run, a closed one, a watched one and a name are the same thing; nothing changes."""
    with open_run("a") as run:
        run.step("x", effect="none").call(str, 1)
        store = run.folder.parent
        assert rows(run, run)["x#1"]["same"] is True
    before = tree(run.folder)
    for there in (run, "a", dnb.watch("a", store=store)):
        assert rows(there, "a", store=store)["x#1"]["same"] is True
    assert tree(run.folder) == before
    with pytest.raises(dnb.RunMissing):
        dnb.compare("a", "nowhere", store=store)


HOLD = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
run.step("plan", effect="none").call(str, "p")
time.sleep(3)
print("published", flush=True)
time.sleep(120)
"""


@pytest.mark.slow
def test_a_run_that_another_process_holds_is_compared_by_its_mirror_and_that_is_said(
    open_run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Its values are its owner's; what is shown of them is as its owner published it."""
    with open_run("a") as run:
        run.step("plan", effect="none").call(str, "p")
    program = tmp_path / "hold.py"
    program.write_text(HOLD)
    with Child(program, run.folder.parent) as child:
        assert child.first_line() == "published\n"
        found = rows("a", "live", store=run.folder.parent)
        child.kill()
    assert found["plan#1"]["same"] is True
    assert found["plan#1"]["changes"] == ""
    said = capsys.readouterr().err
    assert "run live is held by another process" in said
    assert "compared by what is shown of them" in said
