"""The inbox of a run: what another process says is the same verdict, with an answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.child import Bench, Child
from support.waiting import eventually

import durable_nb as dnb
from durable_nb.engine import inbox as owner
from durable_nb.engine import store as stores
from durable_nb.engine.options import Options
from durable_nb.engine.remote import UNANSWERED, is_listening, settle_live
from durable_nb.journal import FolderPlace, Inbox
from durable_nb.journal.inbox import LOOK_S
from durable_nb.model.errors import RunClosed

ASK = {"op": "send#1", "actor": "ada"}


@pytest.fixture
def run(open_run: Callable[..., Any]) -> Any:
    """A live run in which `send#1` is unknown."""
    run = open_run()
    run.step("plan", effect="none").call(str, "done")
    with pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    return run


def ask(run: Any, verb: str, op: str = "send#1", seen: int | None = None, **arguments: Any) -> Any:
    """Send a message, have it applied now, and give the answer."""
    box = Inbox(run.folder)
    body = {"op": op, "seen": seen, "arguments": arguments, "actor": "ada"}
    sent = box.send(verb, body)
    owner.drain(run)
    return box.answer_to(sent, 5)


# -- verdicts ----------------------------------------------------------------------------------


def test_a_confirmation_is_recorded_as_its_senders(run: Any) -> None:
    """The result is a JSON or Python literal; the history names who sent it, and the evidence."""
    answer = ask(run, "confirm", result="{'id': (1, 2)}", evidence="in the log")
    assert (answer["ok"], answer["verdict"]) == (True, "confirmed")
    assert answer["operation"]["outcome"] == "completed"
    assert run.get("send#1").result == {"id": (1, 2)}
    last = run.history("send#1").iloc[-1]
    assert (last["kind"], last["actor"], last["detail"]) == ("confirmed", "ada", "in the log")


def test_every_verb_is_applied_and_says_what_it_did(run: Any) -> None:
    """The same verdicts as in the run's own process."""
    assert ask(run, "deny", evidence="not there")["operation"]["outcome"] == "incomplete"
    shown = ask(run, "dependants", "plan#1")
    assert shown["more"] == {"below": [], "suspect": ["send#1"], "happened": []}
    told = ask(run, "invalidate", "plan#1", seen=shown["operation"]["last_seq"], reason="wrong")
    assert told["verdict"] == "invalidated"
    assert told["more"]["suspect"] == ["send#1"]
    assert ask(run, "rerun", "send#1", reason="again")["verdict"] == "rerun"
    assert ask(run, "keep", "plan#1")["error"] == "VerdictRefused"
    assert ask(run, "accept", "", reason="x")["error"] == "VerdictRefused"
    kinds = list(run.history()["kind"])
    assert kinds[-3:] == ["denied", "invalidated", "rerun"]


@pytest.mark.parametrize(
    ("verb", "op", "arguments", "error"),
    [
        ("explode", "send#1", {}, "ValueError"),
        ("confirm", "nothing", {}, "OperationMissing"),
        ("confirm", "send#1", {"result": "print('x')"}, "ValueError"),
        ("confirm", "send#1", {"result": 5}, "TypeError"),
        ("confirm", "send#1", {"colour": "red"}, "TypeError"),
        ("confirm", "", {}, "ValueError"),
        ("invalidate", "plan#1", {}, "TypeError"),
        ("invalidate", "plan#1", {"reason": "x", "effect": "gone"}, "ValueError"),
        ("invalidate", "plan#1", {"reason": "x", "shown": {"below": []}}, "VerdictRefused"),
        ("reconcile", "send#1", {}, "VerdictRefused"),
        ("reconcile", "plan#1", {}, "VerdictRefused"),
        ("invalidate", "send#1", {"reason": "x"}, "VerdictRefused"),
    ],
)
def test_what_does_not_fit_is_an_answer_and_changes_nothing(
    run: Any, verb: str, op: str, arguments: dict[str, Any], error: str
) -> None:
    """Nothing is raised in the owner, whatever was asked."""
    before = run.fold.last_seq
    answer = ask(run, verb, op, **arguments)
    assert (answer["ok"], answer["error"]) == (False, error)
    assert run.fold.last_seq == before


def test_the_second_of_two_verdicts_is_already_settled(run: Any) -> None:
    """Both senders looked at the same record: the first stands, and both are in the history."""
    seen = run.get("send#1").last_seq
    first = ask(run, "confirm", seen=seen, result="1")
    second = ask(run, "deny", seen=seen)
    assert first["ok"]
    assert (second["ok"], second["error"]) == (False, "AlreadySettled")
    assert list(run.history("send#1")["kind"])[-2:] == ["confirmed", "contested"]


