"""Frames, series, indexes and their scalars: equal after a read-back, or refused by name."""

from __future__ import annotations

import base64
import json
import sys
import threading
from typing import Any, ClassVar

import hypothesis.extra.numpy as hnp
import hypothesis.extra.pandas as hpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.frame_equality import alike
from support.frame_records import OLD
from support.frame_values import FRAMES, days, frame, objects

from durable_nb import values
from durable_nb.model.errors import NotRecordable


def old_frame() -> pd.DataFrame:
    made = frame(a=[1, None], s=["x", None]).set_index(days(2, name="t"))
    made.attrs = {"unit": ("m", 1)}
    return made


OLD_VALUES: dict[str, Any] = {
    "frame": old_frame,
    "series": lambda: pd.Series([1, 2], name=("x", 1), index=["p", "q"]),
    "index": lambda: pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", None]),
    "period": lambda: frame(a=pd.period_range("2020", periods=2, freq="M")),
}


class Sub(pd.DataFrame):
    """What a library such as geopandas makes of a frame."""

    @property
    def _constructor(self) -> type:
        return Sub


class SubIndex(pd.Index):
    """An index of another library."""


class ForeignDtype(pd.api.extensions.ExtensionDtype):
    """A dtype of another library."""

    name, type = "foreign", object

    @classmethod
    def construct_array_type(cls) -> Any:
        return ForeignArray


class ForeignArray(pd.api.extensions.ExtensionArray):
    """Its array."""

    dtype = ForeignDtype()
    nbytes = 0

    def __init__(self, size: int) -> None:
        self.size_ = size

    def __len__(self) -> int:
        return self.size_

    def __getitem__(self, item: Any) -> Any:
        return ForeignArray(len(range(self.size_)[item])) if isinstance(item, slice) else None

    def copy(self) -> ForeignArray:
        return ForeignArray(self.size_)

    def isna(self) -> Any:
        return np.zeros(self.size_, bool)


def hung() -> pd.DataFrame:
    made = frame(a=[1])
    object.__setattr__(made, "note", "pandas drops this")
    return made


def with_attrs(attrs: dict[str, Any]) -> pd.DataFrame:
    made = frame(a=[1])
    made.attrs = attrs
    return made


def in_itself() -> pd.DataFrame:
    made = frame(a=[1])
    made.attrs["me"] = made
    return made


def holidays() -> pd.DatetimeIndex:
    freq = pd.offsets.CustomBusinessDay(holidays=["2020-01-02"])
    return pd.date_range("2020-01-01", periods=3, freq=freq)


def extension_column() -> pd.DataFrame:
    storage = pa.array([b"x" * 16])
    array = pa.ExtensionArray.from_storage(pa.uuid(), storage.cast(pa.binary(16)))
    return pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))})


