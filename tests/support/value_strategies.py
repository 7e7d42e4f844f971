"""Strategies that build nested values of every type a codec takes, one entry a codec."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support import value_classes as c
from support.value_table import BERLIN

Strategy = st.SearchStrategy[Any]

TEXTS = st.text(max_size=6)
ZONES = st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-3, seconds=7), "X")])
TIMES = st.datetimes(timezones=st.none() | ZONES)
SMALL = st.integers(-5, 5)

#: pydantic's zone and URL, which only its validation makes.
_EVENT = c.Event.model_validate_json('{"at": "2021-01-01T00:00:00+02:30", "url": "http://a.org"}')

#: Tag of a codec -> values without inner values.
LEAVES: dict[str, Strategy] = {
    "int": st.integers() | st.integers(2**2000, 2**2100),
    "float": st.floats(),
    "str": TEXTS | st.text(st.characters(categories=["Cs", "L"]), max_size=3),
    "bytes": st.binary(max_size=5),
    "bytearray": st.binary(max_size=5).map(bytearray),
    "Decimal": st.decimals(),
    "Fraction": st.fractions(),
    "complex": st.complex_numbers(),
    "range": st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
    "slice": st.builds(slice, st.none() | SMALL, st.none() | SMALL, st.none() | TEXTS),
    "datetime": st.builds(lambda at, fold: at.replace(fold=fold), TIMES, st.integers(0, 1)),
    "time": st.times(timezones=st.none() | ZONES),
    "date": st.dates(),
    "timedelta": st.timedeltas(),
    "timezone": st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone),
    "ZoneInfo": st.timezones(),
    "UUID": st.uuids(),
    "IPv4Address": st.ip_addresses(v=4),
    "IPv6Address": st.ip_addresses(v=6),
    "IPv4Interface": st.ip_addresses(v=4).map(lambda a: ipaddress.ip_interface(f"{a}/9")),
    "IPv6Interface": st.ip_addresses(v=6).map(lambda a: ipaddress.ip_interface(f"{a}/9")),
    "IPv4Network": st.ip_addresses(v=4).map(lambda a: ipaddress.ip_network(f"{a}/32")),
    "IPv6Network": st.ip_addresses(v=6).map(lambda a: ipaddress.ip_network(f"{a}/128")),
    "re.Pattern": st.builds(
        re.compile, TEXTS.map(re.escape), st.sampled_from([0, re.IGNORECASE, re.DOTALL])
    ),
    "PosixPath": TEXTS.filter(lambda t: "\0" not in t).map(PosixPath),
    "PurePosixPath": TEXTS.map(PurePosixPath),
    "PureWindowsPath": TEXTS.map(PureWindowsPath),
    "ellipsis": st.just(...),
    "NotImplemented": st.just(NotImplemented),
    "enum": st.sampled_from([*c.Color, *c.Level, *c.Word, c.Perm.R | c.Perm.W, c.Perm(0)]),
    "pydantic.TzInfo": st.just(_EVENT.at.tzinfo),
    "pydantic.URL": st.just(_EVENT.url),
    "numpy.scalar": st.builds(np.float32, st.floats(width=32)) | st.builds(np.int64, SMALL),
    "numpy.dtype": st.sampled_from([np.dtype("<i4"), np.dtype([("a", ">f8"), ("b", "U3")])]),
    "pandas.Timestamp": st.integers(-(10**15), 10**15).map(lambda us: pd.Timestamp(us, unit="us")),
    "pandas.Timedelta": st.integers(0, 10**9).map(lambda n: pd.Timedelta(n, "ns")),
    "pandas.NA": st.just(pd.NA),
    "pandas.NaT": st.just(pd.NaT),
    "pandas.Period": st.integers(0, 500).map(lambda n: pd.Period(ordinal=n, freq="M")),
    "pandas.Interval": st.builds(
        lambda left, more, closed: pd.Interval(left, left + more, closed),
        SMALL,
        st.integers(0, 9),
        st.sampled_from(["left", "right", "both", "neither"]),
    ),
    "numpy.masked": st.just(np.ma.masked),
    "pyarrow.DataType": st.sampled_from([pa.int32(), pa.list_(pa.string()), pa.decimal128(9, 2)]),
    "pyarrow.Schema": st.just(pa.schema([pa.field("a", pa.int8(), nullable=False)])),
}

#: Those that can be keys and members, besides plain scalars.
KEYS: Strategy = st.recursive(
    st.none()
    | st.booleans()
    | st.one_of(*(LEAVES[tag] for tag in ("int", "str", "bytes", "date", "UUID", "enum"))),
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.frozensets(inner, max_size=3),
        st.builds(c.Pair, SMALL, inner),
        st.builds(c.Node, TEXTS, inner),
    ),
    max_leaves=4,
)


def _private(model: c.Model, secret: Any) -> c.Model:
    model._secret = secret
    return model


def _wrapped(mapping: Callable[[Any], Any]) -> Callable[[Strategy], Strategy]:
    """Make a mapping of another type out of a dict."""
    return lambda inner: st.dictionaries(KEYS, inner, max_size=3).map(mapping)


#: Tag of a codec -> values around inner values.
CONTAINERS: dict[str, Callable[[Strategy], Strategy]] = {
    "list": lambda inner: st.lists(inner, max_size=4),
    "tuple": lambda inner: st.lists(inner, max_size=3).map(tuple),
    "dict": lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    "set": lambda inner: st.sets(KEYS, max_size=3),
    "frozenset": lambda inner: st.frozensets(KEYS, max_size=3),
    "deque": lambda inner: st.builds(deque, st.lists(inner, max_size=3), st.none() | st.just(3)),
    "Counter": lambda inner: st.dictionaries(KEYS, SMALL, max_size=3).map(Counter),
    "defaultdict": _wrapped(lambda found: defaultdict(list, found)),
    "OrderedDict": _wrapped(OrderedDict),
    "SimpleNamespace": lambda inner: st.dictionaries(
        st.text("abc", min_size=1), inner, max_size=3
    ).map(lambda found: SimpleNamespace(**found)),
    "namedtuple": lambda inner: st.builds(c.Pair, inner, inner) | st.builds(c.Old, inner, inner),
    "dataclass": lambda inner: (
        st.builds(c.Node, TEXTS, inner)
        | st.builds(c.Crate, inner)
        | st.builds(c.Keyed, id=SMALL, tags=st.lists(inner, max_size=2), note=TEXTS)
    ),
    "attrs": lambda inner: st.builds(c.Attrs, inner, TEXTS),
    "pydantic": lambda inner: (
        st.builds(_private, st.builds(lambda v: c.Model(x=1, Other=v), inner), inner)
        | st.builds(lambda v: c.Loose(x=1, more=v), inner)
        | st.builds(lambda n: c.Box[int](item=n), SMALL)
        | st.builds(lambda n: c.Zoo(pets=[{"kind": "cat", "lives": n}]), SMALL)
    ),
    "numpy.ndarray": lambda inner: hnp.arrays(
        hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
    ),
    "numpy.MaskedArray": lambda inner: st.lists(SMALL, max_size=4).map(
        lambda items: np.ma.masked_equal(np.array(items, "int64"), 1)
    ),
    "pandas.array": lambda inner: st.lists(SMALL | st.none(), max_size=4).map(
        lambda items: pd.array(items, dtype="Int64")
    ),
    "pyarrow.RecordBatch": lambda inner: st.lists(SMALL, max_size=3).map(
        lambda rows: pa.record_batch({"a": pa.array(rows, pa.int64())})
    ),
    "pyarrow.ChunkedArray": lambda inner: st.lists(SMALL, max_size=3).map(
        lambda rows: pa.chunked_array([pa.array(rows, pa.int64())])
    ),
    "pyarrow.Array": lambda inner: st.lists(TEXTS | st.none(), max_size=3).map(
        lambda rows: pa.array(rows, pa.string())
    ),
    "pandas.DataFrame": lambda inner: st.lists(SMALL, max_size=3).map(
        lambda rows: pd.DataFrame({"a": rows, "b": [str(row) for row in rows]})
    ),
    "pandas.Series": lambda inner: st.lists(st.floats(), max_size=3).map(
        lambda rows: pd.Series(rows, name="s", dtype="float64")
    ),
    "pandas.Index": lambda inner: st.lists(TEXTS, max_size=3).map(
        lambda labels: pd.Index(labels, dtype="str")
    ),
    "pyarrow.Table": lambda inner: st.lists(SMALL, max_size=3).map(
        lambda rows: pa.table({"a": pa.array(rows, pa.int64())})
    ),
}

#: Codecs of values that exist on other systems only.
ELSEWHERE = frozenset({"WindowsPath"})

TREES: Strategy = st.recursive(
    st.none() | st.booleans() | st.one_of(*LEAVES.values()),
    # deferred: the text of a strategy that names itself three times a level has no end
    lambda inner: st.deferred(lambda: st.one_of(*(make(inner) for make in CONTAINERS.values()))),
    max_leaves=12,
)
