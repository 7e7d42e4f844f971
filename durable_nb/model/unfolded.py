"""Operations whose records were not read yet: a long run is opened without a state for each.

Most operations of a long run have two records, an intent and a result, and say no more of the run
than that. Their state is folded when somebody asks for it, from records that are read again, and
is not kept: the records of a long run are larger than what an opening may hold.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import ItemsView as _ItemsView
from collections.abc import ValuesView as _ValuesView
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from durable_nb.model.outcomes import EFFECTS, Effect, Kind
from durable_nb.model.records import Record
from durable_nb.model.state import OperationState

#: Gives the records of these places, from the first up to the last.
Read = Callable[[int, int], Sequence[Record]]

_EFFECTS: Final = tuple(Effect)
_NUMBERS: Final = {effect: number for number, effect in enumerate(_EFFECTS)}
_AFTER_BITS: Final = 32
_EFFECT_BITS: Final = 2
_FIRST: Final = _AFTER_BITS + _EFFECT_BITS
_AFTER: Final = (1 << _AFTER_BITS) - 1
_EFFECT: Final = (1 << _EFFECT_BITS) - 1
#: Records that are read at once, by their place; and how many of such pages are kept.
_PAGE: Final = 1024
_PAGES: Final = 4


@dataclass(slots=True)
class Unfolded:
    """What an opening knows of operations whose state nobody has asked for.

    Each has an intent and then a result, and no other record. It is no container's, it waited for
    nothing, and it has not said that it spent anything.

    Attributes
    ----------
    operations : Operations
        Identity to one number, of `place_of`: an object for each would take five times the memory.
    busy : int
        Microseconds that all of them took.
    last_seq : int
        The last record that is read in this way.
    updated : datetime or None
        When that was.
    """

    operations: Operations = field(default_factory=lambda: Operations())
    busy: int = 0
    last_seq: int = 0
    updated: datetime | None = None


def place_of(first: int, last: int, effect: Effect) -> int:
    """Give the places of an intent and its result, and the effect, as one number."""
    return first << _FIRST | last - first << _EFFECT_BITS | _NUMBERS[effect]


def first_of(place: int) -> int:
    """Give the place of the intent."""
    return place >> _FIRST


def firsts_of(places: Iterable[int]) -> list[int]:
    """Give the places of many intents."""
    return [place >> _FIRST for place in places]


def last_of(place: int) -> int:
    """Give the place of the result."""
    return (place >> _FIRST) + (place >> _EFFECT_BITS & _AFTER)


def last_seq_of(known: OperationState | int) -> int:
    """Give the last record of an operation, folded or not."""
    return last_of(known) if isinstance(known, int) else known.last_seq


def effect_of(place: int) -> Effect:
    """Give the effect."""
    return _EFFECTS[place & _EFFECT]


def effects_of(places: Iterable[int]) -> Counter[Effect]:
    """Count the effects."""
    found = Counter([place & _EFFECT for place in places])
    return Counter({_EFFECTS[number]: count for number, count in found.items()})


def begin(record: Record) -> OperationState:
    """Give the state of an operation before its first record."""
    effect = EFFECTS[record.body.get("effect", Effect.EXTERNAL)]
    return OperationState(record.op, record.seq, effect)


def nowhere(first: int, last: int) -> Sequence[Record]:
    """Read for a run of which all is folded."""
    raise LookupError(f"records {first} to {last} are not to be read")


class Operations(dict[str, OperationState]):
    """Identity to state; a state that was not folded yet is made as it is asked for.

    Parameters
    ----------
    read : callable
        Reads the records of those that are not folded.

    Attributes
    ----------
    read : callable
        The same.
    effects : Counter
        How many were not folded when the run was opened, of each effect; all are completed.
    """

    # A number of `place_of` stands for a state that is not there: one table, not two to look in.

    def __init__(self, read: Read = nowhere) -> None:
        super().__init__()
        self.read, self._one = read, threading.RLock()
        self._pages: dict[int, Sequence[Record]] = {}
        self._latest: tuple[int, OperationState] | None = None
        self.effects: Counter[Effect] = Counter()

    def __getitem__(self, op: str) -> OperationState:
        return self._folded(op, super().__getitem__(op))

    def get(self, op: str, default: Any = None) -> OperationState | Any:
        """Give the state of an operation, or the default."""
        found = super().get(op, default)
        return self._folded(op, found) if found.__class__ is int else found

    def pop(self, op: str, *default: Any) -> Any:
        """Take an operation out, and give its state."""
        return self._folded(op, super().pop(op, *default))

    def values(self) -> _ValuesView[OperationState]:  # type: ignore[override]
        """Give all states, each folded as its turn comes."""
        return _Values(self)

    def items(self) -> _ItemsView[str, OperationState]:  # type: ignore[override]
        """Give all identities and states, each folded as its turn comes."""
        return _Items(self)

    @property
    def places(self) -> dict[str, int]:
        """The same table, to put places into."""
        return cast(dict[str, int], self)

    def folded(self) -> Iterator[OperationState]:
        """Give the states that are there: all that is not as plain as `Unfolded` says."""
        known = cast("_ValuesView[OperationState | int]", dict.values(self))
        return (state for state in known if state.__class__ is not int)  # type: ignore[misc]

    def place(self, op: str) -> int | None:
        """Give where the records of an operation are, if it is not folded; else `None`."""
        found: Any = super().get(op)
        return found if found.__class__ is int else None

    def unfolded(self) -> Iterator[tuple[str, int]]:
        """Give the operations that are not folded, and where their records are."""
        places = dict.items(self.places)
        return ((op, place) for op, place in places if place.__class__ is int)

    def known(self) -> dict[str, OperationState | int]:
        """Give all identities, each with its state, or with its place if that is not folded."""
        return dict(super().items())

    def first_seq(self, op: str) -> int:
        """Give the first record of an operation; nothing is folded for that, and 0 if none is."""
        found: Any = super().get(op)
        if found.__class__ is int:
            return first_of(found)
        return 0 if found is None else int(found.first_seq)

    def state_at(self, op: str, place: int) -> OperationState:
        """Fold the records of an operation that are in these places."""
        return self._folded(op, place)

    def _folded(self, op: str, found: Any) -> OperationState:
        if found.__class__ is not int:
            return found  # type: ignore[no-any-return]
        known = self._latest
        if known is not None and known[0] == found:  # a replay asks for it several times
            return known[1]
        first, last = self._record(first_of(found)), self._record(last_of(found))
        if (first.op, first.kind) != (op, Kind.INTENDED) or last.op != op:
            raise LookupError(f"records {first.seq} and {last.seq} are not those of {op}")
        state = begin(first).apply(first).apply(last)
        self._latest = found, state
        return state

    def _record(self, seq: int) -> Record:
        """Give a record; its neighbours are read with it, since a program repeats its order."""
        number, at = divmod(seq, _PAGE)
        page = self._pages.get(number)
        if page is None:
            with self._one:
                page = self._pages.get(number)
                if page is None:
                    page = self._page(number)
        return page[at - (0 if number else 1)]

    def _page(self, number: int) -> Sequence[Record]:
        first = max(1, number * _PAGE)
        page = self.read(first, number * _PAGE + _PAGE - 1)
        pages = dict(self._pages)
        while len(pages) >= _PAGES:
            del pages[next(iter(pages))]
        pages[number] = page
        self._pages = pages
        return page


class _Values(_ValuesView[OperationState]):
    """The states, one after the other."""

    _mapping: Operations

    def __iter__(self) -> Iterator[OperationState]:
        return (self._mapping[op] for op in self._mapping)

    def __reversed__(self) -> Iterator[OperationState]:
        return (self._mapping[op] for op in reversed(self._mapping))


class _Items(_ItemsView[str, OperationState]):
    """The identities and states, one after the other."""

    _mapping: Operations

    def __iter__(self) -> Iterator[tuple[str, OperationState]]:
        return ((op, self._mapping[op]) for op in self._mapping)
