"""Pinned loops: what a pin retires, what it refuses, and what stays whole."""

import asyncio
import threading

import pytest
from support.folders import rewrite

import durable_nb as dnb
from durable_nb.journal import Head, open_journal
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind


def turns(run, act, upto, name="turns"):
    """Run a loop up to a turn; each spends a cent, calls a step and pins."""
    with run.pinned(name, 0) as loop:
        for n in range(loop.state, upto):
            with run.step("ask", effect="none") as op:
                if op.needed:
                    op.spend(usd=0.01)
                    op.result = n
            run.step("act").call(act, n)
            loop.pin(n + 1)
        return loop.turn


def test_a_loop_resumes_from_its_last_pin_and_lists_only_that(open_run, effects):
    """What lies before a pin is neither listed nor loaded nor done again; the history has it."""
    with open_run() as run:
        turns(run, effects, 3)

    with open_run() as run:
        assert turns(run, effects, 5) == 5
        assert list(run.fold.operations) == ["turns#5"]
        assert len(run.history("turns#1/act#1")) == 2
    assert effects.lines == ["0", "1", "2", "3", "4"]


def test_spending_counts_and_rows_stay_whole(open_run, effects, tmp_path):
    """Live, loaded in part and loaded whole, a run says the same of itself."""
    with open_run() as run:
        run.step("plan", effect="none").call(abs, 1)
        turns(run, effects, 4)
        run.step("after", effect="none").call(abs, 2)
        seen = [(run.spent()["usd"], run.spent()["calls"], run.status_view().counts)]
        rows = [(v.id, v.row) for v in run.status_view().views]
        text = run.status_view().to_text()

    with open_run() as run:
        spent = run.spent()
        seen.append((spent["usd"], spent["calls"], run.status_view().counts))
        assert [(v.id, v.row) for v in run.status_view().views] == rows
        whole = Fold.of(run._journal.load())
        assert whole.spending == run.fold.spending
        assert whole.carried == run.fold.carried
        assert set(whole.operations) == set(run.fold.operations)
    told = dnb.runs(store=tmp_path / "store").iloc[0]

    assert seen == [(0.04, 10, {"completed": 14, "incomplete": 0, "unknown": 0})] * 2
    assert rows == [("plan#1", 1), ("turns#4", 13), ("after#1", 14)]
    assert "pinned, 11 operations before it" in text
    assert (told["completed"], round(told["usd"], 2)) == (14, 0.04)


def test_an_unknown_effect_refuses_the_pin_until_it_is_settled(open_run, effects):
    """No pin over a doubt: it would hide what only evidence can settle."""

    def act():
        effects()
        raise TimeoutError("sent, and no answer")

    with pytest.raises(dnb.UnknownOutcome), open_run() as run, run.pinned("turns", 0) as loop:
        try:
            run.call(act)
        except dnb.UnknownOutcome:
            loop.pin(1)

    with open_run() as run, run.pinned("turns", 0) as loop:
        assert (loop.turn, loop.state) == (0, 0)
        run.confirm("turns#1/act#1", "done")
        assert run.call(act) == "done"
        loop.pin(1)
        assert run.fold.operations.keys() == {"turns#1"}
    assert effects.count == 1


def test_a_question_in_the_stretch_refuses_the_pin(open_run):
    """Nor over a change that waits for a decision."""
    with open_run() as run, run.pinned("turns", 0):
        run.step("act", key="a").call(abs, -1)

    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        with run.pinned("turns", 0) as loop:
            with pytest.raises(dnb.IncompatibleCheckpoint):
                run.step("act", key="a").call(abs, -2)
            loop.pin(1)


def test_what_is_in_flight_refuses_the_pin(open_run):
    """A pin retires nothing that still runs."""
    begun, go_on = threading.Event(), threading.Event()

    async def slow():
        begun.set()
        await asyncio.to_thread(go_on.wait, 20)
        return 1

    async def program(run):
        async with run.pinned("turns", 0) as loop:
            task = asyncio.create_task(run.call(slow))
            await asyncio.to_thread(begun.wait, 20)
            with pytest.raises(dnb.StillRunning):
                loop.pin(1)
            go_on.set()
            assert await task == 1
            loop.pin(2)
            assert (loop.turn, loop.state) == (1, 2)

    with open_run() as run:
        asyncio.run(program(run))


