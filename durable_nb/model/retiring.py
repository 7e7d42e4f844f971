"""Retiring: what a pin takes out of the fold, and the numbers that stay for it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from durable_nb.model.pins import Carried, add_counts, add_totals, stretch_of
from durable_nb.model.records import Record
from durable_nb.model.spending import Totals

if TYPE_CHECKING:
    from durable_nb.model.fold import Fold
    from durable_nb.model.state import OperationState


def carry(fold: Fold, op: str, now: datetime) -> Carried:
    """Total what a pin of this stretch retires, with what its loop has retired before."""
    loop, stretch = stretch_of(op)
    gone = [fold.operations[one] for one in _gone(fold, op) if one in fold.operations]
    before = [fold.carried[one] for one in _loops(fold, loop)]
    return Carried(
        stretch,
        fold.last_seq + 1,
        add_totals([*(c.totals for c in before), *(_share(fold, s) for s in gone)]),
        add_counts([*(c.counts for c in before), *({(s.outcome(now), s.effect): 1} for s in gone)]),
        sum(c.unpriced for c in before) + sum(s.unpriced for s in gone),
    )


def retire(fold: Fold, record: Record) -> tuple[OperationState, ...]:
    """Take out what a pin has retired, and give it as it was; `fold.spending` stays exact.

    In a fold that was loaded without them, nothing of it is there, and the pin's own numbers are
    all that is known: both ways lead to the same.
    """
    loop, stretch = stretch_of(record.op)
    if stretch > record.seq:
        raise ValueError(f"{record.op!r} was pinned more often than there are records")
    gone = _gone(fold, record.op)
    known = [_share(fold, fold.operations[op]) for op in gone if op in fold.operations]
    known += [fold.carried.pop(one).totals for one in _loops(fold, loop)]
    carried = fold.carried[loop] = Carried.of(record)
    fold.spending = fold.spending.moved(add_totals(known), carried.totals)
    beside = fold.containers.get(record.op.rpartition("/")[0], set())
    dropped = [fold.operations[op] for op in gone if op in fold.operations]
    for op in gone:
        fold.operations.pop(op, None)
        fold.containers.pop(op, None)
        beside.discard(op)
    fold.containers.pop(record.op, None)
    return tuple(dropped)


def _gone(fold: Fold, op: str) -> list[str]:
    """List what a pin of this stretch retires: all below it, and the stretches before it."""
    found: list[str] = []
    for own in _stretches(fold, op):
        if own != op and own in fold.operations:
            found.append(own)
        found.extend(_tree(fold, own))
    return found


def below_of(fold: Fold, op: str) -> list[str]:
    """List the operations on record that are below of an identity."""
    return [one for one in _tree(fold, op) if one in fold.operations]


def _tree(fold: Fold, op: str) -> list[str]:
    found: list[str] = []
    below = list(fold.containers.get(op, ()))
    while below:
        found.append(one := below.pop())
        below.extend(fold.containers.get(one, ()))
    return found


def _stretches(fold: Fold, op: str) -> list[str]:
    """List the stretches up to this one of which something is on record since the last pin."""
    loop, stretch = stretch_of(op)
    last = fold.carried.get(loop)
    first = last.stretch if last else 1
    if stretch - first < len(fold.operations) + len(fold.containers):
        return [f"{loop}#{n}" for n in range(first, stretch + 1)]
    begin = f"{loop}#"  # loaded without what was retired: there are few
    known = {*fold.operations, *fold.containers}
    own = [one for one in known if one.startswith(begin) and "/" not in one[len(begin) :]]
    return [one for one in own if first <= stretch_of(one)[1] <= stretch]


def _loops(fold: Fold, loop: str) -> list[str]:
    """List the loops within the stretches of a loop that are on record, and itself."""
    return [one for one in fold.carried if one == loop or one.startswith(f"{loop}#")]


def _share(fold: Fold, state: OperationState) -> Totals:
    return state.bill.share(container=state.id in fold.containers)
