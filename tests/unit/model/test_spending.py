"""The running total of what a run has spent agrees with adding everything up from scratch."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Record
from durable_nb.model.spending import ENDS, amount_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
OPS = ["a#1", "b#1", "a#1/c#1", "a#1/c#1/d#1", "e#1/f#1", "a#1/g#1"]
SPOKEN = [
    Kind.INTENDED, Kind.RESERVED, Kind.COMPLETED, Kind.RAISED, Kind.NOT_APPLIED, Kind.INTERRUPTED,
    Kind.UNRECORDED, Kind.CONFIRMED, Kind.DENIED, Kind.INVALIDATED, Kind.RERUN,
]  # fmt: skip

rows = st.lists(
    st.tuples(
        st.sampled_from(OPS),
        st.sampled_from(SPOKEN),
        st.none() | st.sampled_from([0, 0.1, 0.01, 2.5, 1e-9]),
        st.none() | st.integers(0, 5000),
        st.integers(0, 3_000_000),
    ),
    max_size=40,
)


def records(given_rows):
    found, attempts = [], dict.fromkeys(OPS, 0)
    for seq, (op, kind, usd, tokens, micros) in enumerate(given_rows, 1):
        attempts[op] += kind is Kind.INTENDED
        body = {"attempt": attempts[op], "effect": "external", "duration_s": micros / 10**6}
        body |= {"usd": usd} if usd is not None else {}
        body |= {"tokens": tokens} if tokens is not None else {}
        found.append(Record(seq, op, kind, AT, 1, body))
    return found


def from_scratch(found):
    """Add up attempt by attempt: the sum of all that each said, or else of what it reserved."""
    seen = {r.op for r in found}
    total = {"usd": 0.0, "tokens": 0, "calls": 0, "seconds": 0.0}
    said, vague = {"usd": False, "tokens": False}, False
    for op in seen:
        leaf = not any(other.startswith(op + "/") for other in seen)
        mine = [r for r in found if r.op == op]
        starts = [i for i, r in enumerate(mine) if r.kind is Kind.INTENDED]
        spans = [mine[: starts[0]] if starts else mine]
        spans += [mine[i:j] for i, j in pairwise([*starts, len(mine)])]
        for span in spans:
            begun = bool(span) and span[0].kind is Kind.INTENDED
            ends = [i for i, r in enumerate(span) if r.kind in ENDS]
            first = span[ends[0]] if ends else None
            until = ends[0] if ends else len(span)
            for name in ("usd", "tokens"):
                reserved = sum(
                    r.body.get(name) or 0 for r in span[:until] if begun and r.kind is Kind.RESERVED
                )
                told = [span[i].body[name] for i in ends if span[i].body.get(name) is not None]
                total[name] += sum(told)
                said[name] |= bool(told)
                settled = first is not None and (
                    first.kind is Kind.NOT_APPLIED or first.body.get(name) is not None
                )
                if reserved and not settled:
                    total[name] += reserved
                    said[name] = vague = True
            if leaf:
                total["calls"] += begun
                total["seconds"] += sum(span[i].body["duration_s"] for i in ends)
                vague |= begun and not ends
    return {
        **total,
        **{name: None for name, known in said.items() if not known},
        "at_least": vague,
    }


@pytest.mark.slow
@given(rows)
def test_totals_agree_with_adding_up_from_scratch(given_rows):
    """Whatever the records and their order, and after each of them."""
    found, fold = records(given_rows), Fold()
    for n, record in enumerate(found, 1):
        fold.apply(record)
        if n % 7 == 0 or n == len(found):
            expected = from_scratch(found[:n])
            assert fold.spending.as_dict() == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@given(rows)
def test_what_is_taken_off_again_leaves_no_trace(given_rows):
    """Totals are exact: two orders of the operations give the very same numbers."""
    found = records(given_rows)
    by_op = sorted(found, key=lambda r: r.op)
    assert Fold.of(found).spending == Fold.of(by_op).spending


def test_ten_times_a_tenth_reach_one():
    """Floats added up would stay below the budget by a hair."""
    steps = [("a#1", Kind.INTENDED, None, None, 0), ("a#1", Kind.RAISED, 0.1, None, 0)] * 10
    spending = Fold.of(records(steps)).spending
    assert sum([0.1] * 10) < 1
    assert spending.reaches("usd", 1)
    assert not spending.reaches("usd", 1.000001)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (True, TypeError),
        ("1", TypeError),
        (None, TypeError),
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
    ],
)
def test_what_is_no_amount_is_refused(value, error):
    """It would be in the totals for ever."""
    for zero in (True, False):
        with pytest.raises(error, match="it is a number"):
            amount_of("usd", value, zero=zero)


def test_a_limit_is_above_zero_and_a_cost_may_be_zero():
    """A budget of 0 would refuse the first step."""
    assert amount_of("usd", 0, zero=True) == 0
    with pytest.raises(ValueError, match="above 0"):
        amount_of("usd", 0, zero=False)