def test_a_state_that_does_not_survive_is_refused_and_nothing_is_retired(open_run):
    """The path to what does not survive is named, and the loop stays where it was."""
    with open_run() as run, run.pinned("turns", 0) as loop:
        run.step("act", effect="none").call(abs, 1)
        with pytest.raises(dnb.NotRecordable, match="lock"):
            loop.pin({"lock": threading.Lock()})
        assert loop.turn == 0
        assert "turns#1/act#1" in run.fold.operations


def test_a_pin_from_outside_of_its_loop_is_refused(open_run):
    """What is called outside would not be in the loop, and would be replayed at each turn."""
    with open_run() as run:
        with run.pinned("turns", 0) as loop:
            pass
        with pytest.raises(RuntimeError, match=r"with run\.pinned"):
            loop.pin(1)


@pytest.mark.parametrize("first", ["loop", "step"])
def test_a_name_is_of_a_loop_or_of_a_step(open_run, first):
    """Both would claim the same identities."""
    with open_run() as run:
        calls = [lambda: run.pinned("turns"), lambda: run.step("turns").call(abs, 1)]
        one, other = calls if first == "loop" else reversed(calls)
        opened = one()
        if first == "loop":
            opened.__exit__(None, None, None)
        with pytest.raises(dnb.DuplicateStep):
            other()
        if first == "loop":
            with pytest.raises(dnb.DuplicateStep):
                run.pinned("turns")
        run.pinned("turns", key="own").__exit__(None, None, None)


def test_a_loop_that_was_stopped_is_come_to_again_in_the_same_pass(open_run, effects):
    """An error leaves the `with`; what comes next is the same loop, at its last pin."""
    with open_run() as run:
        with pytest.raises(KeyError), run.pinned("turns", 0) as loop:
            run.step("act").call(effects, 0)
            loop.pin(1)
            run.step("act").call(effects, 1)
            raise KeyError
        with run.pinned("turns", 0) as loop:
            assert loop.state == 1
            run.step("act").call(effects, 1)
    assert effects.lines == ["0", "1"]


def test_a_step_in_place_of_a_retired_one_is_refused(open_run, effects):
    """A record below a stretch that a pin has retired would never be read."""
    with open_run() as run:
        turns(run, effects, 2)
    with open_run() as run:
        with pytest.raises(dnb.DuplicateStep, match="retired"):
            run.step("turns").call(effects, 7)
    assert effects.count == 2


def test_verdicts_on_what_is_retired_say_so(open_run, effects):
    """Neither a retired operation nor a pin is given up; both say what to do instead."""
    with open_run() as run, run.step("all", effect="none") as op:
        if op.needed:
            turns(run, effects, 2)
            op.result = 1
    with open_run() as run:
        with pytest.raises(dnb.OperationMissing, match="retired by a pin"):
            run.invalidate("all#1/turns#1/act#1", "wrong", effect="stands")
        for verb in (run.rerun, lambda op: run.invalidate(op, "wrong")):
            with pytest.raises(dnb.VerdictRefused, match="pinned its loop"):
                verb("all#1/turns#2")
        with pytest.raises(dnb.VerdictRefused, match="pinned its loop"):
            run.invalidate("all#1", "wrong")


def test_loops_in_loops_are_retired_with_what_they_carry(open_run, effects):
    """An outer pin takes the numbers of the inner loops along."""
    with open_run() as run, run.pinned("outer", 0) as outer:
        for n in range(outer.state, 3):
            turns(run, effects, 2, "inner")
            outer.pin(n + 1)
        assert set(run.fold.carried) == {"outer"}
        seen = run.spent()
        counts = run.status_view().counts
    with open_run() as run:
        assert (run.spent()["usd"], run.spent()["calls"]) == (0.06, 12) == (seen["usd"], 12)
        assert run.status_view().counts == counts
        assert list(run.fold.operations) == ["outer#3"]
    assert effects.count == 6


def test_a_decision_outlives_the_pin_that_retires_its_operation(open_run):
    """The same change in what follows needs no second answer, in the next kernel either."""
    with open_run() as run:
        run.fold.decided[("code", "old", "new")] = Kind.KEPT
        with run.pinned("turns", 0) as loop:
            loop.pin(1)
    with open_run() as run:
        assert run.fold.decided == {("code", "old", "new"): Kind.KEPT}


