"""The registry: which codec takes which type, and which tag is read by which codec."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from durable_nb.values import classes, models, standard
from durable_nb.values.parts import Codec, Parts

#: Root package of a type, and first part of its tag -> the module that holds its rows.
LIBRARIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numpy": "durable_nb.values.arrays",
        "pandas": "durable_nb.values.frames",
        "pyarrow": "durable_nb.values.tables",
    }
)

_TAG = re.compile(r"[A-Za-z_][\w.:-]{0,99}\Z")

#: Tags of the text format itself.
_RESERVED: Final = frozenset({"graph", "artifact"})


@dataclass(frozen=True, slots=True)
class Registry:
    """An immutable table of codecs.

    Attributes
    ----------
    rows : tuple of Codec
        All rows, asked in this order; the first that takes a type wins.
    direct, direct_tags : Mapping
        Type to row and tag to row, for the types whose values the direct path takes.
    """

    rows: tuple[Codec, ...]
    by_tag: Mapping[str, Codec] = field(init=False, repr=False)
    by_type: Mapping[type, Codec] = field(init=False, repr=False)
    direct: Mapping[type, Codec] = field(init=False, repr=False)
    direct_tags: Mapping[str, Codec] = field(init=False, repr=False)
    families: tuple[Codec, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        exact = {row.matches: row for row in reversed(self.rows) if isinstance(row.matches, type)}
        families = tuple(row for row in self.rows if not isinstance(row.matches, type))
        object.__setattr__(self, "by_tag", MappingProxyType({row.tag: row for row in self.rows}))
        object.__setattr__(self, "by_type", MappingProxyType(exact))
        direct = {kind: row for kind, row in exact.items() if row.is_direct}
        tags = {tag: row for tag, row in self.by_tag.items() if row.is_direct}
        object.__setattr__(self, "direct", MappingProxyType(direct))
        object.__setattr__(self, "direct_tags", MappingProxyType(tags))
        object.__setattr__(self, "families", families)

    def with_row(self, row: Codec) -> Registry:
        """Give a registry with one more row; a row of the same tag is replaced."""
        return Registry((row, *(old for old in self.rows if old.tag != row.tag)))

    def of_type(self, cls: type) -> Codec | None:
        """Find the codec of a type, or None."""
        row = self.by_type.get(cls)
        if row is not None:
            return row
        for row in self.families:
            if matches(row, cls):
                return row
        root = getattr(cls, "__module__", "").partition(".")[0]
        return next((row for row in _library(root) if matches(row, cls)), None)

    def of_tag(self, tag: str) -> Codec | None:
        """Find the codec that reads a tag, or None."""
        row = self.by_tag.get(tag)
        if row is not None:
            return row
        return next((row for row in _library(tag.partition(".")[0]) if row.tag == tag), None)


def matches(row: Codec, cls: type) -> bool:
    """Say whether a row takes values of a type."""
    return cls is row.matches if isinstance(row.matches, type) else bool(row.matches(cls))


def _library(root: str) -> tuple[Codec, ...]:
    """Give the rows of an optional library; it is imported only when a value of it turns up."""
    module = LIBRARIES.get(root)
    if module is None:
        return ()
    rows: tuple[Codec, ...] = importlib.import_module(module).ROWS
    return rows


BUILT_IN: Final = Registry((*standard.ROWS, *classes.ROWS, *models.ROWS))

_default = BUILT_IN


def default_registry() -> Registry:
    """Give the registry that is used where none is named."""
    return _default


def register_codec(
    tag: str,
    type: type,  # noqa: A002  # the natural name, and callers may pass it by keyword
    version: int,
    encode: Callable[[Any], Any],
    decode: Callable[[Any], Any],
    *,
    older: Mapping[int, Callable[[Any], Any]] | None = None,
) -> Codec:
    """Teach the journal one more type.

    Parameters
    ----------
    tag : str
        Name of the type in recorded text. Keep it for ever.
    type : type
        The exact class; its subclasses are not covered.
    version : int
        Version of the recorded form, from 1. Raise it when `encode` gives another form.
    encode : callable
        The value to anything recordable (mostly a dict).
    decode : callable
        What `encode` gave to an equal value.
    older : mapping of int to callable, optional
        Decoders of the forms of earlier versions.

    Returns
    -------
    Codec
        The row that was registered.

    Raises
    ------
    ValueError
        The tag is no identifier, or taken by a built-in type; or the version is below 1.
    """
    global _default  # noqa: PLW0603  # one program has one registry, and cells add to it
    if not _TAG.match(tag):
        raise ValueError(f"{tag!r} is no tag: letters, digits and . _ : - only. Choose another.")
    if tag in _RESERVED or BUILT_IN.of_tag(tag) or tag.partition(".")[0] in LIBRARIES:
        raise ValueError(f"the tag {tag!r} belongs to a built-in type. Choose another.")
    if type in BUILT_IN.by_type:
        raise ValueError(f"{type.__qualname__} is covered already; nothing was registered.")
    if version < 1:
        raise ValueError(f"versions start at 1, not {version}.")
    row = Codec(
        tag=tag,
        matches=type,
        encode=lambda value: Parts(items=(encode(value),)),
        decode=_of_payload(decode),
        mutable=True,
        by_equality=_defines_equality(type),
        version=version,
        older=MappingProxyType({n: _of_payload(read) for n, read in (older or {}).items()}),
    )
    _default = _default.with_row(row)
    return row


def _defines_equality(cls: Any) -> bool:
    """Say whether instances of a class compare by value."""
    return cls.__eq__ is not object.__eq__


def _of_payload(decode: Callable[[Any], Any]) -> Callable[[Parts], Any]:
    """Adapt a decoder of one payload to parts."""

    def read(parts: Parts) -> Any:
        (payload,) = parts.items
        return decode(payload)

    return read
