from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from hashlib import sha256

import duckdb
import pytest

from durable_nb.journal.database import connect
from durable_nb.journal.rows import BadRow, Row, check_chain, pack_op, records_of, unpack_op
from durable_nb.journal.sql import queries
from durable_nb.model.errors import JournalDamaged, JournalTooNew, JournalUnwritable, RunClosed
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import SCHEMA_VERSION, Draft

NASTY = [
    "",
    "plain#1",
    "é/日本#1",
    "\ud800",
    "\udfff/\ud83d",
    "\ud83d\ude00",  # two lone surrogates, not the one character that they would spell
    "\U0001f600",
    "a\x00b",
    "\\",
    "\\u0041",
    "\\\\u0041\\",
    "'\"; DROP TABLE records --",
]


def test_records_come_back_as_they_were_acknowledged(opened):
    """What append returned is what a later load gives, whatever is in the texts."""
    journal = opened(clock=lambda: datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC))
    bodies = [
        {"n": n, "text": op, "none": None, "deep": [{"a": [1.5, True]}]}
        for n, op in enumerate(NASTY)
    ]
    bodies[5]["text"] = ""  # JSON cannot tell a pair of lone surrogates from their character
    live = [
        journal.append([Draft(op, Kind.INTENDED, body)])[0]
        for op, body in zip(NASTY, bodies, strict=True)
    ]
    journal.close()

    again = opened().load()

    assert again == live
    assert [r.op for r in again] == NASTY
    assert [r.body for r in again] == bodies
    assert [r.seq for r in again] == list(range(1, len(NASTY) + 1))
    assert again[0].ts == datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)


@pytest.mark.parametrize("op", NASTY)
def test_an_identity_survives_its_escaping(op):
    """Any str can be an operation's identity; what is stored is valid UTF-8 without NUL."""
    stored = pack_op(op)
    assert unpack_op(stored) == op
    assert b"\x00" not in stored.encode("utf-8")


def test_a_body_is_json_that_duckdb_reads(opened, tmp_path):
    """SQL over bodies works; a lone surrogate makes its own row null, and fails no query."""
    journal = opened()
    journal.append([Draft("x", Kind.INTENDED, {"n": 7, "s": "é"})])
    journal.append([Draft("x", Kind.INTENDED, {"n": 8, "s": "\ud800"})])
    journal.close()
    con = connect(tmp_path / "journal.duckdb")
    query = "SELECT TRY_CAST(decode(body) AS JSON)->>'n' FROM j.main.records"
    assert con.execute(query).fetchall() == [("7",), (None,)]
    con.close()


def test_a_body_that_is_no_json_is_refused_before_anything_is_written(opened):
    """A mistake in a body costs no place and leaves no trace."""
    journal = opened()
    with pytest.raises(TypeError):
        journal.append([Draft("x", Kind.INTENDED, {"n": {1, 2}})])
    assert journal.last_seq == 0
    assert journal.load() == []


def test_drafts_of_one_call_follow_each_other(opened, draft):
    """One call is one transaction, in the order of its drafts."""
    journal = opened()
    journal.append([draft(0)])
    made = journal.append([draft(n) for n in range(1, 101)])
    assert [r.seq for r in made] == list(range(2, 102))
    assert [r.body["n"] for r in journal.load()] == list(range(101))
    assert journal.append([]) == []


def test_each_opening_without_an_epoch_gets_a_higher_one(opened, draft):
    """Epochs never fall, and an owner that names none gets the next."""
    for expected in (1, 2, 3):
        journal = opened()
        assert journal.epoch == expected
        (record,) = journal.append([draft(expected)])
        assert record.epoch == expected
        journal.close()
    late = opened(epoch=2)
    assert late.epoch == 4  # it was 3 already
    late.close()
    assert opened(epoch=9).epoch == 9


def test_a_closed_journal_takes_nothing_more(opened, draft):
    """After close every call says so; closing twice is harmless."""
    journal = opened()
    journal.close()
    journal.close()
    with pytest.raises(RunClosed):
        journal.append([draft(1)])
    with pytest.raises(RunClosed):
        journal.append([draft(1)], lazy=True)


def test_a_newer_journal_is_refused_and_left_as_it_is(opened, draft, tmp_path):
    """A file of a newer version is not touched by one bit, and nothing is set aside."""
    opened().close()
    con = connect(tmp_path / "journal.duckdb")
    con.execute("INSERT INTO j.main.meta VALUES (99)")
    con.close()

    def state():
        return {p.name: sha256(p.read_bytes()).hexdigest() for p in tmp_path.iterdir()}

    before = state()
    with pytest.raises(JournalTooNew) as refused:
        opened()
    assert (refused.value.found, refused.value.known) == (99, SCHEMA_VERSION)
    assert state() == before


# -- lazy records ------------------------------------------------------------------------------


def test_lazy_records_have_their_place_at_once_and_keep_the_order(opened, draft):
    """Lazy and eager records are numbered in the order of the calls."""
    journal = opened()
    seqs = [journal.append([draft(n)], lazy=n % 3 != 0)[0].seq for n in range(10)]
    assert seqs == list(range(1, 11))
    assert journal.last_seq == 10
    assert [r.body["n"] for r in journal.load()] == list(range(10))


