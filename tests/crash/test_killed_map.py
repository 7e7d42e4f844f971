"""A map of steps that are done at once, killed: what it may do again, and what never."""

from __future__ import annotations

from support.child import Bench
from support.ledger import Ledger

LIMIT = 8
MANY = f"""
def work(n):
    with open(store.parent / "effect.log", "a") as out:
        out.write(f"{{n}}\\t\\n")
    return n

with dnb.run("r", store=store) as run:
    before = outcomes(run)
    tell(kept=sum(1 for found in before.values() if found == "completed"))
    tell(right=run.map(work, range(3_000), key=str, effect="none", limit={LIMIT}) == [*range(3_000)])
"""


def test_a_kill_in_the_middle_costs_no_more_results_than_may_wait_for_a_commit(
    bench: Bench, ledger: Ledger
) -> None:
    """Two commits' worth at most: what is being written, and what has come meanwhile."""
    child = bench.start(MANY)
    child.until(lambda: len(ledger.lines()) > 1_000)
    child.kill()
    done = len(ledger.lines())
    assert 1_000 < done < 3_000

    again = bench.run(MANY).ok()

    assert again.facts["right"]
    lost = done - again.facts["kept"]
    assert lost <= 2 * (2 * LIMIT + 1)
    assert len(ledger.lines()) == 3_000 + lost
    assert {int(n) for n, _ in ledger.lines()} == set(range(3_000))
