"""Plain data that code reads: its digest, and whether it is still what it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import is_
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.unwrap import dict_of, root_of, type_text
from durable_nb.values.parts import CannotTake, Codec

#: Bytes of the encoded value above which data counts by its type only (DESIGN section 5).
LIMIT: Final = 64 * 1024

#: Values that nobody can change: the same object is the same value.
ATOMS: Final = frozenset({str, int, float, bool, bytes, complex, type(None)})
_BUILT_IN: Final = frozenset({list, tuple, set, frozenset, dict})

#: Packages whose arrays and tables are frames; single values of theirs are plain data.
_FRAMES: Final = frozenset({"numpy", "pandas", "pyarrow", "polars"})
_SINGLE: Final = frozenset({"Timestamp", "Timedelta", "NaTType", "NAType", "generic"})

#: Metaclasses of theirs look attributes up, and do nothing else.
_HARMLESS: Final = frozenset({"builtins", "enum", "pydantic"})

#: What a number or a tag takes at least, in encoded bytes.
_SMALL: Final = 8


class NotPlain(Exception):
    """A value that counts by its type only; the text says why."""


@dataclass(slots=True)
class Held:
    """Containers as they were; whoever keeps the same objects in them has not changed them.

    Attributes
    ----------
    views : list
        The containers; the values of a dict after it.
    lengths : list of int
        How many objects each of these held.
    items : list
        All of these, in order.
    """

    views: list[Collection[Any]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def add(self, box: Any) -> list[Any]:
        """Note a container as it is; give what it holds."""
        views = [box, box.values()] if type(box) is dict else [box]
        found = [list(view) for view in views]
        self.views += views
        self.lengths += map(len, found)
        inner = list(chain.from_iterable(found))
        self.items += inner
        return inner

    def join(self, other: Held) -> None:
        """Take in what another one holds."""
        self.views += other.views
        self.lengths += other.lengths
        self.items += other.items

    def is_same(self) -> bool:
        """Compare by identity: the parts are atoms, or containers that are noted as well."""
        return list(map(len, self.views)) == self.lengths and all(
            map(is_, chain.from_iterable(self.views), self.items)
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """Plain data, looked at once.

    Attributes
    ----------
    digest : str
        By type and content.
    held : Held or None
        Its containers; None if something in it can only be compared by its digest.
    """

    digest: str
    held: Held | None


def look(value: Any) -> Plain:
    """Digest plain data.

    Raises
    ------
    NotPlain
        It is no plain data, or more than `LIMIT`.
    """
    held = measure(value)
    try:
        return Plain(values.digest(value), held)
    except values.NotDigestible as problem:
        raise NotPlain(str(problem)) from problem


def measure(value: Any) -> Held | None:
    """Walk through plain data until it is too large or something in it is not plain."""
    size, held, comparable = 0, Held(), True
    seen: dict[int, Any] = {}
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind in ATOMS:
            size += len(item) if kind in (str, bytes) else _SMALL
        elif id(item) in seen:
            size += _SMALL
        else:
            seen[id(item)] = item  # kept, so that its id stays its own
            if kind in _BUILT_IN:
                _check_size(size + 2 * len(item))
                stack += held.add(item)
            else:
                blob, inner = _apart(item)
                size, comparable = size + blob, False
                stack += inner
            size += _SMALL
        _check_size(size)
    return held if comparable else None


def _check_size(size: int) -> None:
    if size > LIMIT:
        raise NotPlain(f"larger than {LIMIT // 1024} KB")


def _apart(item: Any) -> tuple[int, list[Any]]:
    """Take apart what a codec takes; frames count by their type."""
    kind = type(item)
    row = _codec(kind)
    if row is None:
        raise NotPlain(f"holds a {type_text(kind)}")
    try:
        parts = (row.digested or row.content or row.encode)(item)
    except CannotTake as refused:
        raise NotPlain(refused.found) from refused
    return (0 if parts.blob is None else len(parts.blob)), list(parts.items)


def is_frame(kind: type) -> bool:
    """Tell arrays and tables, which count by their type."""
    if root_of(kind) not in _FRAMES:
        return False
    return not any(base.__name__ in _SINGLE for base in _mro(kind))


def _mro(kind: type) -> Iterator[type]:
    yield from type.__dict__["__mro__"].__get__(kind)


def is_taken(kind: type) -> bool:
    """Tell whether values of a type can be plain data at all, as their parts may be."""
    return _codec(kind) is not None


def _codec(kind: type) -> Codec | None:
    """Find what takes a type apart, without asking a class that may answer by running code."""
    if is_frame(kind) or any(map(_answers, _mro(type(kind)))):
        return None
    return values.default_registry().of_type(kind)


def _answers(metaclass: type) -> bool:
    own = dict_of(metaclass)
    return root_of(metaclass) not in _HARMLESS and (
        "__getattr__" in own or "__getattribute__" in own
    )
