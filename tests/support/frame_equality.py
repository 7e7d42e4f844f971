"""Whether two values of pandas, numpy or pyarrow are the same, by these libraries' own means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def alike(a: Any, b: Any) -> bool:
    """Compare strictly: types, dtypes, gaps, labels, and NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.dtype):
        return a == b and repr(a) == repr(b)
    if isinstance(a, (pa.Table, pa.RecordBatch, pa.Schema)):
        return bool(a.equals(b, check_metadata=True) or _arrow(a, b))
    if isinstance(a, (pa.Array, pa.ChunkedArray)):
        return bool(a.type == b.type and repr(a.to_pylist()) == repr(b.to_pylist()))
    if isinstance(a, pa.DataType):
        return bool(a.equals(b, check_metadata=True))
    if a is np.ma.masked:
        return a is b
    if isinstance(a, np.ma.MaskedArray):
        filled = alike(a._fill_value, b._fill_value)  # asking for `fill_value` would set it
        return filled and _masks(a, b) and alike(np.asarray(a.data), np.asarray(b.data))
    if isinstance(a, np.ndarray):
        same_place = a.flags.fnc == b.flags.fnc and a.flags.writeable == b.flags.writeable
        return same_place and a.shape == b.shape and _numbers(a, b)
    if isinstance(a, pd.DataFrame):
        around = alike(a.columns, b.columns) and _around(a, b)
        return around and all(cells(a.iloc[:, n], b.iloc[:, n]) for n in range(a.shape[1]))
    if isinstance(a, pd.Series):
        return alike(a.name, b.name) and _around(a, b) and cells(a, b)
    if isinstance(a, pd.Index):
        return _index(a, b)
    if isinstance(a, pd.api.extensions.ExtensionArray):
        return cells(a, b)
    return _python(a, b)


def _around(a: Any, b: Any) -> bool:
    """Compare what a frame or series has beside its cells."""
    flags = a.flags.allows_duplicate_labels == b.flags.allows_duplicate_labels
    return flags and alike(a.index, b.index) and alike(a.attrs, b.attrs)


def _python(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return alike(list(a), list(b)) and alike(list(a.values()), list(b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if a is pd.NaT or a is pd.NA:
        return a is b
    if isinstance(a, pd.Timestamp):
        return a == b and a.unit == b.unit and repr(a.tz) == repr(b.tz) and type(a.tz) is type(b.tz)
    return repr(a) == repr(b)


def _numbers(a: Any, b: Any) -> bool:
    """Compare numpy arrays by dtype and every bit, objects one by one."""
    if a.dtype != b.dtype or a.dtype.str != b.dtype.str or repr(a.dtype) != repr(b.dtype):
        return False
    if a.dtype.char in "gG":  # of their 16 bytes, some mean nothing
        return bool(np.array_equal(a, b, equal_nan=True))
    return alike(a.tolist(), b.tolist()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()


def _masks(a: Any, b: Any) -> bool:
    if a.hardmask != b.hardmask or (a.mask is np.ma.nomask) != (b.mask is np.ma.nomask):
        return False
    return a.mask is np.ma.nomask or bool(np.array_equal(a.mask, b.mask))


def _index(a: Any, b: Any) -> bool:
    if not alike(list(a.names), list(b.names)) or getattr(a, "freq", None) != getattr(
        b, "freq", None
    ):
        return False
    if isinstance(a, pd.RangeIndex):
        return (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
    if isinstance(a, pd.MultiIndex):
        codes = all(map(np.array_equal, a.codes, b.codes))
        return codes and all(map(_index, a.levels, b.levels))
    return cells(a, b)


def cells(a: Any, b: Any) -> bool:
    """Compare the cells of two columns, indexes or arrays."""
    dtype = a.dtype
    if isinstance(dtype, np.dtype) and isinstance(b.dtype, np.dtype):
        return _numbers(a.to_numpy(), b.to_numpy())
    if type(dtype) is not type(b.dtype) or repr(dtype) != repr(b.dtype):
        return False
    one, two = (getattr(x, "array", x) for x in (a, b))
    if type(one) is not type(two) or not np.array_equal(one.isna(), two.isna()):
        return False
    if isinstance(dtype, pd.CategoricalDtype):
        codes = np.array_equal(one.codes, two.codes) and one.codes.dtype == two.codes.dtype
        return bool(codes and one.ordered == two.ordered and alike(one.categories, two.categories))
    if isinstance(dtype, pd.SparseDtype):
        same_fill = alike(one.fill_value, two.fill_value) and one.kind == two.kind
        return (
            same_fill
            and _numbers(one.sp_values, two.sp_values)
            and repr(one.sp_index) == repr(two.sp_index)
        )
    zones = getattr(dtype, "tz", None), getattr(b.dtype, "tz", None)
    return alike(one.astype(object).tolist(), two.astype(object).tolist()) and type(
        zones[0]
    ) is type(zones[1])


def _arrow(a: Any, b: Any) -> bool:
    """Compare tables that hold NaN, which Arrow says is unequal to itself."""
    if isinstance(a, pa.Schema) or not a.schema.equals(b.schema, check_metadata=True):
        return False
    return all(map(alike, a.columns, b.columns))
