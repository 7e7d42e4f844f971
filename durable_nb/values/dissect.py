"""A value to a table of nodes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from types import MappingProxyType
from typing import Any, Final

from durable_nb.model.errors import NotRecordable
from durable_nb.values.digests import digest
from durable_nb.values.errors import NotDigestible
from durable_nb.values.lookup import class_address, must_be_found
from durable_nb.values.nodes import INLINE_LIMIT, Blob, Node, Ref, Table
from durable_nb.values.parts import CannotTake, Codec, Parts, Shape, type_name
from durable_nb.values.plain import is_plain_scalar
from durable_nb.values.registry import Registry
from durable_nb.values.trail import Trail


@dataclass(frozen=True, slots=True)
class Dissected:
    """A table, with where each of its nodes stood in the value and what it was."""

    table: Table
    trails: list[Trail]
    values: list[Any]

    def origin(self, index: int) -> tuple[Trail, type]:
        """Say where a node came from."""
        return self.trails[index], type(self.values[index])


def dissect(value: Any, trail: Trail, registry: Registry, put: Callable[[bytes], str]) -> Dissected:
    """Take a value apart, all the way down, without recursion.

    Raises
    ------
    NotRecordable
        No codec takes some part of it.
    """
    nodes: list[Node] = []
    trails: list[Trail] = []
    values: list[Any] = []  # also keeps temporary values alive while their id is a key
    index: dict[int, int] = {}
    rows = _Rows(registry)
    shared = False

    def entry(item: Any, at: Trail) -> Any:
        nonlocal shared
        known = index.get(id(item))
        if known is not None:
            shared = True
            return Ref(known)
        kind = type(item)
        row = rows.of(kind)
        if row is None:
            raise NotRecordable(at.path(), type_name(kind), _advice(item))
        nodes.append(Node(row.tag, version=row.version))
        trails.append(at)
        values.append(item)
        if row.is_shared(item):
            index[id(item)] = len(nodes) - 1
        return Ref(len(nodes) - 1)

    root = value if is_plain_scalar(value) else entry(value, trail)
    at = 0
    while at < len(nodes):  # grows as inner values turn up
        node = nodes[at]
        parts, node.address, node.fields = _take(rows, values[at], trails[at])
        node.data = parts.data
        if parts.shape is Shape.NAMED:
            node.names = parts.names
        blob = None if parts.blob is None else bytes(parts.blob)
        if blob is not None and len(blob) > INLINE_LIMIT:
            node.blob = Blob(put(blob), len(blob))
        else:
            node.inline = blob
        node.items = [
            item if is_plain_scalar(item) else entry(item, Trail("", trails[at], parts, place))
            for place, item in enumerate(parts.items)
        ]
        at += 1
    return Dissected(Table(root, nodes, shared), trails, values)


class _Rows:
    """The codecs and class addresses that one value needs, each looked up once."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._rows: dict[type, Codec | None] = {}
        self._classes: dict[type, tuple[str, str]] = {}

    def of(self, kind: type) -> Codec | None:
        """Find the codec of a type, or None."""
        if kind not in self._rows:
            self._rows[kind] = self.registry.of_type(kind)
        return self._rows[kind]

    def address(self, cls: type | None, row: Codec) -> tuple[str, str]:
        """Give where a class is found and its fingerprint; refuse one that is not."""
        if cls is None:
            return "", ""
        if cls not in self._classes:
            must_be_found(cls)
            self._classes[cls] = class_address(cls), row.fingerprint(cls)
        return self._classes[cls]


def _take(rows: _Rows, value: Any, trail: Trail) -> tuple[Parts, str, str]:
    """Take one value apart; a set comes in the order of its members' digests."""
    row = rows.of(type(value))
    assert row is not None
    try:
        parts = row.encode(value)
        if parts.shape is Shape.SET:
            parts = parts.filled(in_order(parts.items, rows.registry))
        return parts, *rows.address(parts.cls, row)
    except CannotTake as refused:
        raise NotRecordable(trail.path(), refused.found, refused.advice) from refused
    except NotDigestible as refused:
        raise NotRecordable(f"{trail.path()}{{…}}", refused.found) from refused
    except Exception as cause:
        why = f"its codec {row.tag!r} failed ({type(cause).__name__}: {cause})"
        raise NotRecordable(trail.path(), type_name(type(value)), why) from cause


#: Types of members that sort among themselves.
_ORDERED: Final[tuple[set[type], ...]] = ({str}, {int}, set())


def in_order(members: Any, registry: Registry) -> tuple[Any, ...]:
    """Sort the members of a set in an order that no hash seed changes."""
    kinds = set(map(type, members))
    if kinds in _ORDERED:
        return tuple(sorted(members))
    return tuple(sorted(members, key=lambda member: digest(member, registry=registry)))


#: What to do about some types that no codec takes.
_ADVICE: Final[tuple[tuple[type, str], ...]] = (
    (BaseException, "raise it, or keep its text with record=lambda r: str(r)"),
    (tzinfo, "use zoneinfo.ZoneInfo or a fixed datetime.timezone"),
    (memoryview, "take its bytes: bytes(value)"),
    (ChainMap, "flatten it: dict(value)"),
    (MappingProxyType, "copy it: dict(value)"),
    (Iterator, "read it to its end: list(value)"),
)


def _advice(value: Any) -> str:
    """Say what to do about a type that no codec takes."""
    for base in type(value).__mro__[1:]:
        if base in (int, float, str, bytes, list, dict, tuple, set, frozenset):
            return (
                f"it is a subclass of {base.__name__} and is not flattened: convert it with "
                f"{base.__name__}(value), name what to keep with record=, or register_codec"
            )
    for kind, advice in _ADVICE:
        if isinstance(value, kind):
            return advice
    if hasattr(type(value), "get_secret_value"):
        return "a secret has no place in a journal: leave it out with record=, and read it anew"
    return "return plain data, name what to keep with record=lambda r: ..., or register_codec"
