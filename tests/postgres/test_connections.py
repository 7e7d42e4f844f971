"""Lost answers, lost requests and servers that go away in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from support.journals import draft, numbers
from support.postgres import Cluster

from durable_nb.journal.postgres import Server, StoreRefused, StoreUnreachable, prepare
from durable_nb.model.errors import JournalUnwritable, StaleOwner


def _through(proxy, place: str) -> str:
    """Give the same run by way of the proxy."""
    url, _, run = place.partition(" ")
    database = url.partition("@/")[2].partition("?")[0]
    return f"{proxy.url(database)} {run}"


@pytest.mark.parametrize("cut", [0, 1, 5, -6, -1])
def test_a_commit_whose_answer_is_lost_is_acknowledged_and_there_once(place, proxy, opened, cut):
    """Cut between commit and acknowledgement, at any byte of the answer: sent again, not doubled."""
    owned = opened(_through(proxy, place))
    owned.journal.append([draft(1)])
    proxy.cut_answer = cut
    assert [r.seq for r in owned.journal.append([draft(2), draft(3)])] == [2, 3]
    assert proxy.cuts == 1
    assert owned.journal.append([draft(4)])[0].seq == 4
    assert numbers(owned) == [1, 2, 3, 4]
    assert owned.journal.trouble == ""


def test_a_request_that_is_lost_is_sent_again(place, proxy, opened):
    """Cut before the server hears of it: there once as well."""
    owned = opened(_through(proxy, place))
    owned.journal.append([draft(1)])
    proxy.cut_request = True
    owned.journal.append([draft(2, text="x-marks")])
    assert not proxy.cut_request
    assert numbers(owned) == [1, 2]


def test_a_lost_answer_after_a_takeover_is_no_acknowledgement(place, proxy, opened):
    """Sent again under an epoch that is over, the batch is refused: the new owner has it or not."""
    owned = opened(_through(proxy, place), lease_s=1.0)
    owned.journal.append([draft(1)])
    time.sleep(1.1)
    proxy.cut_answer, proxy.closed = 0, True
    refused: list[BaseException] = []

    def late():
        try:
            owned.journal.append([draft(2)])
        except StaleOwner as error:
            refused.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    while not proxy.cuts:
        time.sleep(0.01)
    new = opened(place, lease_s=1.0)
    assert numbers(new) == [1, 2]
    proxy.closed = False
    thread.join(20)
    assert len(refused) == 1
    assert "may be on record" in refused[0].why
    new.journal.append([draft(3)])
    assert numbers(new) == [1, 2, 3]


def test_a_takeover_whose_answer_is_lost_is_recognised(place, proxy, opened):
    """The lease was taken: the same process is not kept out by itself, and has one epoch."""
    opened(_through(proxy, place)).close()
    proxy.cut_answer, proxy.cut_asked = 0, b"late.limit"
    owned = opened(_through(proxy, place))
    assert proxy.cuts == 1
    assert owned.journal.epoch == 2
    owned.journal.append([draft(1)])


@pytest.mark.parametrize("landed", [True, False])
def test_a_batch_of_unknown_fate_takes_its_place_or_stops_the_journal(place, proxy, opened, landed):
    """Reported as not written: if it is there after all, nothing more is written until it is seen."""
    owned = opened(_through(proxy, place), patience_s=0.3)
    owned.journal.append([draft(1)])
    proxy.cut_answer, proxy.cut_request = (0, False) if landed else (None, True)
    proxy.closed = True
    with pytest.raises(JournalUnwritable, match="cannot be reached") as told:
        owned.journal.append([draft(2, text="x-marks")])
    assert "Once the database answers again" in str(told.value)
    assert "waited in vain for the database since 2" in owned.journal.trouble
    proxy.closed = False
    if not landed:
        assert owned.journal.append([draft(3)])[0].seq == 2
        assert owned.journal.trouble == ""
        assert numbers(owned) == [1, 3]
        return
    for _ in range(2):
        with pytest.raises(JournalUnwritable, match="on record after all"):
            owned.journal.append([draft(3), draft(4)])
    with pytest.raises(JournalUnwritable):
        owned.close()
    assert numbers(opened(place)) == [1, 2]


def test_a_server_that_is_gone_is_told_by_each_call(place, proxy, opened):
    """Reading and opening name the store; the heartbeat goes on once it is back."""
    owned = opened(_through(proxy, place), patience_s=0.1)
    owned.journal.append([draft(n) for n in range(3)])
    owned.lease.start_heartbeat(every=0.1)
    proxy.closed = True
    owned.journal._storage._session.drop()
    owned.lease._session.drop()
    with pytest.raises(StoreUnreachable, match="@127"):
        owned.journal.read(1, 2)
    limit = time.monotonic() + 5
    while "cannot be reached" not in owned.lease.trouble and time.monotonic() < limit:
        time.sleep(0.02)
    assert "cannot be reached" in owned.lease.trouble
    assert owned.lease.held, "the lease still runs"
    proxy.closed = False
    while owned.lease.trouble and time.monotonic() < limit:
        time.sleep(0.02)
    assert owned.lease.trouble == ""
    assert len(owned.journal.read(1, 2)) == 2


def test_an_interrupt_ends_the_wait_for_a_server(place, proxy, opened):
    """Ctrl-C is held back from a commit, and not for as long as the server may be gone."""
    owned = opened(_through(proxy, place), patience_s=15)
    owned.journal.append([draft(1)])
    proxy.closed = proxy.cut_request = True
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stopped:
        owned.journal.append([draft(2, text="x-marks")])
    assert time.monotonic() - begun < 10
    assert isinstance(stopped.value.__context__, JournalUnwritable)
    proxy.closed = False
    owned.journal.append([draft(3)])
    assert numbers(owned) == [1, 3]


def test_what_asks_from_inside_a_statement_is_refused(place, opened):
    """A signal handler that reads while its own thread waits for the server gets an error, no hang."""
    owned = opened(place)
    owned.journal.append([draft(1)])
    ask = owned.journal._storage._insisting
    with pytest.raises(StoreRefused, match="inside a statement"):
        ask(lambda: owned.journal.read(1, 1))  # what `commit` and `read` go through
    assert len(owned.journal.read(1, 1)) == 1


@pytest.mark.slow
def test_a_server_that_starts_again_in_the_middle_costs_nothing(opened):
    """Stopped without warning and started: appends wait for it, every acknowledged record is there."""
    cluster = Cluster(f"again-{os.getpid()}")
    try:
        url = cluster.new_database()
        prepare(Server(url))
        owned = opened(f"{url} r")
        owned.lease.start_heartbeat()
        said: list[int] = []
        ended = threading.Event()

        def work():
            while not ended.is_set():
                (record,) = owned.journal.append([draft(len(said))])
                said.append(record.seq)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2):
            time.sleep(0.3)
            cluster.stop()
            time.sleep(0.3)
            before = len(said)
            cluster.start()
            limit = time.monotonic() + 20
            while len(said) <= before + 5 and time.monotonic() < limit:
                time.sleep(0.02)
        ended.set()
        thread.join(20)
        assert said == list(range(1, len(said) + 1))
        assert len(said) > before + 5
        assert numbers(owned) == list(range(len(said)))
        owned.lease.beat()
        owned.close()
    finally:
        cluster.end()
