"""Pins: what a loop has retired, in a few numbers that stand for it.

A loop is ``parent/name[key]``; its stretches are ``parent/name[key]#1``, ``#2`` and so on, one
from each pin to the next. A pin retires what is below its stretch, and the stretches before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from durable_nb.model.outcomes import Effect, Outcome
from durable_nb.model.records import Record
from durable_nb.model.spending import NOTHING_SPENT, Totals

#: Operations by outcome and effect.
Counts = Mapping[tuple[Outcome, Effect], int]


def stretch_of(op: str) -> tuple[str, int]:
    """Give the loop and the number of a stretch; `ValueError` if it is none."""
    loop, hash_, number = op.rpartition("#")
    if not hash_ or not loop or int(number) < 1:
        raise ValueError(f"{op!r} is no stretch of a loop")
    return loop, int(number)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a loop has retired so far, as its last pin says it.

    Attributes
    ----------
    stretch : int
        The stretch that the pin completed.
    seq : int
        The record of the pin: whatever began before it may have been retired.
    totals : Totals
        What the retired operations have cost.
    counts : Mapping
        How many they are, by outcome and effect.
    unpriced : int
        Attempts of theirs whose cost is not known.
    """

    stretch: int
    seq: int
    totals: Totals
    counts: Counts
    unpriced: int = 0

    @classmethod
    def of(cls, record: Record) -> Carried:
        """Read it from the record of a pin."""
        body = record.body["carried"]
        counts = {
            (Outcome(outcome), Effect(effect)): int(n)
            for outcome, by in body["counts"].items()
            for effect, n in by.items()
        }
        totals = Totals(*map(int, body["totals"]))
        return cls(stretch_of(record.op)[1], record.seq, totals, counts, int(body["unpriced"]))

    def body(self) -> dict[str, Any]:
        """Give what the record of a pin says of it."""
        counts: dict[str, dict[str, int]] = {}
        for (outcome, effect), n in sorted(self.counts.items()):
            counts.setdefault(str(outcome), {})[str(effect)] = n
        return {"totals": list(self.totals), "counts": counts, "unpriced": self.unpriced}

    @property
    def operations(self) -> int:
        """How many operations it stands for."""
        return sum(self.counts.values())

    def count(self, *outcomes: Outcome, but: Effect | None = None) -> int:
        """Count those of some outcomes, without those of one effect."""
        return sum(n for (o, e), n in self.counts.items() if o in outcomes and e is not but)


def add_counts(several: Iterable[Counts]) -> dict[tuple[Outcome, Effect], int]:
    """Add counts up."""
    total: dict[tuple[Outcome, Effect], int] = {}
    for counts in several:
        for what, n in counts.items():
            total[what] = total.get(what, 0) + n
    return total


def add_totals(several: Iterable[Totals]) -> Totals:
    """Add what was spent."""
    total = NOTHING_SPENT
    for one in several:
        total = total.moved(NOTHING_SPENT, one)
    return total


class UpTo(NamedTuple):
    """How far the pins of a loop have come, where that is all that is known of it."""

    stretch: int


class Pinned(Protocol):
    """What tells how far the pins of a loop have come."""

    @property
    def stretch(self) -> int:
        """The stretch that the last of them completed."""
        ...


def is_retired(op: str, carried: Mapping[str, Pinned]) -> bool:
    """Tell whether a pin has retired an operation, or would have if it had been there."""
    if not carried:
        return False
    end = op.find("/")
    while True:
        whole = end < 0
        loop, _, number = (op if whole else op[:end]).rpartition("#")
        found = carried.get(loop)
        if found is not None:
            stretch = int(number)
            if stretch < found.stretch or (stretch == found.stretch and not whole):
                return True
        if whole:
            return False
        end = op.find("/", end + 1)
