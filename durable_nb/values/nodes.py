"""A value as a table of nodes, and the table as JSON: the middle of writing and loading.

Two JSON forms. *Nested*: plain trees look like plain JSON, everything else is
`{"$": tag, ..., "v": inner values}`. *Graph*: `{"$": "graph", "root": …, "nodes": […]}`, for values
that are deep, shared or contain themselves; there an inner value is a scalar or `[number of node]`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from durable_nb.values.plain import MAX_DEPTH

#: Blobs and whole texts of more bytes than this become artifacts: a record above it makes the
#: journal slow (a 10 MB blob takes 50 ms to commit in DuckDB).
INLINE_LIMIT: Final = 64 * 1024

#: What a tagged object may hold beside the facts of its codec.
HEADER: Final = frozenset({"$", "sha256", "size", "of", "ver", "class", "fields", "b64", "v"})


class Ref(NamedTuple):
    """A reference from a node to another one."""

    node: int


class Blob(NamedTuple):
    """Bulk content of a node that is an artifact."""

    sha256: str
    size: int


class BadForm(ValueError):
    """Text that is JSON but no value of ours."""


@dataclass(slots=True)
class Node:
    """One value, its inner values by reference.

    Attributes
    ----------
    items : list
        Plain scalars and `Ref`s.
    names : tuple of str or None
        Names of the items, where they have some.
    inline : bytes or None
        A small blob.
    blob : Blob or None
        A large one.
    """

    tag: str
    data: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    address: str = ""
    fields: str = ""
    names: tuple[str, ...] | None = None
    inline: bytes | None = None
    blob: Blob | None = None
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    """All nodes of a value; `root` is a scalar or a `Ref`, `shared` rules out the nested form."""

    root: Any
    nodes: list[Node]
    shared: bool = False


# -- table to JSON ----------------------------------------------------------------------------


def to_json(table: Table) -> Any:
    """Render a table, nested where that loses nothing and is not deep."""
    nested = None if table.shared else _nested(table)
    return _graph(table) if nested is None else nested.tree


class _Tree(NamedTuple):
    tree: Any
    depth: int


def _nested(table: Table) -> _Tree | None:
    """Render from the leaves up: an inner node always stands behind its outer one."""
    if not isinstance(table.root, Ref):
        return _Tree(table.root, 0)
    done: dict[int, _Tree] = {}
    for index in range(len(table.nodes) - 1, -1, -1):
        node = table.nodes[index]
        depth = 0
        inner: list[Any] = []
        for item in node.items:
            if isinstance(item, Ref):
                below = done.pop(item.node)
                depth = max(depth, below.depth)
                inner.append(below.tree)
            else:
                inner.append(item)
        tree, levels = _render(node, inner)
        if depth + levels > MAX_DEPTH:
            return None
        done[index] = _Tree(tree, depth + levels)
    return done[table.root.node]


def _render(node: Node, inner: list[Any]) -> _Tree:
    """Render one node around its rendered inner values."""
    if node.tag == "list":
        return _Tree(inner, 1)
    keys = inner[::2]
    if node.tag == "dict" and all(type(key) is str and key != "$" for key in keys):
        return _Tree(dict(zip(keys, inner[1::2], strict=True)), 1)
    return _Tree(_tagged(node, inner), 2)


def _tagged(node: Node, inner: list[Any]) -> dict[str, Any]:
    """Render one node as `{"$": tag, …}`."""
    tree: dict[str, Any] = {"$": node.tag}
    if node.blob is not None:
        tree = {"$": "artifact", "sha256": node.blob.sha256, "size": node.blob.size, "of": node.tag}
    if node.version != 1:
        tree["ver"] = node.version
    if node.address:
        tree["class"] = node.address
    if node.fields:
        tree["fields"] = node.fields
    tree.update(node.data)
    if node.inline is not None:
        tree["b64"] = base64.b64encode(node.inline).decode()
    if node.names is not None:
        tree["v"] = dict(zip(node.names, inner, strict=True))
    elif inner:
        tree["v"] = inner
    return tree


def _graph(table: Table) -> dict[str, Any]:
    """Render the flat form."""

    def entry(item: Any) -> Any:
        return [item.node] if isinstance(item, Ref) else item

    nodes = [_tagged(node, [entry(item) for item in node.items]) for node in table.nodes]
    return {"$": "graph", "root": entry(table.root), "nodes": nodes}


# -- JSON to table ----------------------------------------------------------------------------


def from_json(tree: Any) -> Table:
    """Read either form; raises `BadForm`."""
    if isinstance(tree, dict) and tree.get("$") == "graph":
        return _from_graph(tree)
    nodes: list[Node] = []
    raw: list[Any] = []

    def entry(item: Any) -> Any:
        if not isinstance(item, (dict, list)):
            return item
        nodes.append(Node(""))
        raw.append(item)
        return Ref(len(nodes) - 1)

    root = entry(tree)
    at = 0
    while at < len(raw):  # grows as inner values turn up
        node, inner = _read(raw[at])
        node.items = [entry(item) for item in inner]
        nodes[at] = node
        at += 1
    return Table(root, nodes)


def _from_graph(tree: Mapping[str, Any]) -> Table:
    """Read the flat form."""
    raw = tree.get("nodes")
    if not isinstance(raw, list):
        raise BadForm("a graph without nodes")

    def entry(item: Any) -> Any:
        if not isinstance(item, list):
            if isinstance(item, dict):
                raise BadForm("an inner value that is no reference")
            return item
        if len(item) != 1 or type(item[0]) is not int or not 0 <= item[0] < len(raw):
            raise BadForm("a reference to no node")
        return Ref(item[0])

    nodes = []
    for one in raw:
        if not isinstance(one, dict) or "$" not in one:
            raise BadForm("a node without a tag")
        node, inner = _read(one)
        node.items = [entry(item) for item in inner]
        nodes.append(node)
    return Table(entry(tree.get("root")), nodes, shared=True)


def _read(tree: Any) -> tuple[Node, Sequence[Any]]:
    """Read one node and list its inner values, still as JSON."""
    if isinstance(tree, list):
        return Node("list"), tree
    if "$" not in tree:
        return Node("dict"), [part for pair in tree.items() for part in pair]
    tag, blob = tree["$"], None
    if tag == "artifact":
        tag, blob = tree.get("of"), Blob(*_address(tree))
    inner = tree.get("v")
    names = tuple(inner) if isinstance(inner, dict) else None
    data = {key: item for key, item in tree.items() if key not in HEADER}
    if "v" in tree and not isinstance(inner, (dict, list)):
        data["v"] = inner
    node = Node(
        tag=_typed(tag, str),
        data=data,
        version=_typed(tree.get("ver", 1), int),
        address=_typed(tree.get("class", ""), str),
        fields=_typed(tree.get("fields", ""), str),
        names=names,
        inline=_bytes(tree.get("b64")),
        blob=blob,
    )
    if isinstance(inner, dict):
        return node, list(inner.values())
    return node, inner if isinstance(inner, list) else ()


def _typed(value: Any, kind: type) -> Any:
    """Insist on a type."""
    if type(value) is not kind:
        raise BadForm(f"{kind.__name__} expected, {type(value).__name__} found")
    return value


def _address(tree: Mapping[str, Any]) -> Iterator[Any]:
    """Read which artifact is meant."""
    yield _typed(tree.get("sha256"), str)
    yield _typed(tree.get("size"), int)


def _bytes(text: Any) -> bytes | None:
    """Read an inline blob."""
    return None if text is None else base64.b64decode(_typed(text, str), validate=True)
