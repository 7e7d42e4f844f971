"""Pace: whether the kernel that holds a run comes on as usual, or takes longer than that.

It is a fact about the owner, like *live*, and no state of the run: it is told from outside, by this
machine's clock and by what the mirrors have on record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

#: An operation is slow once it takes so many times as long as usual,
TIMES: Final = 3.0
#: and so many seconds longer: what is over in no time is not slow after the blink of an eye.
LONGER_S: Final = 10.0


class Pace(StrEnum):
    """How the owner of a run comes on."""

    NONE = ""  #: no kernel holds it, or none of which this machine can tell that it lives
    LIVE = "live"  #: a kernel holds it
    SLOW = "slow"  #: a kernel holds it, and an operation takes longer than usual


def is_slow(elapsed_s: float, usual_s: float | None) -> bool:
    """Tell whether an operation takes longer than usual.

    It is slow once it has taken longer than both three times the median and the median and ten
    seconds. Without a history nothing is usual, so nothing is slow; and nothing is within its first
    ten seconds.

    Parameters
    ----------
    elapsed_s : float
        Seconds since its attempt began.
    usual_s : float or None
        Median of the seconds that operations of its name have taken; `None` where none is known.
    """
    return usual_s is not None and elapsed_s > max(TIMES * usual_s, usual_s + LONGER_S)


@dataclass(frozen=True, slots=True)
class AtWork:
    """An operation that a live kernel is executing.

    Attributes
    ----------
    op : str
        Its identity.
    elapsed_s : float
        Seconds since its attempt began; 0 where the clocks say that it has not begun yet.
    usual_s : float or None
        Median of the seconds that operations of its name have taken; `None` where none is known.
    """

    op: str
    elapsed_s: float
    usual_s: float | None

    @property
    def slow(self) -> bool:
        """Whether it takes longer than usual."""
        return is_slow(self.elapsed_s, self.usual_s)

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        usual = "" if self.usual_s is None else f", usually {span_text(self.usual_s)}"
        return f"{self.op} for {span_text(self.elapsed_s)}{usual}"


def pace_of(at_work: Sequence[AtWork] | None) -> Pace:
    """Tell how an owner comes on.

    Parameters
    ----------
    at_work : sequence of AtWork, or None
        What it executes; `None` if no live owner is known.
    """
    if at_work is None:
        return Pace.NONE
    return Pace.SLOW if any(work.slow for work in at_work) else Pace.LIVE


def span_text(seconds: float) -> str:
    """Show a span of time for a person: `0.3 s`, `12 s`, `5 min 10 s`, `2 h 5 min`."""
    if seconds < 10:
        return "under 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
