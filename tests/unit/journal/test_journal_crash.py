from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from durable_nb.journal import Head, open_journal
from durable_nb.journal.database import connect
from durable_nb.model.errors import JournalDamaged, RunHeld

FILL = """
journal = opened()
wal = folder / "journal.duckdb.wal"
say(0)
for n in range(1, int(sys.argv[2]) + 1):
    journal.append([draft(n)])
    say(wal.stat().st_size)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def killed(start, tmp_path):
    """Give a folder whose owner was killed, and the size of its write-ahead file per record."""

    def make(records: int) -> tuple[Path, list[int]]:
        child = start(FILL, str(records))
        out, err = child.process.communicate(timeout=30)
        sizes = [int(line) for line in out.split()]
        assert len(sizes) == records + 1, err
        return tmp_path, sizes

    return make


def _open(folder):
    head = Head(folder / "head")
    try:
        return open_journal(folder / "journal.duckdb", run="r", head=head)
    finally:
        head.close()


def _copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for name in ("journal.duckdb", "journal.duckdb.wal", "head"):
        shutil.copy(source / name, target / name)
    return target


@pytest.mark.slow
def test_nothing_that_was_acknowledged_is_lost_by_a_kill(killed, opened):
    """SIGKILL right after the last acknowledgement: every record is there, and the head agrees."""
    folder, _ = killed(20)
    journal = opened(folder)
    assert [r.body["n"] for r in journal.load()] == list(range(1, 21))
    assert journal.lost is None
    assert journal.recovered is None


@pytest.mark.parametrize(
    "step", [16, pytest.param(1, marks=pytest.mark.slow)], ids=["every16", "every"]
)
def test_a_write_ahead_file_cut_anywhere_gives_the_committed_prefix_and_shows_the_loss(
    killed, tmp_path, step
):
    """Cut at any byte: exactly the records before it, and the head knows of the rest."""
    folder, sizes = killed(4)
    whole = (folder / "journal.duckdb.wal").read_bytes()
    assert len(whole) == sizes[-1]
    for cut in sorted({*range(0, len(whole), step), *sizes[1:], *(s - 1 for s in sizes[1:])}):
        copy = _copy(folder, tmp_path / f"cut{cut}")
        (copy / "journal.duckdb.wal").write_bytes(whole[:cut])
        expected = sum(size <= cut for size in sizes[1:])

        journal = _open(copy)

        assert [r.body["n"] for r in journal.load()] == list(range(1, expected + 1)), cut
        if expected == 4:
            assert journal.lost is None
        else:
            assert journal.lost is not None, cut
            assert (journal.lost.head_seq, journal.lost.last_seq) == (4, expected)
        journal.close()
        shutil.rmtree(copy)


@pytest.mark.slow
def test_case_53_a_missing_write_ahead_file_is_noticed(killed, opened):
    """DuckDB opens the older state without a word; the head does not let that pass."""
    folder, _ = killed(5)
    (folder / "journal.duckdb.wal").unlink()
    journal = opened(folder)
    assert journal.load() == []
    assert (journal.lost.kind, journal.lost.head_seq, journal.lost.last_seq) == ("missing", 5, 0)
    assert journal.recovered.aside.name == "damaged-1"


@pytest.mark.slow
def test_a_missing_database_file_is_noticed(killed, opened):
    """A journal that vanished is a loss and no new run."""
    folder, _ = killed(3)
    (folder / "journal.duckdb").unlink()
    (folder / "journal.duckdb.wal").unlink()
    journal = opened(folder)
    assert journal.load() == []
    assert journal.lost.head_seq == 3


@pytest.mark.slow
@pytest.mark.parametrize("zeroed", [1, 20, 100, 350])
def test_case_53_a_zeroed_tail_is_set_aside_and_its_committed_prefix_recovered(
    killed, opened, draft, zeroed
):
    """What DuckDB refuses to open is kept whole; what was committed before the damage opens."""
    folder, sizes = killed(6)
    wal = folder / "journal.duckdb.wal"
    damaged = wal.read_bytes()[:-zeroed] + bytes(zeroed)
    wal.write_bytes(damaged)
    whole = sum(size <= len(damaged) - zeroed for size in sizes[1:])

    journal = opened(folder)

    assert [r.body["n"] for r in journal.load()] == list(range(1, whole + 1))
    assert journal.lost.head_seq == 6
    assert journal.recovered.records == whole
    aside = journal.recovered.aside
    assert (aside / "journal.duckdb.wal").read_bytes() == damaged
    assert (aside / "head").exists()
    journal.append([draft(99)])
    journal.close()
    again = opened(folder)
    assert [r.body["n"] for r in again.load()] == [*range(1, whole + 1), 99]
    assert again.lost is None


@pytest.mark.slow
def test_case_53_flipped_bytes_open_with_a_prefix_and_never_with_anything_else(killed, tmp_path):
    """A flipped bit anywhere: a prefix of the records, and the head tells if it is a shorter one."""
    folder, _ = killed(4)
    whole = (folder / "journal.duckdb.wal").read_bytes()
    for at in range(3, len(whole), 41):
        copy = _copy(folder, tmp_path / f"flip{at}")
        wal = copy / "journal.duckdb.wal"
        wal.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])

        journal = _open(copy)

        got = [r.body["n"] for r in journal.load()]
        assert got == list(range(1, len(got) + 1)), at
        assert (journal.lost is None) == (len(got) == 4), at
        if len(got) < 4:
            assert (journal.recovered.aside / "journal.duckdb.wal").exists(), at
        journal.close()
        shutil.rmtree(copy)


@pytest.mark.slow
def test_case_53_another_runs_write_ahead_file_is_not_taken_for_ours(
    killed, opened, draft, tmp_path
):
    """Foreign records never show up in a run; the file they came in is kept aside."""
    folder, _ = killed(4)
    mine = tmp_path / "mine"
    mine.mkdir()
    journal = opened(mine)
    journal.append([draft(n) for n in (71, 72)])
    journal.close()
    shutil.copy(folder / "journal.duckdb.wal", mine / "journal.duckdb.wal")

    journal = opened(mine)

    assert [r.body["n"] for r in journal.load()] == [71, 72]
    assert journal.lost is None
    kept = journal.recovered.aside / "journal.duckdb.wal"
    assert kept.read_bytes() == (folder / "journal.duckdb.wal").read_bytes()


@pytest.mark.slow
def test_a_file_that_nothing_helps_is_refused_and_left_in_place(killed, opened):
    """Hopeless damage says where the copy is, changes nothing, and piles nothing up."""
    folder, _ = killed(3)
    file = folder / "journal.duckdb"
    file.write_bytes(b"no database" * 500)
    for _ in range(3):
        with pytest.raises(JournalDamaged, match="damaged-1"):
            opened(folder)
    assert file.read_bytes() == b"no database" * 500
    assert (folder / "damaged-1" / "journal.duckdb").read_bytes() == file.read_bytes()
    assert [p.name for p in folder.glob("damaged-*")] == ["damaged-1"]
    assert not list(folder.glob(".recover-*"))


@pytest.mark.slow
def test_a_loss_shows_until_a_record_was_written_after_it(killed, opened, draft):
    """A kill before the doubt is on record must not make the next opening forget it."""
    folder, _ = killed(5)
    (folder / "journal.duckdb.wal").unlink()
    for _ in range(2):
        journal = opened(folder)
        assert journal.lost.head_seq == 5
        journal.close()
    journal = opened(folder)
    journal.append([draft(1)])
    journal.close()
    assert opened(folder).lost is None


@pytest.mark.slow
def test_records_that_differ_from_the_acknowledged_ones_are_noticed(
    killed, opened, draft, tmp_path
):
    """An older copy that went on by itself has the right length and the wrong digest."""
    folder, _ = killed(3)
    other = tmp_path / "other"
    other.mkdir()
    journal = opened(other)
    for n in range(3):
        journal.append([draft(n + 100)])
    journal.close()
    for name in ("journal.duckdb", "head"):
        (folder / name).write_bytes((other / name).read_bytes())
    (folder / "journal.duckdb.wal").unlink()
    shutil.copy(folder / "head", tmp_path / "good")
    head = Head(folder / "head")
    head.write(type(head.read())(3, b"x" * 16))
    head.close()
    assert opened(folder).lost.kind == "diverged"


@pytest.mark.slow
def test_records_without_a_head_are_not_taken_as_all(killed, opened):
    """Who copies the database file alone is told that nothing proves it whole."""
    folder, _ = killed(3)
    (folder / "head").unlink()
    assert opened(folder).lost.kind == "headless"


@pytest.mark.slow
def test_a_file_without_records_and_without_a_head_is_not_taken_for_a_new_one(killed, opened):
    """Head and write-ahead file are gone together: the head was there before the first record."""
    folder, _ = killed(3)
    (folder / "head").unlink()
    (folder / "journal.duckdb.wal").unlink()
    lost = opened(folder).lost
    assert (lost.kind, lost.last_seq) == ("headless", 0)


def test_a_kernel_that_died_while_it_made_its_journal_leaves_no_doubt(tmp_path, opened):
    """A head without a file, and a file whose first record never came, are a run not yet begun."""
    folder = tmp_path / "run"
    folder.mkdir()
    Head(folder / "head").close()
    journal = opened(folder)
    assert journal.lost is None
    journal.close()
    assert opened(folder).lost is None


def test_case_57_a_closed_run_is_whole_in_its_one_file(opened, draft, tmp_path):
    """Close checkpoints, so that a copy of the database file alone has every record."""
    journal = opened()
    journal.append([draft(n) for n in range(10)])
    journal.close()
    assert not (tmp_path / "journal.duckdb.wal").exists()
    other = tmp_path / "copy"
    other.mkdir()
    shutil.copy(tmp_path / "journal.duckdb", other)
    assert len(opened(other).load()) == 10


@pytest.mark.slow
def test_closing_a_connection_never_checkpoints(killed):
    """DuckDB's shutdown must not fold and unlink the write-ahead file behind our back."""
    folder, _ = killed(2)
    before = (folder / "journal.duckdb.wal").read_bytes()
    connect(folder / "journal.duckdb").close()
    assert (folder / "journal.duckdb.wal").read_bytes() == before


