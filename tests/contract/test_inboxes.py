"""What every inbox promises to those who send and to the owner."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from support.child import Child

from durable_nb.journal.errors import BadMessage
from durable_nb.journal.inbox import MESSAGE_LIMIT
from durable_nb.journal.place import RunInbox

Open = Callable[..., RunInbox]
BODY = {"op": "mail#1", "seen": 7, "arguments": {"evidence": "seen"}, "actor": "ada"}
ID = "0" * 31 + "1"


@pytest.fixture
def plant(kept: str) -> Callable[[bytes], None]:
    """Put something into the inbox under `ID`, behind everybody's back."""
    url, _, run = kept.partition(" ")

    def put(data: bytes) -> None:
        if not run:
            (Path(kept) / "inbox" / f"{ID}.json").write_bytes(data)
            return
        with psycopg.connect(url) as found:
            found.execute(
                "INSERT INTO durable_nb.messages (run, id, body) "
                "SELECT run, %s, %b FROM durable_nb.runs WHERE name = %s",
                (ID, data, run),
            )

    return put


@pytest.fixture
def age(kept: str) -> Callable[[str, float], None]:
    """Make an answer older."""
    url, _, run = kept.partition(" ")

    def older(message_id: str, seconds: float) -> None:
        if not run:
            then = time.time() - seconds
            os.utime(Path(kept) / "inbox" / f"{message_id}.answer.json", (then, then))
            return
        with psycopg.connect(url) as found:
            found.execute(
                "UPDATE durable_nb.messages SET answered = answered - make_interval(secs => %s) "
                "WHERE id = %s",
                (seconds, message_id),
            )

    return older


def test_a_message_arrives_as_it_was_sent(inbox: Open):
    """Every field, any text, and the time by the sender's clock."""
    ts = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    body = {"op": "a\0\ud800#1", "arguments": {"result": "\0\udfff ä"}, "actor": "ada"}
    sender, owner = inbox(lambda: ts), inbox()
    first, second = sender.send("deny", BODY), sender.send("confirm", body)
    assert owner.pending() == sender.pending()
    one, two = owner.pending()
    assert (one.id, one.verb, one.op, one.seen) == (first, "deny", "mail#1", 7)
    assert (one.arguments, one.actor, one.ts) == ({"evidence": "seen"}, "ada", ts)
    assert (two.id, two.op, two.seen) == (second, "a\0\ud800#1", None)
    assert two.arguments == {"result": "\0\udfff ä"}


def test_messages_are_given_in_order_of_arrival(inbox: Open):
    """First come, first served, whoever sent them."""
    boxes = [inbox() for _ in range(3)]
    sent = [box.send("deny", {"op": f"s#{n}"}) for n in range(3) for box in boxes]
    assert [message.id for message in boxes[0].pending()] == sent


def test_an_answer_is_awaited_and_replaces_its_message(inbox: Open):
    """It may be asked for more than once; the first look does not wait."""
    sender, owner = inbox(), inbox()
    sent = sender.send("deny", BODY)
    assert sender.answer_to(sent, 0) is None
    timer = threading.Timer(0.1, owner.answer, (sent, {"ok": True, "text": "\0\ud800"}))
    timer.start()
    assert sender.answer_to(sent, 5) == {"ok": True, "text": "\0\ud800"}
    timer.join()
    assert owner.pending() == []
    assert not sender.withdraw(sent)
    assert sender.answer_to(sent, 0) == {"ok": True, "text": "\0\ud800"}


def test_an_answer_may_be_awaited_and_given_over_one_object(inbox: Open):
    """By two threads."""
    box = inbox()
    sent = box.send("deny", BODY)
    timer = threading.Timer(0.1, box.answer, (sent, {"ok": True}))
    timer.start()
    assert box.answer_to(sent, 5) == {"ok": True}
    timer.join()


def test_no_answer_is_told_after_the_time(inbox: Open):
    """And not before it."""
    box = inbox()
    sent = box.send("deny", BODY)
    begun = time.monotonic()
    assert box.answer_to(sent, 0.3) is None
    assert 0.3 <= time.monotonic() - begun < 2


def test_a_message_is_withdrawn_or_taken_and_never_both(inbox: Open):
    """The sender knows whether anything can come of it."""
    sender, owner = inbox(), inbox()
    first, second = sender.send("deny", BODY), sender.send("deny", BODY)
    assert sender.withdraw(first)
    assert not sender.withdraw(first)
    assert not owner.take(first)
    assert owner.take(second)
    assert not sender.withdraw(second)
    owner.put_back(second)
    assert sender.withdraw(second)
    assert owner.pending() == []


