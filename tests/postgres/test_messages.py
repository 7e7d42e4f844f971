"""Messages over connections that race, are lost, and are told of what happens."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import psycopg
import pytest
from support.keeping import artifacts_of, inbox_of, key_of
from support.places import UnseenPlace, UnseenStore
from support.postgres import Cluster, connected
from support.waiting import eventually

import durable_nb as dnb
from durable_nb.engine.inbox import Watcher
from durable_nb.engine.remote import settle_live
from durable_nb.engine.store import open_run
from durable_nb.journal import FolderStore, Inbox
from durable_nb.journal.place import RunInbox
from durable_nb.journal.postgres import (
    PostgresInbox,
    Server,
    StoreRefused,
    StoreUnreachable,
    prepare,
)

BODY = {"op": "mail#1", "actor": "ada"}


def by_proxy(proxy, store: str) -> str:
    return proxy.url(store.partition("@/")[2].partition("?")[0])


def test_of_a_taking_and_a_withdrawal_one_wins(store, key, inbox):
    """200 times over two connections at once: never both, never neither."""
    sender, owner = inbox(), inbox()
    ready, results = threading.Barrier(2), list[tuple[str, bool]]()
    sent = [sender.send("deny", BODY) for _ in range(200)]

    def race(name: str, do: Callable[[str], bool]) -> None:
        for message_id in sent:
            ready.wait(20)
            results.append((name, do(message_id)))

    threads = [
        threading.Thread(target=race, args=("took", owner.take)),
        threading.Thread(target=race, args=("withdrew", sender.withdraw)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    won = Counter(name for name, did in results if did)
    assert len(results) == 400
    assert won["took"] + won["withdrew"] == 200
    assert len(owner.pending()) == won["took"]


@pytest.mark.parametrize("first", ["take", "withdraw"])
def test_a_row_that_is_locked_is_looked_at_again(store, key, inbox, first):
    """The second of the two began before the first was committed, and changes nothing."""
    sender, owner = inbox(), inbox()
    sent = sender.send("deny", BODY)
    does = {
        "take": "UPDATE durable_nb.messages SET taken = now(), taker = 'x' WHERE id = %s",
        "withdraw": "DELETE FROM durable_nb.messages WHERE id = %s",
    }
    told: list[bool] = []
    second = sender.withdraw if first == "take" else owner.take
    with connected(store) as con, con.transaction():
        con.execute(does[first], [sent])
        thread = threading.Thread(target=lambda: told.append(second(sent)))
        thread.start()
        time.sleep(0.3)
        assert told == []
    thread.join(20)
    assert told == [False]


@pytest.mark.parametrize("meanwhile", [False, True], ids=["idle", "in use"])
def test_a_message_and_its_answer_are_told_at_once(inbox, meanwhile):
    """Well before the next look, also while another thread uses the same connection."""
    sender, owner = inbox(), inbox()
    assert owner.wait(5), "whoever begins to listen has to look"
    assert not owner.wait(0.05)
    ended = threading.Event()

    def use() -> None:
        while meanwhile and not ended.is_set():
            owner.pending()

    using = threading.Thread(target=use)
    using.start()
    took, heard, answered = [], list[float](), list[float]()

    def own() -> None:
        for _ in range(5):
            assert owner.wait(10)
            heard.append(time.monotonic())
            for message in owner.pending():
                owner.take(message.id)
                time.sleep(0.2)
                took.append(message.id)
                answered.append(time.monotonic())
                owner.answer(message.id, {"ok": True})

    owning = threading.Thread(target=own)
    owning.start()
    try:
        for n in range(5):
            begun = time.monotonic()
            sent = sender.send("deny", BODY)
            assert sender.answer_to(sent, 10) == {"ok": True}
            assert time.monotonic() - answered[n] < 0.3
            assert heard[n] - begun < 0.3
    finally:
        ended.set()
        owning.join(20)
        using.join(20)
    assert len(took) == 5


def test_a_message_that_came_between_two_waits_is_not_missed(inbox):
    """And one that came while nobody was connected is told of by the first wait."""
    sender, owner = inbox(), inbox()
    sender.send("deny", BODY)
    assert owner.wait(10)
    assert not owner.wait(0)
    sender.send("deny", BODY)
    owner.pending()  # its answer brings the notification
    begun = time.monotonic()
    assert owner.wait(10)
    assert time.monotonic() - begun < 0.3
    assert not owner.wait(0)


def test_what_another_thread_got_wakes_whoever_waits(inbox):
    """A notification may come with the answer of somebody else's statement."""
    owner = inbox()
    owner.wait(0)
    timer = threading.Timer(0.1, owner._listener._hear, [""])
    timer.start()
    begun = time.monotonic()
    assert owner.wait(10)
    assert time.monotonic() - begun < 0.5
    timer.join()


