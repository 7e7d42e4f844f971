"""A run whose owner was killed and whose files were harmed then: what a user sees of it.

The child makes effects that an outside ledger counts, and is killed; the test harms its files;
another child goes on. No effect of an operation that was acknowledged may fire again unasked.
The stores are copies, which the children adopt.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.child import Bench
from support.harmed import ONCE, Harmed, flipped, is_detected, write

import durable_nb as dnb

pytestmark = pytest.mark.slow  # together they take longer than all the rest

# -- the journal -------------------------------------------------------------------------------

JOURNAL: dict[str, Callable[[Harmed], None]] = {
    "wal removed": lambda s: s.wal.unlink(),
    "wal zeroed": lambda s: write(s.wal, bytes(s.wal.stat().st_size)),
    "wal with a zeroed tail": lambda s: write(s.wal, s.wal.read_bytes()[:-300] + bytes(300)),
    "wal with a zeroed middle": lambda s: write(
        s.wal, s.wal.read_bytes()[:1500] + bytes(200) + s.wal.read_bytes()[1700:]
    ),
    "wal cut by 37 bytes": lambda s: write(s.wal, s.wal.read_bytes()[:-37]),
    "wal of another run": lambda s: write(s.wal, (s.other / s.wal.name).read_bytes()),
    "database removed": lambda s: s.journal.unlink(),
    "database zeroed": lambda s: write(s.journal, bytes(s.journal.stat().st_size)),
    "database emptied": lambda s: write(s.journal, b""),
    "database with a zeroed tail": lambda s: write(
        s.journal, s.journal.read_bytes()[:-4096] + bytes(4096)
    ),
    "database with a zeroed head": lambda s: write(
        s.journal, bytes(4096) + s.journal.read_bytes()[4096:]
    ),
    "database cut": lambda s: write(s.journal, s.journal.read_bytes()[:-37]),
    "database and wal removed": lambda s: (s.journal.unlink(), s.wal.unlink())[0],
    "head and wal removed": lambda s: ((s.folder / "head").unlink(), s.wal.unlink())[0],
}


@pytest.mark.parametrize("harm", JOURNAL)
def test_case_53_a_harmed_journal_is_told_and_fires_nothing_again(
    harmed: Harmed, harm: str
) -> None:
    """What was acknowledged is there, or the run is in doubt or refused; no effect fires twice."""
    JOURNAL[harm](harmed)
    for _ in range(2):
        ended = harmed.resume()
        whole = ended.facts.get("last") == ["mine", "last"] and not ended.facts.get("problem")
        assert whole or is_detected(ended), ended
        assert harmed.effects() == ONCE
        if "problem" not in ended.facts and not ended.code:
            assert whole
        elif ended.facts.get("problem") == "UnknownOutcome":
            assert "run.accept(" in ended.facts["status"]
        else:
            assert "JournalDamaged" in ended.err
            assert "damaged-1" in ended.err


def test_case_53_a_lost_record_of_an_effect_is_in_doubt_until_a_person_accepts(
    harmed: Harmed,
) -> None:
    """The records that are left replay; what they do not know runs only once that is accepted."""
    harmed.wal.unlink()
    first = harmed.resume()
    assert first.facts["problem"] == "UnknownOutcome"
    with dnb.run("mine", store=harmed.bench.store, adopt="moved") as run:
        run.accept("looked outside: nothing was sent")
    assert "problem" not in harmed.resume().ok().facts
    assert harmed.effects() == {"big": 2, "last": 2}  # which the person decided


@pytest.mark.parametrize("parts", ["database", "database and wal"])
def test_case_53_the_journal_of_another_run_is_refused_by_name(harmed: Harmed, parts: str) -> None:
    """Another run's records are never replayed as this one's."""
    for name in ("journal.duckdb", "journal.duckdb.wal"):
        if name == "journal.duckdb" or parts != "database":
            shutil.copy(harmed.other / name, harmed.folder / name)
    before = harmed.journal.read_bytes()
    ended = harmed.resume()
    seen = ended.facts
    if parts == "database":  # its own write-ahead file is refused by DuckDB, or is in doubt
        assert is_detected(ended)
    else:
        assert ended.code == 1
        assert "holds the records of run 'other'" in ended.err
        assert (harmed.folder / "damaged-1" / "journal.duckdb").read_bytes() == before
    assert seen.get("last") in (None, ["mine", "last"])
    assert harmed.effects() == ONCE


def cuts(size: int, step: int) -> list[int]:
    return sorted({*range(0, size, step), size - 1})


@pytest.mark.parametrize(
    "step", [499, pytest.param(16, marks=pytest.mark.slow)], ids=["sampled", "every16"]
)
@pytest.mark.parametrize("which", ["wal", "journal"])
@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_case_53_cut_or_flipped_anywhere_a_run_is_whole_in_doubt_or_refused(
    killed: Harmed, tmp_path: Path, which: str, harm: str, step: int
) -> None:
    """At no byte does a harmed file open as a run that knows less without a doubt."""
    whole = getattr(killed, which).read_bytes()
    everything = _opened(killed.copied(tmp_path / "whole"))
    assert everything[1] == ""
    for at in cuts(len(whole), step):
        place = tmp_path / f"at{at}"
        (place / "store").mkdir(parents=True, mode=0o700)
        shutil.copytree(killed.folder, place / "store" / "mine")
        story = Harmed(Bench(place), killed.ledger)
        file: Path = getattr(story, which)
        file.write_bytes(whole[:at] if harm == "cut" else flipped(whole, at))
        found = _opened(story)
        if found is not None:
            operations, doubt = found
            assert doubt or operations == everything[0], at
            done = {item for item in operations.items() if item[1][0] == "completed"}
            assert done <= set(everything[0].items()), at
        shutil.rmtree(place)


def _opened(story: Harmed) -> tuple[dict[str, Any], str] | None:
    """Open a run in this process: its operations and its doubt; `None` if it is refused."""
    try:
        with dnb.run("mine", store=story.bench.store, adopt="moved") as run:
            status = run.status_view()
            return {v.id: (v.outcome, v.result_preview) for v in status.views}, status.doubt
    except (dnb.JournalDamaged, dnb.JournalUnwritable):
        return None


# -- the head ----------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["removed", "zeroed", "of another run"])
def test_a_harmed_head_is_told_and_fires_nothing_again(harmed: Harmed, harm: str) -> None:
    """Without its own head nothing proves that the records are all, and that is said."""
    head = harmed.folder / "head"
    if harm == "removed":
        head.unlink()
    else:
        write(head, bytes(1024) if harm == "zeroed" else (harmed.other / "head").read_bytes())
    ended = harmed.resume()
    assert is_detected(ended)
    assert ended.facts["opened"]["last#1"] == "completed"
    assert harmed.effects() == ONCE
