"""Codec rows for builtins and the standard library.

Adding a type is one row in `ROWS`. A row takes exact types only: a subclass that is not covered is
refused by the registry, never flattened to its base.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from durable_nb.values.parts import NOTHING, CannotTake, Codec, Parts, Shape
from durable_nb.values.plain import MAX_TEXT, is_clean

#: Factories of a `defaultdict` that are recorded by name; any other could be anything.
FACTORIES: Final[Mapping[str, Callable[[], Any]]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (int, float, complex, bool, str, bytes, bytearray, list, dict, set, tuple)
    }
    | {"frozenset": frozenset, "Counter": Counter, "OrderedDict": OrderedDict, "deque": deque}
)

#: Addresses, networks and interfaces: their text says all of them.
_INTERNET: Final[tuple[type, ...]] = (
    ipaddress.IPv4Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Address,
    ipaddress.IPv6Interface,
    ipaddress.IPv6Network,
)


#: Bound once: to look up a member of an enum takes as long as the rest of a row.
_SET, _MAPPING, _NAMED = Shape.SET, Shape.MAPPING, Shape.NAMED

#: What a time names its zone.
_ZONE: Final = ("tzinfo",)


def _text(value: Any) -> Parts:
    """Take a value that its own text says in full."""
    return Parts({"v": str(value)})


def _reader(read: Callable[[str], Any]) -> Callable[[Parts], Any]:
    """Make a decoder of that text."""
    return lambda parts: read(parts.data["v"])


def _path(value: PurePath) -> Parts:
    """Take a path; a name that is not UTF-8 holds surrogates and goes as an inner value."""
    text = str(value)
    return Parts({"v": text}) if is_clean(text) else Parts(items=(text,))


def _path_reader(kind: Callable[[str], Any]) -> Callable[[Parts], Any]:
    return lambda parts: kind(parts.items[0] if parts.items else parts.data["v"])


def _items(value: Iterable[Any]) -> Parts:
    """Take a sequence."""
    return Parts(items=tuple(value))


def _set(value: Iterable[Any]) -> Parts:
    """Take a set; whoever needs an order sorts by digest."""
    return Parts(items=tuple(value), shape=_SET)


def named(data: Mapping[str, Any], state: Mapping[str, Any]) -> Parts:
    """Take inner values by name."""
    return Parts(data, tuple(state.values()), _NAMED, tuple(state))


def flat(value: Mapping[Any, Any]) -> tuple[Any, ...]:
    """List the keys and values of a mapping in turn."""
    return tuple(part for pair in value.items() for part in pair)


def _mapping(value: Mapping[Any, Any]) -> Parts:
    """Take a mapping, in its order."""
    return Parts(items=flat(value), shape=_MAPPING)


def _filler(put: Callable[[Any, Sequence[Any]], None]) -> Callable[[Any, Parts], None]:
    """Make a filler of a method that takes all inner values at once."""
    return lambda target, parts: put(target, parts.items)


def _put_pairs(target: Any, parts: Parts) -> None:
    """Fill a mapping with keys and values in turn."""
    for key, value in zip(parts.items[::2], parts.items[1::2], strict=True):
        target[key] = value


def _put_names(target: Any, parts: Parts) -> None:
    """Fill a namespace."""
    vars(target).update(zip(parts.names, parts.items, strict=True))


def _special_float(parts: Parts) -> float:
    """Read `nan`, `inf` or `-inf`, and nothing else."""
    if parts.data["v"] not in ("nan", "inf", "-inf"):
        raise ValueError("no special float")
    return float(parts.data["v"])


def _complex(parts: Parts) -> complex:
    real, imag = parts.items
    return complex(real, imag)


def _fraction(parts: Parts) -> Fraction:
    numerator, denominator = parts.items
    return Fraction(numerator, denominator)


def _deque(value: deque[Any]) -> Parts:
    return Parts({"maxlen": value.maxlen}, tuple(value))


def _defaultdict(value: defaultdict[Any, Any]) -> Parts:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and FACTORIES.get(name) is not factory:
        raise CannotTake(
            "defaultdict whose factory is code",
            "use a builtin factory such as list, or return dict(value)",
        )
    return Parts({"factory": name or None}, flat(value), _MAPPING)


def _empty_defaultdict(parts: Parts) -> defaultdict[Any, Any]:
    name = parts.data["factory"]
    return defaultdict(None if name is None else FACTORIES[name])


def _zone(value: ZoneInfo) -> Parts:
    if value.key is None:
        raise CannotTake("ZoneInfo without a key", "use ZoneInfo(key)")
    return Parts({"v": value.key})


#: What UTC is made of: most times are in UTC.
_UTC: Final = Parts({"us": 0, "name": None})


def _offset(value: timezone) -> Parts:
    """Take a fixed offset with its name, if it has one of its own."""
    if value is UTC:
        return _UTC
    bare = timezone(value.utcoffset(None))
    name = value.tzname(None)
    named = None if name == bare.tzname(None) else name
    return Parts({"us": value.utcoffset(None) // timedelta(microseconds=1), "name": named})


def _from_offset(parts: Parts) -> timezone:
    us, name = parts.data["us"], parts.data["name"]
    if us == 0 and name is None:
        return UTC
    delta = timedelta(microseconds=us)
    return timezone(delta) if name is None else timezone(delta, name)


def _moment(value: datetime) -> Parts:
    """Take a date and time: its wall clock, its fold and its zone."""
    # `replace(tzinfo=None)` gives the same, and takes three times as long as `combine`.
    return _zoned(value, datetime.combine(value, value.time()).isoformat())


def _clock(value: time) -> Parts:
    """Take a time of day, likewise."""
    return _zoned(value, value.replace(tzinfo=None, fold=0).isoformat())


def _zoned(value: datetime | time, at: str) -> Parts:
    """Put fold and zone beside a wall clock."""
    data: dict[str, Any] = {"at": at, "fold": 1} if value.fold else {"at": at}
    zone = value.tzinfo
    return Parts(data) if zone is None else Parts(data, (zone,), _NAMED, _ZONE)


def _from_moment(parts: Parts) -> datetime:
    zone: tzinfo | None = parts.items[0] if parts.items else None
    bare = datetime.fromisoformat(parts.data["at"])
    value = datetime.combine(bare, bare.time(), zone)
    return value.replace(fold=parts.data["fold"]) if "fold" in parts.data else value


def _from_clock(parts: Parts) -> time:
    zone: tzinfo | None = parts.items[0] if parts.items else None
    bare = time.fromisoformat(parts.data["at"])
    return bare.replace(fold=parts.data.get("fold", 0), tzinfo=zone)


def _timedelta(value: timedelta) -> Parts:
    return Parts({"days": value.days, "seconds": value.seconds, "us": value.microseconds})


def _pattern(value: re.Pattern[Any]) -> Parts:
    return Parts({"flags": value.flags}, (value.pattern,))


def _compile(parts: Parts) -> re.Pattern[Any]:
    (pattern,) = parts.items
    flags = int(parts.data["flags"]) & ~re.DEBUG
    return re.compile(pattern, flags)


def _blob(value: bytes | bytearray) -> Parts:
    return Parts(blob=bytes(value))


def _bytes(parts: Parts) -> bytes:
    if parts.blob is None:
        raise ValueError("its bytes are not there")
    return bytes(parts.blob)


def _str(value: str) -> Parts:
    """Take text as bytes: a long one, or one with lone surrogates, which JSON readers refuse."""
    utf8 = value.encode("utf-8", "surrogatepass")
    return Parts(blob=utf8) if len(value) > MAX_TEXT else Parts({"utf8": utf8.hex()})


def _from_utf8(parts: Parts) -> str:
    utf8 = bytes.fromhex(parts.data["utf8"]) if parts.blob is None else parts.blob
    return str(utf8, "utf-8", "surrogatepass")


ROWS: Final[tuple[Codec, ...]] = (
    # None, bool and the ordinary int, float and str are plain JSON; these rows take the rest.
    Codec("int", int, lambda v: Parts({"hex": f"{v:x}"}), lambda p: int(p.data["hex"], 16)),
    Codec("float", float, lambda v: Parts({"v": repr(v)}), _special_float),
    Codec("str", str, _str, _from_utf8),
    Codec("list", list, _items, lambda p: [], fill=_filler(list.extend)),
    Codec("dict", dict, _mapping, lambda p: {}, fill=_put_pairs),
    Codec("tuple", tuple, _items, lambda p: tuple(p.items)),
    Codec("set", set, _set, lambda p: set(), fill=_filler(set.update)),
    Codec("frozenset", frozenset, _set, lambda p: frozenset(p.items)),
    Codec("bytes", bytes, _blob, _bytes),
    Codec("bytearray", bytearray, _blob, lambda p: bytearray(_bytes(p)), mutable=True),
    Codec(
        "deque", deque, _deque, lambda p: deque(maxlen=p.data["maxlen"]), fill=_filler(deque.extend)
    ),
    Codec("Counter", Counter, _mapping, lambda p: Counter(), fill=_put_pairs),
    Codec("defaultdict", defaultdict, _defaultdict, _empty_defaultdict, fill=_put_pairs),
    Codec(
        "OrderedDict",
        OrderedDict,
        lambda v: Parts(items=flat(v), shape=Shape.PAIRS),
        lambda p: OrderedDict(),
        fill=_put_pairs,
    ),
    Codec(
        "SimpleNamespace",
        SimpleNamespace,
        lambda v: named(NOTHING, vars(v)),
        lambda p: SimpleNamespace(),
        fill=_put_names,
    ),
    Codec("Decimal", Decimal, _text, _reader(Decimal)),
    Codec("Fraction", Fraction, lambda v: Parts(items=(v.numerator, v.denominator)), _fraction),
    Codec("complex", complex, lambda v: Parts(items=(v.real, v.imag)), _complex),
    Codec(
        "range", range, lambda v: Parts(items=(v.start, v.stop, v.step)), lambda p: range(*p.items)
    ),
    Codec(
        "slice", slice, lambda v: Parts(items=(v.start, v.stop, v.step)), lambda p: slice(*p.items)
    ),
    Codec("datetime", datetime, _moment, _from_moment),
    Codec("time", time, _clock, _from_clock),
    Codec("date", date, _text, _reader(date.fromisoformat)),
    Codec(
        "timedelta",
        timedelta,
        _timedelta,
        lambda p: timedelta(p.data["days"], p.data["seconds"], p.data["us"]),
    ),
    Codec("timezone", timezone, _offset, _from_offset),
    Codec("ZoneInfo", ZoneInfo, _zone, _reader(ZoneInfo)),
    Codec("UUID", UUID, _text, _reader(UUID)),
    *(Codec(kind.__name__, kind, _text, _reader(kind)) for kind in _INTERNET),
    Codec("re.Pattern", re.Pattern, _pattern, _compile),
    Codec("PosixPath", PosixPath, _path, _path_reader(PosixPath)),
    Codec("WindowsPath", WindowsPath, _path, _path_reader(WindowsPath)),
    Codec("PurePosixPath", PurePosixPath, _path, _path_reader(PurePosixPath)),
    Codec("PureWindowsPath", PureWindowsPath, _path, _path_reader(PureWindowsPath)),
    Codec("ellipsis", type(...), lambda v: Parts(), lambda p: ...),
    Codec("NotImplemented", type(NotImplemented), lambda v: Parts(), lambda p: NotImplemented),
)
