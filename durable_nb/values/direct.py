"""The direct path: for values of built-in types that share nothing, without a table of nodes.

It writes the very text of the general path (`dissect`, then `to_json`) from the same codec rows,
and reads it in the JSON parser itself: each tagged object becomes its value as soon as it is
complete. Whatever it does not take it *declines*, for the general path to do, which also says what
is wrong and where.
"""

from __future__ import annotations

import base64
import json
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from durable_nb.values.dissect import in_order
from durable_nb.values.nodes import HEADER, INLINE_LIMIT, BadForm
from durable_nb.values.parts import Codec, Parts, Shape
from durable_nb.values.plain import MAX_DEPTH, is_plain_scalar, write_json
from durable_nb.values.registry import Registry

#: What `read_direct` gives instead of a value.
DECLINED: Final = object()

#: Bound once: looking a member of an enum up takes as long as all else here.
_SEQUENCE, _SET, _NAMED = Shape.SEQUENCE, Shape.SET, Shape.NAMED

#: What a tagged object of ours holds beside its facts.
_MORE: Final = HEADER - {"$", "v", "b64"}


class _Declined(Exception):
    """The general path is needed."""


def write_direct(value: Any, registry: Registry) -> str | None:
    """Give the JSON text of a value, or None where the general path is needed.

    Types with a direct codec row only; nothing twice that the general path would write as a
    reference; no more than `MAX_DEPTH` levels; no part so large that it becomes an artifact.
    """
    try:
        return write_json(_tree(value, registry))
    except Exception:  # whatever it is: the general path meets it too, and says where
        return None


def _tree(value: Any, registry: Registry) -> Any:
    """Copy a value level by level, with tagged objects in place of what JSON has no form for."""
    root = [value]
    copies: list[tuple[Any, int]] = [(root, 0)]
    seen: set[int] = set()
    rows = registry.by_type
    for copy, above in copies:  # grows as inner values turn up
        for place, item in copy.items() if type(copy) is dict else enumerate(copy):
            if is_plain_scalar(item):
                continue
            kind = type(item)
            if kind is list or (kind is dict and _has_plain_keys(item)):
                levels, shareable = above + 1, True
                copy[place] = inner = item.copy()
            else:
                row = rows.get(kind)
                if row is None or not row.is_direct:
                    raise _Declined
                copy[place], inner = _tagged(row, item, registry)
                levels, shareable = above + 2, row.is_shared(item)
            if levels > MAX_DEPTH:
                raise _Declined
            if shareable:
                if id(item) in seen:
                    raise _Declined
                seen.add(id(item))
            if inner:
                copies.append((inner, levels))
    return root[0]


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    """Say whether a JSON object carries the keys of a dict."""
    for key in value:
        if type(key) is not str or not is_plain_scalar(key):
            return False
    return "$" not in value


def _tagged(row: Codec, value: Any, registry: Registry) -> tuple[dict[str, Any], Any]:
    """Give the object for a value that JSON has no form for, and its inner values in there."""
    data, items, shape, names, blob, _ = row.encode(value)
    tree: dict[str, Any] = {"$": row.tag, **data}
    if blob is not None:
        if len(blob) > INLINE_LIMIT:
            raise _Declined
        tree["b64"] = b2a_base64(blob, newline=False).decode()
    inner: Any = ()
    if shape is _NAMED:
        tree["v"] = inner = dict(zip(names, items, strict=True))
        if not _has_plain_keys(inner):
            raise _Declined
    elif items:
        tree["v"] = inner = list(in_order(items, registry) if shape is _SET else items)
    return tree, inner


def read_direct(text: str, registry: Registry) -> Any:
    """Give the value of a text, or `DECLINED` where the general path is needed."""
    if text.startswith('{"$":"graph"'):
        return DECLINED
    try:
        return json.loads(text, object_hook=_reader(registry), parse_constant=no_constant)
    except Exception:  # whatever it is: the general path meets it too, and says what
        return DECLINED


def _reader(registry: Registry) -> Callable[[dict[str, Any]], Any]:
    """Make what turns each complete JSON object, inner ones first, into its value."""
    rows = registry.by_tag
    made: dict[int, Any] = {}  # all values of tagged objects, kept, so that an id means one of them

    def read(tree: dict[str, Any]) -> Any:
        if "$" not in tree:
            return tree
        # A value has its place in a list or plain object; elsewhere it only looks like a value.
        for item in tree.values():
            if id(item) in made:
                raise _Declined
        row = rows.get(tree.pop("$"))
        if row is None or not row.is_direct or not _MORE.isdisjoint(tree):
            raise _Declined
        value = _value(row, tree)
        made[id(value)] = value
        return value

    return read


def _value(row: Codec, tree: dict[str, Any]) -> Any:
    """Make a value of what its tagged object holds."""
    names: tuple[str, ...] = ()
    items: Sequence[Any] = ()
    inner = tree.get("v")
    if type(inner) is list:
        items = tree.pop("v")
    elif type(inner) is dict:
        names, items = tuple(inner), list(tree.pop("v").values())
    b64 = tree.pop("b64", None)
    blob = None if b64 is None else base64.b64decode(b64, validate=True)
    if row.fill is None:
        return row.decode(Parts(tree, items, _SEQUENCE, names, blob))
    value = row.decode(Parts(tree, (), _SEQUENCE, names, blob))
    row.fill(value, Parts(tree, items, _SEQUENCE, names, blob))
    return value


def no_constant(name: str) -> Any:
    """Refuse NaN and the infinities, which our text writes as tags."""
    raise BadForm(f"{name} is no JSON")
