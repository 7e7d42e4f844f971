"""Openings that leave out what pins have retired: what they read, and what they still notice."""

import pytest
from support.folders import rewrite

from durable_nb.journal import Head, HeadState, open_journal
from durable_nb.journal.pins import CHAIN
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft


def act(loop, n):
    return Draft(f"{loop}#{n}/act#1", Kind.COMPLETED, {"n": n})


def pin(loop, n):
    return Draft(f"{loop}#{n}", Kind.PINNED, {"effect": "none", "n": n})


@pytest.fixture
def written(opened, tmp_path):
    """A closed journal: a step, a loop of ten turns, another of two, and a step of a third turn."""
    journal = opened()
    journal.append([Draft("plan#1", Kind.COMPLETED, {})])
    for n in range(1, 11):
        journal.append([act("a", n)], lazy=True)
        journal.append([pin("a", n)])
    for n in range(1, 3):
        journal.append([act("b", n), Draft(f"b#{n}/in#1", Kind.PINNED, {}), pin("b", n)])
    journal.append([act("b", 3)])
    journal.close()
    return tmp_path


def changed(folder, seq):
    """Change the body of one record behind the head's back."""
    other = b'{"n":7}'
    rewrite(
        folder,
        lambda rows: [r._replace(body=other) if r.seq == seq else r for r in rows],
        seal=False,
    )


def resumed(opened, folder):
    """Open as a resume does; give what it loaded, and the journal."""
    journal = opened(folder, whole=False)
    return journal.resume(), journal


def test_only_what_no_pin_has_retired_is_read(opened, written):
    """The last pin of each loop, what lies after it, and what is in no loop."""
    loaded, journal = resumed(opened, written)

    assert [r.op for r in loaded.records] == ["plan#1", "a#10", "b#2", "b#3/act#1"]
    assert len(loaded.retired_seqs) == 10 + 9 + 2 + 2 + 1
    assert (journal.lost, journal.last_seq, len(journal.load())) == (None, 28, 28)


def test_after_a_kill_it_is_the_same_though_nothing_was_moved(opened, tmp_path):
    """Pins do not land, so that an opening finds them, and moves what has landed around them."""
    journal = opened()
    for n in range(1, 4):
        journal.append([act("a", n)])
        journal.append([pin("a", n)])
    journal.append([act("a", 4)])
    journal._storage.landing.con.close()  # as a kill leaves it

    loaded, again = resumed(opened, tmp_path)

    assert [r.op for r in loaded.records] == ["a#3", "a#4/act#1"]
    assert len(loaded.retired_seqs) == 5
    assert [r.seq for r in again.load()] == [1, 2, 3, 4, 5, 6, 7]


def test_a_pin_carries_the_running_digest_before_it(opened, written):
    """So that what follows it is compared with the head, however it was written."""
    loaded, journal = resumed(opened, written)
    journal.append([Draft("x#1", Kind.COMPLETED, {}), pin("b", 3)])
    digest = journal._digest
    journal.close()

    assert len(loaded.records[1].body[CHAIN]) == 32
    whole = opened(written)
    assert (whole._digest, whole.lost) == (digest, None)


def test_a_change_after_the_last_pin_is_noticed_at_opening(opened, written):
    """The chain from the pin on does not lead to the head."""
    changed(written, 28)

    _, journal = resumed(opened, written)

    assert journal.lost.kind == "diverged"


def test_a_change_before_the_last_pin_is_noticed_by_whoever_reads_the_whole(opened, written):
    """An opening does not read it; `verify` does."""
    changed(written, 4)

    _, journal = resumed(opened, written)
    assert journal.lost is None
    journal.close()

    assert opened(written).lost.kind == "diverged"


@pytest.mark.parametrize("gone", [4, 27, 28])
def test_a_lost_record_is_noticed_at_opening(opened, written, gone):
    """Before the pin by the count, after it by the chain, at the end by the head."""
    rewrite(written, lambda rows: [r for r in rows if r.seq != gone], seal=False)

    if gone == 28:
        _, journal = resumed(opened, written)
        assert journal.lost.kind == "missing"
    else:
        with pytest.raises(Exception, match=r"missing|found"):
            resumed(opened, written)


def test_without_an_agreeing_head_the_whole_is_read(opened, written):
    """A head that is older than the last pin, as after a power cut, proves nothing of the rest."""
    journal = opened(written)
    records = journal.load()
    journal.close()
    digests = [r.body[CHAIN] for r in records if r.op == "a#10"]
    seq = next(r.seq for r in records if r.op == "a#10")
    head = Head(written / "head")
    head.write(HeadState(seq - 1, bytes.fromhex(digests[0])))
    head.close()

    loaded, journal = resumed(opened, written)

    assert (len(loaded.records), journal.lost) == (28, None)


def test_a_long_write_ahead_file_is_checkpointed_at_a_pin(opened, tmp_path):
    """An opening after a kill replays it commit by commit; a short one is left as it is."""
    journal = opened()
    wal = tmp_path / "journal.duckdb.wal"
    journal.append([act("a", 1)])
    journal.tidy()
    assert wal.exists()

    for n in range(300):
        journal.append([act("a", n + 1)], lazy=True)
    journal.flush()
    journal.tidy()

    assert not wal.exists() or wal.stat().st_size == 0
    assert len(journal.load()) == 301


def test_opening_a_journal_leaves_the_default_whole(written):
    """Whoever does not say otherwise reads, and checks, everything."""
    head = Head(written / "head")
    journal = open_journal(written / "journal.duckdb", run="r", head=head)
    try:
        assert len(journal.resume().records) == 28
    finally:
        journal.close()
        head.close()


def test_a_pin_that_disagrees_with_a_head_that_the_whole_agrees_with_says_no_loss(opened, written):
    """So it is after a loss before the pin was accepted: the head then speaks of what is there."""
    rewrite(written, lambda rows: [r._replace(ts=r.ts + 1) if r.seq == 4 else r for r in rows])

    loaded, journal = resumed(opened, written)

    assert (len(loaded.records), journal.lost) == (28, None)
