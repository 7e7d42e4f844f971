"""What a journal keeps, whatever keeps it."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime

import pytest
from support.journals import draft, numbers

from durable_nb.model.errors import JournalDamaged, RunClosed, RunHeld
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

NASTY = [
    "",
    "é/日本#1",
    "\ud800",
    "\udfff/\ud83d",
    "\U0001f600",
    "a\x00b",
    "\\u0041",
    "'\"; --",
    "%s",
]


def test_records_come_back_as_they_were_acknowledged(kept, opened):
    """What append returned is what a later opening gives, whatever is in the texts."""
    begun = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    first = opened(kept, clock=lambda: begun)
    bodies = [{"n": n, "text": op, "deep": [{"a": [1.5, None]}]} for n, op in enumerate(NASTY)]
    live = [
        first.journal.append([Draft(op, Kind.INTENDED, body)])[0]
        for op, body in zip(NASTY, bodies, strict=True)
    ]
    first.close()

    again = opened(kept).journal.load()

    assert again == live
    assert [r.op for r in again] == NASTY
    assert [r.body for r in again] == bodies
    assert [r.seq for r in again] == list(range(1, len(NASTY) + 1))
    assert again[0].ts == begun


def test_drafts_of_one_call_follow_each_other(kept, opened):
    """One call is one transaction, in the order of its drafts; no draft is no call."""
    journal = opened(kept).journal
    journal.append([draft(0)])
    made = journal.append([draft(n) for n in range(1, 101)])
    assert [r.seq for r in made] == list(range(2, 102))
    assert [r.body["n"] for r in journal.load()] == list(range(101))
    assert journal.append([]) == []


def test_a_body_that_is_no_json_is_refused_before_anything_is_written(kept, opened):
    """A mistake in one body costs no place and leaves no trace of the call."""
    journal = opened(kept).journal
    with pytest.raises(TypeError):
        journal.append([draft(1), Draft("x", Kind.INTENDED, {"n": {1, 2}})])
    assert journal.last_seq == 0
    assert journal.load() == []


def test_a_large_body_is_kept_whole(kept, opened):
    """5 MB in one record."""
    owned = opened(kept)
    owned.journal.append([draft(1, text="0123456789" * 500_000)])
    owned.close()
    (record,) = opened(kept).journal.load()
    assert record.body["text"] == "0123456789" * 500_000


def test_lazy_records_have_their_place_at_once_and_ride_with_the_next_commit(kept, opened):
    """Lazy and eager records are numbered in the order of the calls; close leaves none behind."""
    owned = opened(kept)
    seqs = [owned.journal.append([draft(n)], lazy=n % 3 != 0)[0].seq for n in range(9)]
    assert seqs == list(range(1, 10))
    assert (owned.journal.durable_seq, owned.journal.last_seq) == (7, 9)
    owned.journal.flush()
    assert owned.journal.durable_seq == 9
    owned.journal.append([draft(9)], lazy=True)
    owned.close()
    assert numbers(opened(kept)) == list(range(10))


def test_threads_share_commits_and_keep_their_order(kept, opened):
    """Each caller gets its own records, in the order of its calls."""
    journal = opened(kept).journal
    got: dict[int, list[int]] = {n: [] for n in range(12)}

    def work(me):
        for n in range(15):
            (record,) = journal.append([draft(n, thread=me)], lazy=n % 7 == 3)
            got[me].append(record.seq)

    threads = [threading.Thread(target=work, args=(n,)) for n in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()

    loaded = journal.load()
    assert [r.seq for r in loaded] == list(range(1, 181))
    assert all(seqs == sorted(seqs) for seqs in got.values())
    assert Counter(s for seqs in got.values() for s in seqs) == Counter(range(1, 181))
    for record in loaded:
        assert got[record.body["thread"]][record.body["n"]] == record.seq


def test_epochs_never_fall(kept, opened):
    """Each owner has a higher epoch than all before it, also one that wrote nothing."""
    found = []
    for n in range(3):
        owned = opened(kept)
        found += [owned.journal.epoch] + [r.epoch for r in owned.journal.append([draft(n)])]
        owned.close()
        opened(kept).close()
    assert found == sorted(found)
    assert len(set(found)) == 3
    assert [r.epoch for r in opened(kept).journal.load()] == sorted(set(found))


def test_rows_that_somebody_removed_are_damage(kept, opened, remove):
    """A gap cannot be opened as a shorter run."""
    owned = opened(kept)
    owned.journal.append([draft(n) for n in range(5)])
    owned.close()
    remove(3)
    with pytest.raises(JournalDamaged, match="record 3 is missing"):
        opened(kept)


def test_a_run_goes_on_where_it_stood(kept, opened):
    """The second owner's records follow the first one's, and neighbours are read again."""
    first = opened(kept)
    first.journal.append([draft(n) for n in range(4)])
    first.close()
    second = opened(kept)
    assert [r.seq for r in second.journal.append([draft(4)])] == [5]
    second.close()
    third = opened(kept)
    assert [r.body["n"] for r in third.journal.resume().records] == list(range(5))
    assert [r.body["n"] for r in third.journal.read(2, 4)] == [1, 2, 3]


def test_a_pin_keeps_the_running_digest_before_it(kept, opened):
    """It is put into its body by the journal, and what follows the pin is read like any other."""
    owned = opened(kept)
    owned.journal.append([draft(1)])
    (pin,) = owned.journal.append([Draft("loop#1", Kind.PINNED, {"n": 2})])
    owned.journal.append([draft(3)])
    owned.journal.tidy()
    owned.close()
    assert len(bytes.fromhex(pin.body["chain"])) == 16
    assert opened(kept).journal.load()[1] == pin


def test_a_closed_journal_takes_nothing_more(kept, opened):
    """After close every call says so; closing twice is harmless."""
    journal = opened(kept).journal
    journal.close()
    journal.close()
    for lazy in (False, True):
        with pytest.raises(RunClosed):
            journal.append([draft(1)], lazy=lazy)
    with pytest.raises(RunClosed):
        journal.read(1, 1)


def test_a_held_run_is_refused_with_who_holds_it(kept, opened):
    """Two owners at once there cannot be; once given back, the run is free at once."""
    owned = opened(kept)
    with pytest.raises(RunHeld, match="held by process"):
        opened(kept)
    owned.close()
    opened(kept)
