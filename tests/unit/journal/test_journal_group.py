from __future__ import annotations

import threading
import time
from collections import Counter

import duckdb
import pytest

from durable_nb.journal.group import Group, Ticket
from durable_nb.model.errors import JournalUnwritable

# -- group commit ------------------------------------------------------------------------------


def test_32_threads_share_commits_and_keep_their_order(opened, draft, monkeypatch):
    """Each caller gets its own records, in the order of its calls, and commits are shared."""
    journal = opened()
    insert, commits = journal._storage.commit, []

    def counted(rows, before):
        commits.append(len(rows))
        time.sleep(0.002)  # as slow as a busy disk, so that others arrive meanwhile
        insert(rows, before)

    monkeypatch.setattr(journal._storage, "commit", counted)
    got: dict[int, list[int]] = {n: [] for n in range(32)}

    def work(me):
        for n in range(20):
            (record,) = journal.append([draft(n, thread=me)], lazy=n % 7 == 3)
            assert record.body == {"n": n, "thread": me}
            got[me].append(record.seq)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()

    loaded = journal.load()
    assert [r.seq for r in loaded] == list(range(1, 641))
    assert all(seqs == sorted(seqs) for seqs in got.values())
    assert Counter(s for seqs in got.values() for s in seqs) == Counter(range(1, 641))
    for record in loaded:
        assert got[record.body["thread"]][record.body["n"]] == record.seq
    assert len(commits) < 320, "commits were not shared"


def test_a_failed_batch_fails_every_caller_of_it_and_only_those(opened, draft, monkeypatch):
    """A leader that fails answers all that wait for it; the next batch goes on from there."""
    journal = opened()
    insert = journal._storage.commit
    entered, go = threading.Event(), threading.Event()

    def broken(rows, before):
        entered.set()
        go.wait(10)
        if len(rows) > 1:
            raise duckdb.IOException("disk gone")
        insert(rows, before)

    monkeypatch.setattr(journal._storage, "commit", broken)
    outcomes: list[object] = []

    def work(n):
        try:
            outcomes.append(journal.append([draft(n)])[0].seq)
        except JournalUnwritable as error:
            outcomes.append(error)

    first = threading.Thread(target=work, args=(0,))
    first.start()
    assert entered.wait(5)
    others = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for thread in others:
        thread.start()
    deadline = time.monotonic() + 5
    while len(journal._group._queue) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    go.set()
    for thread in [first, *others]:
        thread.join(10)
        assert not thread.is_alive(), "a caller was left hanging"

    assert outcomes.count(1) == 1
    errors = [e for e in outcomes if isinstance(e, JournalUnwritable)]
    assert len(errors) == 8
    assert len({id(e) for e in errors}) == 8, "threads must not share one exception"
    monkeypatch.setattr(journal._storage, "commit", insert)
    assert journal.append([draft(9)])[0].seq == 2