@pytest.mark.slow
def test_lazy_records_are_durable_after_a_second(start, opened):
    """A kill 1.5 s after a lazy append loses nothing; a kill at once loses at most that."""
    code = """
    journal = opened()
    journal.append([draft(1)])
    journal.append([draft(2)], lazy=True)
    journal.append([draft(3)], lazy=True)
    say("ready")
    time.sleep(60)
    """
    child = start(code)
    assert child.line() == "ready"
    time.sleep(1.6)
    child.kill()
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [1, 2, 3]
    assert journal.lost is None
    journal.close()


@pytest.mark.slow
def test_lazy_records_cost_no_commit_of_their_own(start, opened):
    """Right after a lazy append nothing is on disk yet: that is what makes it cheap."""
    code = """
    journal = opened()
    journal.append([draft(1)])
    journal.append([draft(2)], lazy=True)
    say("ready")
    os.kill(os.getpid(), 9)
    """
    child = start(code)
    assert child.line() == "ready"
    child.process.wait(20)
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [1]
    assert journal.lost is None


def test_flush_and_close_write_lazy_records(opened, draft):
    """Neither leaves a record behind."""
    journal = opened()
    journal.append([draft(1)], lazy=True)
    journal.flush()
    journal.append([draft(2)], lazy=True)
    journal.close()
    assert [r.body["n"] for r in opened().load()] == [1, 2]


@pytest.mark.slow
def test_a_failed_timer_is_healed_or_told_by_the_next_caller(opened, draft, monkeypatch):
    """Lazy records whose commit failed stay in line, and even a lazy caller hears of it."""
    journal = opened()
    insert = journal._storage.commit
    failed = threading.Event()

    def broken(rows, before):
        failed.set()
        raise duckdb.IOException("no space")

    monkeypatch.setattr(journal._storage, "commit", broken)
    journal.append([draft(1)], lazy=True)
    assert failed.wait(3)
    time.sleep(0.1)
    with pytest.raises(JournalUnwritable, match="no space"):
        journal.append([draft(2)], lazy=True)
    monkeypatch.setattr(journal._storage, "commit", insert)
    (record,) = journal.append([draft(3)])
    assert record.seq == 2  # the place of the refused one is free again
    assert [r.body["n"] for r in journal.load()] == [1, 3]


# -- reading -----------------------------------------------------------------------------------


def _row(seq, epoch=1, kind="completed", body=b"{}"):
    return Row(seq, "x", kind, 0, epoch, body)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([_row(1), _row(3)], "record 2 is missing"),
        ([_row(1), _row(1)], "missing or doubled"),
        ([_row(2)], "record 1 is missing"),
        ([_row(1, 5), _row(2, 4)], "epoch 4 after epoch 5"),
    ],
)
def test_a_chain_with_a_gap_or_a_falling_epoch_is_no_journal(rows, says):
    """Load checks that seq is 1..n and that epochs never fall."""
    with pytest.raises(BadRow, match=says):
        check_chain(rows)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (_row(1, body=b"{"), "record 1 is not JSON"),
        (_row(1, body=b"[]"), "record 1 is not an object"),
        (_row(1, body=b"{},{}"), "record 1 is not JSON"),
        (_row(1, kind="melted"), "unknown kind 'melted'"),
    ],
)
def test_a_row_that_this_package_did_not_write_is_named(row, says):
    """A bad body is never read as something else, one by one or in a row with good ones."""
    with pytest.raises(BadRow, match=says):
        records_of([row])


def test_rows_that_somebody_removed_are_damage(opened, draft, tmp_path):
    """A gap in the file cannot be opened as a shorter run."""
    journal = opened()
    journal.append([draft(n) for n in range(5)])
    journal.close()
    con = connect(tmp_path / "journal.duckdb")
    con.execute("DELETE FROM j.main.records WHERE seq = 3")
    con.execute("CHECKPOINT j")
    con.close()
    with pytest.raises(JournalDamaged, match="record 3 is missing"):
        opened()
    assert (tmp_path / "damaged-1" / "journal.duckdb").exists()


@pytest.mark.slow
def test_100_000_records_load_quickly(opened, tmp_path):
    """Opening and loading a very long run takes about a second (0.5 s on a quiet machine)."""
    opened().close()
    con = connect(tmp_path / "journal.duckdb")
    con.execute(
        "INSERT INTO j.main.records SELECT i, 'step#' || i, 'completed', i, 1, "
        'encode(\'{"n":\' || i || \',"result":"some text of a result"}\') FROM range(1, 100001) t(i)'
    )
    con.close()
    (tmp_path / "head").unlink()
    begun = time.perf_counter()
    journal = opened()
    records = journal.load()
    took = time.perf_counter() - begun
    assert len(records) == 100_000
    assert records[-1].body == {"n": 100_000, "result": "some text of a result"}
    assert took < 3, took
    print(f"loaded in {took:.2f} s")


def test_every_statement_is_described():
    """SQL is loaded by name, and each statement says what it is for."""
    for file in ("journal", "mirror", "postgres"):
        assert all(sql and not sql.startswith("--") for sql in queries(file).values())
