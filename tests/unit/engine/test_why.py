"""Why an operation was reused, run again or stopped, and what had changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import durable_nb as dnb


def fail() -> None:
    raise TimeoutError("no answer")


def opened(store: Path) -> Any:
    return dnb.run("job", store=store)


def test_what_ran_says_that_nothing_was_on_record(tmp_path):
    """A first attempt has no other reason."""
    with opened(tmp_path) as run:
        run.step("a", effect="none").call(lambda: 1)
        assert run.why("a").said == "ran: nothing was on record of it"


def test_what_came_from_the_record_says_that_it_stands(tmp_path):
    """And, before the program has come to it, that it is on record."""
    with opened(tmp_path) as run:
        run.step("a", effect="none").call(len, "ab")
    with opened(tmp_path) as run:
        assert run.why("a").said == "on record, and not reached in this kernel"
        run.step("a", effect="none").call(len, "ab")
        assert run.why("a").said.startswith("reused: nothing that its record stands on has changed")


def test_what_has_changed_is_told_before_and_after(tmp_path):
    """While it is asked about, once it is kept, and once it is done again."""
    with opened(tmp_path) as run:
        for key in "12":
            run.step("plan", key=key, on_change="ask").call(len, "ab")
    with opened(tmp_path) as run:
        again = lambda key: run.step("plan", key=key, on_change="ask").call(len, "abc")  # noqa: E731
        for key, verb in (("1", "keep"), ("2", "rerun")):
            with pytest.raises(dnb.IncompatibleCheckpoint):
                again(key)
            asked = run.why(f"plan[{key}]#1")
            assert asked.said.startswith("stopped: keep its record, or do it again?")
            ((facet, before, after),) = asked.differences
            assert (facet.startswith("input "), before, after) == (True, "'ab'", "'abc'")
            getattr(run, verb)(f"plan[{key}]#1", reason="I looked")
            again(key)
            told = run.why(f"plan[{key}]#1")
            assert told.differences == asked.differences
            assert "I looked" in told.said
            assert told.said.startswith({"keep": "reused:", "rerun": "run again:"}[verb])


def test_what_stopped_the_run_says_why(tmp_path):
    """A doubt, and a wait; and after a denial, why it is done again."""
    with opened(tmp_path) as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(fail)
        assert run.why("pay").said.startswith("stopped: attempt 1 began and left no outcome")
        run.deny("pay", evidence="not in the shop")
        assert run.why("pay").said.startswith("to be run again: it had not happened")
        run.step("pay").call(lambda: 1)
        assert "not in the shop" in run.why("pay").said
        with pytest.raises(dnb.DurableSignal):
            run.approval("Go?")
        assert run.why("approval[Go?]#1").said == "stopped: waits for approval"


def test_an_attempt_that_failed_is_the_reason_of_the_next(tmp_path):
    """With its error; to repeat it does no harm."""

    def look() -> int:
        if len(calls) == 1:
            raise TimeoutError("no answer")
        return 1

    calls = [1]
    with pytest.raises(TimeoutError), opened(tmp_path) as run:
        run.step("look", effect="none").call(look)
    calls.append(2)
    with opened(tmp_path) as run:
        assert run.why("look").said.startswith("to be run again: the attempt before it failed")
        run.step("look", effect="none").call(look)
        assert "failed (TimeoutError: no answer)" in run.why("look").said


def test_it_is_told_whoever_holds_the_run(tmp_path):
    """Nobody, here: the records are read."""
    with opened(tmp_path) as run:
        run.step("a", effect="none").call(lambda: 1)
    watched = dnb.watch("job", store=tmp_path)
    assert watched.why("a").said == "on record, and not reached in this kernel"
