"""Reconcilers settle what is unknown, when its step is reached."""

import asyncio
from datetime import timedelta

import pytest

import durable_nb as dnb
from durable_nb.engine.trajectory import Clock


def lost(effects):
    def send():
        effects()
        raise TimeoutError

    return send


def test_what_the_reconciler_finds_becomes_the_result(open_run, effects):
    """`Happened` confirms, at once after a doubt and on a resume, and nothing is repeated."""
    look_up = lambda op: dnb.Happened({"id": 3}, f"found {op.idempotency_key}")  # noqa: E731

    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(lost(effects))
    with open_run() as run:
        assert run.step("send", reconcile=look_up).call(lost(effects)) == {"id": 3}
    with open_run("other") as run:
        assert run.step("send", reconcile=look_up).call(lost(effects)) == {"id": 3}
    assert effects.count == 2


@pytest.mark.parametrize(
    "answer",
    [lambda op: None, lambda op: dnb.Undecided("no access"), lambda op: 1 / 0, lambda op: "yes"],
    ids=["None", "Undecided", "raises", "nonsense"],
)
def test_anything_else_stays_unknown(open_run, effects, answer):
    """`None`, an exception or nonsense decides nothing, and is kept in the history."""
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("send", reconcile=answer).call(lost(effects))
        assert "undecided" in list(run.history("send#1")["kind"])
        assert [o.id for o in run.unknown()] == ["send#1"]


@pytest.mark.parametrize("takes", [0.0, 60.0])
def test_not_found_counts_only_settle_after_seconds_later(open_run, effects, takes):
    """A request that was under way can still arrive: asked too early, "not found" is wrong.

    However long the look-up took: what counts is when it was asked.
    """
    asked = []

    def look_up(op):
        asked.append(1)
        run.clock = Clock(now=lambda: at + timedelta(seconds=takes))
        return dnb.DidNotHappen("no such refund") if len(asked) == 1 else dnb.Happened("late")

    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(lost(effects))
    with open_run() as run:
        at = run.fold.operations["send#1"].ended
        run.clock = Clock(now=lambda: at)
        step = run.step("send", reconcile=look_up, settle_after=0.1)
        assert step.call(lost(effects)) == "late"
    assert (len(asked), effects.count) == (2, 1)


def test_a_lasting_not_found_denies_and_the_step_runs_under_the_same_key(open_run, effects):
    """After `settle_after` the look-up decides: it did not happen, so it is done."""
    keys = []

    def send(*, idempotency_key):
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise TimeoutError
        return effects()

    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        run.call(send)
    with open_run() as run:
        look_up = lambda op: dnb.DidNotHappen("no")  # noqa: E731
        assert run.step(reconcile=look_up, settle_after=0.1).call(send) == 1
    assert keys[0] == keys[1]


def test_an_async_step_may_have_an_async_reconciler(open_run, effects):
    """The same spelling; waiting does not block the loop."""

    async def look_up(op):
        await asyncio.sleep(0)
        return dnb.Happened("found")

    async def send():
        effects()
        raise TimeoutError

    with open_run() as run:
        assert asyncio.run(run.step(reconcile=look_up).call(send)) == "found"
    assert effects.count == 1


def test_run_reconcile_asks_about_everything_unknown(open_run, effects):
    """Without reaching the steps; what stays unknown is returned."""
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("send").call(lost(effects))
        assert [o.id for o in run.reconcile()] == ["send#1"]
        assert run.reconcile(send=lambda op: dnb.Happened(1)) == []
        assert run.get("send").result == 1


def test_while_nothing_is_settled_the_reconciled_step_stops_the_run(open_run, effects):
    """An undecided look-up leaves the doubt, and the doubt stops what is new."""
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("send", reconcile=lambda op: None).call(lost(effects))
        with pytest.raises(dnb.UnknownOutcome):
            run.step("next", effect="none").call(lambda: 1)


def test_the_reconciler_of_a_step_inside_a_container_is_reached(open_run, effects):
    """Entering the container is how its unknown child is reached; anything else stays stopped."""
    look_up = lambda op: dnb.Happened("found")  # noqa: E731

    def outer(run, reconcile):
        return run.step("send", reconcile=reconcile).call(lost(effects))

    step = {"effect": "none", "inputs": {}}
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("outer", **step).call(outer, run, None)
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("beside", **step).call(lambda: 1)
        assert run.step("outer", **step).call(outer, run, look_up) == "found"
    assert effects.count == 1
