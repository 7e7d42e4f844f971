"""The database file cut at every byte, with all records in it and with some beside it.

A write-ahead file that is cut opens with a prefix (`test_journal_crash`); a database file mostly
does not open at all. Either way nothing that was acknowledged is missing without a word.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb
import pytest

from durable_nb.journal import Head, open_journal
from durable_nb.journal.head import HeadState
from durable_nb.model.errors import JournalDamaged
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft


class Written(NamedTuple):
    """A journal's files, and every record that was acknowledged, in full."""

    files: dict[str, bytes]
    acknowledged: list[str]


class _Lodger:
    """A connection in the one DuckDB instance of a test: to close it detaches the file."""

    def __init__(self, house: _House) -> None:
        self.house, self.con = house, house.instance.cursor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)

    def close(self) -> None:
        self.con.close()
        try:
            self.house.instance.execute("USE memory; DETACH DATABASE IF EXISTS j")
        except duckdb.Error:  # a fatal error invalidates an instance for good
            self.house.build()


class _House:
    """One DuckDB instance for many openings.

    To make an instance takes 14 ms, to attach a file 0.3 ms: what is under test is in the latter.
    """

    def __init__(self) -> None:
        self._connect = duckdb.connect
        self._options: tuple[Any, dict[str, Any]] = ((), {})
        self.instance: Any = None

    def connect(self, *where: Any, **options: Any) -> _Lodger:
        if self.instance is None:
            self._options = where, options
            self.build()
        return _Lodger(self)

    def build(self) -> None:
        where, options = self._options
        self.instance = self._connect(*where, **options)


@pytest.fixture
def house(monkeypatch) -> Iterator[None]:
    """Open all files in one DuckDB instance, and wait for no disk: no power is cut here."""
    house = _House()
    monkeypatch.setattr(duckdb, "connect", house.connect)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    yield
    if house.instance is not None:
        house.instance.close()


@pytest.fixture
def scratch(tmp_path) -> Iterator[Path]:
    """Give a folder in memory, where there is one: to remove a folder from a disk takes 3 ms."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else tmp_path
    with TemporaryDirectory(prefix="durable-nb-test-", dir=place) as folder:
        yield Path(folder)


WRITE = """
journal = opened()
for n in range(1, 9):
    journal.append([draft(n, filler="x" * 300)])
    if n in (3, 6):
        journal.checkpoint()
if sys.argv[2] == "closed":
    journal.close()
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def written(start, opened, tmp_path) -> Callable[[str], Written]:
    """Write a journal with records in its database file; of one that was killed not all of them."""

    def make(end: str) -> Written:
        start(WRITE, end).process.communicate(timeout=30)
        names = {p.name for p in tmp_path.iterdir()}
        assert ("journal.duckdb.wal" in names) == (end == "killed")
        files = {name: (tmp_path / name).read_bytes() for name in names}
        inside = [n for n in range(1, 9) if b'{"n":%d,' % n in files["journal.duckdb"]]
        assert inside == list(range(1, 7 if end == "killed" else 9))
        acknowledged = [repr(record) for record in opened().load()]
        assert len(acknowledged) == 8
        return Written(files, acknowledged)

    return make


def opened_with(file: bytes, written: Written, folder: Path) -> str:
    """Open the journal with this as its database file; insist on the rule and say how it went."""
    folder.mkdir()
    for name, content in {**written.files, "journal.duckdb": file}.items():
        (folder / name).write_bytes(content)
    before = _content(folder)
    try:
        with closing(Head(folder / "head")) as head:
            journal = open_journal(folder / "journal.duckdb", run="r", head=head)
    except JournalDamaged:
        assert _content(folder) == before
        assert _content(folder / "damaged-1") == before
        shutil.rmtree(folder)
        return "refused"
    got = [repr(record) for record in journal.load()]
    lost, kept = journal.lost, journal.recovered
    journal.close()
    assert got == written.acknowledged[: len(got)]
    if lost is None:
        assert got == written.acknowledged
    else:
        assert (lost.head_seq, lost.last_seq) == (8, len(got))
    if lost is not None or kept is not None:
        assert kept is not None
        assert _content(kept.aside) == before
    shutil.rmtree(folder)
    return "whole" if lost is None else "told"


def _content(folder: Path) -> dict[str, bytes]:
    """Read the journal's own files."""
    names = [name for name in os.listdir(folder) if name.startswith("journal.")]
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(16, id="every16"),
        pytest.param(1, id="every", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_database_file_cut_anywhere_is_whole_or_told_or_refused_and_kept(
    written, house, scratch, end, step
):
    """Cut at any byte: never fewer or other records in silence, and the damaged whole stays."""
    story = written(end)
    whole = story.files["journal.duckdb"]
    found = {
        opened_with(whole[:cut], story, scratch / f"cut{cut}")
        for cut in (*range(0, len(whole), step), len(whole) - 1)
    }
    assert found <= {"whole", "told", "refused"}
    assert "refused" in found
    assert opened_with(whole, story, scratch / "whole") == "whole"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_cut_database_file_is_so_in_a_duckdb_instance_of_its_own(written, tmp_path, end):
    """What one instance says of all those files, each new one says of some of them."""
    story = written(end)
    whole = story.files["journal.duckdb"]
    for cut in (*range(0, len(whole), 4096), len(whole) - 1):
        assert opened_with(whole[:cut], story, tmp_path / f"cut{cut}") == "refused"
    assert opened_with(whole, story, tmp_path / "whole") == "whole"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_sector_that_never_reached_the_disk_hides_no_record(written, house, scratch, end):
    """Zeros in place of any one sector: the same rule, also where the file still opens."""
    story = written(end)
    whole = story.files["journal.duckdb"]
    found = {
        opened_with(whole[:at] + bytes(512) + whole[at + 512 :], story, scratch / f"at{at}")
        for at in range(0, len(whole), 512)
    }
    assert found >= {"whole", "refused"}


@pytest.mark.parametrize("size", [0, 1, 4096, 8192, 12287])
def test_a_file_whose_maker_was_killed_before_its_headers_were_written_is_made_anew(tmp_path, size):
    """Nothing was in it, and the head says so: there is no damage to speak of."""
    _unborn(tmp_path, size)
    with closing(Head(tmp_path / "head")) as head:
        journal = open_journal(tmp_path / "journal.duckdb", run="r", head=head)
    assert (journal.lost, journal.recovered, list(journal.load())) == (None, None, [])
    journal.append([Draft("s#1", Kind.COMPLETED, {})])
    journal.close()
    assert not list(tmp_path.glob("damaged-*"))


def test_a_file_cut_down_to_less_than_its_headers_is_damage_if_the_head_knows_records(tmp_path):
    """The same file, and the head at record 1: a record is gone."""
    _unborn(tmp_path, 4096)
    with closing(Head(tmp_path / "head")) as head:
        head.write(HeadState(1, b"\1" * 16))
        with pytest.raises(JournalDamaged):
            open_journal(tmp_path / "journal.duckdb", run="r", head=head)
    assert (tmp_path / "damaged-1" / "journal.duckdb").stat().st_size == 4096


def _unborn(folder: Path, size: int) -> None:
    """Leave what a kill leaves, so many bytes into the making of a journal's file."""
    with closing(Head(folder / "head")) as head:
        open_journal(folder / "journal.duckdb", run="r", head=head).close()
    made = (folder / "journal.duckdb").read_bytes()
    (folder / "journal.duckdb").write_bytes(made[:size])
