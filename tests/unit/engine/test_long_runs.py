"""A long run is opened without a state for each operation; what is asked of it is the same."""

import shutil

import pytest

import durable_nb as dnb
from durable_nb.engine.context import OPEN
from durable_nb.engine.published import published
from durable_nb.journal import Head, Lease, OwnerInfo, open_journal
from durable_nb.journal.loading import FEW
from durable_nb.model.errors import JournalDamaged, RunHeld
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

#: With two records each, more than an opening folds at once.
MANY = FEW // 2 + 500


@dnb.step(effect="none")
def act(n):
    """Give something of its own."""
    return {"n": n}


def fill(store):
    """Make a run of one call, and write the records of many more like it."""
    with dnb.open_run("r", store=store) as run:
        act(0)
        run.make_durable()
        intent, result = (r.body for r in run.committed() if r.op)
        drafts = []
        for n in range(1, MANY):
            op = f"act#{n + 1}"
            said = {"inputs": run.digests({"n": n}, op), "shown": {"n": str(n)}}
            drafts.append(Draft(op, Kind.INTENDED, {**intent, **said}))
            drafts.append(Draft(op, Kind.COMPLETED, {**result, "result": f'{{"n":{n}}}'}))
    journal = open_journal(run.folder / "journal.duckdb", run="r", head=Head(run.folder / "head"))
    journal.append(drafts)
    journal.close()


def unfolded(run):
    return len(list(run.fold.operations.unfolded()))


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A store with a closed run of many operations; what a test records is there for the next."""
    store = tmp_path_factory.mktemp("long")
    fill(store)
    dnb.open_run("r", store=store).close()
    return store


@pytest.fixture
def run(long_run):
    """The run, resumed."""
    found = dnb.open_run("r", store=long_run)
    assert unfolded(found) >= MANY - 1
    yield found
    if found.is_open:
        found.close()


@pytest.mark.slow
def test_a_long_run_is_opened_without_its_states_and_they_are_the_same(run):
    """What is folded on first use is what all records prove, and the numbers are theirs."""
    known = unfolded(run)
    whole = Fold.whole(run.committed())

    assert run.fold.spending == whole.spending
    assert run.fold.last_seq == whole.last_seq
    assert run.status_view().counts["completed"] == MANY
    assert run.states() == whole.ordered()
    assert unfolded(run) == known  # they are not kept


def test_a_long_run_replays_in_any_order(run):
    """A record is found from wherever the program comes to it, and nothing is run again."""
    assert [act(n) for n in range(MANY)] == [{"n": n} for n in range(MANY)]
    assert run.get("act#3").source == "record"
    assert run.get(MANY).id == f"act#{MANY}"
    run.publisher.publish()
    assert {v.source for v in published(run.place).views} == {"record"}


def test_a_long_run_is_seen_by_others_as_by_its_owner(run):
    """The mirror goes on from the segments that are there, and is made anew where there is none."""
    run.publisher.publish()
    assert published(run.place).counts == run.status_view().counts
    run.close()

    for file in run.folder.glob("operations*.parquet"):
        file.unlink()
    with dnb.open_run("r", store=run.folder.parent) as again:
        again.publisher.publish()
        there, here = published(again.place), again.status_view()
        assert [v.as_dict() for v in there.views] == [v.as_dict() for v in here.views]


def test_a_closed_long_run_can_still_be_asked(run):
    """States that were not folded are read again, also while this process has the run anew."""
    expected = run.get("act#7").as_dict()
    run.close()
    assert run.get("act#7").as_dict() == expected
    assert run.get("act#2000").as_dict()["outcome"] == "completed"  # a page that was not read yet

    with dnb.open_run("r", store=run.folder.parent) as again:
        assert OPEN.at(run.place) is again
        assert len(run.states()) == MANY


@pytest.mark.slow
def test_a_closed_long_run_is_not_read_behind_the_back_of_who_has_it(run):
    """Who holds the run now is named, and so is a file that is not there any more."""
    run.close()
    lease = Lease.acquire(run.folder, run="r", who=OwnerInfo.here(role="runner"))
    try:
        with pytest.raises(RunHeld, match="held"):
            run.states()
    finally:
        lease.release()

    aside = run.folder.with_name("aside")
    shutil.move(run.folder, aside)
    with pytest.raises(JournalDamaged, match="not at"):
        run.states()
    shutil.copytree(aside, run.folder)  # another run may be there by now
    with pytest.raises(JournalDamaged, match="not at"):
        run.states()
    shutil.rmtree(run.folder)
    shutil.move(aside, run.folder)
    assert len(run.states()) == MANY


def test_a_verdict_on_an_operation_that_was_not_folded_is_kept(run):
    """It is folded for that, and the next opening has it folded."""
    run.invalidate("act#5", "wrong", effect="stands")
    run.close()

    with dnb.open_run("r", store=run.folder.parent) as again:
        assert unfolded(again) == MANY - 1
        assert again.get("act#5").outcome == "incomplete"
        assert again.states() == Fold.whole(again.committed()).ordered()
