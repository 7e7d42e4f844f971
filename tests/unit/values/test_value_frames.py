"""Frames, series, indexes and Arrow tables: equal after a read-back, or refused by name."""

from __future__ import annotations

import datetime
import decimal
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from durable_nb import values
from durable_nb.model.errors import NotRecordable

DAYS = pd.date_range("2020-01-01", periods=3)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def with_attrs() -> pd.DataFrame:
    made = frame(a=[1])
    made.attrs = {"unit": ("m", 1), 3: None}
    return made


KEPT: dict[str, Any] = {
    "mixed columns": frame(a=[1, 2], b=["x", None], c=[1.5, np.nan], d=[True, False]),
    "named index": frame(a=[1, 2]).set_index(pd.Index(["x", "y"], name="k")),
    "default index": frame(a=[1, 2]),
    "multi index": frame(a=[1, 2]).set_index(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", None])),
    "frequency": pd.DataFrame({"a": [1, 2, 3]}, index=DAYS),
    "no frequency": pd.DataFrame({"a": [1, 2]}, index=DAYS[[0, 2]]),
    "attrs": with_attrs(),
    "categories": frame(a=pd.Categorical(["u", "v", "u"], categories=["v", "u", "w"], ordered=True)),
    "nullable": frame(a=pd.array([1, None], dtype="Int64"), b=pd.array([True, None], dtype="boolean")),
    "zone": frame(a=DAYS.tz_localize("Europe/Berlin")),
    "timedelta": frame(a=pd.to_timedelta([1, 2], unit="s")),
    "period": frame(a=pd.period_range("2020", periods=2, freq="M")),
    "float32": frame(a=np.array([1, 2], dtype="f4")),
    "series": pd.Series([1, 2], name="q"),
    "series with a tuple for a name": pd.Series(["a", None], name=("x", 1), index=[5, 6]),
    "index": pd.Index([1, 2], name="z"),
    "time index": DAYS,
    "multi index alone": pd.MultiIndex.from_product([["a"], [1, 2]]),
    "timestamp": pd.Timestamp("2020-10-25 02:30", tz="UTC").tz_convert("Europe/Berlin"),
    "old timestamp": pd.Timestamp("1500-01-01"),
    "nanoseconds": pd.Timestamp("2020-01-01 00:00:00.123456789"),
    "timedelta scalar": pd.Timedelta("1 days 2ns"),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "table": pa.table({"a": [1, None], "s": ["x", "y"], "n": [{"q": 1}, None], "d": [decimal.Decimal("1.50")] * 2}),
    "table of times": pa.table({"t": pa.array([1], pa.timestamp("us", "UTC")), "d": pa.array([1], pa.date32())}),
    "table with metadata": pa.table({"a": [1]}).replace_schema_metadata({"k": "v"}),
    "sliced table": pa.table({"a": [1, 2, 3]}).slice(1),
    "empty table": pa.table({}),
}  # fmt: skip

REFUSED: dict[str, tuple[Any, str]] = {
    "duplicate names": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
    "mixed objects": (frame(a=[1, "x"]), "Parquet refuses it"),
    "complex": (frame(a=[1j]), "Parquet refuses it"),
    "empty dicts": (frame(a=[{}]), "Parquet refuses it"),
    "integer categories": (frame(a=pd.Categorical([1, 2])), r'result\["a"\]'),
    "mixed names": (pd.DataFrame([[1, 2]], columns=["a", 1]), "result.columns"),
    "ragged dicts": (frame(a=[{"x": 1}, {"y": 2}]), r'result\["a"\]\["cells"\]\[[01]\]'),
    "lists": (frame(a=[[1], [2]]), r'result\["a"\]'),
    "an object inside": (frame(a=[object()]), "Parquet refuses it"),
}


def equal(a: Any, b: Any) -> bool:
    """Compare with the library's own means."""
    if isinstance(a, pa.Table):
        return bool(a.equals(b, check_metadata=True))
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_freq=True, check_flags=True)
        return bool(a.attrs == b.attrs)
    if isinstance(a, pd.Series):
        pd.testing.assert_series_equal(a, b, check_freq=True)
        return bool(a.attrs == b.attrs)
    if isinstance(a, pd.Index):
        pd.testing.assert_index_equal(a, b, exact=True)
        return getattr(a, "freq", None) == getattr(b, "freq", None)
    if a is pd.NaT or a is pd.NA:
        return a is b
    return bool(a == b and getattr(a, "unit", 0) == getattr(b, "unit", 0))


