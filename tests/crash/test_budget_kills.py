"""A kill in the middle of a call that costs money: what it may have cost is not forgotten."""

from __future__ import annotations

import pytest
from support.child import Bench

PROGRAM = """
mode, effect = more

def ask(n):
    ledger.add(f"ask{n}")
    op = dnb.current_operation()
    op.reserve(usd=2, tokens=500)
    if n == 2 and mode == "die":
        die()
    op.spend(usd=0.25)
    return n

with dnb.run("agent", store=store, budget={"usd": 5, "calls": 4}) as run:
    if mode == "look":
        tell(spent=run.spent(), text=str(run.status_view()), kinds=kinds(run, "ask#2"))
    else:
        try:
            for n in range(1, 6):
                run.step("ask", effect=effect).call(ask, n)
        except dnb.BudgetExceeded as stop:
            tell(stop=str(stop), spent=run.spent(), outcomes=outcomes(run))
"""


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["external", pytest.param("none", marks=pytest.mark.slow)])
def test_a_kernel_killed_in_a_call_that_reserved_counts_its_reservation(
    bench: Bench, effect: str
) -> None:
    """The next kernel counts one call and what was reserved, and says "at least"."""
    assert bench.run(PROGRAM, "die", effect).killed

    seen = bench.run(PROGRAM, "look", effect).ok().facts

    assert seen["kinds"] == ["intended", "reserved"]
    assert (seen["spent"]["usd"], seen["spent"]["tokens"]) == (2.25, 1000)
    assert (seen["spent"]["calls"], seen["spent"]["at_least"]) == (2, True)
    assert "budget: at least $2.25 of $5.00, 2 of 4 calls so far" in seen["text"]


@pytest.mark.slow
def test_what_was_reserved_by_a_killed_kernel_uses_the_budget_up(bench: Bench) -> None:
    """The attempt that nobody knows the cost of stays counted while the next kernels go on."""
    assert bench.run(PROGRAM, "die", "none").killed

    seen = bench.run(PROGRAM, "go", "none").ok().facts

    # ask 1, ask 2 twice, ask 3: four calls; 0.25 three times, and the 2 that were reserved
    assert "ask#4 in run 'agent' was not started" in seen["stop"]
    assert "at least $2.75 of $5.00, 4 of 4 calls" in seen["stop"]
    assert seen["outcomes"] == dict.fromkeys(["ask#1", "ask#2", "ask#3"], "completed")
