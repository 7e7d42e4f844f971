"""A disk that is full, a limit on file sizes, and records that are gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Bench
from support.ledger import Ledger

LIMIT = """
import resource

mode = more[0]
wal = store / "limited" / "journal.duckdb.wal"

def first():
    ledger.add("first")
    return 1

def send(*, idempotency_key):
    ledger.add("send", idempotency_key)
    if mode in ("limit", "limit and lift"):
        limit(wal.stat().st_size)
    return "sent"

def limit(size):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

def go(run):
    tell(first=run.call(first))
    tell(sent=run.call(send))

with dnb.run("limited", store=store) as run:
    tell(opened=outcomes(run))
    try:
        go(run)
    except dnb.JournalUnwritable as problem:
        tell(problem=str(problem))
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations])
    tell(now=outcomes(run), unknown=[op.id for op in run.unknown()], first_is=run.get("first").result)
    if mode == "limit":
        try:
            run.step("other").call(first)
        except (dnb.JournalUnwritable, dnb.UnknownOutcome) as refusal:
            tell(refused=type(refusal).__name__)
        die()
    if mode == "limit and lift":
        limit(None)
        run.confirm("send#1", "sent", evidence="the ledger")
        tell(lifted=outcomes(run))
"""


def test_case_56_a_file_size_limit_after_the_effect_leaves_it_unknown(
    bench: Bench, ledger: Ledger
) -> None:
    """An outcome that cannot be written makes a doubt; earlier rows stay, nothing new starts."""
    ended = bench.run(LIMIT, "limit")

    assert ended.killed
    seen = ended.facts
    assert "Earlier records are unhurt" in seen["problem"]
    assert seen["now"] == {"first#1": "completed", "send#1": "unknown"}
    assert seen["unknown"] == ["send#1"]
    assert seen["first_is"] == 1
    assert seen["refused"] == "UnknownOutcome"

    after = bench.run(LIMIT, "resume").ok().facts
    assert after["opened"] == {"first#1": "completed", "send#1": "unknown"}
    assert after["doubt"] == ["send#1"]
    assert ledger.lines()[0] == ("first", "")
    assert ledger.count("first") == ledger.count("send") == 1


@pytest.mark.slow
def test_case_56_once_the_limit_is_lifted_the_same_kernel_settles_the_doubt(
    bench: Bench, ledger: Ledger
) -> None:
    """A full disk is no end: with space again, the verdict is recorded and the run goes on."""
    seen = bench.run(LIMIT, "limit and lift").ok().facts

    assert seen["now"]["send#1"] == "unknown"
    assert seen["lifted"] == {"first#1": "completed", "send#1": "completed"}
    after = bench.run(LIMIT, "resume").ok().facts
    assert (after["first"], after["sent"]) == (1, "sent")
    assert ledger.count("send") == 1


AWAITED = """
import resource

wal = store / "limited" / "journal.duckdb.wal"

async def send(*, idempotency_key):
    ledger.add("send", idempotency_key)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size, hard))
    return "sent"

async def go(run):
    return await run.call(send)

with dnb.run("limited", store=store) as run:
    tell(opened=outcomes(run))
    for name in ("once", "again"):
        try:
            tell(**{name: asyncio.run(go(run))})
        except (dnb.JournalUnwritable, dnb.UnknownOutcome) as problem:
            tell(**{name: type(problem).__name__})
    die()
"""


def test_case_56_what_an_awaiting_step_could_not_write_is_not_replayed_either(
    bench: Bench, ledger: Ledger
) -> None:
    """A result counts once it is on disk, also for the kernel that has it; the next one doubts it."""
    seen = bench.run(AWAITED).facts
    assert (seen["once"], seen["again"]) == ("JournalUnwritable", "JournalUnwritable")

    after = bench.run(AWAITED).facts
    assert after["opened"] == {"send#1": "unknown"}
    assert after["once"] == "UnknownOutcome"
    assert ledger.count("send") == 1


FULL = """
mode = more[0]
blob = store / "filler"

