"""Whether a value that was read back is the one that was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from durable_nb.values.dissect import in_order
from durable_nb.values.parts import Codec, Parts, Shape, type_name
from durable_nb.values.plain import is_plain_scalar, same_scalar
from durable_nb.values.registry import Registry
from durable_nb.values.trail import Trail

#: Bytes of a view that are compared at a time; they stay in the processor's cache.
_PIECE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values differ, in the words of `NotRecordable`."""

    path: str
    found: str
    advice: str


def difference(one: Any, two: Any, trail: Trail, registry: Registry) -> Difference | None:
    """Compare by type and content, without recursion; NaN equals NaN, 0.0 differs from -0.0."""
    stack: list[tuple[Any, Any, Trail, Codec | None]] = [(one, two, trail, None)]
    met: set[tuple[int, int]] = set()
    partner: dict[int, int] = {}
    kept: list[Any] = []  # while an id is a key, its object lives
    while stack:
        a, b, at, opaque = stack.pop()
        kind = type(a)
        if type(b) is not kind:
            return _differs(at, kind, opaque, f"it comes back as {type_name(type(b))}")
        if kind is str or is_plain_scalar(a):
            if not (a == b if kind is str else same_scalar(a, b)):
                return _differs(at, kind, opaque)
            continue
        if (id(a), id(b)) in met:
            continue
        row = registry.of_type(kind)
        if row is None:
            return _differs(at, kind, opaque, "no codec takes it")
        if row.of_identity and partner.setdefault(id(a), id(b)) != id(b):
            return _differs(at, kind, opaque, "a reference that was shared is shared no more")
        met.add((id(a), id(b)))
        mine, theirs = _parts(row, a, registry), _parts(row, b, registry)
        kept.append((a, b, mine.items, theirs.items))  # without the bytes of a large value
        if not _alike(mine, theirs) or (row.by_equality and not bool(a == b)):
            return _differs(at, kind, opaque)
        inside = opaque or (row if row.content is not None else None)
        stack.extend(
            (x, y, Trail("", at, mine, place), inside)
            for place, (x, y) in enumerate(zip(mine.items, theirs.items, strict=True))
            if not (is_plain_scalar(x) and same_scalar(x, y))
        )
    return None


def _parts(row: Codec, value: Any, registry: Registry) -> Parts:
    """Take a value apart for comparison."""
    parts = (row.content or row.encode)(value)
    if parts.shape is Shape.SET:
        return parts.filled(in_order(parts.items, registry))
    return parts


def _alike(mine: Parts, theirs: Parts) -> bool:
    """Compare all but the inner values."""
    return (
        mine.data == theirs.data
        and len(mine.items) == len(theirs.items)
        and mine.names == theirs.names
        and mine.cls is theirs.cls
        and _same_bytes(mine.blob, theirs.blob)
    )


def _same_bytes(one: bytes | memoryview | None, two: bytes | memoryview | None) -> bool:
    """Compare bulk content; views a piece at a time, since Python compares them by element."""
    if one is None or two is None or (type(one) is bytes and type(two) is bytes):
        return one == two
    return len(one) == len(two) and all(
        bytes(one[at : at + _PIECE]) == bytes(two[at : at + _PIECE])
        for at in range(0, len(one), _PIECE)
    )


def _differs(trail: Trail, kind: type, opaque: Codec | None, why: str = "") -> Difference:
    """Say that a value changes on the way, or a part of it that an opaque format holds."""
    why = why or "it changes when it is written and read back"
    if opaque is None:
        return Difference(
            trail.path(), type_name(kind), f"{why}; convert it, or name what to keep with record="
        )
    found = f"part of a {opaque.tag} that its file format changes"
    return Difference(trail.path(), found, opaque.advice or why)
