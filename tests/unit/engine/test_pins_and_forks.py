"""Where pinned loops meet forks, the audit trail, the report and a comparison."""

from __future__ import annotations

import pytest
from support.child import Child

import durable_nb as dnb
from durable_nb.engine.measures import measure
from durable_nb.journal import Head, open_journal
from durable_nb.model.fold import Fold


def turns(run, act, upto):
    """Run a loop up to a turn; each turn asks, acts and pins."""
    with run.pinned("turns", 0) as loop:
        for n in range(loop.state, upto):
            with run.step("ask", effect="none") as op:
                if op.needed:
                    op.spend(usd=0.01)
                    op.result = n
            run.step("act").call(act, n)
            loop.pin(n + 1)
        return loop.turn


@pytest.fixture
def original(open_run, effects):
    """Give a run of three pinned turns, in two kernels."""
    for upto in (2, 3):
        with open_run() as run:
            turns(run, effects, upto)
    assert effects.lines == ["0", "1", "2"]
    return "r"


def takes_the_short_way(folder):
    """Tell whether a run at rest is loaded without what its pins retired, and says the same."""
    head = Head(folder / "head")
    journal = open_journal(folder / "journal.duckdb", run=folder.name, head=head, whole=False)
    try:
        loaded, records = journal.resume(), journal.load()
    finally:
        journal.close()
        head.close()
    part, whole = Fold.of(loaded.records, loaded.retired_seqs), Fold.of(records)
    assert (part.carried, part.spending, part.held) == (whole.carried, whole.spending, whole.held)
    assert set(part.operations) == set(whole.operations)
    for op, state in part.operations.items():
        assert part.row_of(state) == whole.row_of(whole.operations[op])
    return len(loaded.records) < len(records)


def forked(open_run, at):
    with open_run() as run:
        return run.fork("what-if", at=at)


@pytest.mark.slow
@pytest.mark.parametrize("at", ["turns#2/act#1", "turns#2", None])
def test_a_run_at_rest_is_forked_like_one_that_is_open(open_run, original, tmp_path, at):
    """Nobody holds it, and it is read from its file: what is retired is in there as well."""
    held = forked(open_run, at)
    rest = dnb.watch("r", store=tmp_path / "store").fork("at-rest", at=at)
    assert (rest.operations, rest.effects) == (held.operations, held.effects)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "turn", "copied"),
    [
        ("turns#1/ask#1", 0, 0),  # retired, in the first stretch
        ("turns#2/act#1", 1, 4),  # retired, in the middle of a stretch
        ("turns#2", 1, 5),  # a pin that a later one has retired
        ("turns#3", 2, 8),  # the last pin
        (None, 3, 9),
    ],
)
def test_a_fork_at_any_place_of_a_loop_goes_on_there(
    open_run, effects, original, tmp_path, at, turn, copied
):
    """It opens, repeats no effect of the prefix, does its own under a grant, and verifies."""
    done = forked(open_run, at)
    assert len(done.operations) == copied
    assert dnb.verify("what-if", store=tmp_path / "store").ok
    before = effects.count
    assert takes_the_short_way(tmp_path / "store" / "what-if") is bool(turn)
    with open_run("what-if") as run:
        with run.pinned("turns", 0) as loop:
            assert (loop.turn, loop.state) == (turn, turn)
    with open_run("what-if") as run:
        run.grant("external", reason="a test")
        assert turns(run, effects, 5) == 5
    own = effects.lines[before:]
    acted = turn + (at in ("turns#2", "turns#3"))  # the act before the pin is in the prefix
    assert own == [str(n) for n in range(acted, 5)]
    with open_run("what-if") as run:
        assert turns(run, effects, 5) == 5
    assert takes_the_short_way(tmp_path / "store" / "what-if")
    assert effects.lines[before:] == own
    assert dnb.verify("what-if", store=tmp_path / "store").ok


@pytest.mark.slow
def test_a_fork_of_a_fork_takes_the_short_way_too(open_run, effects, original, tmp_path):
    """A pin says the running digest of the run that it is in, however often it was copied."""
    forked(open_run, None)
    with open_run("what-if") as run:
        run.fork("again")
    assert takes_the_short_way(tmp_path / "store" / "again")
    with open_run("again") as run:
        assert turns(run, effects, 3) == 3
    assert effects.count == 3


@pytest.mark.slow
def test_loops_in_loops_are_forked_with_what_they_carry(open_run, effects, tmp_path):
    """Of the stretch that the operation is in, its inner loop has its pins up to there."""

    def program(run, upto):
        with run.pinned("days", 0) as days:
            for day in range(days.state, upto):
                with run.pinned("hours", 0) as hours:
                    for hour in range(hours.state, 2):
                        run.step("act").call(effects, f"{day} {hour}")
                        hours.pin(hour + 1)
                days.pin(day + 1)

    with open_run() as run:
        program(run, 2)
        run.fork("what-if", at="days#2/hours#2/act#1")
    before = effects.lines
    assert takes_the_short_way(tmp_path / "store" / "what-if")
    with open_run("what-if") as run:
        assert set(run.fold.operations) == {"days#1", "days#2/hours#1"}
        run.grant("external", reason="a test")
        program(run, 2)
    assert effects.lines == [*before, "1 1"]
    assert dnb.verify("what-if", store=tmp_path / "store").ok


