"""Arrays of numpy and data of pyarrow: equal after a read-back without a pickle, or refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, ClassVar

import hypothesis.extra.numpy as hnp
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.frame_equality import alike

from durable_nb import values
from durable_nb.model.errors import NotRecordable


def described() -> Any:
    return np.zeros(1, np.dtype("i4", metadata={"unit": "m"}))


def described_inside() -> Any:
    return np.zeros(1, [("a", np.dtype("i4", metadata={"unit": "m"}))])


def overlapping() -> Any:
    spec: Any = {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}
    return np.zeros(1, np.dtype(spec))


def backwards() -> Any:
    spec: Any = {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}
    return np.zeros(1, np.dtype(spec))


class SubArray(np.ndarray):
    """An array class of another library."""


class Tagged(pa.ExtensionType):
    """An extension type, with a record of when Arrow runs its code."""

    ran: ClassVar[list[bytes]] = []

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tagged.type")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"payload"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Tagged:
        cls.ran.append(serialized)
        return Tagged()


def tagged() -> Any:
    return pa.ExtensionArray.from_storage(Tagged(), pa.array([1]))


def disguised() -> Any:
    """Make a table that is plain in memory and would be an extension once it is read."""
    meta = {"ARROW:extension:name": "tagged.type", "ARROW:extension:metadata": "x"}
    return pa.table([pa.array([1])], schema=pa.schema([pa.field("a", pa.int64(), metadata=meta)]))


#: name -> maker of a value, and what the refusal says
REFUSED: dict[str, tuple[Any, str]] = {
    "StringDType": (lambda: np.array(["a"], dtype=np.dtypes.StringDType()), "StringDType"),
    "an object inside": (lambda: np.array([1, object()], dtype=object), r"result\[1\] is a object"),
    "objects in records": (lambda: np.zeros(1, [("a", "O")]), "dtype"),
    "metadata of a dtype": (described, "metadata"),
    "metadata of a field": (described_inside, "metadata"),
    "a subclass": (lambda: np.zeros(2).view(SubArray), "result is a .*SubArray"),
    "a subclass under a mask": (lambda: np.ma.MaskedArray(np.zeros(2).view(SubArray)), "masked array over SubArray"),
    "a matrix": (lambda: np.zeros((2, 2)).view(np.matrix), "numpy.matrix"),
    "records with attributes": (lambda: np.zeros(2, "i4,i4").view(np.recarray), "recarray"),
    "long long": (lambda: np.longlong(1), "comes back as numpy.int64"),
    "a generator": (lambda: {"rng": [np.random.default_rng(0)]}, r'result\["rng"\]\[0\]'),
    "an extension array": (tagged, "extension type"),
    "an extension column": (lambda: pa.table({"a": tagged()}), "column 'a'"),
    "an extension in a list": (lambda: pa.schema([pa.field("a", pa.list_(Tagged()))]), "extension type"),
    "an extension in a struct": (lambda: pa.struct({"x": pa.list_(Tagged())}), "extension type"),
    "a disguised extension": (disguised, "metadata names an extension"),
    "an Arrow scalar": (lambda: pa.scalar(1), "pyarrow"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_value_that_would_change_is_refused_by_name(name, artifacts):
    """What cannot come back as it was, or only by running code, is refused; nothing is stored."""
    make, why = REFUSED[name]
    with pytest.raises(NotRecordable, match=why):
        values.encode(make(), artifacts)
    assert artifacts.blobs == {}


def test_dtype_of_another_library_is_refused(artifacts):
    """A dtype whose text is only its size would come back as raw bytes."""
    rational = pytest.importorskip("numpy._core._rational_tests").rational
    with pytest.raises(NotRecordable, match="dtype"):
        values.encode(np.array([rational(1, 2)]), artifacts)


def test_record_dtypes_keep_how_they_lie(back):
    """Padding, alignment, titles and nested sub-arrays are part of a dtype."""
    aligned = np.dtype([("a", "i1"), ("b", "f8", (2,))], align=True)
    padded = np.dtype({"names": ["a"], "formats": ["i2"], "offsets": [4], "itemsize": 16})
    nested = np.dtype([("r", aligned), (("Title", "t"), "S0"), ("s", padded, (2, 3))])
    for dtype in (
        aligned,
        padded,
        nested,
        np.dtype([]),
        overlapping().dtype,
        backwards().dtype,
        np.dtype((aligned, (2,))),
        np.dtype("V0"),
    ):
        assert alike(back(dtype), dtype), dtype
        assert alike(back(np.zeros(2, dtype)), np.zeros(2, dtype)), dtype
    assert back(aligned).isalignedstruct
    assert not back(padded).isalignedstruct


def test_what_pads_a_value_is_no_part_of_its_digest(back):
    """Equal values have equal digests, whatever lay in memory that no field covers."""
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    one, two = (
        np.frombuffer(bytearray(b"\0" * 32), dtype),
        np.frombuffer(bytearray(b"\xff" * 32), dtype),
    )
    two["a"], two["b"] = 0, 0
    assert one.tobytes() != two.tobytes()
    assert values.digest(one) == values.digest(two)
    assert alike(back(two), two)
    if np.finfo(np.longdouble).nmant == 63:
        bare, dirty = np.zeros(2, "g"), np.zeros(2, "g")
        dirty.view("u1").reshape(2, 16)[:, 10:] = 7
        assert values.digest(dirty) == values.digest(bare)
        assert values.digest(dirty.astype(">g")) == values.digest(bare.astype(">g"))
        assert np.array_equal(back(dirty), bare)
        assert values.digest(dirty[0]) == values.digest(bare[0])


def test_masked_array_keeps_what_its_mask_hides(back):
    """Cells under the mask, the mask's own kind and the filler all come back."""
    value = np.ma.MaskedArray([1, 2, 3], [True, False, True], fill_value=9, hard_mask=True)
    again = back(value)
    assert again.data.tolist() == [1, 2, 3]
    assert again.mask.tolist() == [True, False, True]
    assert (again.fill_value, again.hardmask) == (9, True)
    again.mask[1] = True  # writable, and no part of the original
    assert value.mask.tolist() == [True, False, True]
    others = [
        np.ma.MaskedArray([1, 2, 3], [True, False, False]),
        np.ma.MaskedArray([1, 2, 3]),
        np.array([1, 2, 3]),
    ]
    assert len({values.digest(x) for x in [value, *others]}) == 4


