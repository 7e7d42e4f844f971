"""Values come back equal and of the same type, or are refused: nothing in between."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_nb import values

BERLIN = ZoneInfo("Europe/Berlin")

#: name -> value; each must come back equal and of the same type, all the way down.
TABLE: dict[str, Any] = {
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
}


def same(a: Any, b: Any) -> bool:
    """Compare independently of the code under test, strictly by type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, (complex, Decimal, range)):
        return repr(a) == repr(b)
    if isinstance(a, (list, tuple, deque)):
        alike = len(a) == len(b) and all(map(same, a, b))
        return alike and getattr(a, "maxlen", 0) == getattr(b, "maxlen", 0)
    if isinstance(a, dict):
        factories = getattr(a, "default_factory", 0) is getattr(b, "default_factory", 0)
        return factories and same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return sorted(map(stable, a)) == sorted(map(stable, b))
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape) or a.flags.fnc != b.flags.fnc:
            return False
        return same(a.tolist(), b.tolist()) if a.dtype == object else a.tobytes() == b.tobytes()
    if isinstance(a, datetime):
        return repr(a) == repr(b) and a.fold == b.fold
    return bool(a == b)


def stable(value: Any) -> str:
    """Write a member of a set with its type, in an order that no hash seed changes."""
    if isinstance(value, (tuple, frozenset)):
        inner = list(map(stable, value))
        return f"{type(value)} {inner if isinstance(value, tuple) else sorted(inner)}"
    return f"{type(value)} {value!r}"


@pytest.mark.parametrize("name", TABLE)
def test_case_68_71_value_comes_back_equal_and_of_the_same_type(name, back):
    """A covered value survives the round trip, alone and inside others."""
    value = TABLE[name]
    assert same(back(value), value)
    assert same(back({"k": [value, (value,)]}), {"k": [value, (value,)]})


@pytest.mark.parametrize("name", TABLE)
def test_value_has_one_text_and_one_digest(name, artifacts):
    """The text and the digest of what came back are those of what was written."""
    text = values.encode(TABLE[name], artifacts)
    again = values.decode(text, artifacts)
    assert values.encode(again, artifacts) == text
    assert values.digest(again) == values.digest(TABLE[name])


@pytest.mark.parametrize("name", TABLE)
def test_text_is_json_for_every_reader(name, artifacts):
    """The text is ASCII JSON without NaN and without lone surrogates, so SQL can read it."""
    text = values.encode(TABLE[name], artifacts)
    assert text.isascii()
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    json.dumps(json.loads(text), ensure_ascii=False).encode()


KEYS = st.one_of(
    st.text(max_size=5), st.integers(), st.none(), st.booleans(), st.binary(max_size=3)
)
LEAVES = st.one_of(
    KEYS,
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.just(BERLIN)),
    st.uuids(),
    st.characters(categories=["Cs"]),
)
HASHABLE = st.recursive(
    KEYS, lambda s: st.tuples(s, s) | st.frozensets(s, max_size=3), max_leaves=5
)
TREES = st.recursive(
    LEAVES | HASHABLE,
    lambda s: st.one_of(
        st.lists(s, max_size=4),
        st.tuples(s, s),
        st.dictionaries(HASHABLE, s, max_size=4),
        st.dictionaries(st.text(max_size=4), s, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.dictionaries(KEYS, s, max_size=3).map(OrderedDict),
        st.lists(s, max_size=3).map(lambda items: deque(items, maxlen=3)),
    ),
    max_leaves=15,
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda s: st.lists(s, max_size=4) | st.dictionaries(st.text(max_size=4), s, max_size=4),
    max_leaves=20,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(TREES)
def test_any_tree_comes_back(value):
    """Whatever the covered types build comes back equal, with an equal digest."""
    text = values.encode(value, NO_ARTIFACTS)
    again = values.decode(text, NO_ARTIFACTS)
    assert same(again, value)
    assert values.digest(again) == values.digest(value)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(PLAIN)
def test_plain_trees_need_no_second_look(value):
    """The fast path, which does not read back, is right for every plain tree."""
    assert same(values.decode(values.encode(value, NO_ARTIFACTS), NO_ARTIFACTS), value)


class _NoArtifacts:
    def put(self, data: bytes) -> str:
        raise AssertionError("small values need no artifacts")

    def get(self, sha256: str) -> bytes:
        raise AssertionError("small values need no artifacts")


NO_ARTIFACTS = _NoArtifacts()


def test_plain_tree_looks_like_plain_json(artifacts):
    """A plain result can be read by SQL as it is."""
    value = {"id": 7, "items": [{"sku": "a", "price": 1.5, "note": None}], "ok": True}
    assert json.loads(values.encode(value, artifacts)) == value
    assert values.encode((1, 2), artifacts) == '{"$":"tuple","v":[1,2]}'


@pytest.mark.parametrize("depth", [99, 100, 101, 1_000, 5_000])
@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "mixed"])
def test_depth_does_not_meet_the_recursion_limit(depth, kind, artifacts):
    """Values of any depth are written, read and digested."""
    value: Any = 1.5
    for level in range(depth):
        step = kind if kind != "mixed" else ("list", "dict", "tuple")[level % 3]
        value = {"list": [value], "dict": {"a": value}, "tuple": (value,)}[step]
    again = values.decode(values.encode(value, artifacts), artifacts)
    assert values.digest(again) == values.digest(value)
    for _ in range(depth):
        assert type(again) is type(value)
        again, value = (x["a"] if type(x) is dict else x[0] for x in (again, value))
    assert again == value == 1.5


