"""Values of pandas, numpy and pyarrow by name: each must come back as it was."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

NAN = float("nan")
BERLIN = ZoneInfo("Europe/Berlin")


def days(count: int = 3, **more: Any) -> pd.DatetimeIndex:
    return pd.date_range("2020-01-01", periods=count, **more)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def labelled(*labels: Any, **more: Any) -> pd.DataFrame:
    """Make a frame of one row under these labels."""
    columns = pd.Index(labels, tupleize_cols=False, **more)
    return pd.DataFrame([list(range(len(labels)))], columns=columns)


def objects(*cells: Any) -> pd.DataFrame:
    """Make a frame of one column of objects, each left as it is."""
    values = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        values[place] = cell
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


def indexed(index: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": range(len(index))}, index=index)


def with_attrs() -> pd.DataFrame:
    made = frame(a=[1])
    made.attrs = {"unit": ("m", 1), 3: None, "of": pd.Timestamp("2020")}
    return made


def unique(value: Any) -> Any:
    """Forbid duplicate labels."""
    return value.set_flags(allows_duplicate_labels=False)


def levels_unused() -> pd.DataFrame:
    index = pd.MultiIndex.from_product([["a", "b"], pd.Categorical(["x", "y"])], names=["p", "q"])
    return indexed(index)[:2]


def fortran(values: Any) -> Any:
    return np.asfortranarray(values)


def readonly(values: Any) -> Any:
    values.flags.writeable = False
    return values


def masked(fill: Any = None, hard: bool = False) -> Any:
    return np.ma.MaskedArray([1.5, 2.5, NAN], [True, False, False], fill_value=fill, hard_mask=hard)


def from_bits(*bits: int) -> Any:
    return np.array(bits, dtype="u8").view("f8")


RECORD = [("a", "i4"), ("b", "f8", (2,)), ("n", [("x", ">i2"), ("y", "S3")])]

#: name -> maker of a value
FRAMES: dict[str, Callable[[], Any]] = {
    # what a frame is made of
    "frame of mixed columns": lambda: frame(a=[1, 2], b=["x", None], c=[1.5, NAN], d=[True, False]),
    "frame of many dtypes": lambda: pd.DataFrame({k: np.array([0, 1], k) for k in "?bBhHiIqQefdgFD"}),
    "frame of big-endian numbers": lambda: frame(a=np.array([1, 2], ">i4"), b=np.array([1, 2], ">f8")),
    "frame of NaNs of every kind": lambda: frame(a=from_bits(0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001)),
    "frame of minus zero": lambda: frame(a=[-0.0, 0.0, float("-inf")]),
    "frame of one dtype": lambda: pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc")),
    "frame of one bool dtype": lambda: pd.DataFrame(np.eye(3, dtype=bool)),
    "frame of times of one unit": lambda: frame(a=days(unit="s"), b=days(unit="s")),
    "frame over 64 KB": lambda: pd.DataFrame({"a": np.arange(20_000), "b": np.arange(20_000) / 3}),
    "frame of ints beyond floats": lambda: frame(a=np.array([2**63 - 1, -(2**63)]), b=np.array([2**64 - 1, 0], "u8")),
    # labels
    "integer columns": lambda: labelled(0, 1),
    "integer columns out of order": lambda: labelled(5, -3),
    "range of columns": lambda: pd.DataFrame([[1, 2]], columns=pd.RangeIndex(2, 6, 2, name="r")),
    "mixed columns": lambda: labelled("a", 1, None, 2.5),
    "tuple columns": lambda: labelled(("a", 1), ("b", None)),
    "timestamp columns": lambda: pd.DataFrame([[1, 2]], columns=days(2)),
    "None for a column": lambda: labelled(None, "a", dtype=object),
    "NaN for a column": lambda: labelled(NAN, 1.0),
    "bool columns": lambda: labelled(True, False),
    "bytes columns": lambda: labelled(b"a", "a"),
    "columns of several levels": lambda: pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["p", ("q", 0)])),
    "categorical columns": lambda: pd.DataFrame([[1, 2]], columns=pd.CategoricalIndex(["u", "v"], categories=["v", "u", "w"])),
    "interval columns": lambda: pd.DataFrame([[1, 2]], columns=pd.interval_range(0, 2)),
    "period columns": lambda: pd.DataFrame([[1, 2]], columns=pd.period_range("2020-01", periods=2, freq="M")),
    "named columns": lambda: frame(a=[1]).rename_axis(columns="c"),
    "duplicate columns": lambda: pd.DataFrame([[1, "x", 2.5]], columns=["a", "a", "b"]),
    "duplicate columns of objects": lambda: pd.DataFrame([[(1,), [2], {3}]], columns=["a", "a", "a"]),
    "columns called like places": lambda: pd.DataFrame([[[0], [1], [2]]], columns=["iloc[:, 1]", 1, "1"]),
    "columns of lone surrogates": lambda: labelled("\ud800", "a", dtype=object),
    "long column": lambda: labelled("x" * 500, "y" * 500),
    "column of an empty text": lambda: labelled("", " "),
    # rows
    "range of rows": lambda: pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(10, 6, -2, name="n")),
    "integer rows": lambda: indexed(pd.Index([3, 1, 3], name="k")),
    "small integer rows": lambda: indexed(pd.Index(np.array([1, 2], "i1"))),
    "float rows": lambda: indexed(pd.Index([1.5, NAN])),
    "text rows": lambda: indexed(pd.Index(["x", "y"], name="k")),
    "text rows of objects": lambda: indexed(pd.Index(["x", None], dtype=object)),
    "2,000 text rows": lambda: indexed(pd.Index([f"row {n}" for n in range(2_000)])),
    "2,000 text rows of objects": lambda: indexed(pd.Index([f"row {n}" for n in range(2_000)], dtype=object)),
    "mixed rows": lambda: indexed(pd.Index(["x", 1, (2,)], dtype=object, tupleize_cols=False)),
    "rows by day": lambda: indexed(days(name="t")),
    "rows by day in a zone": lambda: indexed(pd.date_range("2020-03-28", periods=3, tz=BERLIN)),
    "rows by hour over a clock change": lambda: indexed(pd.date_range("2020-10-25", periods=5, freq="h", tz=BERLIN)),
    "rows by business month": lambda: indexed(days(freq="BME")),
    "rows by -2 days": lambda: indexed(days(freq="-2D")),
    "times without a frequency": lambda: indexed(days()[[0, 2]]),
    "one row by day": lambda: indexed(days(1)),
    "no rows by day": lambda: indexed(days(0)),
    "rows by timedelta": lambda: indexed(pd.timedelta_range(0, periods=3, freq="90min")),
    "rows by period": lambda: indexed(pd.period_range("2020", periods=3, freq="2Q-MAR")),
    "rows by interval": lambda: indexed(pd.interval_range(0.5, 2.5, closed="both", name="i")),
    "categorical rows": lambda: indexed(pd.CategoricalIndex([2, 1, 2], ordered=True)),
    "rows of several levels": lambda: indexed(pd.MultiIndex.from_tuples([("a", 1), ("b", None)], names=["p", None])),
    "levels that are not used": levels_unused,
    "rows of levels in a zone": lambda: indexed(pd.MultiIndex.from_product([days(2, tz="UTC"), [1.5, NAN]])),
    "no rows of several levels": lambda: indexed(pd.MultiIndex.from_product([["a"], [1]])[:0]),
    # empty
    "empty frame": pd.DataFrame,
    "no columns": lambda: pd.DataFrame(index=pd.Index(["x", "y"])),
    "no columns, a range": lambda: pd.DataFrame(index=range(3)),
    "no rows": lambda: pd.DataFrame({"a": np.zeros(0), "b": pd.Series([], dtype="str"), "c": pd.Categorical([])}),
    "no rows of one dtype": lambda: pd.DataFrame(np.zeros((0, 3))),
    "no columns of objects": lambda: pd.DataFrame(columns=pd.Index([], dtype=object, name="c")),
    # cells that are objects
    "lists": lambda: objects([1], [], [[2, None]]),
    "dicts": lambda: objects({}, {"x": 1}, {"y": {2: "z"}}),
    "bytes": lambda: objects(b"", b"\xff"),
    "Decimals": lambda: objects(decimal.Decimal("1.50"), decimal.Decimal("NaN"), None),
    "dates": lambda: objects(datetime.date(2020, 1, 1), None),
    "mixed objects": lambda: objects(1, "x", 1.0, True, (1, [2]), {3}),
    "gaps of every kind": lambda: objects(None, NAN, pd.NaT, pd.NA, np.float64("nan")),
    "texts and gaps": lambda: objects("x", None, ""),
    "texts and NaN": lambda: objects("x", NAN),
    "texts of lone surrogates": lambda: objects("\ud800", "x"),
    "only None": lambda: objects(None, None),
    "objects that could be numbers": lambda: objects(1, 2),
    "objects that could be times": lambda: objects(pd.Timestamp("2020"), pd.Timestamp("2021")),
    "timestamps of two zones": lambda: objects(pd.Timestamp("2020", tz="UTC"), pd.Timestamp("2020", tz=BERLIN)),
    "huge ints": lambda: objects(2**70, -(2**70)),
    "frames in a frame": lambda: objects(frame(a=[1]), np.array([1, 2])),
    "numpy scalars": lambda: objects(np.int8(1), np.float32(0.5), np.str_("x")),
    "one list twice": lambda: objects(*[[1]] * 2),
    # dtypes of pandas
    "text dtype": lambda: frame(a=pd.array(["x", None, "漢"], dtype="str")),
    "text dtype held by Python": lambda: frame(a=pd.array(["x", None], dtype=pd.StringDtype("python"))),
    "text dtype held by Arrow": lambda: frame(a=pd.array(["x", None], dtype=pd.StringDtype("pyarrow"))),
    "text dtype with NaN held by Python": lambda: frame(a=pd.array(["x", None], dtype=pd.StringDtype("python", na_value=np.nan))),
    "text dtype of lone surrogates": lambda: frame(a=pd.array(["\ud800", None], dtype=pd.StringDtype("python"))),
    "nullable dtypes": lambda: pd.DataFrame({k: pd.array([1, None], dtype=k) for k in ("Int8", "UInt64", "Float32", "Float64", "boolean")}),
    "NaN and NA apart": lambda: frame(a=pd.arrays.FloatingArray(np.array([NAN, 1, 2]), np.array([False, True, False]))),
    "categories": lambda: frame(a=pd.Categorical(["u", None, "u"], categories=["v", "u", "w"], ordered=True)),
    "integer categories": lambda: frame(a=pd.Categorical([1, 2, 1])),
    "float categories": lambda: frame(a=pd.Categorical([1.5, None])),
    "time categories": lambda: frame(a=pd.Categorical(days(2, tz="UTC"))),
    "categories of intervals": lambda: frame(a=pd.cut([1, 2, 3], 2)),
    "200 categories": lambda: frame(a=pd.Categorical([f"c{n}" for n in range(200)])),
    "object categories": lambda: frame(a=pd.Categorical.from_codes([0, 1], pd.Index([(1,), "x"], dtype=object, tupleize_cols=False))),
    "zone": lambda: frame(a=days(tz="Europe/Berlin"), b=[pd.NaT, *days(2, tz="UTC")]),
    "fixed offset": lambda: frame(a=days(tz=datetime.timezone(datetime.timedelta(hours=2)))),
    "doubled hour": lambda: frame(a=pd.date_range("2020-10-25", periods=5, freq="30min", tz=BERLIN)),
    "times of every unit": lambda: pd.DataFrame({u: pd.Series([0, -1]).astype(f"M8[{u}]") for u in ("s", "ms", "us", "ns")}),
    "times long ago": lambda: frame(a=np.array(["0001-01-01", "NaT"], "M8[s]")),
    "timedeltas": lambda: frame(a=pd.to_timedelta([1, None], unit="s"), b=pd.to_timedelta([1, 2], unit="ms").as_unit("ms")),
    "periods": lambda: frame(a=pd.PeriodIndex(["2020-01", None], freq="M"), b=pd.period_range("2020", periods=2, freq="W-TUE")),
    "intervals": lambda: frame(a=pd.arrays.IntervalArray.from_tuples([(0, 1), None], closed="left"), b=pd.interval_range(0, 2)),
    "intervals of times": lambda: frame(a=pd.interval_range(pd.Timestamp("2020", tz="UTC"), periods=2)),
    "sparse": lambda: frame(a=pd.arrays.SparseArray([0.0, 0, 1, NAN], fill_value=0.0), b=pd.arrays.SparseArray([1, 0, 0, 2])),
    "sparse in blocks": lambda: frame(a=pd.arrays.SparseArray([NAN, 1, 2, NAN, 3], kind="block")),
    "sparse bools": lambda: frame(a=pd.arrays.SparseArray([True, False], fill_value=False)),
    "Arrow dtypes": lambda: pd.DataFrame({"i": pd.array([1, None], dtype="int64[pyarrow]"), "l": pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int64()))), "d": pd.Series([decimal.Decimal("1.5"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2)))}),
    "Arrow text dtype": lambda: frame(a=pd.array(["x", None], dtype=pd.ArrowDtype(pa.string()))),
    "Arrow times": lambda: frame(a=pd.array([0, None], dtype=pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin")))),
    "Arrow dictionary": lambda: frame(a=pd.Series(["u", "v"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))),
    # beside the cells
    "attrs": with_attrs,
    "no duplicate labels": lambda: unique(frame(a=[1])),
    # series, indexes and arrays alone
    "series": lambda: pd.Series([1, 2], name="q"),
    "series without a name": lambda: pd.Series(["x", None]),
    "series with a tuple for a name": lambda: pd.Series(["a", None], name=("x", 1), index=[5, 6]),
    "series of objects": lambda: pd.Series([[1], None, {2: 3}], name=0),
    "series of categories": lambda: pd.Series(pd.Categorical([2, 1])),
    "series in a zone": lambda: pd.Series(days(tz=BERLIN), index=days()),
    "series with attrs": lambda: unique(with_attrs()["a"]),
    "empty series": lambda: pd.Series([], dtype="f4"),
    "series over 64 KB": lambda: pd.Series(np.arange(20_000.0)),
    "series of 2,000 texts": lambda: pd.Series([f"text {n}" for n in range(2_000)]),
    "series of 2,000 nullables": lambda: pd.Series([1, None] * 1_000, dtype="Int64"),
    "index": lambda: pd.Index([1, 2], name="z"),
    "index of no dtype": lambda: pd.Index([]),
    "time index": days,
    "index of several levels": lambda: pd.MultiIndex.from_product([["a"], [1, 2]]),
    "nullable array": lambda: pd.array([1, None]),
    "categorical array": lambda: pd.Categorical(["x", "y"]),
    "time array": lambda: days(tz="UTC").array,
    # scalars
    "timestamp in the doubled hour": lambda: pd.Timestamp("2020-10-25 00:30", tz="UTC").tz_convert(BERLIN),
    "timestamp in the hour again": lambda: pd.Timestamp("2020-10-25 01:30", tz="UTC").tz_convert(BERLIN),
    "old timestamp": lambda: pd.Timestamp("1500-01-01"),
    "nanoseconds": lambda: pd.Timestamp("2020-01-01 00:00:00.123456789"),
    "timedelta of pandas": lambda: pd.Timedelta("1 days 2ns"),
    "period": lambda: pd.Period("2020Q1", freq="Q-MAR"),
    "interval": lambda: pd.Interval(pd.Timestamp("2020"), pd.Timestamp("2021"), closed="left"),
    "NaT": lambda: pd.NaT,
    "NA": lambda: pd.NA,
    # numpy
    "array of every number": lambda: [np.array([0, 1], k) for k in "?bBhHiIlLqQefdgFDG"],
    "array of zero rows": lambda: np.zeros((0, 3), "i2"),
    "array of no dimension": lambda: np.array(5.0),
    "array of dates": lambda: np.array(["2020", "NaT"], "M8[D]"),
    "array of 25 seconds": lambda: np.array([1, 2], "m8[25s]"),
    "big-endian dates": lambda: np.array([1, 2], ">M8[ms]"),
    "Fortran array": lambda: fortran(np.arange(6).reshape(2, 3)),
    "transposed cube": lambda: np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "every other element": lambda: np.arange(10)[::-2],
    "read-only array": lambda: readonly(np.arange(3)),
    "texts": lambda: np.array(["ab", "c", ""]),
    "byte strings": lambda: np.array([b"ab", b"c"]),
    "void": lambda: np.array([b"ab\0", b"\0\0\0"], "V3"),
    "records": lambda: np.array([(1, [2, 3], (4, b"x"))], RECORD),
    "aligned records": lambda: np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "records of titles": lambda: np.zeros(2, [(("Title", "a"), "i1"), ("b", "f8")]),
    "object array": lambda: objects(1, (2,), None, [3])["a"].to_numpy(copy=True).reshape(2, 2),
    "masked array": masked,
    "masked array with a filler": lambda: masked(fill=7.5),
    "masked array with a hard mask": lambda: masked(hard=True),
    "masked array without a mask": lambda: np.ma.MaskedArray([1, 2]),
    "masked records": lambda: np.ma.MaskedArray(np.array([(1, 2)], "i4,i4"), mask=[(True, False)]),
    "masked": lambda: np.ma.masked,
    "numpy date": lambda: np.datetime64("2020-01-01", "D"),
    "numpy record": lambda: np.array([(1, [2, 3], (4, b"x"))], RECORD)[0],
    "dtype": lambda: np.dtype(RECORD),
    "sub-array dtype": lambda: np.dtype(("i4", (2, 3))),
    # pyarrow
    "table": lambda: pa.table({"a": [1, None], "s": ["x", "y"], "n": [{"q": 1}, None], "d": [decimal.Decimal("1.50")] * 2}),
    "table of times": lambda: pa.table({"t": pa.array([1], pa.timestamp("us", "UTC")), "d": pa.array([1], pa.date32())}),
    "table with metadata": lambda: pa.table({"a": [1]}).replace_schema_metadata({"k": "v"}),
    "sliced table": lambda: pa.table({"a": [1, 2, 3], "s": ["x", None, "yz"]}).slice(1),
    "empty table": lambda: pa.table({}),
    "table of no rows": lambda: pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.list_(pa.int8()))}),
    "record batch": lambda: pa.record_batch({"a": [1, None], "x": [b"", b"1"]}),
    "Arrow array": lambda: pa.array([1.5, None, NAN]),
    "sliced Arrow array": lambda: pa.array(["a", None, "cd"]).slice(1),
    "Arrow structs": lambda: pa.array([{"a": 1}, None]),
    "Arrow dictionary array": lambda: pa.array(["u", "v", "u"]).dictionary_encode(),
    "chunked array": lambda: pa.chunked_array([[1, 2], [None]]),
    "chunked array of no chunk": lambda: pa.chunked_array([], pa.float16()),
    "Arrow schema": lambda: pa.schema([pa.field("a", pa.int8(), False, {"k": "v"})], {"m": "n"}),
    "Arrow type": lambda: pa.list_(pa.struct({"a": pa.decimal128(5, 2)})),
}  # fmt: skip
