"""Where commits land, and how they move to the table of records."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_nb.journal import landing
from durable_nb.journal.database import connect
from durable_nb.journal.rows import BadRow, Row, check_chain, records_of
from durable_nb.journal.tables import count_records
from durable_nb.journal.transplant import foreign_rows
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft


def stored(journal, table):
    """Give how many rows a table of an open journal has."""
    (count,) = journal._storage.landing.con.execute(
        f"SELECT count(*) FROM j.main.{table}"
    ).fetchone()
    return count


def test_a_commit_lands_as_one_value_and_moves_when_many_are_there(opened, draft, monkeypatch):
    """A record is in one of the two tables, whenever one looks, and is read from both."""
    monkeypatch.setattr(landing, "MOST_COMMITS", 5)
    journal = opened()
    for n in range(7):
        journal.append([draft(2 * n), draft(2 * n + 1)])
        landed, moved = stored(journal, "landing"), stored(journal, "records")
        assert (landed, moved) == ((n + 1, 0) if n < 4 else (n - 4, 10))
    assert [r.body["n"] for r in journal.load()] == list(range(14))
    journal.close()
    again = opened()
    assert (stored(again, "landing"), stored(again, "records")) == (0, 14)
    assert [r.seq for r in again.load()] == list(range(1, 15))
    again.close()


def test_many_bytes_move_as_many_commits_do(opened, draft, monkeypatch):
    """What an opening reads into memory at once is bounded."""
    monkeypatch.setattr(landing, "MOST_BYTES", 10_000)
    journal = opened()
    journal.append([draft(1, filler="x" * 6_000)])
    assert stored(journal, "landing") == 1
    journal.append([draft(2, filler="x" * 6_000)])
    assert (stored(journal, "landing"), stored(journal, "records")) == (0, 2)
    journal.close()


def test_an_opening_counts_what_has_landed_before(opened, draft, monkeypatch):
    """Kernels that are killed one after the other do not let it grow without end."""
    monkeypatch.setattr(landing, "MOST_COMMITS", 5)
    for n in range(4):
        journal = opened()
        journal.append([draft(n)])
        journal._storage.landing.con.close()  # as a kill leaves it
    journal = opened()
    assert stored(journal, "landing") == 4
    journal.append([draft(4)])
    assert stored(journal, "landing") == 0
    assert [r.body["n"] for r in journal.load()] == list(range(5))
    journal.close()


def test_a_move_that_fails_loses_nothing_and_is_told(opened, draft, monkeypatch):
    """The transaction is taken back as a whole; the run goes on, and moves later."""
    monkeypatch.setattr(landing, "MOST_COMMITS", 3)
    journal = opened()

    def half(con, rows):
        con.execute("INSERT INTO j.main.records SELECT 1, 'a#1', 'completed', 0, 1, 'x'::BLOB")
        raise duckdb.IOException("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(landing, "append_rows", half)
        for n in range(4):
            journal.append([draft(n)])
    assert "went on without a checkpoint: disk full" in journal.trouble
    assert (stored(journal, "landing"), stored(journal, "records")) == (4, 0)
    assert [r.body["n"] for r in journal.load()] == [0, 1, 2, 3]
    for n in range(4, 6):
        journal.append([draft(n)])
    assert (stored(journal, "landing"), stored(journal, "records")) == (0, 6)
    journal.close()


_ONE = landing.pack([Row(1, "a#1", "completed", 0, 1, b"{}")])


@pytest.mark.parametrize(
    "batch",
    [
        "x",
        "1 2 3\n",
        _ONE[:-1],
        _ONE + "1",
        "0 0 0 0 0 0\n",
        "1 0 1 -1 9 3\n" + _ONE,
        7,
        None,
        b"x",
    ],
)
def test_a_commit_that_nobody_packed_is_refused(batch):
    """What a planted or torn value makes of itself is damage, and no other error."""
    with pytest.raises(BadRow):
        rows = list(landing.unpack(batch))
        check_chain(rows)
        records_of(rows)


@given(
    st.lists(
        st.builds(
            Row,
            st.integers(-(2**63), 2**63 - 1),
            st.text(st.characters(exclude_categories=["Cs"])),
            st.sampled_from(["completed", "intended", "é"]),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.text(st.characters(exclude_categories=["Cs"])).map(str.encode),
        ),
        max_size=5,
    )
)
def test_what_is_packed_comes_back_as_it_was(rows):
    """Every field of every record, whatever it holds."""
    assert list(landing.unpack(landing.pack(rows))) == rows


@pytest.mark.parametrize(
    "text", ["it's", "''", "\\'", "');--", "a\nb", "\x00", "\x1a", "é\ud800", "$1"]
)
def test_what_a_statement_would_trip_over_lands_as_it_is(opened, text):
    """A commit is written into the text of a statement: nothing in it ends that text."""
    journal = opened()
    journal.append([Draft(f"s[{text}]#1", Kind.COMPLETED, {"said": text})])
    journal._storage.landing.con.close()  # as a kill leaves it
    again = opened()
    (record,) = again.load()
    assert (record.op, record.body) == (f"s[{text}]#1", {"said": text})
    assert again.lost is None


# -- journals of version 1, which had no such table -----------------------------------------------


@pytest.fixture
def old(opened, draft, tmp_path):
    """A closed journal as version 1 left it."""
    journal = opened()
    for n in range(5):
        journal.append([draft(n)])
    journal.close()
    con = connect(tmp_path / "journal.duckdb")
    con.execute("DROP TABLE j.main.landing")
    con.execute("UPDATE j.main.meta SET schema_version = 1")
    con.execute("CHECKPOINT j")
    con.close()
    return tmp_path / "journal.duckdb"


def test_a_journal_of_version_1_gets_the_table_and_is_read_as_it_was(old, opened, draft):
    """Nothing is lost or in doubt; from then on older versions refuse it by its number."""
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [0, 1, 2, 3, 4]
    assert (journal.lost, journal.recovered) == (None, None)
    journal.append([draft(5)])
    assert stored(journal, "landing") == 1
    con = journal._storage.landing.con
    assert con.execute("SELECT max(schema_version) FROM j.main.meta").fetchone() == (2,)
    con.close()  # as a kill leaves it
    assert [r.seq for r in opened().load()] == [1, 2, 3, 4, 5, 6]


def test_a_journal_of_version_1_is_looked_at_and_imported_without_it(old):
    """What only reads a copy, and an archive of then, need no table that was not there."""
    assert count_records(old) == 5
    assert [row.seq for row in foreign_rows(old, "r")] == [1, 2, 3, 4, 5]
