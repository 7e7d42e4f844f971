"""Interrupts, cancellations and late results: whatever ends a body, the record says what is known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.child import Bench
from support.ledger import Ledger

import durable_nb as dnb

SLEEP = """
effect = more[0]
with dnb.run("s", store=store) as run:
    try:
        with run.step("s", effect=effect) as op:
            if op.needed:
                ledger.add("begun")
                time.sleep(600)
                op.result = "success"
    except KeyboardInterrupt:
        tell(interrupted=True)
    except dnb.UnknownOutcome:
        tell(doubt=True)
    tell(outcome=outcomes(run)["s#1"], kinds=kinds(run, "s#1"), error=run.get("s").error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "outcome"),
    [("external", "unknown"), pytest.param("none", "incomplete", marks=pytest.mark.slow)],
)
def test_case_14_an_interrupted_step_is_never_completed(
    bench: Bench, ledger: Ledger, effect: str, outcome: str
) -> None:
    """Ctrl-C in a `with` body passes on, and leaves a doubt, or something to do again."""
    with bench.start(SLEEP, effect) as child:
        child.until(lambda: ledger.count("begun") == 1).interrupt()
        seen = child.wait().ok().facts

    assert seen == {
        "interrupted": True,
        "outcome": outcome,
        "kinds": ["intended", "interrupted"],
        "error": "KeyboardInterrupt",
    }
    if effect == "external":
        assert bench.run(SLEEP, effect).ok().facts["doubt"]
        assert ledger.count("begun") == 1


TO_THREAD = """
def slow_effect(key):
    ledger.add("begun")
    time.sleep(0.5)
    ledger.add("effect", key)

async def main():
    async with dnb.run("s", store=store) as run:
        async with run.step("s") as op:
            if op.needed:
                await asyncio.to_thread(slow_effect, op.idempotency_key)
                op.result = "done"

try:
    asyncio.run(main())
except KeyboardInterrupt:
    tell(interrupted=True)
except dnb.UnknownOutcome as doubt:
    tell(doubt=[op.id for op in doubt.operations])
with dnb.run("s", store=store) as run:
    tell(outcome=outcomes(run)["s#1"], kinds=kinds(run, "s#1"), error=run.get("s").error)
"""


@pytest.mark.slow
def test_case_16_an_interrupted_await_is_unknown_though_its_thread_goes_on(
    bench: Bench, ledger: Ledger
) -> None:
    """CancelledError counts like KeyboardInterrupt, and is on record as what it was."""
    with bench.start(TO_THREAD) as child:
        child.until(lambda: ledger.count("begun") == 1).interrupt()
        seen = child.wait().ok().facts

    assert seen == {
        "interrupted": True,
        "outcome": "unknown",
        "kinds": ["intended", "interrupted"],
        "error": "asyncio.exceptions.CancelledError",
    }
    assert ledger.count("effect") == 1  # the thread finished: the doubt was justified
    assert bench.run(TO_THREAD).ok().facts["doubt"] == ["s#1"]
    assert ledger.count("effect") == 1


@pytest.mark.slow
def test_a_cancelled_sibling_in_a_task_group_is_awaited_and_recorded(
    tmp_path: Path, ledger: Ledger
) -> None:
    """Cancelling the caller does not cut an effect under way: it ends, and its outcome counts."""
    begun = asyncio.Event()

    async def charge(order: int, *, idempotency_key: str) -> str:
        begun.set()
        await asyncio.sleep(0.3)
        ledger.add("charge", idempotency_key)
        return f"charged {order}"

    async def fail() -> None:
        await begun.wait()
        raise ValueError("no")

    async def siblings(run: dnb.Run) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.call(charge, 7))
            group.create_task(run.step(effect="none").call(fail))

    async def main() -> None:
        async with dnb.run("group", store=tmp_path) as run:
            with pytest.raises(ExceptionGroup) as failure:
                await siblings(run)
            assert failure.group_contains(ValueError, match="no")
            charged = run.get("charge")
            assert (charged.outcome, charged.result) == ("completed", "charged 7")
            assert list(run.history("charge")["kind"]) == ["intended", "completed"]
        async with dnb.run("group", store=tmp_path) as run:
            assert await run.call(charge, 7) == "charged 7"

    asyncio.run(main())
    assert ledger.count("charge") == 1


LATE = """
again = more[0] == "deny and try again"
arrive = threading.Event()

def slow(op):
    ledger.add("effect", op.idempotency_key)
    ledger.add("begun")
    arrive.wait()
    op.result = "late"

def attempt(run, body):
    with run:  # a block of its own, so that the name counts from 1 again
        with run.step("slow") as op:
            if op.needed:
                body(op)
        return op.result

def interrupted(op):
    threads.append(threading.Thread(target=slow, args=(op,)))
    threads[0].start()
    time.sleep(600)

def second(op):
    ledger.add("effect", op.idempotency_key)
    op.result = "second"

threads = []
with dnb.run("late", store=store) as run:
    try:
        tell(result=attempt(run, interrupted))
    except KeyboardInterrupt:
        tell(interrupted=True, before=outcomes(run))
    if again and threads:
        run.deny("slow#1", evidence="nothing there yet")
        tell(second=attempt(run, second))
    if threads:
        arrive.set()
        threads[0].join()
    tell(outcome=outcomes(run)["slow#1"], kinds=kinds(run, "slow#1"))
    try:
        with run.step("next") as op:
            if op.needed:
                ledger.add("next")
                op.result = None
    except dnb.UnknownOutcome as doubt:
        tell(blocked=doubt.blocked, text=str(doubt))
"""


@pytest.mark.slow
def test_a_late_result_of_a_thread_wins_over_the_interrupt(bench: Bench, ledger: Ledger) -> None:
    """A result that arrives after its body was cut off is the outcome, while nothing came after."""
    with bench.start(LATE, "once") as child:
        child.until(lambda: ledger.count("begun") == 1).interrupt()
        seen = child.wait().ok().facts

    assert seen["before"] == {"slow#1": "unknown"}
    assert seen["kinds"] == ["intended", "interrupted", "completed"]
    assert seen["outcome"] == "completed"
    assert bench.run(LATE, "once").ok().facts["result"] == "late"
    assert ledger.count("effect") == 1


@pytest.mark.slow
def test_a_late_result_after_another_attempt_is_a_suspected_duplicate(
    bench: Bench, ledger: Ledger
) -> None:
    """When the denied attempt reports in after all, it may have happened twice: the run stops."""
    with bench.start(LATE, "deny and try again") as child:
        child.until(lambda: ledger.count("begun") == 1).interrupt()
        seen = child.wait().ok().facts

    assert seen["second"] == "second"
    assert seen["kinds"] == [
        "intended", "interrupted", "denied", "intended", "completed", "duplicate",
    ]  # fmt: skip
    assert seen["outcome"] == "unknown"
    assert seen["blocked"] == "next#1"
    assert "twice" in seen["text"]
    assert len(set(ledger.keys("effect"))) == 1
    assert ledger.count("next") == 0
