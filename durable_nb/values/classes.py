"""Codec rows for families of classes: enums, dataclasses, attrs, namedtuples.

An instance is recorded as data plus where its class is found plus a fingerprint of the class's
fields. Loading looks the class up by name, compares the fingerprint and rebuilds the instance
without its `__init__`, `__post_init__` or `__setstate__`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from types import MemberDescriptorType
from typing import Any, Final

from durable_nb.values.errors import ValueNotLoadable
from durable_nb.values.parts import CannotTake, Codec, Parts, Shape, type_name

#: CPython's Py_TPFLAGS_HEAPTYPE: classes made by a `class` statement have it, C types mostly not.
_HEAP_TYPE = 1 << 9


# -- fingerprints -----------------------------------------------------------------------------


def annotation(kind: Any, cls: type) -> str:
    """Write an annotation the same way whether it is text, a forward reference or an object."""
    text = kind if isinstance(kind, str) else getattr(kind, "__qualname__", "")
    if not isinstance(kind, str) and (not text or "[" in repr(kind)):
        text = repr(kind)
    text = re.sub(r"ForwardRef\('([^']*)'[^()]*\)", r"\1", text)
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text).replace("'", "").replace('"', "")
    return re.sub(rf"\b(typing|builtins|__main__|{re.escape(cls.__module__)})\.", "", text)


def _listed(cls: type, fields: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}: {annotation(kind, cls)}" for name, kind in fields)


def _dataclass_fields(cls: Any) -> str:
    return _listed(cls, ((f.name, f.type) for f in dataclasses.fields(cls)))


def _attrs_fields(cls: Any) -> str:
    return _listed(cls, ((a.name, a.type) for a in cls.__attrs_attrs__))


def _named_fields(cls: Any) -> str:
    kinds = inspect.get_annotations(cls)
    return _listed(cls, ((name, kinds.get(name, "Any")) for name in cls._fields))


# -- which family -----------------------------------------------------------------------------


def _is_plain_object(cls: type) -> bool:
    """Say whether all state is in `__dict__` and slots: no base in C keeps some of its own."""
    return all(base is object or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)


def _is_enum(cls: type) -> bool:
    return isinstance(cls, enum.EnumMeta)


def _is_dataclass(cls: type) -> bool:
    return hasattr(cls, "__dataclass_fields__") and _is_plain_object(cls)


def _is_attrs(cls: type) -> bool:
    return hasattr(cls, "__attrs_attrs__") and _is_plain_object(cls)


def _is_namedtuple(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return (
        issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and all(isinstance(name, str) for name in fields)
        and all(base in (tuple, object) or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)
    )


# -- enums ------------------------------------------------------------------------------------


def _enum(value: enum.Enum) -> Parts:
    cls = type(value)
    return Parts({"name": value.name}, (value._value_,), cls=cls)


def _member(parts: Parts) -> Any:
    """Look a member up by name and value; the enum's own call could run user code."""
    cls: Any = parts.cls
    (value,) = parts.items
    name = parts.data["name"]
    member = cls.__members__.get(name)
    if member is None and issubclass(cls, enum.Flag) and type(value) is int:
        member = cls._value2member_map_.get(value)
        if member is None:
            member = enum.Flag._missing_.__func__(cls, value)  # type: ignore[attr-defined]
    now = "no such member" if member is None else f"{name} = {member._value_!r}"
    if member is None or type(member._value_) is not type(value) or not _alike(member, value):
        raise ValueNotLoadable(
            f"member {cls.__qualname__}.{name}", f"recorded {name} = {value!r}; now {now}"
        )
    return member


def _alike(member: Any, value: Any) -> bool:
    """Compare the value of a member with a recorded one; NaN equals NaN."""
    if type(value) is float and math.isnan(value):
        return math.isnan(member._value_)
    return bool(member._value_ == value)


# -- dataclasses and attrs --------------------------------------------------------------------