class Callers:
    """Threads that have something committed; what a leader does while it waits is `meanwhile`."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.waits = 0
        self.meanwhile = lambda: None
        self.disk, self.threads = threading.Event(), []
        self.group = Group(self.commit, lambda e: JournalUnwritable("r", str(e)), self.pause)

    def commit(self, batch):
        self.sizes.append(len(batch))
        assert self.disk.wait(10)
        for ticket in batch:
            ticket.records = []

    def pause(self, seconds):
        self.waits += 1
        self.meanwhile()

    def arrive(self):
        """Let one more come, while another leads."""
        queued = len(self.group._queue)
        self.threads.append(threading.Thread(target=self.group.submit, args=(Ticket(),)))
        self.threads[-1].start()
        deadline = time.monotonic() + 5
        while len(self.group._queue) == queued and time.monotonic() < deadline:
            time.sleep(0.001)

    def share(self, number):
        """Let so many share a commit: they come during another one."""
        leader = threading.Thread(target=self.group.submit, args=(Ticket(),))
        leader.start()
        for _ in range(number):
            self.arrive()
        self.disk.set()
        for thread in [leader, *self.threads]:
            thread.join(10)
            assert not thread.is_alive()
        assert self.sizes == [1, number]
        assert not self.waits, "nobody is waited for before a commit was shared"


def test_who_has_shared_a_commit_is_waited_for_as_long_as_somebody_comes():
    """Of those that go on together the first is back at once: it does not commit alone."""
    callers = Callers()
    callers.share(5)
    left = iter(range(3))  # of four others, three come again
    callers.meanwhile = lambda: callers.arrive() if next(left, None) is not None else None
    callers.group.submit(Ticket())
    assert callers.sizes == [1, 5, 4]
    assert callers.waits == 4
    left = iter(range(9))
    callers.group.submit(Ticket())
    assert callers.sizes[3:] == [4], "it goes on once all are there"


def test_a_caller_that_is_alone_soon_waits_for_nobody():
    """Each commit that comes out alone counts on one caller less; a single one never waits."""
    callers = Callers()
    callers.share(5)
    for _ in range(10):
        callers.group.submit(Ticket())
    assert callers.sizes[2:] == [1] * 10
    assert callers.waits == 4


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), SystemExit(1)])
def test_a_leader_that_dies_answers_its_batch_and_passes_the_lead_on(error):
    """No error of a leader, of whatever kind, leaves a caller waiting."""
    calls = []
    started, go = threading.Event(), threading.Event()

    def commit(batch):
        calls.append(len(batch))
        if len(calls) == 1:
            started.set()
            go.wait(5)
        if len(calls) == 2:
            raise error
        for ticket in batch:
            ticket.records = []

    group = Group(commit, lambda e: JournalUnwritable("r", str(e)))
    seen: list[object] = []

    def work():
        try:
            seen.append(group.submit(Ticket()))
        except BaseException as caught:
            seen.append(caught)

    threads = [threading.Thread(target=work) for _ in range(6)]
    threads[0].start()
    assert started.wait(5)
    for thread in threads[1:]:
        thread.start()
    deadline = time.monotonic() + 5
    while len(group._queue) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    go.set()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    assert seen.count([]) == 1
    assert sum(s is error for s in seen) == 1
    assert sum(isinstance(s, JournalUnwritable) for s in seen) == 4
    assert group.submit(Ticket()) == []


def test_an_append_from_inside_a_commit_is_refused_instead_of_waiting_for_itself(
    opened, draft, monkeypatch
):
    """A signal handler that records while its own thread commits gets an error, not a hang."""
    journal = opened()
    insert = journal._storage.commit

    def handler(rows, before):
        monkeypatch.setattr(journal._storage, "commit", insert)
        for lazy in (False, True):
            with pytest.raises(JournalUnwritable, match="inside its own commit"):
                journal.append([draft(2)], lazy=lazy)
        insert(rows, before)

    monkeypatch.setattr(journal._storage, "commit", handler)
    assert journal.append([draft(1)])[0].seq == 1
    assert len(journal.load()) == 1


# -- after a failed commit ---------------------------------------------------------------------


def test_a_commit_that_failed_but_landed_counts(opened, draft, monkeypatch):
    """The tail is read again after an error: what is there is acknowledged, once."""
    journal = opened()
    insert = journal._storage.commit

    def landed(rows, before):
        insert(rows, before)
        raise duckdb.IOException("the answer got lost")

    monkeypatch.setattr(journal._storage, "commit", landed)
    assert [r.seq for r in journal.append([draft(1), draft(2)])] == [1, 2]
    monkeypatch.setattr(journal._storage, "commit", insert)
    assert journal.append([draft(3)])[0].seq == 3
    assert [r.body["n"] for r in journal.load()] == [1, 2, 3]


def test_a_dead_connection_is_replaced(opened, draft, monkeypatch):
    """An invalidated database is opened anew, and what was committed is not written twice."""
    journal = opened()
    journal.append([draft(1)])
    insert = journal._storage.commit

    def dies(rows, before):
        monkeypatch.setattr(journal._storage, "commit", insert)
        insert(rows, before)
        journal._storage.landing.con.close()
        raise duckdb.FatalException("database has been invalidated")

    monkeypatch.setattr(journal._storage, "commit", dies)
    assert journal.append([draft(2)])[0].seq == 2
    journal._storage.landing.con.close()
    with pytest.raises(JournalUnwritable):
        journal.append([draft(3)])  # nothing of it landed, and the connection is new
    assert journal.append([draft(4)])[0].seq == 3
    assert [r.body["n"] for r in journal.load()] == [1, 2, 4]


def test_a_batch_of_unknown_fate_is_looked_up_before_anything_else(opened, draft, monkeypatch):
    """What was reported as failed and is there after all stops the journal until it is reopened."""
    journal = opened()
    insert, tail = journal._storage.commit, journal._storage.tail

    def lost_answer(rows, before):
        insert(rows, before)
        raise duckdb.IOException("gone")

    def unreadable(seq):
        raise duckdb.IOException("cannot read either")

    monkeypatch.setattr(journal._storage, "commit", lost_answer)
    monkeypatch.setattr(journal._storage, "tail", unreadable)
    with pytest.raises(JournalUnwritable, match="looked up at the next write"):
        journal.append([draft(1)])
    monkeypatch.setattr(journal._storage, "commit", insert)
    monkeypatch.setattr(journal._storage, "tail", tail)
    for _ in range(2):
        with pytest.raises(JournalUnwritable, match="open it again"):
            journal.append([draft(2)])
    journal._shut()
    assert [r.body["n"] for r in opened().load()] == [1]