@pytest.mark.slow
def test_what_a_killed_owner_had_taken_is_given_to_the_next(
    inbox: Open, start: Callable[..., Child]
):
    """A message that was taken and not answered still waits, and cannot be withdrawn."""
    sent = inbox().send("deny", BODY)
    child = start(
        """
        from support.keeping import inbox_of
        inbox_of(place).take(sys.argv[2])
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        sent,
    )
    assert child.wait().killed
    owner = inbox()
    assert not inbox().withdraw(sent)
    assert [message.id for message in owner.pending()] == [sent]
    assert owner.take(sent)
    owner.answer(sent, {"ok": True})
    assert inbox().answer_to(sent, 0) == {"ok": True}


def test_old_answers_are_removed_and_new_ones_are_kept(
    inbox: Open, age: Callable[[str, float], None]
):
    """Nobody waits for an answer for more than an hour."""
    box = inbox()
    old, new = box.send("deny", BODY), box.send("deny", BODY)
    for sent in (old, new):
        box.answer(sent, {"ok": True})
    age(old, 3601)
    age(new, 3500)
    box.pending()
    assert box.answer_to(old, 0) is None
    assert box.answer_to(new, 0) == {"ok": True}


@pytest.mark.parametrize(
    "data",
    [
        b"not JSON",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (MESSAGE_LIMIT + 1),
        json.dumps({"id": "f" * 32}).encode(),
    ],
    ids=lambda data: data[:10].decode("latin-1"),
)
def test_what_is_no_message_is_set_aside_and_named_once(
    inbox: Open, plant: Callable[[bytes], None], data: bytes
):
    """It is not executed, cannot be taken, and hinders no other."""
    box = inbox()
    good = box.send("deny", BODY)
    plant(data)
    assert [message.id for message in box.pending()] == [good]
    assert [message.id for message in box.pending()] == [good]
    assert len(box.refused) == 1
    assert ID in box.refused[0]
    assert not box.take(ID)
    again = inbox()
    assert [message.id for message in again.pending()] == [good]
    assert again.refused == []


@pytest.mark.parametrize(
    "body",
    [
        {"arguments": {"result": "x" * MESSAGE_LIMIT}},
        {"arguments": {"result": object()}},
        {"seen": "7"},
        {"actor": "a\x1b[2J"},
    ],
    ids=["large", "an object", "seen", "an escape"],
)
def test_what_cannot_be_read_is_not_sent(inbox: Open, body: dict[str, object]):
    """Its sender is told, and the owner has nothing of it."""
    box = inbox()
    with pytest.raises(BadMessage, match="Nothing was sent"):
        box.send("confirm", body)
    assert box.pending() == []


@pytest.mark.parametrize("name", ["", "x", "../../x", "F" * 32, "0" * 32 + "\n", None, 7])
def test_what_is_no_id_is_refused(inbox: Open, name: object):
    """Before anything is looked up."""
    box = inbox()
    for ask in (box.take, box.withdraw, box.put_back):
        with pytest.raises(ValueError, match="no id of a message"):
            ask(name)  # type: ignore[operator]
    with pytest.raises(ValueError, match="no id of a message"):
        box.answer(name, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no id of a message"):
        box.answer_to(name, 0)  # type: ignore[arg-type]


def test_a_wait_lasts_its_time_unless_it_is_woken(inbox: Open):
    """Whoever stops an owner need not wait for it; one that comes too early is not lost."""
    box = inbox()
    box.wait(0)
    begun = time.monotonic()
    assert not box.wait(0.2)
    assert 0.2 <= time.monotonic() - begun < 1.5
    timer = threading.Timer(0.1, box.wake)
    timer.start()
    begun = time.monotonic()
    assert not box.wait(20)
    timer.join()
    box.wake()
    assert not box.wait(20)
    assert time.monotonic() - begun < 3


def test_a_closed_inbox_may_still_give_a_late_answer(inbox: Open):
    """A check that took long ends after its run was closed; closing twice is harmless."""
    box, unused = inbox(), inbox()
    sent = box.send("reconcile", BODY)
    assert box.take(sent)
    box.wait(0)
    for one in (box, unused) * 2:
        one.wake()
        one.close()
    box.answer(sent, {"ok": True})
    assert inbox().answer_to(sent, 0) == {"ok": True}
