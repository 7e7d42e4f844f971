"""The panel's widget without a front end: messages, answers, refreshes, and the watcher."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.widgets import widget
from support.clicks import click, doubt, fail, kinds, row, watched
from support.listed import listed
from support.waiting import eventually

import durable_nb as dnb
from durable_nb.notebook.panel.panel import Panel, panel_of


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    with dnb.run("job", store=tmp_path) as run:
        yield run


@pytest.fixture
def panel(run: dnb.Run) -> Iterator[Panel]:
    panel = Panel(watched(run))
    yield panel
    panel.close()


@pytest.mark.slow
def test_the_widget_count_stays_constant_over_1000_refreshes(run, panel):
    """One container and one table, however often the run changes."""
    doubt(run)
    before = set(widget._instances)
    for number in range(1000):
        panel._tell(str(number), ok=True)
        panel.refresh()

    assert set(widget._instances) == before
    assert len(panel.widget.children) == 1
    assert panel_of(watched(run)) is panel_of(watched(run))  # shown again, it is the same one


def test_a_message_that_comes_twice_is_answered_once(run, panel):
    """A verdict is given once for each click, whatever the way to the kernel does with it."""
    doubt(run)
    message = click(run, "confirm", "pay#1", result="1")
    for _ in range(2):
        panel._on_message(panel.table, message, [])

    assert kinds(run, "pay#1").count("confirmed") == 1
    assert "contested" not in kinds(run, "pay#1")
    assert panel.table.answer["request"] == message["request"]
    assert listed(panel)[0]["outcome"] == "completed"


def test_an_operation_whose_name_cannot_be_sent_is_settled_all_the_same(run, panel):
    """The front end knows it by an escaped name, and the kernel by the real one."""
    doubt(run, key="\ud800")
    shown = panel_row(panel)["id"]
    shown.encode()
    message = click(run, "deny", "pay[\ud800]#1") | {"op": shown}
    panel._on_message(panel.table, message, [])

    assert panel_row(panel)["outcome"] == "incomplete"
    assert panel.table.answer["op"] == shown


def panel_row(panel: Panel) -> dict[str, Any]:
    panel.refresh()
    op = listed(panel)[0]["id"]
    return dict(panel.table.details[op])


def test_an_exception_in_a_callback_is_shown_in_the_panel_and_raised_nowhere(
    run, panel, monkeypatch
):
    """Whatever a click meets is a line in the panel; a step goes on."""
    doubt(run)
    for message in ("nonsense", {"request": 1}, {"request": 2, "action": "history", "op": "no"}):
        panel._on_message(panel.table, message, [])
        assert not panel.table.message["ok"]
    monkeypatch.setattr(run, "confirm", lambda *a, **k: 1 / 0)
    panel._on_message(panel.table, click(run, "confirm", "pay#1", result="1"), [])

    assert "ZeroDivisionError" in panel.table.message["text"]
    assert row(run, "pay#1")["outcome"] == "unknown"


def test_case_78_a_widget_layer_that_raises_on_every_update_leaves_the_step_alone(tmp_path, capsys):
    """The verdict is recorded, and the panel falls back to text, once."""
    broken: Callable[..., Any] = lambda *a, **k: {}["no such parent"]  # noqa: E731
    with dnb.run("job", store=tmp_path) as run:
        doubt(run)
        panel = Panel(watched(run))
        for trait in ("header", "rows", "message", "answer"):
            panel.table.observe(broken, trait)
        panel._on_message(panel.table, click(run, "confirm", "pay#1", result="1"), [])
        panel.refresh()

        assert run.get("pay#1").result == 1
        said = capsys.readouterr().out
        assert said.count("cannot be updated") == 1
        assert "pay#1" in said
        assert run.step("next", effect="none").call(lambda: 2) == 2


def test_clicks_from_several_threads_give_one_verdict(run, panel):
    """A subshell's thread and the main one may call at once."""
    doubt(run)
    messages = [click(run, "confirm", "pay#1", result=str(n)) for n in range(8)]
    threads = [
        threading.Thread(target=panel._on_message, args=(panel.table, message, []))
        for message in messages
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert kinds(run, "pay#1").count("confirmed") == 1
    assert kinds(run, "pay#1").count("contested") == 7


@pytest.mark.slow
def test_the_watcher_follows_the_run_also_when_it_was_closed_and_taken_up_again(
    tmp_path, monkeypatch
):
    """Without a click the table shows the run as it is, whoever holds it now."""
    monkeypatch.setattr("durable_nb.notebook.panel.panel.LOOK_S", 0.01)
    monkeypatch.setattr("durable_nb.notebook.panel.panel.BEAT_S", 0.0)
    with dnb.run("job", store=tmp_path) as run:
        panel = Panel(watched(run))
        panel.watch()
        assert listed(panel) == []
        run.step("plan", effect="none").call(lambda: 1)
        eventually(lambda: panel.table.beat and listed(panel)[0]["outcome"] == "completed")
    eventually(lambda: not panel.table.header["ticking"])
    assert "nobody executes this run now" in panel.table.header["notes"][-1]
    with dnb.run("job", store=tmp_path) as run:
        eventually(lambda: panel.table.header["ticking"])
        run.step("mail", effect="none").call(lambda: 2)
        eventually(lambda: len(listed(panel)) == 2)
    watcher = panel._watcher
    assert watcher is not None
    panel.close()
    watcher.join(5)
    assert not watcher.is_alive()


@pytest.mark.slow
def test_a_click_on_a_run_that_nobody_holds_takes_the_lease_for_a_moment(tmp_path):
    """A signal that left the `with` block closed the run; its doubt is settled all the same."""
    with pytest.raises(dnb.UnknownOutcome) as stopped, dnb.run("job", store=tmp_path) as run:
        run.step("pay").call(fail)
    assert stopped.value.folder == run.folder
    panel = Panel(watched(run))
    message = {
        "request": "1", "action": "confirm", "op": "pay#1", "result": "7", "evidence": "seen",
        "seq": panel_row(panel)["seq"],
    }  # fmt: skip
    panel._on_message(panel.table, message, [])

    assert panel.table.message["text"].endswith("Settled. Run its cell again, or all cells.")
    assert panel_row(panel)["outcome"] == "completed"
    panel.close()
    with dnb.run("job", store=tmp_path) as run:
        assert run.step("pay").call(fail) == 7


@pytest.mark.slow
def test_lost_records_are_accepted_with_a_reason(tmp_path):
    """The panel says what is lost, and the run goes on once a person has accepted it."""
    with dnb.run("job", store=tmp_path) as run:
        run.step("a", effect="none").call(lambda: 1)
    before = (run.folder / "journal.duckdb").read_bytes()
    with dnb.run("job", store=tmp_path) as run:
        run.step("b", effect="none").call(lambda: 2)
    (run.folder / "journal.duckdb").write_bytes(before)
    with dnb.run("job", store=tmp_path) as run:
        panel = Panel(watched(run))
        assert "records of this run are lost" in panel.table.header["loss"]
        ask = {"request": "1", "action": "accept", "op": "", "reason": ""}
        panel._on_message(panel.table, ask, [])
        assert "say how you know" in panel.table.message["text"]
        panel._on_message(panel.table, {**ask, "request": "2", "reason": "looked"}, [])

        assert panel.table.message["ok"], panel.table.message
        assert panel.table.header["loss"] == ""
        assert run.step("pay").call(lambda: 3) == 3
        panel.close()


@pytest.mark.slow
def test_the_button_pauses_a_run_and_lets_it_go_on(run, panel):
    """It is one click, whoever holds the run; what it says follows the run."""

    def press(action: str, request: str) -> dict[str, Any]:
        assert panel.table.queued == {}
        panel._on_message(panel.table, {"request": request, "action": action, "op": ""}, [])
        return dict(panel.table.message)

    assert panel.table.header["paused"] == ""
    told = press("pause", "1")
    assert told["ok"]
    assert told["text"] == "paused; what is in flight finishes, and nothing new begins in it."
    assert panel.table.header["paused"] == "paused"
    assert panel.table.header["notes"][-1] == "paused: nothing new begins in it"
    with pytest.raises(dnb.RunPaused):
        run.step("a", effect="none").call(lambda: 1)
    assert "is paused already" not in press("pause", "1")["text"], "one click, delivered twice"
    assert not press("pause", "2")["ok"]
    run.close()
    assert press("unpause", "3")["ok"]
    assert panel.table.header["paused"] == ""


def test_in_a_script_the_panel_is_the_printed_status(run, capsys):
    """`run.panel()` needs no notebook."""
    doubt(run)
    run.panel()

    assert capsys.readouterr().out.strip() == run.status_view().to_text()


def test_what_was_said_of_a_verdict_ends_when_the_run_goes_on(run, panel, monkeypatch):
    """It would say "it did not happen" of what has happened since; what itself changed is no end."""
    doubt(run)
    panel.refresh()
    panel._on_message(None, {"request": "r-1", **click(run, "deny", "pay#1")}, None)
    assert "it did not happen" in panel.table.message["text"]
    panel.refresh()
    assert "it did not happen" in panel.table.message["text"]
    monkeypatch.setattr("durable_nb.notebook.panel.panel.SAID_S", 0.0)
    panel.refresh()
    assert "it did not happen" in panel.table.message["text"], "nothing has changed since"
    run.step("pay").call(lambda: 1)
    panel.refresh()
    assert panel.table.message == {}
