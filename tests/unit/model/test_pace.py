"""Pace: when an operation takes longer than usual, and what its run's owner is called then."""

from __future__ import annotations

import pytest

from durable_nb.model.pace import AtWork, Pace, is_slow, pace_of, span_text


@pytest.mark.parametrize(
    ("elapsed", "usual", "slow"),
    [
        (1e9, None, False),  # nothing is usual without a history
        (10.0, 0.0, False),  # nothing is slow in its first ten seconds
        (10.1, 0.0, True),
        (14.9, 5.0, False),  # ten seconds longer, for what is quick
        (15.1, 5.0, True),
        (299.0, 100.0, False),  # three times as long, for what is not
        (301.0, 100.0, True),
    ],
)
def test_slow_is_longer_than_three_medians_and_than_ten_seconds_more(
    elapsed: float, usual: float | None, slow: bool
) -> None:
    """Both have to be exceeded, so neither a blink nor a long habit is slow."""
    assert is_slow(elapsed, usual) is slow
    assert AtWork("a#1", elapsed, usual).slow is slow


def test_a_run_is_as_slow_as_the_slowest_that_is_at_work_in_it() -> None:
    """No owner has no pace; an owner with nothing at work is live."""
    fast, slow = AtWork("a#1", 1.0, 1.0), AtWork("b#1", 60.0, 1.0)
    assert pace_of(None) is Pace.NONE == ""
    assert pace_of(()) is Pace.LIVE == "live"
    assert pace_of((fast,)) is Pace.LIVE
    assert pace_of((fast, slow)) is Pace.SLOW == "slow"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "under 0.1 s"),
        (0.25, "0.2 s"),
        (12.2, "12 s"),
        (59.7, "1 min 0 s"),
        (310.0, "5 min 10 s"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_a_span_is_shown_in_units_of_a_person(seconds: float, text: str) -> None:
    """Two units at most."""
    assert span_text(seconds) == text


def test_what_is_at_work_is_told_in_a_line() -> None:
    """With what is usual, where that is known."""
    assert str(AtWork("charge[o-1]#1", 310.0, 12.0)) == "charge[o-1]#1 for 5 min 10 s, usually 12 s"
    assert str(AtWork("charge[o-1]#1", 310.0, None)) == "charge[o-1]#1 for 5 min 10 s"
