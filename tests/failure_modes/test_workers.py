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
        eventually(lambda: list(dnb.runs(store=bench.store)["status"]) == ["open", "open"])
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
    for n in range(5):
        run.step("act", key=n).call(lambda n: n, n)
        if n == 2 and more:
            die()
    tell(spent=sum(spent), commits=len(spent), text=str(run.report()))
    DuckDBJournal.append = append
"""


def test_checkpoint_overhead_unnoticed(bench: Bench) -> None:
    """What commits cost is in no operation's duration; the report names it, over all kernels.

    It names the steps that cause it, and says what to do. A kernel that is killed leaves out no
    more than the commit of its last outcome.
    """
    assert bench.run(SLOW_DISK, "die").killed
    told = bench.run(SLOW_DISK).ok().facts
    assert told["commits"] == 4  # an intent and an outcome for each of the last two

    run = dnb.watch("r", store=bench.store)
    assert run.operations()["duration_s"].max() < 0.2  # no commit is in there
    report = run.report()
    line = report.about("checkpointing")
    assert line is not None
    assert line.numbers["checkpoint_s"] >= 5 * 0.2 + told["spent"]  # five were told before the kill
    assert line.numbers["share"] > 0.9
    assert "Do more in each step" in line.advice
    small = report.about("small steps")
    assert small is not None
    assert small.numbers["steps"]["act"]["calls"] == 5
    assert "act (5 calls" in told["text"]  # by the kernel itself, too


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
            loop.result = sum(run.step("turn", effect="none").call(turn, n).n for n in range(1001))
            if mode == "die inside":
                die()
    if mode == "die after":
        die()
    tell(total=loop.result, decoded=len(decoded), came_to=len(run.sources))
"""


@pytest.mark.parametrize(("when", "turns"), [("die after", 0), ("die inside", 1001)])
def test_unbounded_replay(bench: Bench, when: str, turns: int) -> None:
    """Going on from a completed operation neither comes to nor decodes what lies inside of it.

    A loop of 1,001 turns that is done is one value; one that was cut short replays its turns, and
    the report says how many each resume replays, and advises to pin it.
    One that pins its state, below, replays nothing of what lies before its last pin.
    """
    assert bench.run(LOOP, when).killed
    line = dnb.watch("r", store=bench.store).report().about("resume")
    assert line is not None
    if turns:
        assert line.numbers == {"operations": turns, "largest": turns, "scope": "loop#1"}
        assert "1,001 of them inside of loop#1" in line.says
        assert "pin the loop's state" in line.advice
    else:
        assert line.numbers == {"operations": 1, "largest": 1, "scope": ""}
        assert "pin" not in line.advice

    seen = bench.run(LOOP, "go").ok().facts

    assert seen == {"total": sum(range(1001)), "decoded": turns, "came_to": turns + 1}


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
