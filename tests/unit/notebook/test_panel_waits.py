"""What the panel offers of an operation that waits, and what a click on it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import durable_nb as dnb
from durable_nb.engine.watched import Watched
from durable_nb.notebook.panel import actions, model


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    with dnb.run("job", store=tmp_path) as run:
        yield run


def act(run: dnb.Run, click: dict[str, Any]) -> actions.Answer:
    return actions.act(Watched(run.place), click)


def row(run: dnb.Run, op: str) -> dict[str, Any]:
    view = next(view for view in run.status_view().views if view.id == op)
    return model.detail_of(view)


def click(run: dnb.Run, action: str, op: str, **more: Any) -> dict[str, Any]:
    """What the front end sends for a wait as it shows it now."""
    seen = {"op": op, "seq": row(run, op)["seq"]}
    return {"request": f"{action}-{op}-{more}", "action": action, **seen, **more}


def test_a_pending_wait_offers_what_ends_it_and_says_what_it_waits_for(run):
    """Approve and reject, or a signal; nothing for a timer, and none once it is decided."""
    for wait, op, note, offered in (
        (
            lambda: run.approval("Go?"),
            "approval[Go?]#1",
            "waits for approval",
            ["approve", "reject"],
        ),
        (lambda: run.wait_for("paid"), "wait_for[paid]#1", "waits for a signal", ["signal"]),
        (lambda: run.sleep(3600), "sleep#1", "waits until its time", []),
    ):
        with pytest.raises(dnb.DurableSignal):
            wait()
        shown = row(run, op)
        assert (shown["note"], shown["actions"]) == (note, offered)

    assert act(run, click(run, "approve", "approval[Go?]#1", reason="fine")).ok
    assert act(run, click(run, "signal", "wait_for[paid]#1", value='{"usd": 5}')).ok

    assert row(run, "approval[Go?]#1")["actions"] == ["invalidate"]
    assert run.approval("Go?")["reason"] == "fine"
    run.invalidate("approval[Go?]#1", "asked too early")
    assert row(run, "approval[Go?]#1")["actions"] == []  # its cell asks again, and not before
    assert run.wait_for("paid") == {"usd": 5}


def test_a_click_on_a_wait_needs_what_its_verb_needs(run):
    """A reason to reject, a value to send; and the second click is told that it is settled."""
    for wait in (lambda: run.approval("Go?"), lambda: run.wait_for("paid")):
        with pytest.raises(dnb.DurableSignal):
            wait()
    for action, op, more in (
        ("reject", "approval[Go?]#1", {}),
        ("signal", "wait_for[paid]#1", {}),
        ("signal", "wait_for[paid]#1", {"value": "paid in full"}),
    ):
        assert "Nothing was recorded" in act(run, click(run, action, op, **more)).text
    one = click(run, "reject", "approval[Go?]#1", reason="not today")
    two = click(run, "approve", "approval[Go?]#1")

    assert act(run, one).text.endswith("on each resume.")
    assert "already settled" in act(run, two).text
    kinds = [str(kind) for kind in run.history("approval[Go?]#1").kind]
    assert kinds == ["intended", "rejected", "contested"]