@pytest.mark.slow
def test_kills_at_random_moments_lose_and_double_nothing(start, opened, tmp_path):
    """40 owners killed at random moments, also as they move and checkpoint: all acknowledged is there."""
    code = """
    import random
    from durable_nb.journal import landing
    landing.MOST_COMMITS = 7
    journal = opened()
    known = [r.body["n"] for r in journal.load()]
    assert known == list(range(1, len(known) + 1)), known
    assert journal.lost is None, journal.lost
    journal._storage.landing.con.execute("SET wal_autocheckpoint='20KB'")
    say(len(known))
    n = len(known)
    threading.Timer(random.uniform(0.01, 0.15), lambda: os.kill(os.getpid(), 9)).start()
    while True:
        n += 1
        journal.append([draft(n, filler="x" * 500)])
        say(n)
    """
    acknowledged = 0
    for _ in range(40):
        out, err = start(code).process.communicate(timeout=30)
        assert "Error" not in err, err
        counts = [int(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
        assert counts[0] >= acknowledged
        acknowledged = counts[-1]
    assert len(opened().load()) >= acknowledged > 100


# -- other processes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_case_54_a_forked_child_is_refused_and_its_end_hurts_nothing(start, opened):
    """A child may not write, and its ordinary exit neither checkpoints nor drops commits."""
    code = """
    journal = opened()
    journal.append([draft(1)])
    child = os.fork()
    if child == 0:
        for call in (lambda: journal.append([draft(66)]), journal.load, journal.flush, journal.close):
            try:
                call()
            except RunHeld as error:
                assert str(os.getppid()) in str(error), error
            else:
                os._exit(5)
        del journal
        import gc
        gc.collect()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    say("child", os.waitstatus_to_exitcode(status))
    journal.append([draft(2)])
    journal.append([draft(3)])
    say("wal", (folder / "journal.duckdb.wal").exists())
    os.kill(os.getpid(), 9)
    """
    out, err = start(code).process.communicate(timeout=30)
    assert out.split() == ["child", "0", "wal", "True"], err
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [1, 2, 3]
    assert journal.lost is None


@pytest.mark.slow
def test_case_50_a_file_that_another_program_has_open_is_held_and_not_damaged(
    start, opened, tmp_path
):
    """A DuckDB shell on the file is named with its pid; nothing is set aside for it."""
    opened().close()
    child = start(
        """
        import duckdb
        con = duckdb.connect(str(folder / "journal.duckdb"))
        say("ready")
        time.sleep(60)
        """
    )
    assert child.line() == "ready"
    with pytest.raises(RunHeld, match=f"process {child.pid}"):
        opened()
    assert not list(tmp_path.glob("damaged-*"))
    child.kill()
    assert opened().load() == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_case_60_processes_open_a_new_run_at_once(start, opened, tmp_path, count):
    """All succeed, one after the other, each under an epoch of its own."""
    code = """
    from durable_nb.journal.folder import prepare_run, prepare_store
    while time.time() < float(sys.argv[2]):
        time.sleep(0.001)
    run = prepare_run(prepare_store(folder / "store"), "r")
    with Lease.acquire(run, run="r", who=OwnerInfo.here(), wait=30) as lease:
        head = Head(run / "head")
        journal = open_journal(run / "journal.duckdb", run="r", epoch=lease.next_epoch, head=head)
        assert journal.lost is None
        journal.append([draft(os.getpid())])
        lease.update(epoch=journal.epoch)
        journal.close()
    say("done")
    """
    moment = str(time.time() + 2)
    children = [start(code, moment) for _ in range(count)]
    assert [child.rest() for child in children] == ["done\n"] * count
    journal = opened(tmp_path / "store" / "r")
    records = journal.load()
    assert {r.body["n"] for r in records} == {child.pid for child in children}
    assert [r.epoch for r in records] == list(range(1, count + 1))
    assert os.stat(tmp_path / "store").st_mode & 0o777 == 0o700
