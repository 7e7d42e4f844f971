"""A run that is found in another folder than it was executed in: a copy, or it was moved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import durable_nb as dnb
from durable_nb.journal import Head, HeadState
from durable_nb.model.adoption import is_elsewhere


def one() -> int:
    return 1


def fail() -> None:
    raise TimeoutError("no answer")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A store that was copied when a step of its run was completed, and one unknown."""
    with dnb.run("job", store=tmp_path / "old") as run:
        run.step("plan", effect="none").call(one)
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(fail)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    return tmp_path / "new"


def keys(run: Any) -> dict[str, str]:
    return {view.name: view.idempotency_key for view in run.status_view().views}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["moved", "abandoned", "fork"])
def test_a_copy_executes_nothing_before_a_person_has_said_what_it_is(copy, how):
    """It is refused with the three choices, records nothing, and can be looked at; then it goes on."""
    seen = dnb.watch("job", store=copy)
    with pytest.raises(dnb.RunCopied) as refused:
        dnb.run("job", store=copy)
    for line in ('adopt="moved")', 'adopt="abandoned")', 'adopt="fork")'):
        assert line in str(refused.value)
    before = len(seen.history())
    assert any("moved, abandoned or fork" in what for what, _ in seen.status_view().open)
    assert seen.status_view().copied

    with dnb.run("job", store=copy, adopt=how) as run:
        run.deny("pay")
        assert run.step("plan", effect="none").call(one) == 1
        assert run.sources == {"plan#1": "record"}, "what is on record stays"
    with dnb.run("job", store=copy) as run:  # it asks once
        assert not run.status_view().copied
        kinds = list(run.history().kind)
    assert kinds[before] == "adopted"
    with dnb.run("job", store=copy.parent / "old") as run:
        assert "adopted" not in list(run.history().kind), "the original is as it was"


@pytest.mark.slow
def test_a_fork_has_new_keys_for_what_begins_in_it_and_keeps_those_that_were_sent(copy):
    """What was begun before the copy may be under way under its key, so that key stays."""
    with dnb.run("job", store=copy.parent / "old") as run:
        old_id, sent = run.id, keys(run)
        run.deny("pay")
        run.step("pay").call(lambda: 1)
        run.step("new").call(lambda: 1)
        old_new = keys(run)["new"]
    with dnb.run("job", store=copy, adopt="fork") as run:
        assert run.id != old_id
        run.deny("pay")
        run.step("pay").call(lambda: 1)
        run.step("new").call(lambda: 1)
        assert keys(run)["pay"] == sent["pay"]
        assert keys(run)["new"] != old_new
        run.invalidate("pay", "wrong", effect="stands")
        run.step("pay").call(lambda: 2)
        assert keys(run)["pay"] != sent["pay"]
        forked = run.id
    with dnb.run("job", store=copy) as run:
        assert run.id == forked


def test_the_same_run_keeps_its_keys_wherever_it_was_moved(copy):
    """Moved or abandoned elsewhere, it is the same run: the provider knows it again."""
    with dnb.run("job", store=copy.parent / "old") as run:
        old_id = run.id
    with dnb.run("job", store=copy, adopt="moved") as run:
        assert run.id == old_id


@pytest.mark.slow
def test_an_operator_settles_a_copy_and_adopts_it_once(copy):
    """A verdict is about the copy alone; what is where it was cannot be adopted."""
    seen = dnb.watch("job", store=copy)
    seen.deny("pay", evidence="x")
    told = seen.ask("adopt", "", {"how": "abandoned", "reason": "the laptop is gone"})
    assert told["verdict"] == "adopted"
    assert not seen.status_view().copied
    with pytest.raises(dnb.VerdictRefused, match="in the folder that it was executed in"):
        seen.ask("adopt", "", {"how": "moved"})
    with pytest.raises(ValueError, match="lost"):
        dnb.run("job", store=copy, adopt="lost")
    with dnb.run("job", store=copy) as run:
        assert "the laptop is gone" in str(list(run.history().detail))


def test_renaming_the_store_asks_nothing(tmp_path):
    """On one disk a moved folder is the same folder."""
    with dnb.run("job", store=tmp_path / "a"):
        pass
    (tmp_path / "a").rename(tmp_path / "b")
    with dnb.run("job", store=tmp_path / "b") as run:
        assert len(run.fold.openings) == 2


def test_a_device_that_got_another_number_is_no_other_folder():
    """Some file systems number their device anew at each mount; a copy has an inode of its own."""
    assert not is_elsewhere([1, 5], [2, 5])
    assert is_elsewhere([1, 5], [1, 6])
    assert not is_elsewhere(None, [1, 6])


def test_the_run_id_and_with_it_the_keys_outlive_the_loss_of_every_record(tmp_path):
    """The head keeps it, so that a provider still knows an effect that is done again."""
    with dnb.run("job", store=tmp_path) as run:
        run_id, folder = run.id, run.folder
    with dnb.run("job", store=tmp_path) as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(fail)
        key = keys(run)["pay"]
    for file in folder.glob("journal.duckdb*"):
        file.unlink()
    with dnb.run("job", store=tmp_path) as run:
        assert run.fold.doubted
        assert run.id == run_id
        run.accept("looked")
        run.step("pay").call(lambda: 1)
        assert keys(run)["pay"] == key


@pytest.mark.parametrize("odd", ["", "no digits", "ab" * 40])
def test_a_run_id_that_is_none_of_ours_is_not_kept_in_the_head(tmp_path, odd):
    """A journal from elsewhere may say anything; the head is written after each record."""
    head = Head(tmp_path / "head")
    head.run_id = odd
    head.write(HeadState(1, bytes(16)))
    head.close()
    again = Head(tmp_path / "head")
    assert (again.read(), again.run_id) == (HeadState(1, bytes(16)), "")
    again.close()


def test_a_head_without_a_run_id_is_still_read(tmp_path):
    """Heads written before the run id was kept are as good a proof as ever."""
    old = bytes.fromhex(OLD_HEAD)
    (tmp_path / "head").write_bytes(old.ljust(1024, b"\0"))
    head = Head(tmp_path / "head")
    found = head.read()
    assert found is not None
    assert (found.seq, found.digest, head.run_id) == (7, b"0123456789abcdef", "")
    head.close()


#: One slot in the first form: magic, counter 1, seq 7, digest, checksum.
OLD_HEAD = (
    "646e626865616431010000000000000007000000000000003031323334353637"
    "3839616263646566ff5c4a83be6c0e6b118a83c17f00bb64"
)
