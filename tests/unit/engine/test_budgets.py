"""A run spends what it was given, over all its kernels, and stops before the next operation."""

import asyncio
import threading

import pytest

import durable_nb as dnb
from durable_nb.engine.watched import watch


def spend(run, name, *, error=None, **costs):
    """Call a pure step that costs something."""
    with run.step(name, effect="none") as op:
        if op.needed:
            op.spend(**costs)
            if error is not None:
                raise error
            op.result = 1
    return op.result


@pytest.mark.slow
def test_case_83_three_steps_and_a_failure_show_what_was_spent_so_far(open_run):
    """0.02, a failed 0.01 and its retry 0.01 are 0.04; a replay adds 0; a restart keeps it."""

    def program(run):
        spend(run, "plan", usd=0.02)
        with pytest.raises(ValueError, match="no"):
            spend(run, "act", usd=0.01, error=ValueError("no"))
        return run

    with open_run(budget={"usd": 5}) as run:
        program(run)
    with open_run(budget={"usd": 5}) as run:
        spend(run, "plan", usd=99)
        spend(run, "act", usd=0.01)
        spend(run, "silent")
        assert "budget: $0.04 of $5.00 so far" in run.status_view().to_text()
    with open_run() as run:
        spend(run, "plan", usd=99)
        spend(run, "act", usd=99)
        found = run.spent()
        assert (found["usd"], found["calls"], found["at_least"]) == (0.04, 4, False)
        assert run.get("silent").usd is None  # unknown, and not zero
        assert "$0.04 of $5.00 so far" in run.status_view().to_text()
    with open_run("unpriced", budget={"usd": 5}) as run:
        spend(run, "silent")
        assert run.spent()["usd"] is None
        assert "budget: $? of $5.00 so far" in run.status_view().to_text()


def test_without_a_budget_nothing_is_shown_and_nothing_refused(open_run):
    """The status text is as it was."""
    with open_run() as run:
        spend(run, "a", usd=1000)
        assert run.budget == {}
        assert "budget" not in run.status_view().to_text()
        assert run.spent()["usd"] == 1000


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        ({"eur": 5}, TypeError),
        ({"usd": "5"}, TypeError),
        ({"calls": True}, TypeError),
        ({"usd": 0}, ValueError),
        ({"seconds": -1}, ValueError),
        ({"usd": float("nan")}, ValueError),
        (5, TypeError),
    ],
)
def test_a_budget_that_is_none_is_refused(open_run, tmp_path, budget, error):
    """Nothing is created by a wrong call."""
    with pytest.raises(error):
        open_run(budget=budget)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("budget", "costs"),
    [
        ({"usd": 0.3}, {"usd": 0.1}),
        ({"tokens": 300}, {"tokens": 100}),
        ({"calls": 3}, {}),
        ({"usd": 9, "calls": 3}, {"usd": 0.1}),
    ],
)
def test_once_it_is_spent_the_next_new_operation_is_refused_before_its_intent(
    open_run, budget, costs
):
    """What is recorded still replays, and no new kernel gets a fresh budget."""
    for _ in range(2):
        with open_run(budget=budget) as run:
            for name in "abc":
                assert spend(run, name, **costs) == 1
            with pytest.raises(dnb.BudgetExceeded) as stop:
                spend(run, "d", **costs)
            assert list(run.operations()["name"]) == ["a", "b", "c"]
    lines = stop.value.lines()
    limit = list(budget)[-1]
    assert len(lines) == 5
    assert "d#1 in run 'r' was not started" in lines[0]
    assert f'run.grant(budget={{"{limit}": ...}}, by="...", reason="...")' in lines[3]
    assert f"durable-nb grant r --{limit} ..." in lines[4]


def test_seconds_are_those_of_the_monotonic_clock(tmp_path):
    """As they are recorded with each attempt, whatever the wall clock says."""
    from durable_nb.engine.store import open_run
    from durable_nb.engine.terms import Terms
    from durable_nb.engine.trajectory import Clock

    ticks = [0.0]
    clock = Clock(monotonic=lambda: ticks[0])
    terms = Terms(budget={"seconds": 60})
    with open_run("r", store=tmp_path / "s", clock=clock, terms=terms) as run:

        def work():
            ticks[0] += 30.5

        run.step("a", effect="none").call(work)
        assert run.spent()["seconds"] == 30.5
        run.step("b", effect="none").call(work)
        assert "61 of 60 s" in run.status_view().to_text()
        with pytest.raises(dnb.BudgetExceeded, match="61 of 60 s"):
            run.step("c", effect="none").call(work)


