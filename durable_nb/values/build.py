"""A table of nodes to a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from durable_nb.values.errors import ValueNotLoadable
from durable_nb.values.lookup import find_class
from durable_nb.values.nodes import Node, Ref, Table
from durable_nb.values.parts import NOTHING, Codec, Parts
from durable_nb.values.registry import Registry, matches


class Unbuilt(Exception):
    """A node could not be made into a value, and which one."""

    def __init__(self, index: int, tag: str, reason: Exception) -> None:
        super().__init__(index, tag, reason)
        self.index, self.tag, self.reason = index, tag, reason


#: A place whose value is not made yet.
_MISSING: Final = object()


class _Builder:
    """Makes the nodes of one table, inner ones first; mutable ones begin empty."""

    def __init__(self, table: Table, registry: Registry, get: Callable[[str], bytes]) -> None:
        self.table, self.registry, self.get = table, registry, get
        self.made: list[Any] = [_MISSING] * len(table.nodes)
        self.entered: set[int] = set()
        self.pending: dict[int, tuple[Codec, Parts]] = {}

    def root(self) -> Any:
        """Make the root."""
        root = self.table.root
        if not isinstance(root, Ref):
            return root
        stack = [root.node]
        while stack:
            index = stack[-1]
            if index in self.pending:
                stack.pop()
                self._finish(index)
            elif index in self.entered:
                stack.pop()
            else:
                self._begin(index)
                for item in self.table.nodes[index].items:
                    if isinstance(item, Ref):
                        self._want(item.node, stack)
        return self.made[root.node]

    def _want(self, index: int, stack: list[int]) -> None:
        """Have a node made before the one that refers to it."""
        if index not in self.entered:
            stack.append(index)
        elif index in self.pending and self.made[index] is _MISSING:
            tag = self.table.nodes[index].tag
            raise Unbuilt(index, tag, ValueError(f"a {tag} that contains itself"))

    def _begin(self, index: int) -> None:
        """Read a node's head; a mutable value exists from here on, empty."""
        self.entered.add(index)
        node = self.table.nodes[index]
        try:
            row, parts = self._head(node)
            if row.fill is not None:
                self.made[index] = _decoder(row, node)(parts)
        except Exception as cause:
            raise Unbuilt(index, node.tag, cause) from cause
        self.pending[index] = row, parts

    def _finish(self, index: int) -> None:
        """Put the inner values in."""
        node = self.table.nodes[index]
        row, parts = self.pending.pop(index)
        items = [self.made[i.node] if isinstance(i, Ref) else i for i in node.items]
        try:
            if any(item is _MISSING for item in items):
                raise ValueError("a value that contains itself")
            if row.fill is None:
                self.made[index] = _decoder(row, node)(parts.filled(items))
            else:
                row.fill(self.made[index], parts.filled(items))
        except Exception as cause:
            raise Unbuilt(index, node.tag, cause) from cause

    def _head(self, node: Node) -> tuple[Codec, Parts]:
        """Find the codec and class of a node, and its bytes."""
        row = self.registry.of_tag(node.tag)
        if row is None:
            raise ValueNotLoadable(
                f"value of type {node.tag}",
                "no codec reads this tag",
                "register_codec for it first, as in the kernel that recorded it",
            )
        cls = _class_of(node, row) if node.address else None
        blob = node.inline if node.blob is None else self.get(node.blob.sha256)
        return row, Parts(node.data or NOTHING, names=node.names or (), blob=blob, cls=cls)


def _class_of(node: Node, row: Codec) -> type:
    """Find the class of a node and compare its fields with those that were recorded."""
    cls = find_class(node.address)
    name = cls.__qualname__
    if isinstance(row.matches, type) or not matches(row, cls):
        raise ValueNotLoadable(f"value of class {name}", f"{name} is no {row.tag} any more")
    now = row.fingerprint(cls)
    if now != node.fields:
        raise ValueNotLoadable(
            f"value of class {name}",
            f"the fields of {name} were ({node.fields}) and now are ({now})",
            "define the class as it was, or invalidate the operation",
        )
    return cls


def _decoder(row: Codec, node: Node) -> Callable[[Parts], Any]:
    """Pick the decoder for the version that was recorded."""
    if node.version == row.version:
        return row.decode
    older = row.older.get(node.version)
    if older is None:
        raise ValueNotLoadable(
            f"value of type {node.tag}",
            f"it was recorded in version {node.version} of its codec, and this one reads "
            f"{sorted({row.version, *row.older})}",
            "register a codec with a decoder for it: older={...}",
        )
    return older


def build(table: Table, registry: Registry, get: Callable[[str], bytes]) -> Any:
    """Make the value of a table without recursion; raises `Unbuilt`."""
    return _Builder(table, registry, get).root()
