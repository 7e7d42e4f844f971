"""A call that was stopped is no call: the next one is the same operation, in this kernel too."""

from __future__ import annotations

import asyncio

import pytest

import durable_nb as dnb
from durable_nb.engine.context import frame_of
from durable_nb.engine.options import Options


def test_a_refused_call_is_made_again_as_the_same_operation(open_run, effects):
    """Else the next kernel, which is not refused, would do the effect once more."""

    def program():
        with open_run(scopes=["a"]) as run:
            step = run.step("pay", requires="b")
            try:
                out = step.call(effects, "pay")
            except dnb.ScopeDenied:
                run.grant("b", reason="asked")
                out = step.call(effects, "pay")
            return out, list(run.operations()["id"])

    assert program() == program() == (1, ["pay#1"])
    assert effects.count == 1


def test_a_call_that_asked_is_made_again_as_the_same_operation(open_run, effects):
    """Kept, and called again in one pass: its record is used."""
    with open_run() as run:
        run.step("pay").call(effects, "a")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("pay").call(effects, "b")
        run.keep("pay#1")
        assert run.step("pay").call(effects, "b") == 1
    assert effects.count == 1


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "o-1"])
def test_a_doubt_that_is_settled_is_called_again_as_the_same_operation(open_run, effects, key):
    """What was confirmed has happened: calling again gives its result, and pays nobody twice."""

    def pay():
        effects("pay")
        raise TimeoutError

    for _ in range(2):
        with open_run() as run:
            step = run.step("pay", key=key)
            try:
                out = step.call(pay)
            except dnb.UnknownOutcome as stop:
                run.confirm(stop.operations[0], "paid", evidence="ledger")
                out = step.call(pay)
            assert out == "paid"
    assert effects.count == 1


def test_ctrl_c_in_a_loop_that_goes_on_repeats_the_same_operation(open_run):
    """An interrupted pure step is done again as itself; no operation is left behind."""
    pressed = []

    def look():
        if not pressed:
            pressed.append(1)
            raise KeyboardInterrupt
        return 5

    with open_run() as run:
        with pytest.raises(KeyboardInterrupt):
            run.step("look", effect="none", on_change="keep").call(look)
        assert run.step("look", effect="none", on_change="keep").call(look) == 5
        assert list(run.operations()["id"]) == ["look#1"]


def test_a_key_that_was_refused_is_free_again(open_run, effects):
    """After a grant the same call goes through."""
    with open_run(budget={"calls": 1}) as run:
        run.step("look", effect="none").call(lambda: 1)
        with pytest.raises(dnb.BudgetExceeded):
            run.step("pay", key=7).call(effects, "pay")
        run.grant(budget={"calls": 5}, reason="more")
        assert run.step("pay", key=7).call(effects, "pay") == 1
        with pytest.raises(dnb.DuplicateStep):
            run.step("pay", key=7).call(effects, "pay")


def test_a_handled_error_is_no_stop(open_run, effects):
    """The program goes on from it: the next call is another operation, in each kernel."""

    def fails():
        raise ConnectionRefusedError

    for _ in range(2):
        with open_run() as run:
            with pytest.raises(ConnectionRefusedError):
                run.step("pay", not_applied=ConnectionRefusedError).call(fails)
            assert run.step("pay").call(effects, "pay") == 1
            assert list(run.operations()["id"]) == ["pay#1", "pay#2"]


def test_stopped_calls_of_a_gather_come_back_in_order(open_run):
    """However they end, the same occurrences are taken again, the smallest first."""
    stops = []

    async def look(n):
        if len(stops) < 3:
            stops.append(n)
            raise asyncio.CancelledError
        return n

    async def program(run):
        step = run.step("look", effect="none", on_change="keep")
        await asyncio.gather(*(step.call(look, n) for n in range(3)), return_exceptions=True)
        return await asyncio.gather(*(step.call(look, n) for n in range(3)))

    with open_run() as run:
        assert asyncio.run(program(run)) == [0, 1, 2]
        assert list(run.operations()["id"]) == ["look#1", "look#2", "look#3"]


def test_bodies_that_were_cut_off_do_not_add_up(open_run):
    """Each interrupt at the very entry of `__exit__` leaves a body behind; the next call clears it."""

    def cut_off(run, n):
        manager = run.step("look", key=n, effect="none")
        enter, leave = type(manager).__enter__, manager.__exit__  # as a `with` holds it
        enter(manager)
        del leave  # and lets go of it, although nothing of ours has run

    with open_run() as run:
        for n in range(5):
            cut_off(run, n)
            assert len(run.live) == 1
        assert run.step("next", effect="none").call(lambda: 1) == 1
        assert not run.live


def test_a_call_with_an_input_that_has_no_digest_is_made_again_as_the_same_operation(
    open_run, effects
):
    """It was refused before anything began, whether or not there is a record."""
    for _ in range(2):
        with open_run() as run:
            with pytest.raises(TypeError, match="Nothing was run"):
                run.step("pay").call(effects, object())
            assert run.step("pay").call(effects, "pay") == 1
            assert list(run.operations()["id"]) == ["pay#1"]


def test_ctrl_c_while_the_code_of_a_call_is_looked_at_stops_no_other(open_run, effects):
    """It took its place, and gives it back."""

    def pressed():
        raise KeyboardInterrupt

    with open_run() as run:
        with pytest.raises(KeyboardInterrupt):
            run.operation(frame_of(run), "pay", Options(), inputs={}, code=pressed)
        assert run.step("pay").call(effects, "pay") == 1
        assert list(run.operations()["id"]) == ["pay#1"]