def fill():
    with open(blob, "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass

def effect(n, *, idempotency_key):
    ledger.add(f"e{n}", idempotency_key)
    if n == 5 and mode == "fill":
        fill()
    return {"n": n, "text": "y" * 20_000}

with dnb.run("full", store=store) as run:
    try:
        for n in range(8):
            run.step("effect", key=n).call(effect, n)
    except dnb.JournalUnwritable as problem:
        tell(problem=str(problem))
        tell(rows=[r["n"] for r in (run.get(f"effect[{n}]#1").result for n in range(5))])
        die()
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations])
    tell(outcomes=outcomes(run))
"""


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Bench]:
    """A store on a file system of 6 MB; only root can make one."""
    bench.store.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=700", "tmpfs", str(bench.store)]
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("this system does not let root mount a file system")
    yield bench
    subprocess.run(["umount", str(bench.store)], check=True)


@pytest.mark.slow
def test_case_56_a_full_disk_leaves_a_doubt_and_readable_rows(
    small_disk: Bench, ledger: Ledger
) -> None:
    """The step whose effect was done is unknown, and what was recorded before can be read."""
    bench = small_disk
    ended = bench.run(FULL, "fill")
    assert ended.killed, ended.err
    assert ended.facts["rows"] == [0, 1, 2, 3, 4]
    assert "Free some space" in ended.facts["problem"]

    (bench.store / "filler").unlink()
    seen = bench.run(FULL, "resume").ok().facts

    assert seen["doubt"] == ["effect[5]#1"]
    completed = {f"effect[{n}]#1": "completed" for n in range(5)}
    assert seen["outcomes"] == completed | {"effect[5]#1": "unknown"}
    assert [what for what, _ in ledger.lines()] == [f"e{n}" for n in range(6)]


LOST = """
mode, n_first = more[0], 2

def first():
    ledger.add("first")
    return 1

def pure():
    ledger.add("pure")
    return "pure"

def send(*, idempotency_key):
    ledger.add("send", idempotency_key)
    return "sent"

with dnb.run("lost", store=store) as run:
    tell(status=str(run.status_view()), before=outcomes(run))
    if mode == "accept":
        run.accept("looked: the mail did not leave")
    tell(first=run.call(first))
    if mode == "begin":
        sys.exit(0)
    try:
        tell(pure=run.step("pure", effect="none").call(pure))
        tell(sent=run.call(send))
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations], blocked=doubt.blocked, text=str(doubt))
    if mode == "die":
        die()
"""


@pytest.mark.slow
def test_head_reveals_lost_records_and_nothing_new_runs_until_a_person_accepts(
    bench: Bench, ledger: Ledger
) -> None:
    """Lost records name nobody, so every new effect is in doubt, and what is on record replays."""
    bench.run(LOST, "begin").ok()
    assert bench.run(LOST, "die").killed
    assert ledger.count("send") == 1
    wal(bench).unlink()

    for _ in range(2):
        seen = bench.run(LOST, "resume").ok().facts
        assert seen["before"]["first#1"] == "completed"
        assert seen["first"] == 1
        assert "send#1" not in seen["before"]
        assert seen["pure"] == "pure"
        assert (seen["doubt"], seen["blocked"]) == ([], "send#1")
        assert "lost records" in seen["text"]
        assert "run.accept(" in seen["status"]
        assert ledger.count("send") == 1

    assert bench.run(LOST, "accept").ok().facts["sent"] == "sent"
    assert bench.run(LOST, "resume").ok().facts["sent"] == "sent"
    assert ledger.count("send") == 2  # which the person decided
    assert ledger.count("first") == 1


@pytest.mark.slow
def test_head_reveals_that_a_first_kernel_lost_everything(bench: Bench, ledger: Ledger) -> None:
    """A journal whose every record is gone is a run in doubt, not a new run."""
    assert bench.run(LOST, "die").killed
    wal(bench).unlink()

    for _ in range(2):
        ended = bench.run(LOST, "resume")
        assert "run 'lost' has lost records" in ended.err
        assert "first#1 was not started" in ended.err
        assert "run.accept(" in ended.facts["status"]
    assert ledger.count("send") == ledger.count("first") == 1


def wal(bench: Bench) -> Path:
    return bench.store / "lost" / "journal.duckdb.wal"
