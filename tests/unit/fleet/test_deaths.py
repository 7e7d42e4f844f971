"""What a dead kernel was at, as the record tells it, and when that is called a crash loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_notebook

import durable_nb as dnb
from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import QUIET
from durable_nb.fleet.deaths import CRASH_LOOP, record_death
from durable_nb.fleet.errors import CrashLoop
from durable_nb.fleet.kernels import Ending, Pass


def died(cell: int = 4, memory: int | None = 700_000_000) -> Pass:
    return Pass(Ending.DIED, new_notebook(), cell, "DeadKernelError", (), memory, -9)


def died_at(store: Path, begun: dict[str, int], **how: Any) -> CrashLoop | None:
    with open_run("r", store=store, role="operator", surroundings=QUIET) as run:
        return record_death(run, died(**how), begun)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a run in which `a#1` is done, and `outer#1` is not but has one done inside."""

    @dnb.step(effect="none")
    def inner(n):
        return n

    with dnb.open_run("r", store=tmp_path) as run:
        run.step("a", effect="none").call(lambda: 1)
        with pytest.raises(ZeroDivisionError), run.step("outer", effect="none"):
            inner(1)
            1 / 0
    return tmp_path


def test_three_in_a_row_at_one_operation_are_a_loop(store):
    """Two are not; it is named, with the memory that was seen."""
    assert [died_at(store, {"b#1": 1}) for _ in range(CRASH_LOOP - 1)] == [None, None]
    loop = died_at(store, {"b#1": 1})
    assert loop is not None
    assert str(loop).startswith("b#1 has ended 3 kernels in a row, which used up to 700 MB.")


def test_another_operation_in_between_starts_the_count_anew(store):
    """They have to be in a row."""
    for op in ("b#1", "b#1", "c#1", "b#1", "b#1"):
        assert died_at(store, {op: 1}) is None
    assert died_at(store, {"b#1": 1}) is not None


def test_what_had_ended_is_not_suspected(store):
    """An operation whose outcome is on record was not at work when the kernel died."""
    for _ in range(CRASH_LOOP):
        loop = died_at(store, {"a#1": 1, "b#1": 1})
    assert loop is not None
    assert loop.ops == ("b#1",)


def test_an_attempt_that_is_not_on_record_was_at_work(store):
    """Its intent was to ride with the next commit, and was lost with the kernel."""
    for _ in range(CRASH_LOOP):
        loop = died_at(store, {"a#1": 2})
    assert loop is not None
    assert loop.ops == ("a#1",)


def test_only_the_innermost_operation_is_suspected(store):
    """A durable cell is at work all the time that its steps are."""
    for n in range(CRASH_LOOP):
        assert died_at(store, {"outer#1": 5, f"outer#1/x#{n}": 1}) is None


def test_a_container_that_gets_on_is_not_suspected(store):
    """Between its steps it may be hit often; as long as more of them are done, it is no loop."""
    for n in range(CRASH_LOOP):
        assert died_at(store, {"outer#1": 5}) is None or n == CRASH_LOOP - 1
        with open_run("r", store=store, surroundings=QUIET) as run:
            with pytest.raises(ZeroDivisionError), run.step("outer", effect="none"):
                run.step("part", effect="none", key=str(n)).call(lambda: 1)
                1 / 0
    assert died_at(store, {"outer#1": 99}) is None


def test_where_nothing_was_at_work_the_code_of_the_cell_is_suspected(store):
    """A cell outside of the run may use up the memory as well."""
    for _ in range(CRASH_LOOP):
        loop = died_at(store, {"a#1": 1}, cell=7, memory=None)
    assert loop is not None
    assert str(loop).startswith("the code of cell 7 has ended 3 kernels in a row. ")


def test_several_at_work_each_time_are_all_named(store):
    """Which of them it was cannot be told."""
    for _ in range(CRASH_LOOP):
        loop = died_at(store, {"x#1": 1, "y#1": 1})
    assert loop is not None
    assert "one of x#1, y#1 has ended" in str(loop)


def test_it_outlives_supervisors_and_begins_anew_once_the_run_was_left_as_failed(store):
    """Each death here is recorded by another owner; who resumes a parked run has mended it."""
    from durable_nb.model.outcomes import Kind

    for _ in range(CRASH_LOOP):
        loop = died_at(store, {"b#1": 1})
    assert loop is not None
    open_run("r", store=store, surroundings=QUIET).close(Kind.FAILED, loop)
    assert died_at(store, {"b#1": 1}) is None


def test_the_history_tells_each_death(store):
    """How the kernel ended, and that it was one of the run's own records."""
    died_at(store, {"b#1": 1})
    with dnb.open_run("r", store=store) as run:
        (row,) = run.history().query("kind == 'died'").to_dict("records")
    assert "signal 9, at 700 MB" in row["detail"]
    assert "b#1" in row["detail"]
