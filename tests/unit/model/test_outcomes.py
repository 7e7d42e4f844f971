"""The outcome table, every pair of it, and the fold over it."""

from datetime import UTC, datetime, timedelta

import pytest

from durable_nb.model.fold import Fold, status_of
from durable_nb.model.outcomes import DECISIVE, OUTCOMES, RUN_STATUS, Effect, Kind, Outcome
from durable_nb.model.records import Record
from durable_nb.model.verdicts import VERDICTS, Verdict
from durable_nb.model.waits import FITS, Wait

NOW = datetime(2026, 1, 1, tzinfo=UTC)
C, I, U = Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.UNKNOWN

#: The table of the design, written down a second time by hand: none, idempotent, external.
EXPECTED = {
    None: (I, I, I),
    Kind.INTENDED: (I, I, U),
    Kind.RAISED: (I, I, U),
    Kind.NOT_APPLIED: (I, I, I),
    Kind.INTERRUPTED: (I, I, U),
    Kind.UNRECORDED: (I, I, U),
    Kind.OBSERVED: (C, C, C),
    Kind.COMPLETED: (C, C, C),
    Kind.CONFIRMED: (C, C, C),
    Kind.DENIED: (I, I, I),
    Kind.INVALIDATED: (I, I, I),
    Kind.KEPT: (C, C, C),
    Kind.RERUN: (I, I, I),
    Kind.APPROVED: (C, C, C),
    Kind.REJECTED: (C, C, C),
    Kind.SIGNALLED: (C, C, C),
    Kind.DUPLICATE: (C, C, U),
}


def record(seq, kind, op="s#1", effect="external", ts=NOW, epoch=1, **body):
    body = {"effect": effect, "attempt": 1, "generation": 0, **body}
    return Record(seq, op, kind, ts, epoch, body)


@pytest.mark.parametrize("kind", [None, *sorted(DECISIVE)])
@pytest.mark.parametrize(("column", "effect"), list(enumerate(["none", "idempotent", "external"])))
def test_each_effect_and_last_record_has_one_outcome(kind, column, effect):
    """Outcome is a table over effect and last decisive record, and nothing else."""
    assert OUTCOMES[Effect(effect), kind] is EXPECTED[kind][column]


@pytest.mark.parametrize("first", sorted(DECISIVE))
@pytest.mark.parametrize("second", sorted(DECISIVE))
@pytest.mark.parametrize("effect", ["none", "idempotent", "external"])
def test_the_fold_agrees_with_the_table_for_every_pair_of_records(first, second, effect):
    """Whatever came before, the last decisive record decides."""
    fold = Fold.of(
        [
            record(1, Kind.INTENDED, effect=effect),
            record(2, first, effect=effect, result="1"),
            record(3, second, effect=effect, result="2"),
        ]
    )

    assert fold.operations["s#1"].outcome(NOW) is OUTCOMES[Effect(effect), second]


@pytest.mark.parametrize("remark", [Kind.ASKED, Kind.UNDECIDED, Kind.EVIDENCE, Kind.CONTESTED])
def test_a_remark_changes_no_outcome(remark):
    """What a reconciler could not decide, or a second verdict said, is history only."""
    fold = Fold.of([record(1, Kind.INTENDED), record(2, Kind.COMPLETED, result="1")])
    before = fold.operations["s#1"]

    fold.apply(record(3, remark, changes=["code"]))

    after = fold.operations["s#1"]
    assert (after.kind, after.result, after.last_seq) == (before.kind, "1", 3)


def test_an_idempotent_intent_older_than_its_key_is_unknown():
    """Where providers forget keys, a repetition is a second effect."""
    fold = Fold.of([record(1, Kind.INTENDED, effect="idempotent", key_ttl=60.0)])
    state = fold.operations["s#1"]

    assert state.outcome(NOW + timedelta(seconds=59)) is Outcome.INCOMPLETE
    assert state.outcome(NOW + timedelta(seconds=60)) is Outcome.UNKNOWN


def test_costs_add_up_over_attempts_and_an_unfinished_one_is_unpriced():
    """Failed attempts count; an attempt that left nothing behind has a cost nobody knows."""
    fold = Fold.of(
        [
            record(1, Kind.INTENDED, effect="none"),
            record(2, Kind.RAISED, effect="none", usd=0.01, tokens=5),
            record(3, Kind.INTENDED, effect="none"),
            record(4, Kind.INTENDED, effect="none"),
            record(5, Kind.COMPLETED, effect="none", usd=0.02, result="1"),
        ]
    )
    state = fold.operations["s#1"]

    assert state.usd == pytest.approx(0.03)
    assert (state.tokens, state.unpriced) == (5, 1)