def test_array_digest_looks_at_content_alone():
    """Order in memory and write protection are kept, but no part of a digest."""
    base = np.arange(6).reshape(2, 3)
    still = base.copy()
    still.flags.writeable = False
    wide = np.zeros((2, 6), base.dtype)
    wide[:, ::2] = base
    for other in (np.asfortranarray(base), still, wide[:, ::2]):
        assert values.digest(other) == values.digest(base)
    for other in (
        base.T.copy(),
        base.ravel(),
        base.astype(">i8"),
        base.astype("u8"),
        base.tolist(),
    ):
        assert values.digest(other) != values.digest(base)


def test_digest_of_a_table_does_not_depend_on_chunks():
    """Equal tables have equal digests, sliced or chunked."""
    whole = pa.table({"a": [1, 2, None], "t": pa.array([1, 2, 3], pa.time32("s"))})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    assert values.digest(parts) == values.digest(whole)
    assert values.digest(whole.slice(0, 2)) != values.digest(whole)
    dates = [values.digest(pa.table({"a": pa.array([n], pa.date32())})) for n in (1, 2)]
    assert dates[0] != dates[1]


def test_digests_are_those_of_earlier_records():
    """Digests on record are compared with new ones, so their form never changes."""
    assert (
        values.digest(np.asfortranarray(np.arange(4, dtype=">i2").reshape(2, 2)))
        == "b2:9b22185ca24b24f629c0b5f375bd7dc1"
    )
    assert values.digest(np.array([1, (2,)], dtype=object)) == "b2:291c43f42d7fc27e35d38954b983ca46"
    assert values.digest(pa.table({"a": [1, None]})) == "b2:22e0471f59a2e6fc6d916c657a29e7ea"


def test_pickled_arrays_are_refused(artifacts):
    """A dtype of Python objects in a text is not believed, wherever it stands."""
    for value, found in (
        (np.array([1, 2]), '"<i8"'),
        (np.zeros(1, [("a", "<i8")]), '"<i8"'),
        (np.int64(1), '"<i8"'),
    ):
        text = values.encode(value, artifacts)
        assert found in text
        for planted in (
            '"|O"',
            '[["a","|O"]]',
            '["|O",[2]]',
            '{"names":["a"],"formats":["|O"],"offsets":[0],"titles":[null],"itemsize":8,"aligned":false}',
        ):
            with pytest.raises(values.ValueNotLoadable):
                values.decode(text.replace(found, planted), artifacts)


@pytest.fixture
def registered() -> Iterator[None]:
    pa.register_extension_type(Tagged())
    Tagged.ran.clear()
    yield
    pa.unregister_extension_type("tagged.type")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "value",
    [pa.table({"a": [1]}), pa.array([1]), pa.chunked_array([[1]]), pa.schema([]), pa.int8()],
    ids=lambda v: type(v).__name__,
)
def test_planted_extension_type_is_not_looked_up(value, artifacts):
    """A stream that names an extension type is refused before Arrow acts on it."""
    text = json.loads(values.encode(value, artifacts))
    schema = pa.schema([pa.field("0", pa.list_(Tagged()))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(
            pa.record_batch(
                [pa.array([[1]], pa.list_(pa.int64())).cast(schema[0].type)], schema=schema
            )
        )
    text["b64"] = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    Tagged.ran.clear()
    with pytest.raises(values.ValueNotLoadable):
        values.decode(json.dumps(text), artifacts)
    assert Tagged.ran == []


@pytest.mark.parametrize("cut", [0, 3, 8, 40, -1])
def test_cut_stream_is_damage(cut, artifacts):
    """A stream that ends early is refused, never read short."""
    text = json.loads(values.encode(pa.array([1, 2, 3]), artifacts))
    text["b64"] = base64.b64encode(base64.b64decode(text["b64"])[:-200][:cut]).decode()
    with pytest.raises(values.ValueNotLoadable):
        values.decode(json.dumps(text), artifacts)


SCALARS = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.floating_dtypes(), hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(), hnp.timedelta64_dtypes(), hnp.byte_string_dtypes(max_len=4), hnp.unicode_string_dtypes(max_len=4),
)  # fmt: skip
DTYPES = SCALARS | hnp.nested_dtypes(SCALARS, max_leaves=5)


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    DTYPES.flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=3))
    ),
    st.booleans(),
)
def test_any_array_comes_back(value, fortran):
    """Whatever array is built without Python objects comes back the same, with the same digest."""
    value = np.asfortranarray(value) if fortran else value
    again = values.decode(values.encode(value, NO_ARTIFACTS), NO_ARTIFACTS)
    assert alike(value, again)
    assert values.digest(value) == values.digest(again)


class _NoArtifacts:
    def put(self, data: bytes) -> str:
        raise AssertionError("small values need no artifacts")

    get = put


NO_ARTIFACTS: Any = _NoArtifacts()
