"""What the panel sends: all rows once, then what has changed; and what stands above them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.listed import Listed, listed, rows_of

import durable_nb as dnb
from durable_nb.engine.watched import Watched
from durable_nb.notebook.display import LIMIT, Shown
from durable_nb.notebook.panel import model
from durable_nb.notebook.panel.header import header_of
from durable_nb.notebook.panel.panel import Panel
from durable_nb.notebook.panel.rows import FEW, Sent


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    with dnb.run("job", store=tmp_path) as run:
        yield run


def fill(run: dnb.Run, count: int, name: str = "work") -> None:
    def work(n: int) -> int:
        return n

    work.__name__ = work.__qualname__ = name
    run.map(work, range(count), key=str, effect="none")


def doubt(run: dnb.Run, name: str) -> None:
    def fail() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(dnb.UnknownOutcome):
        run.step(name).call(fail)


def whole(status: Any) -> list[dict[str, Any]]:
    """Give the rows as they are sent to who has none."""
    sent = Sent()
    sent.update(status)
    return rows_of(sent.whole())


def header(status: Any) -> dict[str, Any]:
    return header_of(status, datetime.now(UTC))


@pytest.mark.slow
def test_a_patch_makes_the_rows_what_they_are_now(run):
    """New ones at the end and inside of others, changed ones, and nothing where nothing changed."""
    watched, sent, page = Watched(run.place), Sent(), Listed()
    fill(run, 2 * FEW)
    assert sent.update(watched.status_view()) is None
    page.take(sent.whole())
    with run.step("turn", effect="none") as turn:
        fill(run, 3, "inner")
        page.take(sent.update(watched.status_view()) or {})
        fill(run, 1, "last")
        patch = sent.update(watched.status_view())
        assert patch is not None
        assert len(patch["id"]) == 1
        assert page.take(patch)
        turn.result = turn.needed
    doubt(run, "pay")
    patch = sent.update(watched.status_view())
    assert patch is not None
    assert len(json.dumps(patch)) < 1000
    assert page.take(patch)
    assert list(page.rows.values()) == whole(run.status_view())
    assert sent.update(watched.status_view()) == {}
    assert list(page.rows)[-3:] == ["turn#1/inner[2]#1", "turn#1/last[0]#1", "pay#1"]


@pytest.mark.slow
def test_ids_are_read_from_labels_and_order(run):
    """Operations below others, branches of them, and what is expected and has not begun."""
    with run.step("turn", effect="none") as turn:
        with run.step("part", effect="none") as part:
            fill(run, 2)
            part.result = part.needed
        turn.result = turn.needed
    fill(run, 2, "after")
    status = run.status_view()
    assert [row["id"] for row in whole(status)] == [view.id for view in status.views]


@pytest.mark.slow
def test_who_has_missed_a_patch_gets_all_rows_when_it_asks(run):
    """A version that does not follow is seen, and one message brings it all."""
    fill(run, 2 * FEW)
    panel, page = Panel(Watched(run.place)), Listed()
    page.take(panel.table.get_state("rows")["rows"])
    for name in ("a", "b"):
        run.step(name, effect="none").call(lambda: 1)
        panel.refresh()
    assert not page.take(panel.table.patch)
    asked: list[Any] = []
    panel.table.send_state = lambda key: asked.append(panel.table.get_state(key)[key])
    panel._on_message(panel.table, {"request": "1", "action": "whole", "op": ""}, [])
    assert page.take(asked[0])
    assert list(page.rows) == [row["id"] for row in listed(panel)]
    assert "b#1" in page.rows
    panel.close()


@pytest.mark.slow
def test_a_view_that_is_being_made_misses_nothing_and_then_gets_patches(run):
    """The first change after the panel is shown brings all rows; one that has asked gets patches."""
    fill(run, 2 * FEW)
    panel = Panel(Watched(run.place))
    panel.expect_view()
    version = panel.table.rows["version"]
    run.step("a", effect="none").call(lambda: 1)
    panel.refresh()
    assert panel.table.rows["version"] > version
    run.step("b", effect="none").call(lambda: 1)
    panel.refresh()
    assert panel.table.patch["id"] == ["b#1"]
    panel.close()


@pytest.mark.slow
def test_20000_rows_are_less_than_a_megabyte_and_the_chosen_detail_is_asked_for(run):
    """And what is at hand without asking is little, whatever the run holds."""
    fill(run, 20_000)
    sent, status = Sent(), run.status_view()
    sent.update(status)
    assert len(json.dumps(sent.whole())) < 1_000_000
    assert len(json.dumps(model.details_of(status))) < 60_000
    panel = Panel(Watched(run.place))
    ask = {"request": "1", "action": "detail", "op": "work[7]#1"}
    assert ask["op"] not in panel.table.details
    panel._on_message(panel.table, ask, [])
    assert panel.table.answer["detail"]["result"] == "7"
    panel.close()


@pytest.mark.slow
def test_a_look_at_a_run_that_goes_on_shows_what_a_first_look_does(tmp_path):
    """What is kept between looks is never old: live, done, replayed, denied, pinned."""

    def turn(run: dnb.Run) -> None:
        with run.step("turn", effect="none") as op:
            assert watched.status_view() == run.status_view()
            fill(run, 3)
            assert watched.status_view() == run.status_view()
            op.result = op.needed

    with dnb.run("job", store=tmp_path) as run:
        watched = Watched(run.place)
        turn(run)
        doubt(run, "pay")
        assert watched.status_view() == run.status_view()
        run.deny("pay")
        assert watched.status_view() == run.status_view()
    with dnb.run("job", store=tmp_path) as run:
        assert watched.status_view() == run.status_view()
        fill(run, 5, "more")
        run.step("last", effect="none").call(len, "ab")
    with dnb.run("job", store=tmp_path) as run:
        assert {v.source for v in watched.status_view().views} == {""}
        run.step("last", effect="none").call(len, "ab")
        assert watched.status_view() == run.status_view()
        run.step("new", effect="none").call(len, "ab")
        assert watched.status_view() == run.status_view()
        assert {v.source for v in watched.status_view().views} >= {"ran", "record"}


# -- above the table -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_header_says_what_it_costs_saves_and_is_at(tmp_path):
    """Money and tokens beside the budget, replays, progress, what is under way, kernels before."""

    def pay(run: dnb.Run) -> None:
        with run.step("paid", effect="none") as op:
            if op.needed:
                op.spend(usd=0.25, tokens=1200)
                op.result = 1

    opening = {"store": tmp_path, "budget": {"usd": 5.0}, "expect": ["paid", "later"]}
    with dnb.run("job", **opening) as run:
        pay(run)
    with dnb.run("job", **opening) as run:
        pay(run)
        told = header(run.status_view())
        assert told["spending"] == "$0.25, 1,200 tokens"
        assert told["budget"] == "budget: $0.25 of $5.00 so far"
        assert "and $0.25 saved by 1 replay" in told["saved"]
        assert told["progress"] == "1 of 2 done, 1 of them expected and not begun"
        assert told["current"] is None
        assert [one["how"] for one in told["kernels"]] == ["closed the run"]
        with run.step("paid", effect="none", key="2") as op:
            now = datetime.now(UTC) + timedelta(seconds=60)
            current = header_of(run.status_view(), now)["current"]
            assert current["id"] == "paid[2]#1"
            assert 55 < current["elapsed_s"] < 65
            assert current["estimate_s"] == run.get("paid#1").duration_s
            op.result = op.needed


def test_the_header_says_what_to_do_once_nothing_waits_for_a_person(tmp_path):
    """After a verdict and in a new kernel, until the program goes on: a page loaded anew has it."""
    go_on = "nothing is in doubt: run all cells to go on"

    def pay() -> None:
        raise ConnectionError

    with dnb.run("job", store=tmp_path) as run:
        assert header(run.status_view())["next"] == ""  # there is nothing to go on with
        run.step("look", effect="none").call(len, "a")
        assert header(run.status_view())["next"] == ""
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(pay)
        assert header(run.status_view())["next"] == ""
        run.confirm("pay#1", 1, evidence="seen")
        assert header(run.status_view())["next"] == go_on
        assert whole(run.status_view())[1]["source"] == "verdict"
        assert whole(run.status_view())[1]["note"] == "confirmed by a person"
    with dnb.run("job", store=tmp_path) as run:
        assert header(run.status_view())["next"] == go_on
        run.step("look", effect="none").call(len, "a")
        run.step("pay").call(pay)
        assert header(run.status_view())["next"] == ""
        assert whole(run.status_view())[1]["source"] == "record"


def test_the_header_says_what_a_person_is_asked(run):
    """Each operation once, the first three; nothing once all is settled."""
    assert header(run.status_view())["asks"] == []
    with pytest.raises(dnb.ApprovalPending):
        run.approval("Send?")
    asked = [["approval[Send?]#1", "approval[Send?]#1 waits for approval"]]
    assert header(run.status_view())["asks"] == asked
    run.approve("approval[Send?]#1")

    def pay(n: int) -> None:
        raise ConnectionError(n)

    with pytest.raises(dnb.UnknownOutcome):
        run.map(pay, range(5), key=str, independent=True)
    found = header(run.status_view())["asks"]
    assert [op for op, _ in found] == [f"pay[{n}]#1" for n in range(3)]
    assert found[0][1] == "pay[0]#1 may have happened: confirm or deny"


# -- the static table ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_static_table_is_short_and_has_what_waits_for_a_person(run):
    """However long the run is; it says how many are left out."""
    fill(run, 5 * LIMIT)
    doubt(run, "pay")
    shown = Shown(run.status_view())
    page, text = shown._repr_html_(), repr(shown)
    assert page.count("<tr>") == LIMIT + 1
    for said in (page, text):
        assert "pay#1" in said
        assert f"{4 * LIMIT + 1} operations are not listed here" in said
    assert len(text.splitlines()) < LIMIT + 20