#: A hash that attrs keeps on the instance: it depends on the hash seed of its process.
_ATTRS_HASH: Final = "_attrs_cached_hash"

#: State that is no part of a value: typing's note of the generic alias it was made through.
_NOT_STATE: Final = frozenset({_ATTRS_HASH, "__orig_class__"})


def _slots(cls: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    """List the slots of a class and its bases."""
    for base in reversed(cls.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, MemberDescriptorType):
                yield name, member


def _dict_of(value: Any) -> dict[str, Any] | None:
    """Give an object's `__dict__`, or None where it has slots only."""
    try:
        found: dict[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found


def object_state(value: Any) -> dict[str, Any]:
    """Read the whole state of an object, past the properties and descriptors of its class."""
    state: dict[str, Any] = dict(_dict_of(value) or {})
    for name, member in _slots(type(value)):
        try:
            state[name] = member.__get__(value, type(value))
        except AttributeError:  # a slot that was never set has no state
            continue
    return {name: item for name, item in state.items() if name not in _NOT_STATE}


def from_state(value: Any) -> Parts:
    """Take an object's whole state, by name."""
    cls = type(value)
    state = object_state(value)
    return Parts(items=tuple(state.values()), shape=Shape.NAMED, names=tuple(state), cls=cls)


def only(fields: Callable[[Any], frozenset[str]]) -> Callable[[Any], Parts]:
    """Digest the declared fields only: what a cached property left behind is no input."""

    def take(value: Any) -> Parts:
        cls, wanted = type(value), fields(type(value))
        state = {name: item for name, item in object_state(value).items() if name in wanted}
        ordered = dict(sorted(state.items()))
        return Parts(
            items=tuple(ordered.values()), shape=Shape.NAMED, names=tuple(ordered), cls=cls
        )

    return take


def bare(parts: Parts) -> Any:
    """Make an instance without its `__init__`."""
    assert parts.cls is not None
    value: Any = object.__new__(parts.cls)
    for name, member in _slots(parts.cls):
        if name == _ATTRS_HASH:
            member.__set__(value, None)
    state = _dict_of(value)
    if state is not None and hasattr(parts.cls, "__attrs_attrs__"):
        state[_ATTRS_HASH] = None
    return value


def set_state(value: Any, parts: Parts) -> None:
    """Put state back, slots through their descriptors and the rest into `__dict__`."""
    slots = dict(_slots(type(value)))
    state = _dict_of(value)
    for name, item in zip(parts.names, parts.items, strict=True):
        if name in slots:
            slots[name].__set__(value, item)
        elif state is not None:
            state[name] = item
        else:
            raise ValueError(f"it has no place for {name}")


# -- namedtuples ------------------------------------------------------------------------------


def _namedtuple(value: Any) -> Parts:
    cls = type(value)
    if _dict_of(value):
        raise CannotTake(f"{type_name(cls)} with attributes of its own", "keep to its fields")
    return Parts(items=tuple(value), shape=Shape.NAMED, names=cls._fields, cls=cls)


def _from_fields(parts: Parts) -> Any:
    cls: Any = parts.cls
    return tuple.__new__(cls, parts.items)


ROWS: Final[tuple[Codec, ...]] = (
    Codec("enum", _is_enum, _enum, _member),
    Codec("namedtuple", _is_namedtuple, _namedtuple, _from_fields, fingerprint=_named_fields),
    Codec(
        "attrs",
        _is_attrs,
        from_state,
        bare,
        fill=set_state,
        fingerprint=_attrs_fields,
        digested=only(lambda cls: frozenset(a.name for a in cls.__attrs_attrs__)),
    ),
    Codec(
        "dataclass",
        _is_dataclass,
        from_state,
        bare,
        fill=set_state,
        fingerprint=_dataclass_fields,
        digested=only(lambda cls: frozenset(f.name for f in dataclasses.fields(cls))),
    ),
)