def test_depth_is_safe_near_the_end_of_the_stack(artifacts):
    """A value as deep as the nested form allows is written in a kernel that is deep in calls."""

    def below(frames: int) -> Any:
        if frames:
            return below(frames - 1)
        return values.decode(values.encode(deep, artifacts), artifacts)

    used = len(inspect.stack(0))
    for depth in (99, 300):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        again = below(sys.getrecursionlimit() - used - 160)
        assert values.digest(again) == values.digest(deep)


def test_shared_references_stay_shared(back):
    """Two references to one list are two references to one list afterwards."""
    row = [1]
    again = back({"a": row, "b": (row, {"c": row})})
    again["a"].append(2)
    assert again["b"][0] == [1, 2]
    assert again["b"][1]["c"] is again["a"]
    for part in ([], {}, {"a": 1}):
        first, second = back([part, part])
        assert first is second


def test_shared_tuples_do_not_blow_up(artifacts):
    """A value of 2**60 paths is written as 60 nodes."""
    value: Any = (1, 2)
    for _ in range(60):
        value = (value, value)
    text = values.encode(value, artifacts)
    assert len(text) < 4_000
    assert values.digest(values.decode(text, artifacts)) == values.digest(value)


def test_value_that_contains_itself_comes_back(back):
    """A list in itself is kept."""
    ring: list[Any] = [1]
    ring.append({"ring": ring, "pair": (ring, 2)})
    again = back(ring)
    assert again[1]["ring"] is again
    assert again[1]["pair"][0] is again


def test_dict_order_is_kept(back):
    """Keys come back in the order of insertion."""
    assert list(back({"b": 1, "a": 2, 3: 0})) == ["b", "a", 3]


def test_arrays_can_be_written_to_as_before(back):
    """A writable array comes back writable, a locked one locked."""
    array = np.arange(3)
    assert back(array).flags.writeable
    array.flags.writeable = False
    assert not back(array).flags.writeable


def test_references_are_listed_without_reading(artifacts):
    """A text names its artifacts, also those inside a text that is itself an artifact."""
    small = values.encode({"a": b"x" * 70_000, "b": '"$":"artifact"'}, artifacts)
    assert [size for _, size in values.text_refs(small)] == [70_000]
    large = values.encode({"a": b"x" * 70_000, "b": "z" * 70_000}, artifacts)
    refs = values.text_refs(large)
    assert {sha256 for sha256, _ in refs} == set(artifacts.blobs)
    assert len(large) < 1_000
    assert values.text_refs('"{\\"$\\":\\"artifact\\""') == []


def test_large_values_leave_the_text(artifacts):
    """Blobs and texts over 64 KB are artifacts, smaller ones stay in the text."""
    assert len(values.encode(b"x" * 70_000, artifacts)) < 500
    assert len(values.encode("y" * 70_000, artifacts)) < 500
    assert len(artifacts.blobs) == 2
    values.encode(b"x" * 40_000, artifacts)
    assert len(artifacts.blobs) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", '{"$":"list"', '{"$":5}', '{"$":"nonsense"}', '{"$":"bytes","b64":"*"}',
     '{"$":"graph","root":[3],"nodes":[]}', '{"$":"graph","root":[0],"nodes":[{"$":"tuple","v":[[0]]}]}',
     '{"$":"Decimal","v":"x"}', '{"$":"set","v":[[]]}', '{"$":"dict","v":[1]}', '{"$":"tuple","ver":9}',
     '{"$":"artifact"}', '{"$":"defaultdict","factory":"system","v":[]}', "[" * 5000,
     '{"$":"dataclass","class":"subprocess:Popen","v":{}}', '{"$":"float","v":"1"}',
     '{"$":"numpy.ndarray","shape":[9],"dtype":"<i8","b64":""}', '{"$":"numpy.ndarray","dtype":"|O"}'],
)  # fmt: skip
def test_damaged_text_is_refused_by_one_error(text, artifacts):
    """Whatever the text is, loading gives a value or says that it cannot."""
    with pytest.raises(values.ValueNotLoadable, match="untouched"):
        values.decode(text, artifacts)
