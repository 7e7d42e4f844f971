"""All runs of a store at a glance: what needs a person comes first."""

from __future__ import annotations

import pytest

import durable_nb as dnb
from durable_nb.engine.overview import overview
from durable_nb.model.errors import UnknownOutcome


def _spend(run: dnb.Run) -> None:
    with run.step("plan", effect="none", inputs={}) as op:
        if op.needed:
            op.spend(usd=0.5)
            op.result = 1


@pytest.fixture
def store(tmp_path):
    """Four runs: one that is done, one that waits, one in doubt, and one that changed."""
    with dnb.open_run("done", store=tmp_path) as run:
        _spend(run)
        run.finish()
    with dnb.open_run("waits", store=tmp_path) as run, pytest.raises(dnb.ApprovalPending):
        run.approval("Send?")
    with dnb.open_run("timer", store=tmp_path) as run, pytest.raises(dnb.TimerPending):
        run.sleep(3600)
    with dnb.open_run("doubt", store=tmp_path) as run:

        def pay() -> None:
            raise ConnectionError("no answer")

        with pytest.raises((UnknownOutcome, ConnectionError)):
            run.step("pay", effect="external").call(pay)
    return tmp_path


def test_what_needs_a_person_comes_first_with_what_it_asks(store):
    """A doubt, and a decision; a timer asks nobody."""
    found = overview(store)
    rows = {row.name: row for row in found.rows}
    assert {row.name for row in found.rows[:2]} == {"waits", "doubt"}
    assert rows["waits"].asks == ("approval[Send?]#1 waits for approval",)
    assert rows["doubt"].asks == ("pay#1 may have happened: confirm or deny",)
    assert rows["timer"].asks == rows["done"].asks == ()
    assert (rows["done"].status, rows["done"].completed, rows["done"].cost) == (
        "finished", 1, "$0.50",
    )  # fmt: skip


def test_the_text_has_no_times_and_says_the_same(store, capsys):
    """It stays the same from one day to the next; a script prints it."""
    text = str(overview(store))
    assert "  done · finished · 1 completed, 0 incomplete, 0 unknown · $0.50" in text
    assert "    pay#1 may have happened: confirm or deny" in text
    capsys.readouterr()
    dnb.panel(store=store)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize("held", [True, False])
def test_a_run_that_asks_something_waits_whether_a_kernel_has_it_or_not(store, held):
    """Its panel says so, too; and only it: one that is open and asks nothing is open."""
    with dnb.open_run("doubt", store=store) as run, dnb.open_run("fresh", store=store) as fresh:
        assert fresh.call(int, "1") == 1
        for one in (run, fresh):
            one.publisher.publish()
        if not held:
            run.close()
        rows = {row.name: row for row in overview(store).rows}
        assert rows["doubt"].status == ("open" if held else "waiting")
        assert rows["doubt"].standing == "waiting"
        assert (rows["fresh"].standing, rows["done"].standing) == ("open", "finished")
        assert "  doubt · waiting · " in str(overview(store))


def test_a_store_without_runs_says_so(tmp_path):
    """Nothing is made by looking."""
    assert str(overview(tmp_path / "none")) == "no runs in none/"
    assert not (tmp_path / "none").exists()