@pytest.mark.slow
def test_an_opening_reads_nothing_that_is_retired(open_run, effects, tmp_path):
    """Records before the last pin stay in the file; only what lies after it becomes records."""
    with open_run() as run:
        turns(run, effects, 20)
    with open_run() as run:
        assert len(run._journal.load()) > 100
    folder = tmp_path / "store" / "r"
    head = Head(folder / "head")
    journal = open_journal(folder / "journal.duckdb", run="r", head=head, whole=False)
    try:
        assert len(journal.resume().records) < 15
    finally:
        journal.close()
        head.close()


@pytest.mark.slow
def test_export_import_and_verify_take_such_runs(open_run, effects, tmp_path):
    """They go on reading everything."""
    with open_run() as run:
        turns(run, effects, 3)
    store = tmp_path / "store"
    assert dnb.verify("r", store=store).ok
    dnb.export_run("r", tmp_path / "r.zip", store=store)
    dnb.import_run(tmp_path / "r.zip", store=tmp_path / "other")
    assert dnb.verify("r", store=tmp_path / "other").ok
    with dnb.run("r", store=tmp_path / "other", adopt="moved") as run:
        assert turns(run, effects, 4) == 4
    assert effects.count == 4


@pytest.mark.slow
def test_artifacts_of_retired_operations_stay(open_run, tmp_path):
    """The history names them, so no gc takes them."""
    with open_run() as run, run.pinned("turns", 0) as loop:
        run.step("big", effect="none").call(lambda: b"x" * 200_000)
        loop.pin(1)
    assert dnb.gc("r", store=tmp_path / "store", delete=True).artifacts == 0
    assert dnb.verify("r", store=tmp_path / "store").ok


@pytest.mark.slow
def test_damage_before_the_last_pin_is_found_by_verify_and_told_by_recover(
    open_run, effects, tmp_path
):
    """An opening does not read it; whoever looks at everything says so, and recover records it."""
    with open_run() as run:
        turns(run, effects, 3)
    store = tmp_path / "store"
    rewrite(
        store / "r",
        lambda rows: [r._replace(ts=r.ts + 1) if r.op == "turns#1/act#1" else r for r in rows],
        seal=False,
    )
    with open_run() as run:
        assert run.fold.doubted is None

    assert not dnb.verify("r", store=store).ok
    assert dnb.recover("r", store=store).doubt
    with open_run() as run:
        assert run.fold.doubted


def test_a_loop_in_a_step_with_an_effect_is_refused(open_run):
    """Only what has no effect of its own may open operations, and a loop opens them."""
    with open_run() as run, pytest.raises(dnb.NestedEffect):
        run.step("pay", effect="idempotent").call(lambda: run.pinned("turns"))


def test_a_failure_that_the_loop_has_handled_is_history_at_the_pin(open_run):
    """Who goes on to pin has seen it."""

    def fail():
        raise ValueError("no")

    with open_run() as run, run.pinned("turns", 0) as loop:
        with pytest.raises(ValueError, match="no"):
            run.step("try", effect="none").call(fail)
        loop.pin(1)
        assert run.history("turns#1/try#1")["kind"].iloc[-1] == "observed"
        assert run.status_view().counts == {"completed": 2, "incomplete": 0, "unknown": 0}


def test_a_change_before_a_loop_counts_what_the_loop_has_done(open_run, effects):
    """A cheap step is not run again in silence where retired effects stand on it."""
    with open_run() as run:
        run.step("plan", effect="none").call(abs, 1)
        turns(run, effects, 3)
    with pytest.raises(dnb.IncompatibleCheckpoint, match="3 completed effects"), open_run() as run:
        run.step("plan", effect="none").call(abs, 2)


def test_a_secret_in_the_state_is_told_once(open_run, capsys):
    """The state is kept as it is, like a result; the person is told of it, and not at each pin."""
    secret = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8" * 3
    with open_run() as run, run.pinned("turns", 0) as loop:
        for _ in range(3):
            loop.pin({"token": secret})
    assert capsys.readouterr().err.count("looks like a secret") == 1