def test_a_verdict_on_an_earlier_attempt_is_refused(open_run: Any, run: Any) -> None:
    """What was seen was another attempt, so its evidence proves nothing about this one."""
    seen = run.get("send#1").last_seq
    before = datetime.now(UTC)
    run.deny("send#1")
    run.close()
    run = open_run()
    with pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    assert run.get("send#1").attempt == 2
    answer = ask(run, "deny", seen=seen)
    assert (answer["ok"], answer["error"]) == (False, "VerdictRefused")
    assert "Look again" in answer["message"]
    sent = Inbox(run.folder, clock=lambda: before).send("deny", ASK)  # what was seen is not said
    owner.drain(run)
    assert "Look again" in Inbox(run.folder).answer_to(sent, 5)["message"]
    assert run.get("send#1").outcome == "unknown"
    assert ask(run, "deny", seen=run.get("send#1").last_seq)["ok"]


def test_a_verdict_that_was_recorded_before_its_answer_is_recorded_once(run: Any) -> None:
    """The owner was killed between the two: the next one answers, and adds nothing."""
    box = Inbox(run.folder)
    sent = box.send("deny", ASK)
    (message,) = box.pending()
    owner.apply(run, message)
    before = run.fold.last_seq
    owner.drain(run)
    assert box.answer_to(sent, 0)["ok"]
    assert run.fold.last_seq == before


# -- check now ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdict", "outcome"),
    [
        (dnb.Happened(7, evidence="there"), "settled", "completed"),
        (dnb.Undecided("the shop is closed"), "undecided", "unknown"),
        (dnb.DidNotHappen("not there yet"), "undecided", "unknown"),
    ],
)
def test_check_now_asks_the_steps_own_reconciler(
    open_run: Callable[..., Any], found: object, verdict: str, outcome: str
) -> None:
    """It does not wait until "not found" counts: its sender is waiting."""
    run = open_run()
    with pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    run.reconcilers["send"] = Options().with_({"reconcile": lambda op: found, "settle_after": 60})
    begun = time.monotonic()
    answer = ask(run, "reconcile")
    assert time.monotonic() - begun < 5
    assert (answer["verdict"], answer["operation"]["outcome"]) == (verdict, outcome)
    if isinstance(found, dnb.Undecided):
        assert "the shop is closed" in answer["said"]


@pytest.mark.slow
def test_a_slow_reconciler_keeps_nobody_else_waiting(open_run: Callable[..., Any]) -> None:
    """Other messages are answered while it is asked, and it is answered once it knows."""
    goes_on, asked = threading.Event(), list[object]()

    def look_up(op: object) -> object:
        asked.append(op)
        goes_on.wait(20)
        return dnb.Undecided("no idea")

    run = open_run()
    with pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    run.reconcilers["send"] = Options().with_({"reconcile": look_up})
    box = Inbox(run.folder)
    slow = box.send("reconcile", ASK)
    quick = box.send("dependants", ASK)
    assert box.answer_to(quick, 2)["ok"]
    time.sleep(LOOK_S * 3)
    assert box.answer_to(slow, 0) is None
    assert len(asked) == 1, "what is being asked is not asked again at the next look"
    goes_on.set()
    assert box.answer_to(slow, 5)["verdict"] == "undecided"


# -- the owner ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_live_run_answers_within_two_seconds(run: Any) -> None:
    """From a thread of its own, whatever the main thread is waiting for."""
    box = Inbox(run.folder)
    sent = box.send("deny", ASK)
    begun = time.monotonic()
    time.sleep(1.5)  # the cell that blocks
    assert box.answer_to(sent, 0)["ok"]
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("role", ["runner", "operator"])
def test_whoever_takes_the_lease_drains_first(open_run: Any, run: Any, role: str) -> None:
    """A message that was left while nobody held the run is applied by the next opener."""
    run.close()
    box = Inbox(run.folder)
    sent = box.send("confirm", {**ASK, "arguments": {"result": "1"}})
    reader = stores.open_run("r", store=run.folder.parent, role="reader")
    assert reader.get("send#1").outcome == "unknown"
    reader.close()
    assert box.answer_to(sent, 0) is None

    again = stores.open_run("r", store=run.folder.parent, role=role)
    assert again.get("send#1").result == 1
    assert box.answer_to(sent, 0)["ok"]
    again.close()