def test_every_verdict_has_a_row_for_every_outcome():
    """The verdict table has no gaps."""
    assert set(VERDICTS) == {(v, o) for v in Verdict for o in Outcome}


#: Which verdict fits which kind of operation, written down a second time by hand.
FITTING = {
    None: {"confirm", "deny", "invalidate", "keep", "rerun"},
    Wait.APPROVAL: {"approve", "reject", "invalidate"},
    Wait.SIGNAL: {"signal", "invalidate"},
    Wait.TIMER: {"invalidate"},
}


@pytest.mark.parametrize("wait", [None, *Wait])
def test_each_kind_of_operation_takes_its_own_verdicts(wait):
    """A step is confirmed or denied, an approval approved or rejected, a signal sent."""
    assert {str(v) for v in Verdict if not FITS[v, wait]} == FITTING[wait]
    assert all(why.endswith(".") for why in FITS.values() if why)


def test_a_wait_is_no_call_and_costs_nothing():
    """Nothing is called by it, and asking it anew makes no total vague."""
    wait = {"op": "approval[a]#1", "effect": "none", "wait": "approval"}
    fold = Fold.of([record(1, Kind.INTENDED, **wait), record(2, Kind.INTENDED, **wait)])

    assert fold.spending.calls == 0
    assert not fold.spending.as_dict()["at_least"]
    assert fold.operations["approval[a]#1"].unpriced == 0


def test_a_signal_is_held_until_a_wait_takes_it():
    """The record of the wait that takes it clears it, in one."""
    held = Record(1, "", Kind.SIGNALLED, NOW, 1, {"name": "paid", "result": "1", "actor": "ada"})
    fold = Fold.of([held])
    assert list(fold.held) == ["paid"]

    fold.apply(record(2, Kind.INTENDED, op="wait_for[paid]#1", effect="none", wait="wait_for"))
    body = {"op": "wait_for[paid]#1", "name": "paid", "result": "1", "held": True}
    fold.apply(record(3, Kind.SIGNALLED, **body))

    assert not fold.held
    assert fold.operations["wait_for[paid]#1"].outcome(NOW) is C


def test_a_crashed_run_is_told_from_an_open_one_by_its_lease():
    """The same records mean open while the lease is held, and crashed when it is free."""
    fold = Fold.of(
        [
            Record(1, "", Kind.BORN, NOW, 1, {"run_id": "r"}),
            Record(2, "", Kind.OPENED, NOW, 1, {"role": "runner"}),
        ]
    )

    assert status_of(fold, True, 0) == "open"
    assert status_of(fold, False, 0) == "crashed"
    fold.apply(Record(3, "", Kind.CLOSED, NOW, 1, {"role": "runner"}))
    assert status_of(fold, False, 0) == "closed"
    assert status_of(fold, False, 1) == "waiting"
    assert set(RUN_STATUS.values()) >= {"new", "open", "crashed", "closed", "failed"}


def test_an_operator_who_looks_in_does_not_make_a_crashed_run_closed():
    """Only executing owners move the run's status."""
    fold = Fold.of(
        [
            Record(1, "", Kind.BORN, NOW, 1, {"run_id": "r"}),
            Record(2, "", Kind.OPENED, NOW, 1, {"role": "runner"}),
            Record(3, "", Kind.OPENED, NOW, 2, {"role": "operator"}),
            Record(4, "", Kind.CLOSED, NOW, 2, {"role": "operator"}),
        ]
    )

    assert status_of(fold, False, 0) == "crashed"
    assert fold.previous(3).closed is False


def test_rows_are_the_same_in_whatever_order_two_threads_fold_their_records():
    """The number that `show` prints is by first record, here and in the next kernel."""
    a, b = record(1, Kind.INTENDED, op="a#1"), record(2, Kind.INTENDED, op="b#1")
    for order in ([a, b], [b, a]):
        fold = Fold.of(order)
        assert [s.id for s in fold.ordered()] == ["a#1", "b#1"]
        assert [fold.row_of(s) for s in fold.ordered()] == [1, 2]
