"""A body that an interrupt cut off before it could leave: where the program stands then."""

import asyncio
import contextlib
import signal
import sys
import threading

import pytest

import durable_nb as dnb
from durable_nb.engine.context import adopt_latest
from durable_nb.engine.operation import Operation
from durable_nb.engine.step import Spelled

#: Where Python looks for signals as a `with` of each spelling ends, before a line of it has run.
ENTRIES = [
    pytest.param(Spelled.__exit__, id="the with form"),
    pytest.param(Operation.__exit__, id="the with form, further in"),
]


@pytest.fixture(autouse=True)
def ctrl_c():
    """Let Ctrl-C raise, also where a shell has ignored it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def interrupt_at(function):
    """Press Ctrl-C, once, as a function is entered."""

    def profile(frame, event, argument):
        if event == "call" and frame.f_code is function.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def from_another_thread(ask):
    """Ask as the panel's watcher does."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


def a_step(run, *, fails=False, **options):
    with run.step("a", **options) as op:
        if op.needed:
            op.result = 1
            if fails:
                raise ValueError


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_program_that_goes_on_after_ctrl_c_is_not_inside_the_step_that_it_left(
    open_run, entry, fails
):
    """Already in the `except` that catches it, the next step counts where the program stands."""
    with open_run() as run:
        try:
            with interrupt_at(entry):
                a_step(run, effect="none", fails=fails)
        except KeyboardInterrupt:
            assert dnb.current_operation() is None
            run.step("next", effect="none").call(lambda: 1)
        assert list(run.operations()["id"]) == ["a#1", "next#1"]


def test_a_call_that_was_cut_off_is_left_too(open_run):
    """The call form and the decorator enter the same `with`."""
    with open_run() as run:
        with pytest.raises(KeyboardInterrupt), interrupt_at(Operation.__exit__):
            run.step("a", effect="none").call(lambda: 1)
        assert dnb.current_operation() is None
        run.step("next", effect="none").call(lambda: 1)
        assert list(run.operations()["id"]) == ["a#1", "next#1"]


def test_an_effect_that_was_cut_off_is_a_doubt_and_not_around_the_next_step(open_run):
    """What stops the next step is the open question, which can be settled there and then."""
    with open_run() as run:
        with pytest.raises(KeyboardInterrupt), interrupt_at(Spelled.__exit__):
            a_step(run)
        with pytest.raises(dnb.UnknownOutcome):
            run.step("next").call(lambda: 1)
        run.confirm("a", 1, evidence="seen")
        assert run.step("next", key=2).call(lambda: 2) == 2


def test_only_the_operation_that_was_cut_off_is_left(open_run):
    """The program is back in the body around it, also out of a branch that it opened inside."""

    def inner(run, branch):
        with run.step("inner", effect="none") as op:
            if op.needed:
                branch.__enter__()
                op.result = 1

    with open_run() as run, run.step("outer", effect="none") as op:
        if op.needed:
            branch = run.branch("b")
            with pytest.raises(KeyboardInterrupt), interrupt_at(Spelled.__exit__):
                inner(run, branch)
            assert dnb.current_operation().id == "outer#1"
            op.result = run.step("next", effect="none").call(lambda: 1)
    assert list(run.operations()["id"]) == ["outer#1", "outer#1/inner#1", "outer#1/next#1"]


def test_a_task_started_after_the_interrupt_is_outside_too(open_run):
    """It inherits where the program stands, and not the frame that was left behind."""

    async def main(run):
        await asyncio.to_thread(run.step("threaded", effect="none").call, lambda: 1)
        run.step("next", effect="none").call(lambda: 1)

    with open_run() as run:
        with pytest.raises(KeyboardInterrupt), interrupt_at(Spelled.__exit__):
            a_step(run, effect="none")
        asyncio.run(main(run))
        assert list(run.operations()["id"]) == ["a#1", "threaded#1", "next#1"]


def test_a_task_that_outlives_the_body_it_was_started_in_still_counts_inside(open_run):
    """Where its steps count does not depend on which of the two is faster."""

    async def main(run):
        left = asyncio.Event()

        async def child():
            await left.wait()
            run.step("child", effect="none").call(lambda: 1)

        async with run.step("a", effect="none") as op:
            if op.needed:
                task = asyncio.create_task(child())
                op.result = 1
        left.set()
        await task
        run.step("next", effect="none").call(lambda: 1)

    with open_run() as run:
        asyncio.run(main(run))
        assert list(run.operations()["id"]) == ["a#1", "a#1/child#1", "next#1"]


# -- who is running, asked from another thread -----------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES)
def test_another_thread_sees_that_a_body_was_cut_off(open_run, entry):
    """At once, while the program still handles the interrupt; and a verdict is taken."""
    with open_run() as run:
        try:
            with interrupt_at(entry):
                a_step(run)
        except KeyboardInterrupt:
            assert not from_another_thread(lambda: run.get("a").live)
            assert from_another_thread(run.unknown)[0].id == "a#1"
            run.deny("a", evidence="seen")
        adopt_latest()
        assert not from_another_thread(lambda: run.get("a").live)


def test_another_thread_sees_that_a_body_is_at_work_until_its_outcome_is_on_record(open_run):
    """In the body, while looking about itself, and while the result is being recorded."""
    seen = []

    def live(*_):
        seen.append(from_another_thread(lambda: run.get("a").live))

    with open_run() as run:
        with run.step("a", record=live) as op:
            assert hasattr(op, "__exit__")
            if op.needed:
                live()
                op.result = 1
        assert seen == [True, True]
        live()
        assert seen.pop() is False


def test_another_thread_sees_that_an_async_body_is_at_work_until_its_outcome_is_on_record(
    open_run,
):
    """The same for `async with`, and for a call that is awaited."""
    seen = []

    def live(*_):
        seen.append(from_another_thread(lambda: run.get("a").live))

    async def body():
        live()

    async def main():
        async with run.step("a", record=live) as op:
            if op.needed:
                await asyncio.sleep(0)
                live()
                op.result = 1
        run.invalidate("a", "again", effect="stands")
        with run:
            await run.step("a", record=live, on_change="rerun").call(body)

    with open_run() as run:
        asyncio.run(main())
        assert seen == [True, True, True, True]
        live()
        assert seen.pop() is False


def test_a_body_entered_by_hand_is_at_work_until_it_is_left(open_run):
    """An `ExitStack` keeps no `__exit__` of ours; what it holds is not given up early."""
    with open_run() as run, contextlib.ExitStack() as stack:
        step = run.step("a", effect="none")
        assert hasattr(step, "__exit__")  # a look at it is no `with`
        op = stack.enter_context(step)
        assert op.needed
        op.result = run.step("child", effect="none").call(lambda: 1)
        assert from_another_thread(lambda: run.get("a").live)
        stack.close()
        assert not from_another_thread(lambda: run.get("a").live)
        assert list(run.operations()["id"]) == ["a#1", "a#1/child#1"]


def test_a_body_entered_by_hand_that_never_began_is_not_entered(open_run, monkeypatch):
    """Ctrl-C that waited while the intent was written takes it back, and nobody is inside."""
    with open_run() as run, contextlib.ExitStack() as stack:
        append = run.append

        def interrupted(*drafts, **how):
            if drafts[0].kind == "intended":
                signal.raise_signal(signal.SIGINT)
            return append(*drafts, **how)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(run, "append", interrupted)
            stack.enter_context(run.step("a"))
        assert dnb.current_operation() is None
        assert list(run.history("a")["kind"]) == ["intended", "not_applied"]
        assert run.step("next").call(lambda: 1) == 1
