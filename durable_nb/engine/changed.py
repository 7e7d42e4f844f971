"""What of a run has changed since it was last published, and its numbers, kept as they change.

So that a publication looks at what is new, and at nothing else, however long the run is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from durable_nb.model.fold import Fold
from durable_nb.model.identity import parse
from durable_nb.model.outcomes import OUTCOMES, Effect, Kind, Outcome
from durable_nb.model.state import OperationState
from durable_nb.model.unfolded import Operations


class Taken(NamedTuple):
    """What changed, given away once.

    Attributes
    ----------
    ids : set of str
        Operations of which something is new, retired ones among them.
    replayed : list of str
        Operations that were taken from the record.
    seq : int
        The last record that is in there.
    operations : int
        How many are on record.
    """

    ids: set[str]
    replayed: list[str]
    seq: int
    operations: int


class Changed:
    """What changed since the last publication; all but `ran` and `replayed` under the run's lock.

    Attributes
    ----------
    unpriced : int
        Attempts whose cost is not known.
    waits : set of str
        The waits that are undecided.
    expected : tuple of str
        Steps that were announced and are not on record.
    """

    def __init__(self, expected: Iterable[str] = ()) -> None:
        self.expected = tuple(expected)
        self._ids: set[str] = set()
        self._replayed: list[str] = []
        self._kinds: Counter[tuple[Effect, Kind | None]] = Counter()
        self._usd = self._priced = self.unpriced = 0
        self.waits: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._ids or self._replayed)

    def loaded(self, state: OperationState) -> None:
        """Count an operation that was on record when the run was opened."""
        self._count(state, 1)
        self._begun(state.id)
        if state.is_pending:
            self.waits.add(state.id)

    def unfolded(self, operations: Operations) -> None:
        """Count those that were on record, and are not folded: all are completed."""
        for effect, count in operations.effects.items():
            self._kinds[effect, Kind.COMPLETED] += count
        for op, _ in operations.unfolded() if self.expected else ():
            self._begun(op)

    def moved(self, before: OperationState | None, state: OperationState, fold: Fold) -> None:
        """Put the new state of an operation in place of the old one."""
        self._ids.add(state.id)
        if before is not None:
            self._count(before, -1)
        else:
            self._begun(state.id)
            self._after(state, fold)
        self._count(state, 1)
        (self.waits.add if state.is_pending else self.waits.discard)(state.id)

    def retired(self, states: Iterable[OperationState]) -> None:
        """Let go of what a pin has retired."""
        for state in states:
            self._ids.add(state.id)
            self._count(state, -1)
            self.waits.discard(state.id)

    def ran(self, op: str) -> None:
        """Note that this process runs an operation."""
        self._ids.add(op)

    def replayed(self, op: str) -> None:
        """Note that this process took an operation from the record."""
        self._replayed.append(op)

    def take(self, fold: Fold) -> Taken:
        """Give what changed, and begin anew."""
        ids, replayed = set(), self._replayed[:]
        del self._replayed[: len(replayed)]
        while self._ids:  # one by one, since `Sources` adds to it without the lock
            ids.add(self._ids.pop())
        return Taken(ids, replayed, fold.last_seq, len(fold.operations))

    def by_outcome(self) -> dict[Outcome, int]:
        """Count by what the last records say, whoever is running and whatever time it is."""
        counts = dict.fromkeys(Outcome, 0)
        for what, n in list(self._kinds.items()):
            counts[OUTCOMES[what]] += n
        return counts

    def spent(self) -> tuple[int, int]:
        """Give what operations said that they spent, in units of 1e-12 dollars, and how many."""
        return self._usd, self._priced

    def _begun(self, op: str) -> None:
        if self.expected:
            name = parse(op).name
            self.expected = tuple(other for other in self.expected if other != name)

    def _after(self, state: OperationState, fold: Fold) -> None:
        """Note what was folded before it and lies after it: a number more in the list."""
        for other in reversed(fold.operations):
            if other != state.id:
                if fold.operations.first_seq(other) < state.first_seq:
                    break
                self._ids.add(other)

    def _count(self, state: OperationState, one: int) -> None:
        self._kinds[state.effect, state.kind] += one
        self.unpriced += one * state.unpriced
        if state.bill.usd is not None:
            self._usd += one * state.bill.usd
            self._priced += one


class Sources(dict[str, str]):
    """Identity to ``"ran"`` or ``"record"``; tells what it was told.

    Parameters
    ----------
    changed : Changed
        What is told.

    Attributes
    ----------
    lately : dict or None
        The same of what was reached, for the first time or again, since somebody has set it to an
        empty one; in the order in which it was reached. `None` where nobody counts.
    """

    def __init__(self, changed: Changed) -> None:
        super().__init__()
        self._changed = changed
        self.lately: dict[str, str] | None = None

    def __setitem__(self, op: str, source: str) -> None:
        super().__setitem__(op, source)
        if self.lately is not None:
            self.lately[op] = source
        (self._changed.ran if source == "ran" else self._changed.replayed)(op)

    def setdefault(self, op: str, source: Any = "") -> str:
        """Set it where nothing is known; give what is."""
        if op not in self:
            self[op] = str(source)
        return self[op]