def test_a_loop_beside_the_operation_is_cut_where_the_operation_began(open_run, effects):
    """What a loop began before is there, also where its pin came after."""
    with open_run() as run:
        with run.pinned("turns", 0) as loop:
            run.step("act").call(effects, "turn")
            with run.branch("other"):
                pass
            loop.pin(1)
        run.step("after").call(effects, "after")
        done = run.fork("what-if", at="after")
        assert done.operations == ("turns#1/act#1", "turns#1")
        early = run.fork("early", at="turns#1")
        assert early.operations == ("turns#1/act#1",)
    with open_run("early") as run, run.pinned("turns", 0) as loop:
        assert loop.turn == 0
        assert run.step("act").call(effects, "turn") == 1
        loop.pin(1)
    assert effects.lines == ["turn", "after"]


# -- audit, history, report, comparison --------------------------------------------------------


@pytest.mark.slow
def test_the_audit_and_the_history_have_what_is_retired_once(open_run, original, tmp_path):
    """Live, after a resume, and from outside: each operation is a row, in the order it began."""
    ids = [f"turns#{n}{part}" for n in (1, 2, 3) for part in ("/ask#1", "/act#1", "")]
    with open_run() as run:
        assert [row["id"] for row in run.audit_rows()] == ids
        acted = [row for row in run.audit_rows() if row["name"] == "act"]
        assert [(row["outcome"], row["result"]) for row in acted] == [
            ("completed", n) for n in (1, 2, 3)
        ]
        assert sum(row["usd"] or 0 for row in run.audit_rows()) == pytest.approx(0.03)
        told = run.history()
        told = told[~told["op"].isin(["", None]) & told["op"].notna()]
        assert {op: list(rows["kind"]) for op, rows in told.groupby("op") if op in ids} == {
            op: ["intended", "completed"] if "/" in op else ["pinned"] for op in ids
        }
        assert list(run.history("turns#1/act#1")["kind"]) == ["intended", "completed"]
    at_rest = dnb.watch("r", store=tmp_path / "store")
    assert list(at_rest.audit()["id"]) == ids
    assert list(at_rest.history("turns#1/act#1")["kind"]) == ["intended", "completed"]
    for verb in (at_rest.get, at_rest.confirm, at_rest.dependants):
        with pytest.raises(dnb.OperationMissing, match="was retired by a pin"):
            verb("turns#1/act#1")
    with pytest.raises(dnb.OperationMissing, match="no operation 'turns#9/act#1'"):
        at_rest.history("turns#9/act#1")


HELD = """
import sys
import time

import durable_nb as dnb

run = dnb.open_run("r", store=sys.argv[1])
with run.pinned("turns", 0) as loop:
    run.step("act").call(str, "x")
    loop.pin(1)
print("waiting", flush=True)
time.sleep(120)
"""


@pytest.mark.slow
def test_the_owner_in_another_process_tells_of_what_is_retired(tmp_path):
    """Its history, and a fork at it, are asked for like those of anything else."""
    program = tmp_path / "program.py"
    program.write_text(HELD)
    with Child(program, tmp_path / "store") as child:
        assert child.first_line() == "waiting\n"
        run = dnb.watch("r", store=tmp_path / "store")
        assert list(run.history("turns#1/act#1")["kind"]) == ["intended", "completed"]
        assert run.fork("what-if", at="turns#1/act#1").operations == ()
        child.kill()


def test_a_report_counts_what_is_retired_as_what_it_was(open_run, effects):
    """A container that a pin has retired is no step that took as long as all that was in it."""

    def inner():
        run.step("small", effect="none").call(abs, -1)
        return 1

    with open_run() as run:
        with run.pinned("turns", 0) as loop:
            run.step("whole", effect="none").call(inner)
            before = measure(run.fold, run.committed(), frozenset(), None)
            loop.pin(1)
        after = measure(run.fold, run.committed(), frozenset(), None)
    with open_run() as run:
        resumed = measure(run.fold, run.committed(), frozenset(), None)
    for found in (before, after, resumed):
        assert (set(found.names), set(found.outside)) == ({"small"}, {"turns#1/whole#1"})
        assert (found.measured, found.failed, found.cut_short) == (2, 0, 0)
    assert (before.replayed.total(), after.replayed.total(), resumed.replayed.total()) == (1, 1, 1)
    assert after.body_s == before.body_s


@pytest.mark.slow
def test_runs_with_pins_are_compared_with_what_they_have_retired(
    open_run, effects, original, tmp_path
):
    """A fork and its original are equal up to where it was forked."""
    forked(open_run, "turns#3/act#1")
    with open_run("what-if") as run:
        run.grant("external", reason="a test")
        turns(run, lambda n: effects(n) * 0 + 77, 3)
    rows = dnb.compare("r", "what-if", store=tmp_path / "store")
    same = dict(zip(rows["op"], rows["same"], strict=True))
    assert len(same) == 9
    assert [op for op, equal in same.items() if not equal] == ["turns#3/act#1"]
