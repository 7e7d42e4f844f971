"""Named values and what becomes of each: kept, refused by name, or waiting for its class.

No pytest in here: programs of their own import it, to save all values and to load them again.
"""

from __future__ import annotations

import array
import asyncio
import contextvars
import functools
import io
import ipaddress
import itertools
import logging
import math
import operator
import queue
import random
import re
import socket
import sqlite3
import sys
import threading
import time as clock
import types
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from support import value_classes as c

T = TypeVar("T")

BERLIN = ZoneInfo("Europe/Berlin")


def deep(levels: int, wrap: Callable[[Any], Any]) -> Any:
    """Put a value below many levels."""
    value: Any = 1.5
    for _ in range(levels):
        value = wrap(value)
    return value


def _looked_at(value: T, name: str) -> T:
    getattr(value, name)
    return value


def _hashed(value: T) -> T:
    hash(value)
    return value


def _private(model: c.Model, secret: Any) -> c.Model:
    model._secret = secret
    return model


def _changed(value: T, **state: Any) -> T:
    vars(value).update(state)
    return value


class Zone(tzinfo):
    """A zone that only its own code knows."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(0)


#: name -> value; each must come back equal and of the same type, all the way down.
KEPT: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus one": -1,
    "2**130": 2**130,
    "negative huge": -(10**700),
    "5,000 digits": 10**5000 + 7,
    "float": 0.1,
    "minus zero": -0.0,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "tiny": 5e-324,
    "empty text": "",
    "text": "a 'quoted' \"text\" \\ \n",
    "umlaut": "grün 漢字 😀",
    "nul": "a\x00b",
    "lone surrogate": "a\ud83d",
    "two lone surrogates": "\ud83d\ude00",
    "text like a tag": '{"$":"artifact","sha256":"' + "0" * 64 + '","size":1}',
    "date as text": "2021-01-01",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "bytes above the limit": b"x" * 70_000,
    "text above the limit": "y" * 70_000,
    "list": [1, [2, [3]]],
    "empty list": [],
    "tuple": (1, "a"),
    "list like the tuple": [1, "a"],
    "empty tuple": (),
    "nested tuple": ((1, (2,)), [(3,)]),
    "set": {1, 2, 3},
    "set of tuples": {(1, 2)},
    "mixed set": {1, "1", None, (1,)},
    "frozenset": frozenset({"a", "b"}),
    "set of frozensets": {frozenset({1}), frozenset()},
    "dict": {"b": 1, "a": 2},
    "int keys": {1: "a", 2: "b"},
    "None key": {None: 1},
    "mixed keys": {1: "i", "1": "s", (1,): "t", b"1": "b", True + 1: "two"},
    "dollar key": {"$": "tuple", "v": [1]},
    "surrogate key": {"\ud800": 1},
    "NaN in a dict": {"x": math.nan, "y": [math.inf]},
    "deque": deque([1, 2], maxlen=2),
    "unbounded deque": deque([1]),
    "Counter": Counter("abca"),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "defaultdict without a factory": defaultdict(None, {"a": 1}),
    "OrderedDict": OrderedDict([("b", 1), ("a", 2)]),
    "Decimal": Decimal("1.50"),
    "45 digits": Decimal("1" * 45),
    "Decimal NaN": Decimal("sNaN12"),
    "minus zero Decimal": Decimal("-0E+5"),
    "Fraction": Fraction(1, 3),
    "complex": complex(-0.0, math.inf),
    "range": range(0, 10, 3),
    "empty range": range(2, 2),
    "slice": slice(1, None, "x"),
    "datetime": datetime(2021, 1, 1, 12, 30, 0, 5),
    "utc": datetime(2021, 1, 1, tzinfo=UTC),
    "first 02:30": datetime(2021, 10, 31, 2, 30, tzinfo=BERLIN),
    "second 02:30": datetime(2021, 10, 31, 2, 30, tzinfo=BERLIN, fold=1),
    "naive fold": datetime(2021, 10, 31, 2, 30, fold=1),
    "named offset": datetime(2021, 1, 1, tzinfo=timezone(timedelta(hours=-3, seconds=7), "X")),
    "year 1": datetime(1, 1, 1),
    "date": date(2021, 1, 1),
    "time": time(12, 30, tzinfo=UTC, fold=1),
    "timedelta": timedelta(days=-1, microseconds=3),
    "zone": BERLIN,
    "UUID": UUID(int=5),
    "Path": Path("/a/b"),
    "path that is not UTF-8": Path("/a/\udcff"),
    "PurePosixPath": PurePosixPath("a"),
    "PureWindowsPath": PureWindowsPath("c:/x"),
    "pattern": re.compile(r"a+(?P<x>b)", re.IGNORECASE | re.MULTILINE),
    "bytes pattern": re.compile(rb"\d"),
    "ellipsis": ...,
    "array": np.arange(6).reshape(2, 3),
    "Fortran array": np.asfortranarray(np.ones((2, 3))),
    "big-endian array": np.array([1, 2], dtype=">i4"),
    "empty array": np.zeros((0, 3)),
    "scalar array": np.array(5.0),
    "text array": np.array(["ab", "c"]),
    "object array": np.array([1, "x", None, (1, 2)], dtype=object),
    "record array": np.array([(1, [2, 3])], dtype=[("a", "i4"), ("b", "f8", (2,))]),
    "nested records": np.array([((1, 2),)], dtype=[("n", [("x", "i2"), ("y", "i2")])]),
    "dates array": np.array(["2020", "NaT"], dtype="M8[D]"),
    "large array": np.arange(20_000),
    "numpy float": np.float64(0.5),
    "numpy int": np.int32(3),
    "numpy bool": np.bool_(True),
    "numpy text": np.str_("hi"),
    "dtype": np.dtype([("a", "<i4")]),
    "10,000 digits": -(10**9_999),
    "largest plain int": 2**2000 - 1,
    "smallest hex int": 2**2000,
    "text of 64 KB": "z" * 65_536,
    "list of NaNs": [math.nan, [math.nan]],
    "set of two NaNs": {math.nan, float("nan")},
    "NaN key": {math.nan: 1},
    "float keys": {0.5: 1, math.inf: 2, -0.0: 3},
    "tuple keys": {(1, ("a", None)): [1]},
    "empty key": {"": {"": ""}},
    "dollar keys below": {"a": [{"$": "artifact", "sha256": "x"}]},
    "bytes keys": {b"\xff": b""},
    "enum keys": {c.Color.RED: c.Level.LOW, c.Word.A: None},
    "date keys": {date(2021, 1, 1): timedelta(1)},
    "empty collections": [[], (), {}, set(), frozenset(), b"", "", deque(), Counter()],
    "memory of bytes": bytearray(),
    "deque of no length": deque(maxlen=0),
    "Counter of negatives": Counter({"a": -1, ("b",): 0}),
    "defaultdict of sets": defaultdict(set, {1: {2}}),
    "defaultdict of Counters": defaultdict(Counter, {"a": Counter("aa")}),
    "OrderedDict other order": OrderedDict([("a", 2), ("b", 1)]),
    "Decimal NaN payload": Decimal("-NaN123"),
    "Decimal infinity": Decimal("-Infinity"),
    "Decimal exponent": Decimal("1E+999999"),
    "Decimal trailing zeros": Decimal("0.000"),
    "negative Fraction": Fraction(-(10**30), 7),
    "complex NaN": complex(math.nan, -0.0),
    "slice of nothing": slice(None),
    "huge range": range(-(10**30), 10**30, 7),
    "microseconds": datetime(2021, 1, 1, 0, 0, 0, 1, tzinfo=BERLIN),
    "hour that does not exist": datetime(2021, 3, 28, 2, 30, tzinfo=BERLIN),
    "same hour, fixed offset": datetime(2021, 10, 31, 2, 30, tzinfo=timezone(timedelta(hours=1))),
    "utc by name": datetime(2021, 1, 1, tzinfo=ZoneInfo("UTC")),
    "named zero offset": timezone(timedelta(0), "Z"),
    "year 9999": datetime.max,
    "time of Berlin": time(2, 30, tzinfo=BERLIN, fold=1),
    "largest timedelta": timedelta.max,
    "smallest timedelta": timedelta.min,
    "UUID 4": UUID("12345678-1234-4678-9234-567812345678"),
    "PureWindowsPath share": PureWindowsPath("//host/share/a"),
    "relative path": Path("a/../b"),
    "pattern with flags": re.compile("ä+", re.ASCII | re.VERBOSE | re.DOTALL),
    "IPv4Address": ipaddress.ip_address("192.0.2.1"),
    "IPv6Address with scope": ipaddress.ip_address("fe80::1%eth0"),
    "IPv4Network": ipaddress.ip_network("10.0.0.0/8"),
    "IPv6Network": ipaddress.ip_network("2001:db8::/32"),
    "IPv4Interface": ipaddress.ip_interface("10.0.0.1/8"),
    "IPv6Interface": ipaddress.ip_interface("2001:db8::1/32"),
    "SimpleNamespace": SimpleNamespace(a=1, b=SimpleNamespace(c=(2,))),
    "NotImplemented": NotImplemented,
    "enum": c.Color.RED,
    "enum of tuple": c.Color.BLUE,
    "IntEnum": c.Level.LOW,
    "StrEnum": c.Word.A,
    "flag": c.Perm.R,
    "flags together": c.Perm.R | c.Perm.W,
    "no flag": c.Perm(0),
    "flag the other way": ~c.Perm.R,
    "IntFlag beyond its members": c.Bits(1 | 8),
    "nested enum": c.Outer.Inner.X,
    "set of enums": {c.Color.RED, c.Color.BLUE},
    "dataclass": c.Order(1, ["a"]),
    "nested dataclass": c.Outer.Data(1),
    "frozen slots": c.Point(1.5, -0.0),
    "dataclass in a dataclass": c.Node("a", c.Node("b", frozenset({c.Color.RED}))),
    "unset slot": c.Partial(1),
    "kw_only and inherited": c.Keyed(id=1, note="n"),
    "InitVar": c.Seeded(1),
    "cached property": _looked_at(c.Seeded(2), "doubled"),
    "generic dataclass": c.Crate[int](1),
    "frozen key": {c.Point(1.0): c.Pair(1)},
    "set of frozen": {c.Point(1.0), c.Point(2.0), 3},
    "NamedTuple": c.Pair(1),
    "NamedTuple of lists": c.Pair(1, [c.Pair(2)]),
    "namedtuple": c.Old(1, (2,)),
    "attrs": c.Attrs(1, "q"),
    "attrs with a kept hash": _hashed(c.Hashed("a")),
    "model": c.Model(x=1, items=[1], Other=(1, 2)),
    "model with defaults unset": c.Model(x=1),
    "model private": _private(c.Model(x=1), {"k": (1,)}),
    "model made without validation": c.Model.model_construct(x="no int", items=(1,)),
    "model changed past its validation": _changed(c.Model(x=1), x=1.5),
    "model extra": c.Loose(x=1, more=(1,)),
    "model subclass": c.Sub(x=2, y=c.Color.RED),
    "model frozen": _looked_at(c.Frozen(x=2), "kept"),
    "model frozen as key": {c.Frozen(x=1): 1},
    "model root": c.Root([1, 2]),
    "model generic": c.Box(item=[1]),
    "model Box[int]": c.Box[int](item=1),
    "model Box[list[int]]": c.Box[list[int]](item=[1]),
    "model Box[Box[Color]]": c.Box[c.Box[c.Color]](item=c.Box[c.Color](item=c.Color.RED)),
    "model named IntBox": c.IntBox(item=1),
    "model union": c.Zoo(pets=[c.Cat(lives=9), c.Dog(lives=1)]),
    "model of parsed JSON": c.Event.model_validate_json('{"at": "2021-01-01T00:00:00Z"}'),
    "model zone": c.Event.model_validate_json('{"at": "2021-01-01T00:00:00-03:30"}'),
    "model URL": c.Event(at=datetime(2021, 1, 1), url="http://example.org/a?b=1"),
    "model tree": c.Tree(children=[c.Tree(), c.Tree(children=[c.Tree()])]),
    "pydantic dataclass": c.Checked(1),
    "tool result": {"ok": True, "rows": [{"id": 1, "at": datetime(2021, 1, 1), "tags": ("a",)}]},
    "everything": [{"p": c.Point(1.0), "m": c.Box[int](item=2)}, (c.Color.RED, {c.Pair(1)}), 2**70],
    "1,000 lists": deep(1_000, lambda below: [below]),
    "1,000 tuples": deep(1_000, lambda below: (below,)),
    "1,000 dicts": deep(1_000, lambda below: {"a": below}),
    "1,000 dataclasses": deep(1_000, lambda below: c.Node("n", below)),
    "1,000 models": deep(1_000, lambda below: c.Model.model_construct(x=1, other=below)),
}


def _local_class() -> Any:
    """Make an object of a class that no later kernel finds."""

    class Local(c.Order):
        pass

    return Local(1)


def _ring() -> Any:
    inner: list[Any] = []
    ring = (inner,)
    inner.append(ring)
    return ring


async def _coroutine() -> None:
    """Do nothing."""


def _unawaited() -> Any:
    coroutine = _coroutine()
    coroutine.close()
    return coroutine


#: name -> (value, path to the object that cannot be kept, words of the message).
REFUSED: dict[str, tuple[Any, str, str]] = {
    "lock": (threading.Lock(), "result", "_thread.lock"),
    "lock below": ({"client": [1, {"session": (threading.Lock(),)}]},
                   'result["client"][1]["session"][0]', "record="),
    "lock in a namespace": ({"client": SimpleNamespace(session=threading.Lock())},
                            'result["client"].session', "_thread.lock"),
    "lock in a dataclass": (c.Node("n", threading.RLock()), "result.next", "RLock"),
    "lock in private state": (_private(c.Model(x=1), threading.Lock()),
                              'result.__pydantic_private__["_secret"]', "_thread.lock"),
    "lock in a namedtuple": ([c.Pair(1, threading.Lock())], "result[0].b", "_thread.lock"),
    "generator": ((i for i in ()), "result", "list(value)"),
    "iterator": ([iter([1])], "result[0]", "list(value)"),
    "map": (map(str, []), "result", "map"),
    "counter": (itertools.count(), "result", "count"),
    "client": ({"client": c.Plain(key="sk-x")}, 'result["client"]', "Plain"),
    "socket": (socket.socket(), "result", "socket"),
    "connection": (sqlite3.connect(":memory:"), "result", "sqlite3.Connection"),
    "open file": (open(__file__), "result", "TextIOWrapper"),  # noqa: SIM115  # the value itself
    "StringIO": (io.StringIO("a"), "result", "StringIO"),
    "lambda": (lambda: 0, "result", "function"),
    "function": (deep, "result", "function"),
    "builtin": ({"f": print}, 'result["f"]', "builtin_function_or_method"),
    "method": ("a".upper, "result", "builtin_function_or_method"),
    "partial": (functools.partial(int, base=2), "result", "partial"),
    "itemgetter": (operator.itemgetter(1), "result", "itemgetter"),
    "class": (c.Color, "result", "EnumType"),
    "builtin class": (int, "result", "type"),
    "generic alias": (list[int], "result", "GenericAlias"),
    "module": (math, "result", "module"),
    "thread": (threading.Thread(), "result", "Thread"),
    "event": (threading.Event(), "result", "Event"),
    "queue": (queue.Queue(), "result", "Queue"),
    "logger": (logging.getLogger("x"), "result", "Logger"),
    "context variable": (contextvars.ContextVar("v"), "result", "ContextVar"),
    "coroutine": (_unawaited(), "result", "coroutine"),
    "asyncio lock": (asyncio.Lock(), "result", "Lock"),
    "weak reference": (weakref.ref(c.Color), "result", "ReferenceType"),
    "frame": (sys._getframe(), "result", "frame"),
    "code": (deep.__code__, "result", "code"),
    "random generator": (random.Random(1), "result", "Random"),
    "memoryview": (memoryview(b"a"), "result", "bytes(value)"),
    "array.array": (array.array("d", [1.0]), "result", "array"),
    "MappingProxyType": (types.MappingProxyType({}), "result", "dict(value)"),
    "ChainMap": (ChainMap({}), "result", "dict(value)"),
    "UserDict": (UserDict(a=1), "result", "UserDict"),
    "dict keys": ({"a": 1}.keys(), "result", "dict_keys"),
    "struct_time": (clock.gmtime(0), "result", "struct_time"),
    "exception": ([ValueError("x")], "result[0]", "str(r)"),
    "object": (object(), "result", "object"),
    "subclass of int": (c.MyInt(1), "result", "int(value)"),
    "subclass of str": ({"a": c.MyText("x")}, 'result["a"]', "str(value)"),
    "subclass of dict": (c.MyDict(a=1), "result", "dict(value)"),
    "subclass of list": ((c.MyList([1]),), "result[0]", "list(value)"),
    "dataclass that is a dict": (c.DataDict(), "result", "dict(value)"),
    "zone of its own": ({"at": datetime(2021, 1, 1, tzinfo=Zone())}, 'result["at"].tzinfo',
                        "zoneinfo"),
    "defaultdict of a function": ([defaultdict(lambda: 0)], "result[0]", "factory"),
    "local class": (_local_class(), "result", "top level"),
    "secret": (c.Event(at=datetime(2021, 1, 1), key="s"), "result.key", "no place in a journal"),
    "tuple in itself": (_ring(), "result", "contains itself"),
    "function as key": ({deep: 1}, "result.key(<function>)", "function"),
    "function in a set": (frozenset({print}), "result{…}", "builtin_function_or_method"),
}  # fmt: skip
