"""Digests by type and content: equal for equal values of equal types, in every process."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
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
    token = _Digester(name, registry or default_registry()).token(value)
    return "b2:" + hashlib.blake2b(token, digest_size=_SIZE).hexdigest()


@dataclass(slots=True)
class _Open:
    """A value on the way down, with the tokens of its inner values so far."""

    value: Any
    head: bytes
    parts: Parts
    rest: Iterator[Any]
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


class _Digester:
    """Makes the token of one value, inner tokens first."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name, self.registry = name, registry
        self.stack: list[_Open] = []
        self.heads: dict[type, bytes] = {}

    def token(self, root: Any) -> bytes:
        """Walk down and up without recursion; a value that was met before is not walked again."""
        scalar = _scalar(root)
        if scalar is not None:
            return scalar
        done: dict[int, bytes] = {}
        kept: list[Any] = []  # while an id is a key, its object lives
        active = {id(root)}
        self._open(root)
        while True:
            top = self.stack[-1]
            item = _advance(top.rest, top.tokens, done)
            if item is not _ALL:
                if id(item) in active:
                    found = f"{type_name(type(item))} that contains itself"
                    raise NotDigestible(self._path(), found)
                active.add(id(item))
                self._open(item)
                continue
            token = _close(top)
            self.stack.pop()
            if not self.stack:
                return token
            active.discard(id(top.value))
            done[id(top.value)] = token
            kept.append(top.value)
            self.stack[-1].tokens.append(token)

    def _open(self, value: Any) -> None:
        """Take a value apart."""
        kind = type(value)
        row = self.registry.of_type(kind)
        if row is None:
            raise NotDigestible(self._path(), type_name(kind))
        try:
            parts = (row.digested or row.content or row.encode)(value)
        except CannotTake as refused:
            raise NotDigestible(self._path(), refused.found, refused.advice) from refused
        head = self._head(kind, row.tag, parts)
        self.stack.append(_Open(value, head, parts, iter(parts.items), []))

    def _head(self, kind: type, tag: str, parts: Parts) -> bytes:
        """Write what a value is beside its inner values; without facts that is one per type."""
        known = None if parts.data else self.heads.get(kind)
        if known is None:
            qualname = parts.cls and parts.cls.__qualname__
            head = {"tag": tag, "cls": qualname, "data": dict(parts.data)}
            known = write_json(head).encode()
            if not parts.data:
                self.heads[kind] = known
        return known

    def _path(self) -> str:
        """Say where the value stands that is about to be opened."""
        trail = Trail(self.name)
        for above in self.stack:
            trail = Trail("", trail, above.parts, len(above.tokens))
        return trail.path()


#: Every inner value has its token.
_ALL: Final = object()


def _advance(rest: Iterator[Any], tokens: list[bytes], done: dict[int, bytes]) -> Any:
    """Add the tokens that need no walk; give the first inner value that does, or `_ALL`."""
    for item in rest:
        token = _scalar(item) or done.get(id(item))
        if token is None:
            return item
        tokens.append(token)
    return _ALL


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
