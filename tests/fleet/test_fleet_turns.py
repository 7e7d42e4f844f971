"""How a turn ends, and what is made of that: real kernels, in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from support.fleet import Yard

from durable_nb.fleet.kernels import Stop
from durable_nb.fleet.queue import Again, prepare_queue
from durable_nb.fleet.submitting import submit
from durable_nb.fleet.turns import Turns
from durable_nb.journal.postgres.fleet import FleetTable
from durable_nb.journal.postgres.place import PostgresStore

KILL = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"

pytestmark = pytest.mark.slow

Take = Callable[[str], float | None]


@pytest.fixture
def take(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    """Submit a notebook, and give it one turn; in how many seconds there is another, if any."""
    for name, value in yard.environment.items():
        monkeypatch.setenv(name, value)
    store = PostgresStore(yard.store)
    store.prepare()
    prepare_queue(store.server)
    with closing(FleetTable(store.server)) as table:
        turns = Turns(store, table, Stop(), lambda line: None)

        def one(*cells: str) -> float | None:
            if cells:
                submit(yard.notebook(*cells), "r", store=store, any_packages=True)
            try:
                turns.take("r")
            except Again as again:
                return again.in_s
            return None

        yield one


def test_a_failure_is_tried_again_after_twice_as_long(yard: Yard, take):
    """Each time; and what was done before is not done again."""
    assert [take("1 / 0"), take(), take()] == [2, 4, 8]
    row = yard.fleet()["r"]
    assert (row["state"], row["failures"]) == ("queued", 3)


def test_what_is_not_the_runs_fault_is_no_failure(yard: Yard, take):
    """A database that was away, or a kernel that was succeeded."""
    raises = (
        "from durable_nb.journal.postgres.errors import StoreUnreachable\n"
        "raise StoreUnreachable('there', 'gone')"
    )
    assert take(raises) == 5
    row = yard.fleet()["r"]
    assert (row["state"], row["failures"]) == ("queued", 0)
    assert row["why"] == "cell 2 ended with StoreUnreachable"


def test_a_crash_loop_is_parked_at_once(yard: Yard, take):
    """It would end just so: three kernels are enough."""
    assert take(f"%%durable one --effect none\n{KILL}\nx = 1") is None
    row = yard.fleet()["r"]
    assert (row["state"], row["failures"]) == ("parked", 1)
    assert "has ended 3 kernels in a row" in row["why"]


def test_a_run_that_somebody_has_open_is_looked_at_later(yard: Yard, take, happen):
    """Its owner goes on undisturbed."""
    import durable_nb as dnb

    with dnb.open_run("r", store=yard.store):
        submit_error = None
        try:
            take(happen)
        except dnb.RunHeld as held:
            submit_error = held
    assert submit_error is not None  # told as it is submitted already
    assert yard.fleet() == {}
