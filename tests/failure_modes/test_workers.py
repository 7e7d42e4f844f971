"""Failure modes of workers: dead ones, slow ones, and what a resume has to load."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.waiting import eventually

import durable_nb as dnb

pytestmark = pytest.mark.slow  # each starts several processes

SLOW = """
def work():
    print("begun", flush=True)
    time.sleep(60)

run = dnb.open_run(more[0], store=store)
run.call(work)
"""


def test_crashed_runs_indistinguishable_from_long_running(bench: Bench) -> None:
    """A run whose kernel is dead is told from one whose kernel is slow, at once, without a time-out.

    The lease is the system's: it is free the moment that its holder is gone, and never before.
    """
    with bench.start(SLOW, "slow") as slow, bench.start(SLOW, "dead") as dead:
        for child in (slow, dead):
            assert child.first_line() == "begun\n"
        eventually(lambda: set(dnb.runs(store=bench.store)["status"]) == {"open"})
        dead.kill()
        frame = dnb.runs(store=bench.store).set_index("name")
        assert frame.loc["slow", "status"] == "open"
        assert frame.loc["dead", "status"] == "crashed"
        assert dnb.watch("slow", store=bench.store).status_view().counts["unknown"] == 0
        assert dnb.watch("dead", store=bench.store).status_view().counts["unknown"] == 1


SLOW_DISK = """
from durable_nb.journal.duckdb_journal import DuckDBJournal

append, spent = DuckDBJournal.append, []

def slow(self, drafts, *, lazy=False):
    began = time.monotonic()
    time.sleep(0.2)
    records = append(self, drafts, lazy=lazy)
    spent.append(time.monotonic() - began)
    return records

with dnb.run("r", store=store) as run:
    DuckDBJournal.append = slow
    began = time.monotonic()
    for n in range(5):
        run.step("act", key=n).call(lambda n: n, n)
    took = time.monotonic() - began
    DuckDBJournal.append = append
    tell(recording=sum(spent[1:]), took=took, commits=len(spent))
"""


def test_checkpoint_overhead_unnoticed(bench: Bench) -> None:
    """What commits cost is in no operation's duration, and is computed from the journal alone.

    It is the span of the records less the durations of the bodies. (That a run shows it by itself
    comes with the control issue; until then the encoding of a result counts as its body's time.)
    """
    told = bench.run(SLOW_DISK).ok().facts
    assert told["commits"] == 10  # an intent and an outcome each

    with dnb.watch("r", store=bench.store).held("reader") as run:
        operations, records = run.operations(), run.history()

    begun = records.query("kind == 'intended'")["ts"].min()
    span = (operations["ended"].max() - begun).total_seconds()
    assert operations["duration_s"].max() < 0.2  # no commit is in there
    overhead = span - operations["duration_s"].sum()
    assert 0.9 * told["recording"] < overhead < told["took"]


LOOP = """
mode = more[0]
decoded = []

class Turn:
    def __init__(self, n):
        self.n = n

def load(n):
    if threading.current_thread() is threading.main_thread():  # the mirror has one of its own
        decoded.append(n)
    return Turn(n)

dnb.register_codec("turn", Turn, 1, lambda turn: turn.n, load)

def turn(n):
    return Turn(n)

with dnb.run("r", store=store) as run:
    decoded.clear()
    with run.step("loop", effect="none") as loop:
        if loop.needed:
            loop.result = sum(run.step("turn", effect="none").call(turn, n).n for n in range(1000))
            if mode == "die inside":
                die()
    if mode == "die after":
        die()
    tell(total=loop.result, decoded=len(decoded), came_to=len(run.sources))
"""


@pytest.mark.parametrize(("when", "turns"), [("die after", 0), ("die inside", 1000)])
def test_unbounded_replay(bench: Bench, when: str, turns: int) -> None:
    """Going on from a completed operation neither comes to nor decodes what lies inside of it.

    A loop of 1,000 turns that is done is one value; one that was cut short replays its turns.
    One that pins its state, below, replays nothing of what lies before its last pin.
    """
    assert bench.run(LOOP, when).killed

    seen = bench.run(LOOP, "go").ok().facts

    assert seen == {"total": sum(range(1000)), "decoded": turns, "came_to": turns + 1}


PINNED_LOOP = LOOP.replace(
    LOOP[LOOP.index("    with run.step") :],
    """
    with run.pinned("loop", 0) as loop:
        resumed = loop.turn
        for n in range(loop.turn, 300):
            loop.pin(loop.state + run.step("turn", effect="none").call(turn, n).n)
            if mode == "die inside" and n == 249:
                run.step("turn", effect="none").call(turn, n + 1)
                die()
    tell(total=loop.state, resumed=resumed, decoded=len(decoded), known=len(run.fold.operations))
""",
)


def test_unbounded_replay_of_a_pinned_loop(bench: Bench) -> None:
    """A loop that pins its state goes on from its last pin: what lies before it is not loaded."""
    assert bench.run(PINNED_LOOP, "die inside").killed

    seen = bench.run(PINNED_LOOP, "go").ok().facts

    assert seen["total"] == sum(range(300))
    assert (seen["resumed"], seen["known"]) == (250, 1)
    assert seen["decoded"] <= 2 * 50  # its own turns, at most: live results are decoded as well
