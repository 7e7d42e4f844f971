"""The direct path: for values of built-in types that share nothing, without a table of nodes.

It writes the very text of the general path (`dissect`, then `to_json`) from the same codec rows,
and reads it in the JSON parser itself: each tagged object becomes its value as soon as it is
complete. Whatever it does not take it *declines*, for the general path to do, which also says what
is wrong and where.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from json import JSONDecoder
from operator import is_
from typing import Any, Final

from durable_nb.values.dissect import in_order
from durable_nb.values.nodes import HEADER, INLINE_LIMIT
from durable_nb.values.parts import NESTING, Codec, Parts, Shape
from durable_nb.values.plain import (
    MAX_DEPTH,
    MAX_TEXT,
    is_plain_scalar,
    no_constant,
    same_scalar,
    write_json,
    write_plain,
)
from durable_nb.values.registry import Registry

#: What `read_direct` gives instead of a value.
DECLINED: Final = object()

#: Bound once: looking a member of an enum up takes as long as all else here.
_SEQUENCE, _SET, _NAMED = Shape.SEQUENCE, Shape.SET, Shape.NAMED

#: What a tagged object of ours holds beside its facts.
_MORE: Final = HEADER - {"$", "v", "b64"}

_TEXTS: Final = frozenset({str})

#: What the constructor of a NamedTuple calls: to call it here halves its time.
_new: Final[Callable[..., Any]] = tuple.__new__


class _Declined(Exception):
    """The general path is needed."""


def write_direct(value: Any, registry: Registry) -> str | None:
    """Give the JSON text of a value, or None where the general path is needed.

    Types with a direct codec row only; nothing twice that the general path would write as a
    reference; no more than `MAX_DEPTH` levels; no part so large that it becomes an artifact.
    """
    try:
        return write_plain(value) or write_json(_tree(value, registry))
    except Exception:  # whatever it is: the general path meets it too, and says where
        return None


def _tree(value: Any, registry: Registry) -> Any:
    """Copy a value level by level, with tagged objects in place of what JSON has no form for."""
    root = [value]
    copies: list[tuple[Any, int]] = [(root, 0)]
    seen: set[int] = set()
    rows = registry.direct
    for copy, above in copies:  # grows as inner values turn up
        for place, item in copy.items() if type(copy) is dict else enumerate(copy):
            kind = type(item)
            # What most are; `is_plain_scalar` says the same of them, and takes a call.
            if kind is str and item.isascii() and len(item) <= MAX_TEXT:
                continue
            if kind is list or (kind is dict and _has_plain_keys(item)):
                levels, shareable = above + 1, True
                copy[place] = inner = item.copy()
            elif is_plain_scalar(item):
                continue
            else:
                row = rows.get(kind)
                if row is None:
                    raise _Declined
                copy[place], inner = _tagged(row, item, registry)
                levels = above + 2
                shareable = row.fill is not None or (inner and kind in NESTING)  # `row.is_shared`
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
    if _TEXTS.issuperset(map(type, value)):  # the loop below, without a call a key
        keys = "".join(value)
        if len(keys) <= MAX_TEXT and keys.isascii():
            return "$" not in value
    for key in value:
        if type(key) is not str or not is_plain_scalar(key):
            return False
    return "$" not in value


def _tagged(row: Codec, value: Any, registry: Registry) -> tuple[dict[str, Any], Any]:
    """Give the object for a value that JSON has no form for, and its inner values in there."""
    data, items, shape, names, blob, _ = row.encode(value)
    tree: dict[str, Any] = {"$": row.tag}
    if data:
        tree.update(data)
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


def read_direct(text: str, registry: Registry, *, prove: bool = False) -> Any:
    """Give the value of a text, or `DECLINED` where the general path is needed.

    With `prove`, each value that JSON has no form for is taken apart again as soon as it is made,
    and must be of its type and come to the facts, bytes and inner values that it was made of.
    """
    if text.startswith('{"$":"graph"'):
        return DECLINED
    try:
        decoder = JSONDecoder(object_hook=_reader(registry, prove), parse_constant=no_constant)
        value, end = decoder.raw_decode(text)
    except Exception:  # whatever it is: the general path meets it too, and says what
        return DECLINED
    return value if end == len(text) else DECLINED


def _reader(registry: Registry, prove: bool) -> Callable[[dict[str, Any]], Any]:
    """Make what turns each complete JSON object, inner ones first, into its value."""
    rows, types = registry.direct_tags, registry.direct
    made: dict[int, Any] = {}  # all values of tagged objects, kept, so that an id means one of them

    def read(tree: dict[str, Any]) -> Any:
        if "$" not in tree:
            return tree
        # A value has its place in a list or plain object; elsewhere it only looks like a value.
        for item in tree.values():
            if id(item) in made:
                raise _Declined
        row = rows.get(tree.pop("$"))
        if row is None or not _MORE.isdisjoint(tree):
            raise _Declined
        names: tuple[str, ...] = ()
        items: Any = ()
        inner = tree.get("v")
        if type(inner) is list:
            items = tree.pop("v")
        elif type(inner) is dict:
            names, items = tuple(inner), tuple(tree.pop("v").values())
        blob = a2b_base64(tree.pop("b64"), strict_mode=True) if "b64" in tree else None
        parts: Parts = _new(Parts, (tree, items, _SEQUENCE, names, blob, None))
        if row.fill is None:
            value = row.decode(parts)
        else:
            value = row.decode(_new(Parts, (tree, (), _SEQUENCE, names, blob, None)))
            row.fill(value, parts)
        if prove and not (types.get(type(value)) is row and _is_made_of(row.encode(value), parts)):
            raise _Declined
        made[id(value)] = value
        return value

    return read


def _is_made_of(again: Parts, parts: Parts) -> bool:
    """Say whether a value that was taken apart again comes to what it was made of.

    Inner values were proven before, so that each has to be the very one that was put in; only a
    number or text may be another object, of the same type and content.
    """
    data, items, shape, names, blob, _ = again
    given = parts.items
    if data != parts.data or blob != parts.blob or names != parts.names:
        return False
    if len(items) != len(given):
        return False
    if shape is _SET:
        return set(map(id, items)) == set(map(id, given))
    return all(map(is_, items, given)) or all(map(same_scalar, items, given))