def test_a_late_answer_leaves_no_connection_behind(place, inbox):
    """After closing, each statement has one for itself alone."""
    url, _, name = place.partition(" ")
    box = inbox()
    sent = box.send("reconcile", BODY)
    box.take(sent)
    assert len(inboxes(url, name)) == 1
    box.close()
    box.answer(sent, {"ok": True})
    assert eventually(lambda: not inboxes(url, name))


def test_whoever_waits_hears_again_after_its_connection_was_lost(store, key, inbox):
    """It ends that wait in its time, and the next one begins with a look."""
    sender, owner = inbox(), inbox()
    owner.wait(0)
    with connected(store) as con:
        con.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [f"durable_nb inbox of run {key}"],
        )
        begun = time.monotonic()
        owner.wait(0.5)
        assert time.monotonic() - begun < 2
        sent = sender.send("deny", BODY)
        assert owner.wait(10) or owner.wait(10)
        assert [message.id for message in owner.pending()] == [sent]
        while owner.wait(0):
            pass
        sender.send("deny", BODY)
        begun = time.monotonic()
        assert owner.wait(10)
        assert time.monotonic() - begun < 0.3


def test_waiting_for_a_server_that_is_gone_lasts_its_time_and_can_be_woken(store, inbox, proxy):
    """No turning on the spot, and whoever stops the owner does not wait either."""
    owner = inbox(by_proxy(proxy, store), patience_s=0)
    proxy.closed = True
    begun = time.monotonic()
    assert not owner.wait(0.4)
    assert 0.4 <= time.monotonic() - begun < 5
    timer = threading.Timer(0.1, owner.wake)
    timer.start()
    assert not owner.wait(20)
    assert time.monotonic() - begun < 5
    timer.join()
    with pytest.raises(StoreUnreachable):
        owner.pending()
    proxy.closed = False
    assert owner.pending() == []


def test_a_withdrawal_whose_answer_is_lost_is_known_to_have_been_one(store, inbox, proxy):
    """It is sent again, finds nothing, and is told from one that came too late."""
    sender, owner = inbox(by_proxy(proxy, store)), inbox()
    first, second = sender.send("deny", BODY), sender.send("deny", BODY)
    third = sender.send("deny", BODY)
    assert sender.withdraw(first)
    for message_id, is_taken in ((second, False), (third, True)):
        if is_taken:
            owner.take(message_id)
        proxy._ends = b"never"
        proxy.cut_asked, proxy.cut_answer, cuts = message_id.encode(), 0, proxy.cuts
        assert sender.withdraw(message_id) is not is_taken
        assert proxy.cuts == cuts + 1
        proxy.cut_asked = b""


def test_an_owner_that_stood_still_answers_nothing_that_the_next_one_has(inbox):
    """What it says of a run that it has lost is no answer; nor does it put anything back."""
    old, new, sender = inbox(), inbox(), inbox()
    sent = sender.send("deny", BODY)
    assert old.take(sent)
    assert new.take(sent)
    old.put_back(sent)
    old.answer(sent, {"ok": False, "error": "StaleOwner"})
    assert not sender.withdraw(sent)
    assert sender.answer_to(sent, 0) is None
    new.answer(sent, {"ok": True})
    old.answer(sent, {"ok": False})
    assert sender.answer_to(sent, 0) == {"ok": True}


def test_only_the_servers_clock_tells_the_order_of_arrival(store, key, inbox):
    """A sender whose clock is wrong is neither first nor last for that."""
    box = inbox()
    first, second = box.send("deny", BODY), box.send("deny", BODY)
    with connected(store) as con:
        con.execute(
            "UPDATE durable_nb.messages SET sent = sent - interval '1 hour' WHERE id = %s", [second]
        )
    assert [message.id for message in box.pending()] == [second, first]


def test_runs_do_not_hear_of_each_other(store, inbox):
    """A message to one wakes no other, and is not its."""
    owner = inbox()
    owner.wait(0)
    with contextlib.closing(inbox_of(f"{store} another-{os.urandom(4).hex()}")) as other:
        sent = other.send("deny", BODY)
        assert not owner.wait(0.3)
        assert owner.pending() == []
        assert not owner.take(sent)
        assert other.withdraw(sent)


def test_what_asks_from_inside_a_statement_is_refused(inbox, keep):
    """A signal handler in the middle of one gets an error, no hang; closing waits for its end."""
    box, artifacts = inbox(), keep()
    with pytest.raises(StoreRefused, match="inside a statement"):
        box._insisting(box.pending)
    assert box.pending() == []
    begun = time.monotonic()
    artifacts._insisting(artifacts.close)
    assert time.monotonic() - begun < 0.5
    assert artifacts.get(artifacts.put(b"x")) == b"x"


