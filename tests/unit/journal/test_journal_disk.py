from __future__ import annotations

import os
import resource
import shutil
import subprocess

import pytest

LIMITED = """
import resource
journal = opened()
for n in range(1, 6):
    journal.append([draft(n)])
size = (folder / "journal.duckdb.wal").stat().st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
for n in range(3):
    try:
        journal.append([draft(66)])
    except JournalUnwritable as error:
        assert "File too large" in error.cause and error.run == "r", error
        assert "space" in str(error)
    else:
        say("was written")
    assert journal.last_seq == 5
say(len(journal.load()))
{trouble}
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
(record,) = journal.append([draft(6)])
say(record.seq)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_case_56_a_full_disk_costs_nothing_that_was_written(start, opened):
    """EFBIG ends as JournalUnwritable, the places are free again, and later appends work."""
    out, err = start(LIMITED.format(trouble="")).process.communicate(timeout=30)
    assert out.split() == ["5", "6"], err
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [1, 2, 3, 4, 5, 6]
    assert journal.lost is None


@pytest.mark.slow
def test_case_56_32_callers_on_a_full_disk_are_all_told(start, opened):
    """A failing group commit leaves nobody waiting."""
    trouble = """
told = []
def work(n):
    try:
        journal.append([draft(n)])
    except JournalUnwritable:
        told.append(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
[t.start() for t in threads]
[t.join(10) for t in threads]
say(len(told))
"""
    out, err = start(LIMITED.format(trouble=trouble)).process.communicate(timeout=30)
    assert out.split() == ["5", "32", "6"], err
    assert [r.body["n"] for r in opened().load()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_case_56_a_limit_that_hits_the_checkpoint_hurts_nothing(start, opened):
    """Where the write-ahead file cannot be folded into the database, records stay readable."""
    code = """
    import resource
    journal = opened()
    journal._storage.landing.con.execute("SET wal_autocheckpoint='20KB'")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    done = []
    for n in range(200):
        try:
            journal.append([draft(n, filler="x" * 1000)])
            done.append(n)
        except JournalUnwritable:
            pass
        if n == 150:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 199 in done and len(done) < 200
    say(*done)
    os.kill(os.getpid(), 9)
    """
    out, err = start(code).process.communicate(timeout=30)
    assert out, err
    journal = opened()
    assert [r.body["n"] for r in journal.load()] == [int(n) for n in out.split()]
    assert journal.lost is None


def _can_mount() -> bool:
    """Whether a mount of our own, seen by nobody else, is possible here."""
    if os.getuid() != 0 or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_case_56_a_file_system_of_6_mb_fills_up_and_stays_readable(start, tmp_path):
    """ENOSPC on a real file system: an error, everything earlier readable, and on it goes after."""
    if not _can_mount():
        pytest.skip("no tmpfs can be mounted here; RLIMIT_FSIZE above covers the same path")
    code = """
    filler = folder / "filler"
    filler.write_bytes(bytes(4_000_000))
    journal = opened()
    done, failed, n = [], 0, 0
    while failed < 5:
        n += 1
        try:
            journal.append([draft(n, filler="x" * 40_000)])
            done.append(n)
        except JournalUnwritable as error:
            failed += 1
            assert "No space left" in error.cause, error
    assert [r.body["n"] for r in journal.load()] == done
    filler.unlink()
    journal.append([draft(n + 1)])
    done.append(n + 1)
    journal._storage.landing.con.close()
    again = opened()
    assert [r.body["n"] for r in again.load()] == done and again.lost is None
    say(len(done))
    """
    mount = 'mount -t tmpfs -o size=6m tmpfs "$0" && exec "$@"'
    child = start(code, before=("unshare", "-m", "sh", "-c", mount, str(tmp_path)))
    assert int(child.rest()) > 10


def test_the_limit_of_this_process_is_untouched():
    """The tests above limit children only."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
