"""Durable cells around loops that pin, items that are independent, waits and a pause."""

from __future__ import annotations

import pytest

SEND = """
sent = []
def send(n):
    sent.append(n)
    if n == 1:
        raise ConnectionError("the line broke")
    return n
"""


def test_a_doubt_of_one_item_lets_the_others_be_done_and_the_cell_be_completed_later(opened):
    """The cell is not completed over it; settled, it is entered again, and nothing is sent again."""
    opened.ok(SEND)
    cell = "%%durable mails\nout = run.map(send, range(4), key=str, independent=True)"

    failed = opened.run(cell)

    assert "send[1]#1" in failed.out
    assert sorted(opened.names["sent"]) == [0, 1, 2, 3]
    assert opened.names["run"].get("mails#1").outcome == "incomplete"
    opened.ok("run.confirm('mails#1/send[1]#1', 1, evidence='seen')")
    opened.ok(cell)
    assert opened.names["out"] == [0, 1, 2, 3]
    assert len(opened.names["sent"]) == 4
    assert "from record" in opened.ok(cell).out


def test_an_async_cell_with_independent_items_is_the_same(opened):
    """Awaited at the top of the cell."""
    opened.ok(SEND + "async def asend(n):\n    return send(n)\n")
    cell = "%%durable mails\nout = await run.map(asend, range(4), key=str, independent=True)"
    opened.run(cell)
    assert sorted(opened.names["sent"]) == [0, 1, 2, 3]
    opened.ok("run.confirm('mails#1/asend[1]#1', 1, evidence='seen')")
    opened.ok(cell)
    assert opened.names["out"] == [0, 1, 2, 3]
    assert len(opened.names["sent"]) == 4


@pytest.mark.slow
def test_a_pinned_loop_in_a_cell_waits_and_goes_on_where_it_was(opened):
    """Each execution of the cell goes on at the last pin; completed, it is not entered again."""
    opened.ok("done = []\ndef act(n):\n    done.append(n)\n    return n")
    cell = """%%durable loop
with run.pinned("turns", 0) as turns:
    while turns.state < 3:
        if turns.state == 1:
            run.approval("Go?")
        run.call(act, turns.state)
        turns.pin(turns.state + 1)
last = turns.state
"""
    opened.run(cell)
    assert opened.names["done"] == [0]
    run = opened.names["run"]
    assert [v.id for v in run.status_view().views if v.outcome == "incomplete"] == [
        "loop#1",
        "loop#1/turns#2/approval[Go?]#1",
    ]
    run.approve("loop#1/turns#2/approval[Go?]#1")
    opened.ok(cell)
    assert (opened.names["done"], opened.names["last"]) == ([0, 1, 2], 3)
    assert "from record" in opened.ok(cell).out
    assert opened.names["done"] == [0, 1, 2]


def test_a_pause_in_a_cell_with_a_pinned_loop_stops_it_and_unpaused_it_goes_on(opened):
    """The turn that was under way is pinned."""
    opened.ok("done = []\ndef act(n):\n    done.append(n)\n    return n")
    cell = """%%durable loop
with run.pinned("turns", 0) as turns:
    while turns.state < 3:
        run.call(act, turns.state)
        if turns.state == 1 and len(done) == 2:
            run.pause("enough")
        turns.pin(turns.state + 1)
"""
    stopped = opened.run(cell)
    assert "paused" in stopped.out
    assert opened.names["done"] == [0, 1]
    opened.run(cell)
    assert opened.names["done"] == [0, 1]
    opened.ok("run.unpause()")
    opened.ok(cell)
    assert opened.names["done"] == [0, 1, 2]
