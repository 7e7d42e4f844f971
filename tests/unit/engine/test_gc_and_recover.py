"""Clearing what no record names, and bringing back what a damaged journal still holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.folders import KILLED_RECORDS, artifact, stored, tree

import durable_nb as dnb
from durable_nb import values

pytestmark = pytest.mark.slow  # together they take longer than all the rest

LOST = f"{len(KILLED_RECORDS)} records were acknowledged"


def unneeded(folder: Path) -> None:
    """Leave what a kernel leaves that is killed between an artifact and its record."""
    disk = values.DiskArtifacts(folder / "artifacts")
    disk.put(b"a" * 70_000)
    disk.close()
    stray = folder / "artifacts" / "00" / "11" / ("2" * 28 + ".val")
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"b" * 30_000)


# -- gc ----------------------------------------------------------------------------------------


def test_a_dry_run_counts_and_changes_nothing(folder: Path) -> None:
    """By default nothing is removed."""
    unneeded(folder)
    before = tree(folder.parent)

    found = dnb.gc("r", store=folder.parent)

    assert (found.artifacts, found.size, found.removed) == (2, 100_000, False)
    assert tree(folder.parent) == before


def test_what_no_record_names_is_removed_and_the_rest_stays(folder: Path) -> None:
    """The recorded value is there afterwards, and nothing is left to remove."""
    unneeded(folder)

    assert dnb.gc("r", delete=True, store=folder.parent).removed

    assert dnb.verify("r", store=folder.parent).findings == ()
    assert dnb.gc("r", store=folder.parent).artifacts == 0
    assert artifact(folder).stat().st_size == 100_000
    assert sum(1 for p in folder.rglob("*.val")) == 1


def test_what_only_history_names_stays(folder: Path) -> None:
    """An artifact of an invalidated result, or inside of a carried text, is still evidence."""
    with dnb.run("h", store=folder.parent) as run:
        run.step("big", effect="none").call(lambda: "y" * 90_000)
        run.step("parts", effect="none").call(lambda: [b"z" * 80_000, "w" * 70_000])
        run.invalidate("big", reason="wrong")
        run.invalidate("parts", reason="wrong")

    assert dnb.gc("h", delete=True, store=folder.parent).artifacts == 0
    assert dnb.verify("h", store=folder.parent).checked["artifacts"] >= 3
    assert dnb.verify("h", store=folder.parent).ok


def test_a_held_run_is_not_cleared(own: Path) -> None:
    """Its owner may have stored what it records in a moment."""
    with dnb.run("r", store=own.parent):
        disk = values.DiskArtifacts(own / "artifacts")
        sha256 = disk.put(b"soon recorded")
        with pytest.raises(dnb.RunHeld):
            dnb.gc("r", delete=True, store=own.parent)
        assert disk.get(sha256) == b"soon recorded"
        disk.close()


def test_a_run_with_lost_records_is_not_cleared(folder: Path) -> None:
    """What the lost records named looks unneeded, and a backup may bring them back."""
    wal = folder / "journal.duckdb.wal"
    kept = wal.read_bytes()
    wal.unlink()
    with pytest.raises(dnb.RunDamaged, match=LOST):
        dnb.gc("r", delete=True, store=folder.parent)
    dnb.recover("r", store=folder.parent)
    with pytest.raises(dnb.RunDamaged, match="nobody accepted yet"):
        dnb.gc("r", delete=True, store=folder.parent)
    assert artifact(folder).exists()
    assert kept


def test_a_run_without_artifacts_has_nothing_to_clear(tmp_path: Path) -> None:
    """And gets no folder for them."""
    dnb.run("n", store=tmp_path).close()
    assert dnb.gc("n", delete=True, store=tmp_path).artifacts == 0
    assert not (tmp_path / "n" / "artifacts").exists()


# -- recover -----------------------------------------------------------------------------------


def test_a_healthy_run_is_left_as_it_is(folder: Path) -> None:
    """Nothing is damaged, so nothing is changed, and no doubt is made."""
    before = tree(folder.parent)

    found = dnb.recover("r", store=folder.parent)

    assert not found.changed
    assert "nothing is damaged; nothing was changed" in str(found)
    assert tree(folder.parent) == before


def test_a_torn_journal_gets_its_committed_part_back(own: Path) -> None:
    """The damaged whole is set aside; what was lost makes a doubt, and names what is unknown."""
    kept = stored(own)[:-2]  # all but the last commit: the charge's intent, and its facets
    wal = own / "journal.duckdb.wal"
    data = wal.read_bytes()[:-40] + bytes(40)
    wal.write_bytes(data)

    found = dnb.recover("r", store=own.parent)

    assert found.changed
    assert found.records == len(kept) == KILLED_RECORDS.index(("big#1", "completed")) + 1
    assert found.aside is not None
    assert (found.aside / wal.name).read_bytes() == data
    assert f"{LOST}, and {len(kept)} are in the journal" in found.doubt
    assert stored(own)[: len(kept)] == kept
    assert "counts as unknown" in str(found)
    assert dnb.verify("r", store=own.parent).ok
    with dnb.run("r", store=own.parent) as run:
        assert run.get("plan").result == {"order": (1, 2)}
        with pytest.raises(dnb.UnknownOutcome):
            run.step("charge").call(print)


def test_lost_records_make_a_doubt_on_purpose(folder: Path) -> None:
    """A write-ahead file that is gone: the rest stands, and the loss is on record."""
    (folder / "journal.duckdb.wal").unlink()

    found = dnb.recover("r", store=folder.parent)

    assert found.changed
    assert LOST in found.doubt
    second = dnb.recover("r", store=folder.parent)
    assert not second.changed
    assert second.doubt, "it stays in doubt until a person accepts"


def test_a_missing_head_is_written_anew_and_leaves_a_doubt(folder: Path) -> None:
    """Nothing proves that the records are all, so the run is in doubt until a person accepts."""
    (folder / "head").unlink()

    found = dnb.recover("r", store=folder.parent)

    assert found.changed
    assert "the head file is missing" in found.doubt
    assert [view.id for view in found.unknown] == ["charge#1"]
    assert dnb.verify("r", store=folder.parent).ok


def test_what_cannot_be_brought_back_is_an_error_and_kept(folder: Path) -> None:
    """A database that is none: everything is left where it is."""
    (folder / "journal.duckdb").write_text("garbage")
    before = tree(folder)
    with pytest.raises(dnb.JournalDamaged, match="Bring the run's folder back"):
        dnb.recover("r", store=folder.parent)
    assert tree(folder) == before


def test_a_lost_artifact_is_told_and_not_mended(folder: Path) -> None:
    """Nothing but a copy brings it back, so it is named as left."""
    artifact(folder).unlink()
    found = dnb.recover("r", store=folder.parent)
    assert not found.changed
    assert [f.kind for f in found.left] == ["artifact"]
    assert "big#1" in str(found)


def test_a_held_run_is_not_recovered(own: Path) -> None:
    """Its owner has opened it, which did the same."""
    with dnb.run("r", store=own.parent), pytest.raises(dnb.RunHeld, match=str(os.getpid())):
        dnb.recover("r", store=own.parent)
