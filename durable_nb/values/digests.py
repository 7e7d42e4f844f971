"""Digests by type and content: equal for equal values of equal types, in every process."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from operator import add
from typing import Any, Final

from durable_nb.values.errors import NotDigestible
from durable_nb.values.parts import NOTHING, CannotTake, Parts, Shape, type_name
from durable_nb.values.plain import write_json
from durable_nb.values.registry import Registry, default_registry
from durable_nb.values.trail import Trail

#: Bytes of a digest, 32 hexadecimal digits.
_SIZE: Final = 16


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
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        token: bytes | None = scalar(value)
    elif registry:
        token = None
    else:
        token = _plain(value, itertools.repeat(True, _PLAIN_PARTS), _PLAIN_DEPTH)
    if token is None:
        token = _Digester(name, registry or default_registry()).token(value)
    return "b2:" + blake2b(token, digest_size=_SIZE).hexdigest()


#: Bound once: to look up a member of an enum takes as long as to hash a small value.
_SET, _MAPPING, _NAMED = Shape.SET, Shape.MAPPING, Shape.NAMED


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


def _float(value: float) -> bytes:
    """Give the token of a float; all NaNs are one."""
    return b"f" + (b"nan" if math.isnan(value) else value.hex().encode()) + b";"


#: Type of a scalar -> its token. These values are never taken apart.
_SCALARS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _text,
    int: lambda value: b"i%x;" % value,
    float: _float,
    bool: lambda value: b"T;" if value else b"F;",
    type(None): lambda value: b"N;",
}


def _plain(value: Any, room: Iterator[bool], depth: int) -> bytes | None:
    """Give the token of lists, tuples and dicts of scalars and such; None for all else.

    The same token as `_Digester` gives, in less than half of its time: most inputs are such. What
    is large, nested deep, or contains itself, is left to that one too.
    """
    kind = type(value)
    tag = _PLAIN.get(kind)
    if tag is None or not depth or not next(room, False):
        return None
    scalars = _SCALARS
    tokens: list[bytes] = []
    for item in itertools.chain.from_iterable(value.items()) if kind is dict else value:
        scalar = scalars.get(type(item))
        token = _plain(item, room, depth - 1) if scalar is None else scalar(item)
        if token is None:
            return None
        tokens.append(token)
    if kind is dict:
        tokens = sorted(map(add, tokens[::2], tokens[1::2]))
    body = b"%b%d;%b" % (_bare_head(tag, None), len(tokens), b"".join(tokens))
    return b"d" + blake2b(body, digest_size=_SIZE).digest()


#: Types whose values `_plain` takes, and their tags in the registry, which are never another's.
_PLAIN: Final[Mapping[type, str]] = {list: "list", tuple: "tuple", dict: "dict"}
#: How deep, and how many of them in one value: a few lists that hold one another would never end.
_PLAIN_DEPTH: Final = 20
_PLAIN_PARTS: Final = 2_000


class _Digester:
    """Makes the token of one value, inner tokens first."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name, self.registry = name, registry
        self.stack: list[_Open] = []

    def token(self, root: Any) -> bytes:
        """Walk down and up without recursion; a value that was met before is not walked again."""
        scalars = _SCALARS
        done: dict[int, bytes] = {}
        kept: list[Any] = []  # while an id is a key, its object lives
        active = {id(root)}
        self._open(root)
        while True:
            top = self.stack[-1]
            tokens = top.tokens
            for item in top.rest:
                scalar = scalars.get(type(item))
                token = done.get(id(item)) if scalar is None else scalar(item)
                if token is None:
                    break
                tokens.append(token)
            else:  # every inner value has its token
                token = _close(top)
                self.stack.pop()
                if not self.stack:
                    return token
                active.discard(id(top.value))
                done[id(top.value)] = token
                kept.append(top.value)
                self.stack[-1].tokens.append(token)
                continue
            if id(item) in active:
                found = f"{type_name(type(item))} that contains itself"
                raise NotDigestible(self._path(), found)
            active.add(id(item))
            self._open(item)

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
        qualname = None if parts.cls is None else parts.cls.__qualname__
        head = _head(row.tag, qualname, parts.data) if parts.data else _bare_head(row.tag, qualname)
        self.stack.append(_Open(value, head, parts, iter(parts.items), []))

    def _path(self) -> str:
        """Say where the value stands that is about to be opened."""
        trail = Trail(self.name)
        for above in self.stack:
            trail = Trail("", trail, above.parts, len(above.tokens))
        return trail.path()


def _head(tag: str, qualname: str | None, data: Mapping[str, Any]) -> bytes:
    """Write what a value is beside its inner values."""
    head = write_json({"tag": tag, "cls": qualname, "data": dict(data)}).encode()
    return b"%d:%b" % (len(head), head)


@functools.lru_cache(maxsize=1024)
def _bare_head(tag: str, qualname: str | None) -> bytes:
    """Write the head of a value without facts: there is one per type."""
    return _head(tag, qualname, NOTHING)


def _close(opened: _Open) -> bytes:
    """Give the token of a value whose inner tokens are all there."""
    parts, tokens = opened.parts, opened.tokens
    shape = parts.shape
    if shape is _SET:
        tokens = sorted(tokens)
    elif shape is _MAPPING:
        tokens = sorted(map(add, tokens[::2], tokens[1::2]))
    elif shape is _NAMED:
        names = (_text(name) for name in parts.names)
        tokens = [name + item for name, item in zip(names, tokens, strict=True)]
    body = [opened.head, b"%d;" % len(tokens), *tokens]
    if parts.blob is None:
        return b"d" + blake2b(b"".join(body), digest_size=_SIZE).digest()
    body.append(b"#%d:" % len(parts.blob))
    hashed = blake2b(b"".join(body), digest_size=_SIZE)
    hashed.update(parts.blob)  # apart, since it may be large
    return b"d" + hashed.digest()