@pytest.mark.parametrize("name", KEPT)
def test_frame_comes_back_equal(name, back):
    """Index, names, dtypes, attrs and frequency survive, and the digest with them."""
    value = KEPT[name]
    again = back({"v": value})["v"]
    assert type(again) is type(value)
    assert equal(value, again)
    assert values.digest(again) == values.digest(value)


@pytest.mark.parametrize("name", REFUSED)
def test_frame_that_parquet_changes_is_refused_by_name(name, artifacts):
    """What does not come back as it was is refused, with the column where it can be told."""
    value, why = REFUSED[name]
    with pytest.raises(NotRecordable, match=why):
        values.encode(value, artifacts)
    assert artifacts.blobs == {}


def test_large_frame_becomes_an_artifact(artifacts):
    """A frame over 64 KB leaves the text and comes back from its artifact."""
    value = pd.DataFrame({"a": np.random.default_rng(0).random(20_000)})
    text = values.encode(value, artifacts)
    assert len(text) < 500
    assert [size for _, size in values.text_refs(text)] == [
        len(b) for b in artifacts.blobs.values()
    ]
    assert equal(value, values.decode(text, artifacts))


def test_frames_of_different_content_have_different_digests():
    """Cells, dtypes, names, index and attrs all count, and NaN equals NaN."""
    base = frame(a=[1.0, np.nan], b=["x", "y"])
    assert values.digest(base) == values.digest(base.copy())
    named = base.copy()
    named.attrs = {"k": 1}
    others = [
        base.rename(columns={"a": "c"}), base.astype({"a": "f4"}), base[["b", "a"]], base.iloc[::-1], named,
        base.set_index("b"), frame(a=[2.0, np.nan], b=["x", "y"]), base.astype({"b": object}), base["a"],
        pd.DataFrame([[1, 2]], columns=["a", "a"]), frame(a=[1, "x"]),
    ]  # fmt: skip
    assert len({values.digest(x) for x in [base, *others]}) == len(others) + 1


def test_digest_of_a_table_does_not_depend_on_chunks():
    """Equal tables have equal digests, sliced or chunked."""
    whole = pa.table({"a": [1, 2, None], "t": pa.array([1, 2, 3], pa.time32("s"))})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    assert values.digest(parts) == values.digest(whole)
    assert values.digest(whole.slice(0, 2)) != values.digest(whole)
    with_date = pa.table({"a": [datetime.date(2020, 1, 1)]})
    assert values.digest(with_date) != values.digest(pa.table({"a": [datetime.date(2020, 1, 2)]}))


def test_shared_frame_stays_shared(back):
    """Two names for one frame are two names for one frame afterwards."""
    value = frame(a=[1])
    again = back([value, value])
    assert again[0] is again[1]


def test_no_library_is_imported_for_plain_values():
    """Heavy libraries are imported only when a value of theirs turns up."""
    import subprocess
    from pathlib import Path

    # The package itself is stood in for, since what its upper layers import is their own matter.
    source = (
        "import sys, types; top = types.ModuleType('durable_nb'); top.__path__ = [sys.argv[1]];"
        "sys.modules['durable_nb'] = top; import durable_nb.values as v; no = types.SimpleNamespace(put=0, get=0);"
        "v.decode(v.encode((1, {2}), no), no);"
        "v.digest({1: [2]}); v.preview(object());"
        "print([m for m in ('numpy', 'pandas', 'pyarrow', 'pydantic', 'attr') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(Path(values.__file__).parents[1])],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(values.__file__).parents[2])},
        check=False,
        timeout=60,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_pickled_arrays_are_refused(artifacts):
    """An array of Python objects goes by element; a dtype of objects in a text is not believed."""
    text = values.encode(np.array([1, 2]), artifacts).replace("<i8", "|O")
    with pytest.raises(values.ValueNotLoadable):
        values.decode(text, artifacts)
