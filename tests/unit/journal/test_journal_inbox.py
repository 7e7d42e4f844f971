"""The inbox as files: what is sent arrives whole, and what is hostile is named and left alone."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from durable_nb.journal import Inbox
from durable_nb.journal.errors import BadMessage
from durable_nb.journal.inbox import ANSWERS_KEPT_S, MESSAGE_LIMIT
from durable_nb.model.errors import NotTrusted

BODY = {"op": "mail#1", "seen": 7, "arguments": {"evidence": "seen"}, "actor": "ada"}
ID = "0" * 31 + "1"


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def names(inbox: Inbox) -> list[str]:
    return sorted(os.listdir(inbox.folder))


def test_a_message_arrives_as_it_was_sent(inbox: Inbox) -> None:
    """The owner reads every field back; folder and file are this user's only."""
    sent = inbox.send("deny", BODY)
    (found,) = inbox.pending()
    assert (found.id, found.verb, found.op, found.seen) == (sent, "deny", "mail#1", 7)
    assert (found.arguments, found.actor) == ({"evidence": "seen"}, "ada")
    assert found.ts.tzinfo is not None
    assert stat.S_IMODE(inbox.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((inbox.folder / f"{sent}.json").stat().st_mode) == 0o600


def test_messages_are_given_in_order_of_arrival(inbox: Inbox) -> None:
    """First come, first served, whatever the names are."""
    sent = [inbox.send("deny", {"op": f"s#{n}"}) for n in range(5)]
    assert [m.id for m in inbox.pending()] == sent
    os.utime(inbox.folder / f"{sent[0]}.json", (2e9, 2e9))
    assert [m.id for m in inbox.pending()] == [*sent[1:], sent[0]]


def test_an_answer_replaces_its_message(inbox: Inbox) -> None:
    """Once answered, a message is gone and its sender has the answer."""
    sent = inbox.send("deny", BODY)
    assert inbox.answer_to(sent, 0) is None
    timer = threading.Timer(0.1, inbox.answer, (sent, {"ok": True}))
    timer.start()
    assert inbox.answer_to(sent, 5) == {"ok": True}
    timer.join()
    assert inbox.pending() == []
    assert names(inbox) == [f"{sent}.answer.json"]


def test_a_message_is_withdrawn_or_taken_and_never_both(inbox: Inbox) -> None:
    """The sender knows whether anything can come of it."""
    first, second = inbox.send("deny", BODY), inbox.send("deny", BODY)
    assert inbox.withdraw(first)
    assert not inbox.take(first)
    assert inbox.take(second)
    assert not inbox.withdraw(second)
    inbox.put_back(second)
    assert inbox.withdraw(second)


def test_what_a_killed_owner_had_taken_is_given_to_the_next(inbox: Inbox) -> None:
    """A message that was taken and not answered still waits."""
    sent = inbox.send("deny", BODY)
    inbox.take(sent)
    assert [m.id for m in Inbox(inbox.folder.parent).pending()] == [sent]
    assert inbox.take(sent)


def test_old_answers_are_removed_and_new_ones_are_kept(inbox: Inbox) -> None:
    """Nobody waits for an answer for more than an hour."""
    old, new = inbox.send("deny", BODY), inbox.send("deny", BODY)
    for sent in (old, new):
        inbox.answer(sent, {"ok": True})
    past = (inbox.folder / f"{old}.answer.json").stat().st_mtime - ANSWERS_KEPT_S - 1
    os.utime(inbox.folder / f"{old}.answer.json", (past, past))
    inbox.pending()
    assert names(inbox) == [f"{new}.answer.json"]


def message(**changes: object) -> bytes:
    whole = {
        "id": ID, "verb": "deny", "op": "a", "seen": None, "arguments": {}, "actor": "ada",
        "ts": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return json.dumps({**whole, **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"not JSON",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (MESSAGE_LIMIT + 1),
        message(id="../../" + ID[6:]),
        message(id="f" * 32),
        message(seen=True),
        message(seen="7"),
        message(arguments=[]),
        message(verb=None),
        message(verb="deny\x1b[2J"),
        message(ts="yesterday"),
        message(ts="2026-01-01T00:00:00"),
        message(ts=[]),
    ],
    ids=lambda data: data[:40].decode("latin-1"),
)
def test_what_is_no_message_is_set_aside_and_named(inbox: Inbox, data: bytes) -> None:
    """It is not executed and not deleted, and is named once."""
    good = inbox.send("deny", BODY)
    (inbox.folder / f"{ID}.json").write_bytes(data)
    assert [m.id for m in inbox.pending()] == [good]
    assert [m.id for m in inbox.pending()] == [good]
    assert len(inbox.refused) == 1
    assert ID in inbox.refused[0]
    assert (inbox.folder / f"{ID}.json.bad").read_bytes() == data


def test_a_proper_message_from_anyone_is_taken(inbox: Inbox) -> None:
    """The refusals above are about what they change in it."""
    inbox.folder.mkdir(mode=0o700)
    (inbox.folder / f"{ID}.json").write_bytes(message())
    assert [m.id for m in inbox.pending()] == [ID]


def test_links_and_pipes_are_not_read(inbox: Inbox, tmp_path: Path) -> None:
    """A link out of the folder is set aside, and what it points to stays as it is."""
    outside = tmp_path / "outside.json"
    outside.write_bytes(message())
    inbox.folder.mkdir(mode=0o700)
    (inbox.folder / f"{ID}.json").symlink_to(outside)
    os.mkfifo(inbox.folder / f"{'2' * 32}.json")
    (inbox.folder / f"{'3' * 32}.json").mkdir()
    (inbox.folder / "evil.json").write_bytes(message())
    assert inbox.pending() == []
    assert len(inbox.refused) == 4
    assert all(name.endswith(".bad") for name in names(inbox))
    assert outside.read_bytes() == message()


def test_an_answer_is_not_read_through_a_link(inbox: Inbox, tmp_path: Path) -> None:
    """Nor is it written through one."""
    (tmp_path / "outside.json").write_text('{"ok": true}')
    inbox.folder.mkdir(mode=0o700)
    (inbox.folder / f"{ID}.answer.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(OSError, match="symbolic"):
        inbox.answer_to(ID, 0)
    inbox.answer(ID, {"ok": False})
    assert inbox.answer_to(ID, 0) == {"ok": False}
    assert (tmp_path / "outside.json").read_text() == '{"ok": true}'


def test_an_inbox_that_is_a_link_is_not_used(inbox: Inbox, tmp_path: Path) -> None:
    """Whoever can point it elsewhere would give the verdicts."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    inbox.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotTrusted):
        inbox.pending()
    with pytest.raises(NotTrusted):
        inbox.send("deny", BODY)
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("bad", ["", "../owner", "0" * 31, "0" * 31 + "/", "G" * 32, ID + "\n"])
def test_an_id_is_hexadecimal(inbox: Inbox, bad: str) -> None:
    """An id can name nothing outside of the inbox."""
    for act in (inbox.withdraw, inbox.take, inbox.put_back):
        with pytest.raises(ValueError, match="hexadecimal"):
            act(bad)
    with pytest.raises(ValueError, match="hexadecimal"):
        inbox.answer(bad, {})
    with pytest.raises(ValueError, match="hexadecimal"):
        inbox.answer_to(bad, 0)


@pytest.mark.parametrize(
    "body",
    [{"arguments": {"result": "x" * MESSAGE_LIMIT}}, {"arguments": {"r": b"x"}}, {"seen": "7"}],
    ids=["large", "bytes", "seen"],
)
def test_what_cannot_be_sent_is_refused_before_it_is(inbox: Inbox, body: dict[str, object]) -> None:
    """The sender is told, and no file is left."""
    with pytest.raises(BadMessage, match="Nothing was sent"):
        inbox.send("confirm", body)
    assert not inbox.folder.exists()
