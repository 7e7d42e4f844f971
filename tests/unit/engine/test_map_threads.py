"""The threads of a map: one while it keeps a processor busy, else all; nothing is back too early."""

from __future__ import annotations

import threading
import time

import pytest

import durable_nb as dnb

_PATIENCE_S = 20.0


def test_what_a_map_gives_back_is_on_disk(open_run, monkeypatch):
    """Also the last results, which came while the results before them were being committed."""
    with open_run() as run:
        flush = run.make_durable

        def slowly() -> None:
            flush()
            time.sleep(0.02)

        monkeypatch.setattr(run, "make_durable", slowly)
        for turn in range(10):
            keys = [f"{turn}.{n}" for n in range(5)]
            assert run.map(str.upper, keys, key=str, effect="none", limit=8) == keys
            assert [
                k for k in keys if not run.is_durable(run.fold.operations[f"upper[{k}]#1"])
            ] == []


@pytest.mark.parametrize("effect", ["none", "idempotent", "external"])
def test_bodies_that_wait_run_as_many_at_once_as_they_may(open_run, effect):
    """Each of them waits for all others; with fewer threads none would come to its end."""
    together = threading.Barrier(6)

    def meet(n: int) -> int:
        together.wait(_PATIENCE_S)
        return n

    with open_run() as run:
        assert run.map(meet, range(12), effect=effect, limit=6) == list(range(12))


def test_a_body_that_computes_for_long_does_not_hold_up_the_next_item(open_run):
    """The processor is busy, and still the others begin: they may compute outside of Python."""
    begun = [threading.Event() for _ in range(3)]

    def compute(n: int) -> int:
        begun[n].set()
        limit = time.monotonic() + _PATIENCE_S
        while not all(one.is_set() for one in begun):
            assert time.monotonic() < limit
        return n

    with open_run() as run:
        assert run.map(compute, range(3), effect="none", limit=3) == [0, 1, 2]


def test_one_call_at_a_time_is_on_disk_before_the_next_begins(open_run):
    """With `limit=1` a map is a loop."""
    with open_run() as run:

        def look(n: int) -> bool:
            before = run.fold.operations.get(f"look[{n - 1}]#1")
            return before is None or run.is_durable(before)

        assert all(run.map(look, range(30), key=str, effect="none", limit=1))


def test_the_first_error_stops_one_thread_as_it_stops_many(open_run, effects):
    """What it had recorded before is kept, and the rest is done by the next call."""

    fails = [40]

    def work(n: int) -> int:
        effects(n)
        if n in fails:
            fails.clear()
            raise ValueError(n)
        return n

    with open_run() as run:
        with pytest.raises(ValueError, match="40"):
            run.map(work, range(100), key=str, effect="none", limit=8)
        recorded = int((run.operations()["outcome"] == "completed").sum())
        assert recorded >= 40
    with open_run() as run:
        assert run.map(work, range(100), key=str, effect="none", limit=8) == list(range(100))
    assert effects.count == 101


def test_a_map_whose_results_cannot_be_written_says_so_and_begins_nothing_more(
    open_run, effects, monkeypatch
):
    """Once they can be, they are written, and nothing that was done is done again."""
    with open_run() as run:
        flush, calls = run.make_durable, []

        def fails() -> None:
            calls.append(1)
            if len(calls) > 1:
                raise dnb.JournalUnwritable("r", "the disk is full.", "Free some space.")
            flush()

        monkeypatch.setattr(run, "make_durable", fails)

        def work(n: int) -> int:
            time.sleep(0.0001)
            return effects(n)

        with pytest.raises(dnb.JournalUnwritable, match="the disk is full"):
            run.map(work, range(5_000), key=str, effect="none", limit=4)
        done = effects.count
        assert done < 5_000
        monkeypatch.undo()
    with open_run() as run:
        assert len(run.map(work, range(done + 50), key=str, effect="none", limit=4)) == done + 50
    assert effects.count == done + 50
