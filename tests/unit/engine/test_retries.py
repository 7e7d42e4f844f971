"""Retries and time-outs: attempts on record, and never one that could double an effect."""

import asyncio

import pytest
import tenacity

import durable_nb as dnb


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Try again without a pause."""
    monkeypatch.setattr(tenacity, "wait_random_exponential", lambda **_: tenacity.wait_none())


def failing(times, error=LookupError):
    """Give a function that fails so many times, and spends a cent each time."""
    calls = []

    def work():
        calls.append(len(calls) + 1)
        dnb.current_operation().spend(usd=0.01, tokens=3)
        if len(calls) <= times:
            raise error(f"no. {len(calls)}")
        return len(calls)

    work.calls = calls
    return work


def bodies(run, op):
    """Give kind and body of an operation's records."""
    run._journal.flush()
    return [(str(r.kind), r.body) for r in run._journal.load() if r.op == op]


@pytest.mark.parametrize("effect", ["none", "idempotent"])
def test_each_attempt_is_on_record_with_its_error_cost_and_duration(open_run, effect):
    """The totals are those of all attempts; the key is one."""
    with open_run() as run:
        assert run.step("work", effect=effect, retries=2).call(failing(2)) == 3
        records = bodies(run, "work#1")
        assert [kind for kind, _ in records] == ["intended", "raised"] * 2 + [
            "intended",
            "completed",
        ]
        ends = [body for kind, body in records if kind != "intended"]
        assert [b["attempt"] for b in ends] == [1, 2, 3]
        assert [b.get("error", {}).get("message") for b in ends] == ["no. 1", "no. 2", None]
        assert [(b["usd"], b["tokens"]) for b in ends] == [(0.01, 3)] * 3
        assert all(b["duration_s"] >= 0 for b in ends)
        assert len({b["idempotency_key"] for kind, b in records if kind == "intended"}) == 1
        view = run.get("work")
        assert (view.attempt, view.tokens) == (3, 9)
        assert view.usd == pytest.approx(0.03)


def test_retries_are_further_attempts_and_then_the_last_error_goes_on(open_run):
    """One more than it says, and the error is the body's own."""
    work = failing(9)
    with open_run() as run:
        with pytest.raises(LookupError, match=r"no\. 3"):
            run.step("work", effect="none", retries=2).call(work)
        assert work.calls == [1, 2, 3]
        assert run.get("work").outcome == "incomplete"


def test_an_external_step_is_not_tried_again_on_an_error_that_proves_nothing(open_run):
    """The next attempt could be a second effect."""
    work = failing(1)
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("work", retries=5).call(work)
        assert work.calls == [1]


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ConnectionRefusedError, {"not_applied": ConnectionRefusedError}),
        (dnb.NotApplied, {}),
        (LookupError, {"reconcile": lambda op: dnb.DidNotHappen("404"), "settle_after": 0}),
    ],
)
def test_an_external_step_is_tried_again_once_it_is_proven_that_nothing_happened(
    open_run, error, options
):
    """Under the same key, whoever proves it."""
    work = failing(2, error)
    with open_run() as run:
        assert run.step("work", retries=2, **options).call(work) == 3
        keys = {b["idempotency_key"] for k, b in bodies(run, "work#1") if k == "intended"}
        assert len(keys) == 1


def test_an_error_of_the_toolkit_is_not_tried_again(open_run):
    """A result that cannot be recorded does not become recordable."""
    calls = []

    def work():
        calls.append(1)
        return object()

    with open_run() as run:
        with pytest.raises(dnb.ResultLost):
            run.step(effect="none", retries=3).call(work)
    assert calls == [1]


async def slow():
    """Take longer than any test waits."""
    await asyncio.sleep(600)


@pytest.mark.parametrize(
    ("effect", "outcome", "error", "attempts"),
    [("external", "unknown", dnb.UnknownOutcome, 1), ("none", "incomplete", TimeoutError, 3)],
)
def test_a_time_out_of_an_external_step_is_unknown_and_else_tried_again(
    open_run, effect, outcome, error, attempts
):
    """It may have arrived; where that does no harm, it is one more failure."""

    async def program():
        async with open_run() as run:
            with pytest.raises(error):
                await run.step(effect=effect, timeout=0.01, retries=2).call(slow)
            view = run.get("slow")
            assert (view.outcome, view.attempt) == (outcome, attempts)
            assert "TimeoutError" in view.error

    asyncio.run(program())


def test_a_time_out_that_proves_that_nothing_happened_can_be_said(open_run):
    """A step that only waits for a turn says so."""

    async def program():
        async with open_run() as run:
            with pytest.raises(TimeoutError):
                await run.step(timeout=0.01, not_applied=TimeoutError).call(slow)
            assert run.get("slow").outcome == "incomplete"

    asyncio.run(program())


@pytest.mark.parametrize("option", [{"retries": 1}, {"timeout": 1}])
def test_the_with_form_cannot_be_tried_again_or_stopped(open_run, option):
    """It is refused with the form that can, before anything is begun."""

    async def program(run):
        async with run.step("s", **option):
            pass

    with open_run() as run:
        with pytest.raises(TypeError, match=r"needs a function.*Nothing was begun.*\.call\(fn"):
            with run.step("s", **option):
                pass
        with pytest.raises(TypeError, match="needs a function"):
            asyncio.run(program(run))
        assert run.operations().empty


def test_a_blocking_body_has_no_time_out(open_run):
    """Nothing can stop it safely; that is said also by `map`, and takes no occurrence."""
    with open_run() as run:
        for _ in range(2):
            with pytest.raises(TypeError, match="timeout= needs an async step"):
                run.step("s", effect="none", timeout=1).call(lambda: 1)
        with pytest.raises(TypeError, match="timeout= needs an async step"):
            run.map(str, [1, 2], timeout=1)
        run.step("s", effect="none").call(lambda: 1)
        assert list(run.operations()["id"]) == ["s#1"]


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2", None])
def test_retries_is_a_whole_number(open_run, retries):
    """0 or more; anything else would mean something only later, or never."""
    with open_run() as run:
        with pytest.raises(TypeError, match="retries="):
            run.step("s", retries=retries)


@pytest.mark.parametrize("timeout", [0, -1, True, "2", float("nan"), float("inf")])
def test_a_time_out_is_a_number_of_seconds(open_run, timeout):
    """More than 0, and finite."""
    with open_run() as run:
        with pytest.raises(TypeError, match="timeout="):
            run.step("s", timeout=timeout)


def test_calls_of_a_map_are_tried_again_each_for_itself(open_run):
    """One that fails for good does not take the attempts of the others."""
    seen = []

    def work(n):
        seen.append(n)
        if seen.count(n) < 3:
            raise LookupError(n)
        return n

    with open_run() as run:
        assert run.map(work, [1, 2, 3], effect="none", retries=2) == [1, 2, 3]
        assert set(run.operations()["attempt"]) == {3}