@dataclass(frozen=True)
class Told(UnseenStore):
    """A store whose runs have their inbox in the database."""

    url: str = ""

    def place(self, name: str) -> ToldPlace:
        return ToldPlace(self, self.inner.place(name))


@dataclass(frozen=True)
class ToldPlace(UnseenPlace):
    store: Told

    def inbox(self, clock: Callable[[], datetime] | None = None) -> RunInbox:
        return inbox_of(f"{self.store.url} {self.name}", clock)


def test_a_live_run_is_told_of_a_message_at_once(place, tmp_path):
    """It need not be found by looking, and closing the run waits for no look either."""
    url, _, name = place.partition(" ")
    store = Told(FolderStore(tmp_path / "store"), tmp_path / "copies", url)
    run = open_run(name, store=store)
    try:
        run.stop_listening()
        watcher = Watcher(run, every=30)  # a look of its own would come too late
        watcher.start()
        run.stop_listening = watcher.stop
        with pytest.raises(dnb.UnknownOutcome):
            run.step("send").call(int, "no number")
        time.sleep(0.3)  # until it listens
        for verb, did in (("deny", "denied"), ("deny", None), ("dependants", None)):
            begun = time.monotonic()
            answer = settle_live(store.place(name), verb, "send#1", {}, timeout_s=10)
            assert time.monotonic() - begun < 0.5
            assert did is None or (answer["verdict"], watcher.trouble) == (did, "")
        begun = time.monotonic()
    finally:
        run.close()
    assert time.monotonic() - begun < 2
    assert eventually(lambda: not inboxes(url, name)), "somebody has left a connection open"


def test_an_owner_that_is_told_looks_no_more_often_than_its_inbox_says(
    place, tmp_path, monkeypatch
):
    """A thousand idle owners would ask the server for nothing, again and again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    url, _, name = place.partition(" ")
    assert Inbox.look_s < PostgresInbox.look_s < 2  # within which an answer is promised
    monkeypatch.setattr(PostgresInbox, "look_s", 3600.0)
    query = "SELECT max(query_start) FROM pg_stat_activity WHERE application_name = %s"

    def last_asked(con: psycopg.Connection) -> datetime:
        asked = [f"durable_nb inbox of run {key_of_open(con, name)}"]
        return con.execute(query, asked).fetchone()[0]

    with open_run(name, store=url) as run, connected(url) as con:
        time.sleep(0.5)  # until it listens
        before = last_asked(con)
        time.sleep(3 * Inbox.look_s)
        assert last_asked(con) == before
        assert run.is_open


def key_of_open(con: psycopg.Connection, name: str) -> int:
    """Give the number of a run that somebody holds."""
    row = con.execute("SELECT run FROM durable_nb.runs WHERE name = %s", [name]).fetchone()
    return row[0]


def inboxes(url: str, name: str) -> list[object]:
    """List the connections to the inbox of a run."""
    with connected(url) as con:
        query = "SELECT true FROM pg_stat_activity WHERE application_name = %s"
        return con.execute(query, [f"durable_nb inbox of run {key_of(url, name)}"]).fetchall()


@pytest.mark.slow
def test_a_server_that_starts_again_loses_nothing_of_either():
    """Stopped without warning: what was put and sent is there, and what waits goes on."""
    cluster = Cluster(f"keep-{os.getpid()}")
    try:
        url = cluster.new_database()
        prepare(Server(url))
        with (
            contextlib.closing(artifacts_of(f"{url} r")) as artifacts,
            contextlib.closing(inbox_of(f"{url} r")) as sender,
            contextlib.closing(inbox_of(f"{url} r")) as owner,
        ):
            sha256, sent = artifacts.put(b"before"), sender.send("deny", BODY)
            assert owner.take(sent)
            owner.wait(0)
            cluster.stop()
            answers: list[object] = []
            waiting = threading.Thread(target=lambda: answers.append(sender.answer_to(sent, 20)))
            waiting.start()
            late = threading.Thread(target=lambda: answers.append(artifacts.put(b"meanwhile")))
            late.start()
            time.sleep(0.5)
            cluster.start()
            late.join(30)
            (second,) = answers
            assert artifacts.get(sha256) == b"before"
            assert artifacts.get(str(second)) == b"meanwhile"
            assert [message.id for message in owner.pending()] == [sent]
            owner.answer(sent, {"ok": True})
            waiting.join(30)
            assert answers == [second, {"ok": True}]
    finally:
        cluster.end()