#: name -> maker of a value, and what the refusal says
REFUSED: dict[str, tuple[Any, str]] = {
    "an object inside": (lambda: objects(object()), r'result\["a"\]\[0\] is a object'),
    "an object in a list": (lambda: objects([1], [{"k": object()}]), r'result\["a"\]\[1\]\[0\]\["k"\]'),
    "an object under a second name": (lambda: pd.DataFrame([[1, object()]], columns=["a", "a"]), r"result\.iloc\[:, 1\]\[0\]"),
    "an object in attrs": (lambda: pd.Series([1], name="s").rename_axis("i").pipe(lambda s: s.attrs.update(k=object()) or s), r'result\.attrs\["k"\]'),
    "an object for a label": (lambda: pd.DataFrame([[1]], columns=pd.Index([len], dtype=object)), r"result\.columns.*\[0\] is a builtin_function"),
    "an object in a series": (lambda: pd.Series([1, object()]), r"result.*\[1\] is a object"),
    "a subclass": (lambda: Sub({"a": [1]}), "result is a .*Sub,"),
    "a subclass inside": (lambda: {"k": [Sub({"a": [1]})]}, r'result\["k"\]\[0\] is a .*Sub,'),
    "a foreign dtype": (lambda: pd.DataFrame({"a": ForeignArray(2)}), "dtype .*ForeignDtype"),
    "a lock in attrs": (lambda: with_attrs({"k": threading.Lock()}), r'result\.attrs\["k"\] is a .*lock'),
    "itself in attrs": (in_itself, "result is a pandas.DataFrame.*contains itself"),
    "a custom frequency": (lambda: pd.date_range("2020", periods=3, freq=pd.DateOffset(months=1)), "frequency <DateOffset"),
    "an attribute": (hung, "attribute 'note'"),
    "holidays": (holidays, "frequency"),
    "an Arrow extension": (extension_column, "extension type"),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_value_comes_back_the_same(name, back):
    """Labels, index, names, dtypes, gaps, attrs and frequency survive, and the digest with them."""
    value = FRAMES[name]()
    again = back({"v": value})["v"]
    assert alike(value, again)
    if isinstance(value, pd.DataFrame):
        pd.testing.assert_frame_equal(value, again, check_freq=True, check_flags=True)
    assert alike(value, FRAMES[name]()), "encoding changed the value itself"
    assert values.digest(again) == values.digest(value)


@pytest.mark.parametrize("name", FRAMES)
def test_value_has_one_text(name, artifacts):
    """What came back is written as it was written before."""
    text = values.encode(FRAMES[name](), artifacts)
    assert values.encode(values.decode(text, artifacts), artifacts) == text
    json.loads(text, parse_constant=pytest.fail)


def test_values_differ_from_one_another():
    """No two of the table have the same digest: what is told apart there is told apart here."""
    met: dict[str, str] = {}
    for name, make in FRAMES.items():
        other = met.setdefault(values.digest(make()), name)
        assert other == name, f"{name!r} has the digest of {other!r}"


@pytest.mark.parametrize(
    "name", [name for name, make in FRAMES.items() if isinstance(make(), (pd.DataFrame, pd.Series))]
)
def test_frame_can_be_written_to(name, back):
    """A frame from the record is as good as the one that a live step returned."""
    value = FRAMES[name]()
    again = back(value)
    columns = [again.iloc[:, n] for n in range(again.shape[1])] if again.ndim == 2 else [again]
    for column in columns:
        if isinstance(column.dtype, np.dtype) and len(column):
            column.array[0] = column.array[0]


@pytest.mark.parametrize("name", REFUSED)
def test_value_that_would_change_is_refused_by_name(name, artifacts):
    """What cannot come back as it was is refused, with the path to it, and nothing is stored."""
    make, why = REFUSED[name]
    with pytest.raises(NotRecordable, match=why):
        values.encode(make(), artifacts)
    assert artifacts.blobs == {}


@pytest.mark.slow
def test_large_frame_becomes_one_artifact(artifacts):
    """A frame over 64 KB leaves the text, all columns in one file that any Parquet reader reads."""
    value = pd.DataFrame(
        {"a": np.random.default_rng(0).random(20_000), 7: np.arange(20_000), "s": ["x"] * 20_000}
    )
    text = values.encode(value, artifacts)
    assert len(text) < 700
    ((sha256, size),) = values.text_refs(text)
    assert size == len(artifacts.blobs[sha256])
    assert pq.read_table(pa.BufferReader(artifacts.blobs[sha256])).shape == (20_000, 3)
    assert alike(value, values.decode(text, artifacts))


@pytest.mark.slow
def test_tall_and_wide_frames_come_back(back):
    """Frames whose columns are read piece by piece, or many at a time, come back too."""
    tall = pd.DataFrame(
        {
            "a": np.arange(4_300_000),
            "f": np.arange(4_300_000) / 7,
            "b": np.arange(4_300_000) % 3 == 0,
        }
    )
    assert alike(tall, back(tall))
    assert alike(tall[["a"]], back(tall[["a"]]))
    wide = pd.DataFrame(np.arange(6_000).reshape(2, 3_000)).assign(s="x")
    assert alike(wide, back(wide))


def test_frames_of_different_content_have_different_digests():
    """Cells, dtypes, names, index and attrs all count, and NaN equals NaN."""
    base = frame(a=[1.0, np.nan], b=["x", "y"])
    assert values.digest(base) == values.digest(base.copy())
    named = base.copy()
    named.attrs = {"k": 1}
    others = [
        base.rename(columns={"a": "c"}), base.astype({"a": "f4"}), base[["b", "a"]], base.iloc[::-1], named,
        base.set_index("b"), frame(a=[2.0, np.nan], b=["x", "y"]), base.astype({"b": object}), base["a"],
        pd.DataFrame([[1, 2]], columns=["a", "a"]), frame(a=[1, "x"]), base.set_flags(allows_duplicate_labels=False),
    ]  # fmt: skip
    assert len({values.digest(x) for x in [base, *others]}) == len(others) + 1


def test_digest_is_the_one_of_earlier_records():
    """Digests on record are compared with new ones, so their form never changes."""
    digests = {name: values.digest(make()) for name, make in OLD_VALUES.items() if name != "period"}
    assert digests == {
        "frame": "b2:9c27b6806b0ff4134d66a8371221fa46",
        "series": "b2:39ac251a8e096d65373b3aaf815b5289",
        "index": "b2:e5ced628c073e60a46c1adb0ae524d31",
    }


@pytest.mark.parametrize("name", OLD)
def test_record_of_the_first_form_still_loads(name, artifacts):
    """A decoder of an earlier version keeps reading old journals."""
    assert alike(values.decode(OLD[name], artifacts), OLD_VALUES[name]())


def test_shared_frame_stays_shared(back):
    """Two names for one frame are two names for one frame afterwards."""
    value = frame(a=[1])
    again = back([value, value])
    assert again[0] is again[1]


def test_cell_that_is_shared_stays_shared(back):
    """Objects in cells are values like any others: one list in two cells is one list."""
    one: list[int] = []
    again = back(objects(one, one))
    again.iloc[0, 0].append(1)
    assert again.iloc[1, 0] == [1]


# -- nothing that is loaded runs code ---------------------------------------------------------


class Planted(pa.ExtensionType):
    """An extension type of some imported library, whose code Arrow runs when it reads one."""

    ran: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__(pa.int64(), "planted.type")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"payload"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Planted:
        cls.ran.append(serialized.decode())
        return Planted()


@pytest.fixture
def planted() -> Any:
    pa.register_extension_type(Planted())
    Planted.ran.clear()
    yield pa.table({"0": pa.ExtensionArray.from_storage(Planted(), pa.array([1]))})
    pa.unregister_extension_type("planted.type")


def parquet(table: Any, **options: Any) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


@pytest.mark.parametrize("old", [True, False], ids=["first form", "form of today"])
def test_extension_type_in_a_planted_parquet_file_is_not_looked_up(old, planted, artifacts):
    """A file that names an extension type is refused before Arrow acts on it."""
    text = json.loads(OLD["series"] if old else values.encode(frame(a=[1]), artifacts))
    text["b64"] = parquet(planted)
    Planted.ran.clear()
    with pytest.raises(values.ValueNotLoadable):
        values.decode(json.dumps(text), artifacts)
    assert Planted.ran == []


def test_pandas_metadata_in_a_planted_parquet_file_means_nothing(artifacts):
    """Names of classes and dtypes in a file are no reason to import or build anything."""
    text = json.loads(values.encode(frame(a=[1]), artifacts))
    column = {
        "name": "0",
        "field_name": "0",
        "pandas_type": "object",
        "numpy_type": "this.module",
        "metadata": None,
    }
    column_indexes = [{**column, "name": None}]
    meta = {
        "index_columns": [],
        "column_indexes": column_indexes,
        "columns": [column],
        "pandas_version": "1",
    }
    table = pa.table({"0": [1]}).replace_schema_metadata({"pandas": json.dumps(meta)})
    text["b64"] = parquet(table, store_schema=False)
    before = set(sys.modules)
    assert alike(values.decode(json.dumps(text), artifacts), frame(a=[1]))
    assert set(sys.modules) == before


OTHERS = [
    pa.array([[1]]),
    pa.array([b"x"]),
    pa.array([1, 2]),
    pa.array([1.5]),
    pa.array([1], pa.timestamp("us")),
    pa.array([None], pa.int64()),
]


@pytest.mark.parametrize("value", [frame(a=[1]), objects("x")], ids=["numbers", "texts"])
@pytest.mark.parametrize("column", OTHERS, ids=lambda column: f"{len(column)} {column.type}")
def test_planted_columns_of_another_kind_are_refused(column, value, artifacts):
    """A file that is not what was recorded is damage, not data."""
    text = json.loads(values.encode(value, artifacts))
    text["b64"] = parquet(pa.table({"0": column}), store_schema=False)
    with pytest.raises(values.ValueNotLoadable):
        values.decode(json.dumps(text), artifacts)


def test_object_dtype_in_a_planted_fact_is_refused(artifacts):
    """Numbers are never taken for pointers."""
    text = values.encode(pd.Series([1]), artifacts)
    for found, planted_dtype in (('"dtype":"<i8","bulk"', '"dtype":"|O","bulk"'), ("<i8", "|O")):
        assert found in text
        with pytest.raises(values.ValueNotLoadable):
            values.decode(text.replace(found, planted_dtype), artifacts)


# -- whatever hypothesis builds ---------------------------------------------------------------

DTYPES = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(endianness="="), hnp.floating_dtypes(endianness="=", sizes=(32, 64)), hnp.complex_number_dtypes(endianness="=")
)  # fmt: skip
LABELS = st.one_of(
    st.text(max_size=3),
    st.integers(-5, 5),
    st.none(),
    st.booleans(),
    st.tuples(st.integers(0, 3), st.text(max_size=1)),
)
OBJECTS = st.recursive(
    st.one_of(
        st.none(),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.binary(max_size=2),
        st.just(pd.NA),
        st.just(pd.NaT),
        st.decimals(allow_nan=False),  # pandas itself cannot show a signalling one
        st.dates(),
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=3,
)


@st.composite
def columns(draw: Any, rows: int) -> Any:
    """Draw the cells of one column."""
    kind = draw(st.integers(0, 7))
    if kind <= 2:
        return draw(hnp.arrays(draw(DTYPES), rows))
    if kind == 3:
        found = np.empty(rows, dtype=object)
        for row in range(rows):
            found[row] = draw(OBJECTS)
        return pd.Series(found, dtype=object)
    if kind == 4:
        texts = draw(st.lists(st.none() | st.text(max_size=3), min_size=rows, max_size=rows))
        return pd.array(texts, dtype=draw(st.sampled_from(["str", "string", object])))
    if kind == 5:
        numbers = draw(st.lists(st.none() | st.integers(-100, 100), min_size=rows, max_size=rows))
        return pd.array(numbers, dtype=draw(st.sampled_from(["Int8", "Int64", "Float64"])))
    if kind == 6:
        codes = draw(st.lists(st.integers(-1, 2), min_size=rows, max_size=rows))
        kinds = draw(
            st.lists(st.text(max_size=2), min_size=3, max_size=3, unique=True) | st.just([1, 2, 3])
        )
        return pd.Categorical.from_codes(codes, categories=kinds, ordered=draw(st.booleans()))
    ticks = draw(hnp.arrays("i8", rows))
    times = ticks.view(f"M8[{draw(st.sampled_from(['us', 'ns']))}]")
    return times if draw(st.booleans()) else pd.Series(ticks.view("m8[ns]"))


@st.composite
def any_frame(draw: Any) -> pd.DataFrame:
    """Draw a frame of any columns under any labels."""
    rows, width = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    made = pd.DataFrame({n: draw(columns(rows)) for n in range(width)}, index=pd.RangeIndex(rows))
    labels = [draw(LABELS) for _ in range(width)]
    made.columns = pd.Index(
        labels,
        tupleize_cols=draw(st.booleans())
        and width > 0
        and all(isinstance(x, tuple) for x in labels),
    )
    if draw(st.booleans()):
        made.index = draw(
            hpd.indexes(
                dtype=draw(st.sampled_from(["i8", "f8", "M8[ns]"])), min_size=rows, max_size=rows
            )
        )
    elif draw(st.booleans()):
        made.index = pd.Index(
            [draw(LABELS) for _ in range(rows)],
            dtype=object,
            tupleize_cols=False,
            name=draw(LABELS),
        )
    made.attrs = draw(st.dictionaries(st.text(max_size=2), OBJECTS, max_size=2))
    return made


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(any_frame())
def test_any_frame_comes_back(value):
    """Whatever frame is built of kept kinds comes back the same, with the same digest."""
    again = values.decode(values.encode(value, NO_ARTIFACTS), NO_ARTIFACTS)
    assert alike(value, again)
    assert values.digest(value) == values.digest(again)


class _NoArtifacts:
    def put(self, data: bytes) -> str:
        raise AssertionError("small values need no artifacts")

    get = put


NO_ARTIFACTS: Any = _NoArtifacts()


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
