"""One-dimensional pandas data taken apart: which kind of cells, the bulk of them, and the rest.

The bulk is a flat array of numbers or texts that any file format holds unchanged. Everything that a
file format would drop or alter (categories, zones, closed ends, Python objects) goes beside it as
ordinary values of ours, so nothing depends on what a library writes into its own metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from durable_nb.values.parts import CannotTake
from durable_nb.values.tables import copied

#: Labels up to this many are written as readable JSON; more go as an Arrow array.
_LISTED: Final = 1_000


class Cells(NamedTuple):
    """Cells taken apart.

    Attributes
    ----------
    facts : dict
        What kind they are, JSON.
    bulk : numpy.ndarray, pyarrow.Array, pyarrow.ChunkedArray or None
        Numbers or texts, one for each cell.
    inner : tuple
        Values beside it, each encoded by the rules for all values.
    """

    facts: dict[str, Any]
    bulk: Any = None
    inner: tuple[Any, ...] = ()


def take(column: Any, *, listed: bool = False) -> Cells:
    """Take a series, index or array apart; `listed` writes short texts as plain lists.

    Raises
    ------
    CannotTake
        Its dtype belongs to another library, or holds what has no recorded form.
    """
    dtype = column.dtype
    listed = listed and len(column) <= _LISTED
    if isinstance(dtype, np.dtype):
        return _numpy(column.to_numpy(), listed)
    array = getattr(column, "array", column)
    if type(dtype) is pd.StringDtype:
        return _string(array, listed)
    taker = _TAKERS.get(type(dtype))
    if taker is None:
        kind = f"{type(dtype).__module__}.{type(dtype).__qualname__}"
        raise CannotTake(f"pandas data of dtype {kind}", "convert it to a dtype of pandas first")
    return taker(array)


def give(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    """Put cells together: a numpy array or an extension array of pandas."""
    return _GIVERS[facts["kind"]](facts, bulk, inner)


def _ours(values: Any) -> Any:
    """Make a decoded array one that can be written to: pandas shows what it holds read-only."""
    values.flags.writeable = True
    return values


def stored(dtype: Any) -> Any:
    """Give the dtype of numbers that stands for a numpy dtype in a file, or None."""
    if not dtype.isnative:
        return None
    if dtype.kind in "mM":
        return np.dtype("i8")
    plain = dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))
    return dtype if plain else None


# -- numpy dtypes and texts -------------------------------------------------------------------


def _numpy(values: Any, listed: bool) -> Cells:
    """Take cells of a numpy dtype: numbers as they are, text objects as text, all else itself."""
    if values.dtype == object and not listed:
        texts = only_texts(values)
        if texts is not None:
            return Cells({"kind": "texts"}, texts)
    as_stored = stored(values.dtype)
    if as_stored is None:
        return Cells({"kind": "array"}, None, (values,))
    return Cells({"kind": "numpy", "dtype": values.dtype.str}, values.view(as_stored))


def only_texts(values: Any) -> Any:
    """Give an Arrow array of objects that are all `str` or None, or None for any others."""
    cells = values.tolist()
    kinds = set(map(type, cells))
    if str not in kinds or not kinds <= {str, type(None)}:
        return None
    try:
        return pa.array(cells, pa.large_string())
    except UnicodeEncodeError:  # lone surrogates
        return None


def _give_numpy(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    dtype = np.dtype(facts["dtype"])
    if dtype.kind not in "biufmM":
        raise ValueError(f"no numbers: {dtype}")
    return _ours(bulk).view(dtype)


def _give_array(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    return _ours(inner[0])


def _give_texts(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    values = np.empty(len(bulk), dtype=object)
    values[:] = _read_texts(bulk).to_pylist()
    return values


def _read_texts(bulk: Any) -> Any:
    """Insist on texts, as large strings: a file may hold them as small ones."""
    if not (pa.types.is_string(bulk.type) or pa.types.is_large_string(bulk.type)):
        raise ValueError(f"{bulk.type} where texts are expected")
    return bulk.cast(pa.large_string())


def _string(array: Any, listed: bool) -> Cells:
    """Take strings: texts and gaps, how pandas holds them, and which gap it shows."""
    dtype = array.dtype
    na = "NA" if dtype.na_value is pd.NA else "nan"
    facts = {"kind": "string", "storage": dtype.storage, "na": na}
    texts = None if listed else string_texts(array)
    if texts is None:
        return Cells(facts, None, ([None if cell is dtype.na_value else cell for cell in array],))
    return Cells(facts, texts)


def string_texts(array: Any) -> Any:
    """Give a string array of pandas as one of Arrow, or None if it holds lone surrogates."""
    try:
        return pa.array(array, type=pa.large_string(), from_pandas=True)
    except UnicodeEncodeError:
        return None


def _give_string(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    gap = {} if facts["na"] == "NA" else {"na_value": np.nan}
    dtype: Any = pd.StringDtype(facts["storage"], **gap)
    if inner:
        return pd.array(inner[0], dtype=dtype)
    return dtype.__from_arrow__(_read_texts(bulk))


# -- dtypes of pandas -------------------------------------------------------------------------


def _masked(array: Any) -> Cells:
    """Take a nullable array; in floats a NaN and a gap differ."""
    values, gaps = masked_parts(array)
    bulk = pa.array(values, mask=gaps, from_pandas=False)
    return Cells({"kind": "masked", "dtype": array.dtype.name}, bulk)


def masked_parts(array: Any) -> tuple[Any, Any]:
    """Give the values of a nullable array, zero in its gaps, and where the gaps are."""
    kind = getattr(array.dtype, "numpy_dtype", np.dtype(bool))
    return array.to_numpy(dtype=kind, na_value=kind.type(0)), np.asarray(array.isna())


_MASKED: Final[Mapping[str, Callable[..., Any]]] = {
    **{
        f"{sign}Int{bits}": pd.arrays.IntegerArray for sign in ("", "U") for bits in (8, 16, 32, 64)
    },
    "Float32": pd.arrays.FloatingArray,
    "Float64": pd.arrays.FloatingArray,
    "boolean": pd.arrays.BooleanArray,
}


def _give_masked(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    name = facts["dtype"]
    gaps = np.array(bulk.is_null().to_numpy(**copied(bulk)), dtype=bool)
    full = bulk.fill_null(False if name == "boolean" else 0) if bulk.null_count else bulk
    values = np.array(full.to_numpy(**copied(full)), "?" if name == "boolean" else name.lower())
    return _MASKED[name](values, gaps)


def _category(array: Any) -> Cells:
    facts = {"kind": "category", "ordered": bool(array.ordered)}
    return Cells(facts, np.asarray(array.codes), (array.categories,))


def _give_category(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    dtype = pd.CategoricalDtype(inner[0], ordered=facts["ordered"])
    return pd.Categorical.from_codes(_ours(bulk), dtype=dtype)


def _zoned(array: Any) -> Cells:
    return Cells({"kind": "zoned", "unit": array.dtype.unit}, array.asi8, (array.dtype.tz,))


def _give_zoned(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    ticks = _ours(bulk).view(f"M8[{facts['unit']}]")
    return pd.DatetimeIndex(ticks).tz_localize("UTC").tz_convert(inner[0]).array


def _period(array: Any) -> Cells:
    return Cells({"kind": "period", "freq": array.freqstr}, array.asi8)


def _give_period(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    ordinals = _ours(bulk)
    return pd.arrays.PeriodArray(ordinals, dtype=pd.PeriodDtype(facts["freq"]))


def _interval(array: Any) -> Cells:
    ends = (pd.Index(array.left), pd.Index(array.right))
    return Cells({"kind": "interval", "closed": array.closed}, None, ends)


def _give_interval(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    left, right = inner
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=facts["closed"])


def _sparse(array: Any) -> Cells:
    """Take a sparse array: the cells that are stored, where they are, and what fills the rest."""
    facts = {"kind": "sparse", "layout": array.kind, "length": len(array)}
    places = array.sp_index.to_int_index().indices
    return Cells(facts, None, (array.sp_values, array.fill_value, places))


def _give_sparse(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    values, filler, places = inner
    kind: Any = pd.arrays.SparseArray
    layout, length = facts["layout"], facts["length"]
    if hasattr(kind, "from_indices"):
        return kind.from_indices(values, places, length, filler, layout, values.dtype)
    # before pandas 3.1 the classes of these indexes had no public name
    where: Any = type(kind([1.0], kind="integer").sp_index)
    where = where(length, places)
    where = where if layout == "integer" else where.to_block_index()
    if len(values) != where.npoints:
        raise ValueError("a sparse array whose cells have no places")
    return kind(values, sparse_index=where, dtype=pd.SparseDtype(values.dtype, filler))


def _arrow(array: Any) -> Cells:
    cells = pa.array(array)
    if isinstance(cells, pa.Array):
        cells = pa.chunked_array([cells])
    return Cells({"kind": "arrow"}, None, (cells,))


def _give_arrow(facts: Mapping[str, Any], bulk: Any, inner: tuple[Any, ...]) -> Any:
    return pd.arrays.ArrowExtensionArray(inner[0])


_TAKERS: Final[Mapping[type, Callable[[Any], Cells]]] = {
    **{type(pd.api.types.pandas_dtype(name)): _masked for name in _MASKED},
    pd.CategoricalDtype: _category,
    pd.DatetimeTZDtype: _zoned,
    pd.PeriodDtype: _period,
    pd.IntervalDtype: _interval,
    pd.SparseDtype: _sparse,
    pd.ArrowDtype: _arrow,
}

_GIVERS: Final[Mapping[str, Callable[[Mapping[str, Any], Any, tuple[Any, ...]], Any]]] = {
    "numpy": _give_numpy,
    "array": _give_array,
    "texts": _give_texts,
    "string": _give_string,
    "masked": _give_masked,
    "category": _give_category,
    "zoned": _give_zoned,
    "period": _give_period,
    "interval": _give_interval,
    "sparse": _give_sparse,
    "arrow": _give_arrow,
}
