"""Digests by type and content: equal for equal values of equal types, in every process."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final

from durable_nb.values.errors import NotDigestible
from durable_nb.values.parts import CannotTake, Parts, Shape, type_name
from durable_nb.values.plain import write_json
from durable_nb.values.registry import Registry, default_registry
from durable_nb.values.trail import Trail

#: Bytes of a digest, 32 hexadecimal digits.
_SIZE: Final = 16

_NONE, _TRUE, _FALSE = b"N;", b"T;", b"F;"


def digest(value: Any, *, name: str = "value", registry: Registry | None = None) -> str:
    """Digest a value by type and content.

    `1`, `1.0`, `True`, `"1"` and `b"1"` differ, and so do `(1, 2)` and `[1, 2]`. The order of a
    set or dict does not count, that of an OrderedDict does. Nothing is cut off at a depth. Objects
    of classes count by qualified name and fields, so a class may move to a module.

    Parameters
    ----------
    value : object
        Any value that can be recorded.
    name : str
        What errors call it.
    registry : Registry, optional
        Table of codecs; default: the one that `register_codec` adds to.

    Returns
    -------
    str
        `b2:` and 32 hexadecimal digits (blake2b).

    Raises
    ------
    NotDigestible
        Some part is a function, client, lock or the like, or contains itself.
    """
    token = _token(value, Trail(name), registry or default_registry())
    return "b2:" + hashlib.blake2b(token, digest_size=_SIZE).hexdigest()


@dataclass(slots=True)
class _Open:
    """A value on the way down, with the tokens of its inner values so far."""

    value: Any
    trail: Trail
    head: bytes
    parts: Parts
    tokens: list[bytes]


def _text(value: str) -> bytes:
    """Give the token of a text; its length comes first, so no two lists of tokens look alike."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"s%d:%b" % (len(raw), raw)


def _scalar(value: Any) -> bytes | None:
    """Give the token of a scalar, or None."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return b"i%x;" % value
    if kind is float:
        return b"f" + (b"nan" if math.isnan(value) else value.hex().encode()) + b";"
    if value is None:
        return _NONE
    if kind is bool:
        return _TRUE if value else _FALSE
    return None


def _token(root: Any, trail: Trail, registry: Registry) -> bytes:
    """Give the token of any value: scalars in full, all else as the digest of its parts."""
    plain = _scalar(root)
    if plain is not None:
        return plain
    done: dict[int, bytes] = {}
    kept: list[Any] = []  # while an id is a key, its object lives
    stack = [_open(root, trail, registry)]
    active = {id(root)}
    while True:
        top = stack[-1]
        items, tokens = top.parts.items, top.tokens
        while len(tokens) < len(items):
            item = items[len(tokens)]
            token = _scalar(item)
            if token is None:
                token = done.get(id(item))
            if token is None:
                break
            tokens.append(token)
        if len(tokens) == len(items):
            stack.pop()
            active.discard(id(top.value))
            token = _close(top)
            if not stack:
                return token
            done[id(top.value)] = token
            kept.append(top.value)
            continue
        below = Trail("", top.trail, top.parts, len(tokens))
        if id(item) in active:
            raise NotDigestible(below.path(), f"{type_name(type(item))} that contains itself")
        active.add(id(item))
        stack.append(_open(item, below, registry))


def _open(value: Any, trail: Trail, registry: Registry) -> _Open:
    """Take a value apart for its digest."""
    kind = type(value)
    row = registry.of_type(kind)
    if row is None:
        raise NotDigestible(trail.path(), type_name(kind))
    try:
        parts = (row.digested or row.content or row.encode)(value)
    except CannotTake as refused:
        raise NotDigestible(trail.path(), refused.found, refused.advice) from refused
    head = {"tag": row.tag, "cls": parts.cls and parts.cls.__qualname__, "data": dict(parts.data)}
    return _Open(value, trail, write_json(head).encode(), parts, [])


def _close(opened: _Open) -> bytes:
    """Give the token of a value whose inner tokens are all there."""
    parts, tokens = opened.parts, opened.tokens
    if parts.shape is Shape.SET:
        tokens = sorted(tokens)
    elif parts.shape is Shape.MAPPING:
        tokens = sorted(key + item for key, item in zip(tokens[::2], tokens[1::2], strict=True))
    elif parts.shape is Shape.NAMED:
        names = (_text(name) for name in parts.names)
        tokens = [name + item for name, item in zip(names, tokens, strict=True)]
    body = hashlib.blake2b(digest_size=_SIZE)
    body.update(b"%d:%b%d;" % (len(opened.head), opened.head, len(tokens)))
    body.update(b"".join(tokens))
    if parts.blob is not None:
        body.update(b"#%d:" % len(parts.blob))
        body.update(parts.blob)
    return b"d" + body.digest()