def test_retries_count(open_run):
    """Each attempt is a call; the budget stops a loop of them."""
    tries = []

    def flaky():
        tries.append(1)
        raise ConnectionRefusedError

    with open_run(budget={"calls": 2}) as run, pytest.raises(dnb.BudgetExceeded):
        run.step(retries=5, not_applied=ConnectionRefusedError).call(flaky)
    assert len(tries) == 2


def test_a_container_is_no_call(open_run):
    """Its children are; it can be entered while one more of them is allowed."""
    with open_run(budget={"calls": 2}) as run:
        with run.step("outer", effect="none") as outer:
            spend(run, "a")
            with run.step("inner", effect="none") as inner:
                spend(run, "b")
                inner.result = inner.needed
            outer.result = outer.needed
        assert run.spent()["calls"] == 2
        with pytest.raises(dnb.BudgetExceeded, match="2 of 2 calls"):
            spend(run, "c")


def test_a_container_that_was_begun_is_entered_again_to_replay_its_children(open_run):
    """It costs nothing itself; only what is new in it is refused. A new one is not entered."""
    entered = []

    def program(run, name="outer"):
        with run.step(name, effect="none") as outer:
            if outer.needed:
                entered.append(name)
                spend(run, "a")
                spend(run, "b")
                outer.result = 1

    with pytest.raises(dnb.BudgetExceeded), open_run(budget={"calls": 1}) as run:
        program(run)
    with open_run() as run:
        with pytest.raises(dnb.BudgetExceeded, match="outer#1/b#1"):
            program(run)
        assert run.get("outer#1/a#1").source == "record"
        with pytest.raises(dnb.BudgetExceeded, match="another#1"):
            program(run, "another")
        run.grant(budget={"calls": 2})
    with open_run() as run:
        program(run)
    assert entered == ["outer", "outer", "outer"]


def test_a_grant_raises_the_budget_and_an_unchanged_program_keeps_it(open_run, capsys):
    """The only way to more; the program that says what it said at birth is not narrower."""
    with open_run(budget={"usd": 1}) as run:
        spend(run, "a", usd=1)
        with pytest.raises(dnb.BudgetExceeded):
            spend(run, "b")
        run.grant(budget={"usd": 10}, by="grace", reason="worth it")
        spend(run, "b")
        assert run.history().query("kind == 'granted'")["detail"].item() == (
            "worth it · budget $10.00, by grace"
        )
    capsys.readouterr()
    with open_run(budget={"usd": 1}) as run:
        assert run.budget == {"usd": 10}
        spend(run, "c")
    assert "budget is" not in (said := capsys.readouterr().err)
    assert "recorded budget" not in said


def test_a_resume_never_gets_a_larger_budget(open_run, capsys):
    """It is told, in one line; what is spent stays spent."""
    with open_run(budget={"usd": 1, "calls": 5}) as run:
        spend(run, "a", usd=1)
    capsys.readouterr()
    with open_run(budget={"usd": 100}) as run:
        assert run.budget == {"usd": 1, "calls": 5}
        with pytest.raises(dnb.BudgetExceeded):
            spend(run, "b")
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "run r: " in line]
    assert said == (
        "run r: its recorded budget holds: $1.00, 5 calls. Not granted: $100.00 "
        "(run.grant(budget=...) raises it)"
    )


@pytest.mark.parametrize("born", [{"usd": 5}, None])
def test_a_smaller_budget_holds_for_one_opening(open_run, capsys, born):
    """Also where none was recorded at all."""
    with open_run(budget=born) as run:
        spend(run, "a", usd=2)
    with open_run(budget={"usd": 2}) as run:
        with pytest.raises(dnb.BudgetExceeded, match=r"\$2\.00 of \$2\.00"):
            spend(run, "b")
    assert "for this opening its budget is $2.00; recorded is" in capsys.readouterr().err
    with open_run() as run:
        assert run.budget == (born or {})
        spend(run, "b")


@pytest.mark.parametrize("budget", [{"usd": 5}, {"usd": 1}, {"tokens": 10}])
def test_a_grant_that_raises_nothing_is_refused(open_run, budget):
    """A smaller amount would take away what was given, and no limit is set by a grant."""
    with open_run(budget={"usd": 5}) as run:
        with pytest.raises(dnb.VerdictRefused, match="cannot grant"):
            run.grant(budget=budget)
        assert "granted" not in list(run.history()["kind"])


def test_a_watcher_grants_a_budget(open_run, tmp_path):
    """The live run goes on with it."""
    with open_run(budget={"calls": 1}) as run:
        spend(run, "a")
        with pytest.raises(dnb.BudgetExceeded):
            spend(run, "b")
        watch("r", store=tmp_path / "store").grant(budget={"calls": 2}, reason="go on")
        spend(run, "b")