def test_hostile_files_hinder_neither_opening_nor_messages(
    open_run: Any, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are named, and what is proper beside them is applied."""
    run.close()
    box = Inbox(run.folder)
    sent = box.send("deny", ASK)
    (box.folder / f"{'a' * 32}.json").write_text("no JSON")
    (box.folder / f"{'b' * 32}.json").symlink_to(run.folder / "owner.json")
    again = open_run()
    assert box.answer_to(sent, 0)["ok"]
    told = capsys.readouterr().err
    assert "a" * 32 in told
    assert "b" * 32 in told
    assert "send#1: denied, by ada from another process" in told
    assert json.loads((run.folder / "owner.json").read_text())["pid"]
    again.close()


def test_an_inbox_that_cannot_be_trusted_is_left_alone(
    open_run: Any, run: Any, tmp_path: Path
) -> None:
    """The run opens and works; its watcher keeps what is wrong to itself."""
    run.close()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (run.folder / "inbox").symlink_to(tmp_path / "elsewhere")
    again = open_run()
    watcher = owner.Watcher(again)
    watcher.look()
    assert "symbolic link" in watcher.trouble
    assert again.get("send#1").outcome == "unknown"
    again.close()


@pytest.mark.slow
def test_what_the_owner_says_may_fail_and_the_answer_still_comes(run: Any) -> None:
    """An exception in the owner's thread is kept, and the thread goes on."""

    def say(line: str) -> None:
        raise OSError("nobody listens")

    run.say = say
    box = Inbox(run.folder)
    first = box.send("deny", ASK)
    assert box.answer_to(first, 5)["ok"]
    second = box.send("deny", ASK)
    assert box.answer_to(second, 5)["error"] == "AlreadySettled"


@pytest.mark.slow
def test_nothing_is_applied_after_the_end(run: Any) -> None:
    """A message that comes as the run closes waits for the next owner."""
    box = Inbox(run.folder)
    run.close()
    sent = box.send("deny", ASK)
    time.sleep(LOOK_S * 2)
    owner.drain(run)
    assert [m.id for m in box.pending()] == [sent]
    with pytest.raises(RunClosed):
        owner.apply(run, box.pending()[0])
    names = {t.name for t in threading.enumerate()}
    assert f"durable_nb inbox {run.name}" not in names


def test_closing_does_not_wait_for_the_next_look(run: Any) -> None:
    """Whoever watches is woken, also if that comes before it begins to wait."""
    for pause in (0, 0.1):
        watcher = owner.Watcher(run, every=60)
        watcher.start()
        time.sleep(pause)
        begun = time.monotonic()
        watcher.stop()
        assert time.monotonic() - begun < 1


# -- from another process ----------------------------------------------------------------------

KILLED = """\
import os, signal, sys
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
with run.step("send", inputs={"to": "ada"}) as op:
    if op.needed:
        os.kill(os.getpid(), signal.SIGKILL)
"""

BLOCKED = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
print("open", flush=True)
time.sleep(120)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    assert Child(program, tmp_path / "store").wait().killed
    return tmp_path / "store" / "live"


def blocked(folder: Path) -> Child:
    program = folder.parent.parent / "blocked.py"
    program.write_text(BLOCKED)
    child = Child(program, folder.parent)
    child.first_line()
    return child


@pytest.mark.slow
def test_a_live_run_is_settled_from_another_process(killed: Path) -> None:
    """Its owner blocks in `time.sleep`, and answers within 2 s all the same."""
    assert not is_listening(FolderPlace(killed))
    with blocked(killed) as child:
        assert is_listening(FolderPlace(killed))
        begun = time.monotonic()
        answer = settle_live(
            FolderPlace(killed), "confirm", "send#1", {"result": "1", "evidence": "seen"}
        )
        assert time.monotonic() - begun < 2
        assert answer["ok"]
        assert (
            settle_live(FolderPlace(killed), "confirm", "send", {"result": "2"})["error"]
            == "AlreadySettled"
        )
        child.kill()
    run = stores.open_run("live", store=killed.parent, role="reader")
    assert run.get("send#1").result == 1
    assert list(run.history("send#1")["kind"]) == ["intended", "confirmed", "contested"]
    run.close()


@pytest.mark.slow
def test_an_unanswered_message_is_withdrawn(killed: Path) -> None:
    """Whoever asked knows that nothing will come of it."""
    answer = settle_live(FolderPlace(killed), "deny", "send#1", {}, timeout_s=0.1)
    assert (answer["ok"], answer["error"], answer["withdrawn"]) == (False, UNANSWERED, True)
    assert Inbox(killed).pending() == []


@pytest.mark.slow
def test_a_message_that_was_taken_is_not_called_withdrawn(killed: Path) -> None:
    """Its owner may still apply it, so that is what its sender is told."""
    box = Inbox(killed)

    def take() -> None:
        (message,) = eventually(box.pending)
        box.take(message.id)

    thread = threading.Thread(target=take)
    thread.start()
    answer = settle_live(FolderPlace(killed), "deny", "send#1", {}, timeout_s=1)
    thread.join()
    assert (answer["error"], answer["withdrawn"]) == (UNANSWERED, False)
    assert "history" in answer["message"]


ASKED_FOR = """
from durable_nb.engine.verbs import VERBS, perform

def look_up(op):
    return dnb.Undecided("cannot tell")

def send():
    raise TimeoutError

with dnb.run("r", store=store) as run:
    try:
        run.step(reconcile=look_up).call(send)
    except dnb.UnknownOutcome:
        pass
    for verb in ("reconcile", "history", "facets", "unknown", "dependants"):
        perform(run, verb, "send#1", {})
    perform(run, "deny", "send#1", {"evidence": "looked"})
    tell(verbs=len(VERBS), imported="pandas" in sys.modules)
"""


@pytest.mark.slow
def test_what_another_process_asks_for_imports_nothing(tmp_path):
    """It is done in a thread: Ctrl-C in the main thread must not meet an import there."""
    assert Bench(tmp_path).run(ASKED_FOR).ok().facts["imported"] is False
