"""Spending: what the attempts on record have cost, kept as an exact running total.

Amounts are whole numbers of a small unit, so that what is added can be taken off again without a
trace, and ten times $0.10 reach a budget of $1.00. Named tuples, and no dataclasses: one is made
for each record that is loaded, and that takes a fifth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Final, NamedTuple

from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Record

#: Units in a US dollar, and in a second.
_PER_USD: Final = 10**12
_PER_S: Final = 10**6

#: Kinds that end an attempt, so that its duration and cost are in their body.
ENDS: Final = frozenset(
    {Kind.COMPLETED, Kind.RAISED, Kind.NOT_APPLIED, Kind.INTERRUPTED, Kind.UNRECORDED}
)


def amount_of(what: str, given: Any, *, zero: bool) -> float:
    """Take an amount as a person gives it.

    Parameters
    ----------
    what : str
        Its name, for the error.
    given
        A number.
    zero : bool
        Whether it may be 0: a cost may, a limit may not.

    Raises
    ------
    TypeError, ValueError
        It is no number, or below 0, or has no end.
    """
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"{what}={given!r}: it is a number")
    number = int(given) if isinstance(given, Integral) else float(given)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{what}={given!r}: it is a number {'from' if zero else 'above'} 0")
    return number


def _units(amount: float | None, per: int = 1) -> int:
    """Give an amount as whole units; `None` adds nothing."""
    if amount is None:
        return 0
    if not math.isfinite(amount):
        raise ValueError(f"{amount} is no amount")
    return round(amount * per)


#: Bound once: to look a member of an enum up takes as long as to compare it three times.
_INTENDED, _RESERVED, _NOT_APPLIED = Kind.INTENDED, Kind.RESERVED, Kind.NOT_APPLIED
#: Neither dollars nor tokens.
_NONE: Final = (0, 0)


class Bill(NamedTuple):
    """What the attempts of one operation have cost.

    Attributes
    ----------
    usd, tokens : int or None
        What they said that they spent, dollars in units of 1e-12; `None` if none said anything.
    calls : int
        Attempts that were begun.
    busy : int
        Microseconds that they took, as far as they ended on record.
    under_way : bool
        Whether the last attempt has no end on record: it goes on, or its kernel is gone.
    lost : int
        Earlier attempts without an end on record.
    reserved : tuple of int
        Dollars and tokens that the attempt under way has reserved.
    estimated : tuple of int
        The same of earlier attempts that never said what they cost.
    """

    usd: int | None = None
    tokens: int | None = None
    calls: int = 0
    busy: int = 0
    under_way: bool = False
    lost: int = 0
    reserved: tuple[int, int] = _NONE
    estimated: tuple[int, int] = _NONE

    def after(self, record: Record) -> Bill:
        """Give the bill after one more record of the operation."""
        body, kind = record.body, record.kind
        if body.get("wait"):
            return self  # somebody else decides it: nothing was called
        if kind is _INTENDED:
            return Bill(
                self.usd,
                self.tokens,
                self.calls + 1,
                self.busy,
                True,
                self.lost + self.under_way,
                _NONE,
                _sum(self.estimated, self.reserved),
            )
        if kind is _RESERVED and self.under_way:
            more = _units(body.get("usd"), _PER_USD), _units(body.get("tokens"))
            return self._replace(reserved=_sum(self.reserved, more))
        if kind in ENDS:
            return self._ended(record)
        return self

    def _ended(self, record: Record) -> Bill:
        """Take what the attempt said in place of what it had reserved.

        What is proven not to have happened has cost nothing beyond what it said.
        """
        usd, tokens = record.body.get("usd"), record.body.get("tokens")
        nothing = record.kind is _NOT_APPLIED
        left = (
            0 if nothing or usd is not None else self.reserved[0],
            0 if nothing or tokens is not None else self.reserved[1],
        )
        return Bill(
            self.usd if usd is None else (self.usd or 0) + _units(usd, _PER_USD),
            self.tokens if tokens is None else (self.tokens or 0) + _units(tokens),
            self.calls,
            self.busy + _units(record.body.get("duration_s"), _PER_S),
            False,
            self.lost,
            _NONE,
            _sum(self.estimated, left),
        )

    def share(self, *, container: bool) -> Totals:
        """Give its part of the totals; a container's calls and seconds are its children's."""
        if self is NO_BILL:
            return NOTHING_SPENT
        usd = self.estimated[0] + self.reserved[0]
        tokens = self.estimated[1] + self.reserved[1]
        own = (0, 0, 0) if container else (self.calls, self.busy, self.under_way + self.lost)
        return Totals(
            (self.usd or 0) + usd,
            int(self.usd is not None or usd > 0),
            (self.tokens or 0) + tokens,
            int(self.tokens is not None or tokens > 0),
            own[0],
            own[1],
            own[2] + (usd > 0 or tokens > 0),
        )


#: Of an operation that has not begun.
NO_BILL: Final = Bill()


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    if other == _NONE:
        return one
    return one[0] + other[0], one[1] + other[1]


class Totals(NamedTuple):
    """What a run has spent, reservations included.

    Attributes
    ----------
    usd, tokens : int
        Dollars in units of 1e-12, and tokens.
    priced, counted : int
        Operations that said, or reserved, any dollars, or any tokens.
    calls : int
        Attempts of operations that have no children on record.
    busy : int
        Microseconds that those took.
    vague : int
        How often something is not known exactly, so that these are "at least".
    """

    usd: int = 0
    priced: int = 0
    tokens: int = 0
    counted: int = 0
    calls: int = 0
    busy: int = 0
    vague: int = 0

    def billed(self, old: Bill, new: Bill, *, container: bool) -> Totals:
        """Put the new bill of an operation in place of the old one."""
        usd, tokens, calls, busy, under_way, lost, reserved, estimated = new
        said = usd is old.usd and tokens is old.tokens
        if not said or reserved is not old.reserved or estimated is not old.estimated:
            return self.moved(old.share(container=container), new.share(container=container))
        if container:
            return self
        return Totals(
            self.usd,
            self.priced,
            self.tokens,
            self.counted,
            self.calls + calls - old.calls,
            self.busy + busy - old.busy,
            self.vague + under_way + lost - old.under_way - old.lost,
        )

    def moved(self, old: Totals, new: Totals) -> Totals:
        """Put one share in place of another."""
        return Totals(
            self.usd - old.usd + new.usd,
            self.priced - old.priced + new.priced,
            self.tokens - old.tokens + new.tokens,
            self.counted - old.counted + new.counted,
            self.calls - old.calls + new.calls,
            self.busy - old.busy + new.busy,
            self.vague - old.vague + new.vague,
        )

    def reaches(self, name: str, limit: float) -> bool:
        """Tell whether a limit on ``usd``, ``tokens``, ``calls`` or ``seconds`` is used up."""
        if name == "usd":
            return self.usd >= _units(limit, _PER_USD)
        if name == "seconds":
            return self.busy >= _units(limit, _PER_S)
        return bool((self.tokens if name == "tokens" else self.calls) >= limit)

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """Give ``usd, tokens, calls, seconds, at_least``; what nobody said is `None`, not zero."""
        return {
            "usd": self.usd / _PER_USD if self.priced else None,
            "tokens": self.tokens if self.counted else None,
            "calls": self.calls,
            "seconds": self.busy / _PER_S,
            "at_least": self.vague > 0,
        }


#: Of a run that has not begun anything.
NOTHING_SPENT: Final = Totals()


def total_of(bills: Iterable[tuple[Bill, bool]]) -> Totals:
    """Add up the shares of many bills, each with whether it is a container's."""
    plain, busy, vague, total = 0, 0, 0, NOTHING_SPENT
    for bill, container in bills:
        if bill.usd is bill.tokens is None and bill.estimated is bill.reserved is _NONE:
            if not container:  # in one go: most have said nothing beyond how long they took
                plain += bill.calls
                busy += bill.busy
                vague += bill.under_way + bill.lost
        else:
            total = total.moved(NOTHING_SPENT, bill.share(container=container))
    return total.moved(NOTHING_SPENT, Totals(calls=plain, busy=busy, vague=vague))