def test_another_process_sees_the_budget_in_the_mirror(open_run, tmp_path):
    """It is published with the rest of the status."""
    from durable_nb.engine.published import published

    with open_run(budget={"calls": 7}) as run:
        spend(run, "a")
    assert published(run.place).budget == "budget: 1 of 7 calls so far"
    assert "1 of 7 calls so far" in published(run.place).to_text()


def test_many_calls_at_once_never_overshoot_the_calls(open_run, effects):
    """What was let through in other threads counts before its intent is recorded."""
    gate = threading.Barrier(4)

    def work(n):
        gate.wait(30)
        return effects(n)

    with open_run(budget={"calls": 4}) as run:
        with pytest.raises(dnb.BudgetExceeded):
            run.map(work, range(12), limit=8, key=str)
        assert run.spent()["calls"] == effects.count == 4


def test_an_async_step_is_refused_as_well(open_run):
    """One gate for both spellings."""

    async def work():
        return 1

    async def program(run):
        await run.step("a").call(work)
        with pytest.raises(dnb.BudgetExceeded):
            await run.step("b").call(work)

    with open_run(budget={"calls": 1}) as run:
        asyncio.run(program(run))


def test_under_a_budget_intents_are_on_disk_before_the_body(open_run):
    """Else a kill would forget that a call was made at all."""

    for name, budget, waits in (("limited", {"calls": 9}, False), ("free", None, True)):
        with open_run(name, budget=budget) as run, run.step("a", effect="none") as op:
            assert bool(run._journal._pending) is waits
            op.result = op.needed


# -- reservations ------------------------------------------------------------------------------


def test_a_reservation_counts_while_the_attempt_goes_on_and_gives_way_to_its_cost(open_run):
    """It is on record before anything is spent."""
    with open_run(budget={"usd": 5, "tokens": 1000}) as run:
        with run.step("ask", effect="none") as op:
            if op.needed:
                op.reserve(usd=2, tokens=300)
                op.reserve(usd=0.5)
                assert list(run.history("ask")["kind"]) == ["intended", "reserved", "reserved"]
                assert run.history("ask")["detail"].iloc[1] == "$2.00, 300 tokens"
                found = run.spent()
                assert (found["usd"], found["tokens"], found["at_least"]) == (2.5, 300, True)
                assert "budget: at least $2.50 of $5.00, 300 of" in run.status_view().to_text()
                op.spend(usd=1, tokens=10)
                op.result = 1
        found = run.spent()
        assert (found["usd"], found["tokens"], found["at_least"]) == (1, 10, False)


def test_a_reservation_stands_where_the_attempt_never_says_its_cost(open_run):
    """An unknown cost is what was reserved, and the totals say at least."""
    with open_run(budget={"usd": 5}) as run:
        with pytest.raises(ValueError, match="no"), run.step("ask", effect="none") as op:
            if op.needed:
                op.reserve(usd=3)
                raise ValueError("no")
        assert (run.spent()["usd"], run.spent()["at_least"]) == (3, True)
        with run.step("ask again", effect="none") as op:
            if op.needed:
                op.reserve(usd=3)
                op.result = 1
        with pytest.raises(dnb.BudgetExceeded, match=r"at least \$6\.00 of \$5\.00"):
            spend(run, "b")


def test_what_provably_did_not_happen_gives_its_reservation_back(open_run):
    """A refused connection has cost nothing."""
    with open_run(budget={"usd": 5}) as run:
        with pytest.raises(dnb.NotApplied), run.step("ask") as op:
            if op.needed:
                op.reserve(usd=3)
                raise dnb.NotApplied("refused")
        assert run.spent()["usd"] is None
        assert run.spent()["at_least"] is False


def test_a_replay_reserves_and_spends_nothing(open_run):
    """A body that forgot its guard does not change the totals."""
    with open_run() as run:
        spend(run, "a", usd=1)
    with open_run() as run, run.step("a", effect="none", on_change="keep") as op:
        op.reserve(usd=9)
        op.spend(usd=9)
        assert not op.needed
        assert run.spent()["usd"] == 1
        assert "reserved" not in list(run.history("a")["kind"])


@pytest.mark.parametrize("usd", [-1, float("nan"), float("inf")])
def test_a_cost_that_is_none_is_refused(open_run, usd):
    """A negative cost would be a hole in the budget."""
    with open_run() as run, run.step("a", effect="none") as op:
        for said in (op.spend, op.reserve):
            with pytest.raises(ValueError, match="number from 0"):
                said(usd=usd)
        op.result = op.needed
