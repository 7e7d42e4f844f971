"""What equality and digests look at in frames, series and indexes.

Both see the same things. Digests keep the form that they have had from the start, since recorded
ones are compared with new ones; comparing after a read-back looks at memory where it lies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from durable_nb.values.arrays import raw
from durable_nb.values.cells import masked_parts, only_texts, string_texts
from durable_nb.values.parts import Parts, Shape
from durable_nb.values.plain import is_clean
from durable_nb.values.tables import still, texts_content

_Column = Callable[[Any], dict[str, Any]]


def freq_of(index: Any) -> dict[str, Any]:
    """Note the frequency of a time index."""
    timed = isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex))
    freq = index.freqstr if timed else None
    return {} if freq is None else {"freq": freq}


def flags_of(value: Any) -> dict[str, Any]:
    """Note the flag of a frame or series, where it is not the ordinary one."""
    return {} if value.flags.allows_duplicate_labels else {"unique": True}


def columns_of(frame: Any) -> Iterator[Any]:
    """Give the columns of a frame in turn, by place, since labels may be doubled."""
    bare = pd.DataFrame(frame)  # shares the cells; pandas copies attrs for each column it gives
    return (bare.iloc[:, place] for place in range(bare.shape[1]))


def column_names(columns: Any) -> list[str]:
    """Name the columns of a frame as Python would reach them, each by a name of its own."""
    names: list[str] = []
    taken: set[str] = set()
    for place, label in enumerate(columns):
        name = f"iloc[:, {place}]"
        if type(label) is str and len(label) <= 40 and is_clean(label):
            name = f"[{json.dumps(label, ensure_ascii=not label.isprintable())}]"
        elif type(label) in (int, bool, type(None)):
            name = f"[{label!r}]" if len(repr(label)) <= 40 else name
        names.append(f"iloc[:, {place}]" if name in taken else name)
        taken.add(name)
    return names


def _frame(of: _Column, value: Any) -> Parts:
    """Give columns, index, dtypes, attrs and every cell."""
    columns = [of(column) for column in columns_of(value)]
    labels, index = _labels(value.columns, of), _labels(value.index, of)
    return Parts(
        {"shape": list(value.shape), **flags_of(value)},
        (labels, index, value.attrs, *columns),
        Shape.NAMED,
        ("columns", "index", "attrs", *_names(of, value.columns)),
    )


def _names(of: _Column, columns: Any) -> list[str]:
    """Name columns; in a digest as ever."""
    if of is column_digest:
        return [f'["{str(label)[:40]}"]' for label in columns]
    return column_names(columns)


def _series(of: _Column, value: Any) -> Parts:
    return Parts(
        flags_of(value),
        items=(value.name, _labels(value.index, of), value.attrs, of(value)),
        shape=Shape.NAMED,
        names=("name", "index", "attrs", "values"),
    )


def _index(of: _Column, value: Any) -> Parts:
    return Parts(items=(_labels(value, of),), shape=Shape.NAMED, names=("labels",))


def _array(of: _Column, value: Any) -> Parts:
    return Parts(items=(of(value),), shape=Shape.NAMED, names=("values",))


def _labels(index: Any, of: _Column) -> dict[str, Any]:
    """Give the content of an index with its kind, names and frequency."""
    names = list(index.names)
    if of is column_content and isinstance(index, pd.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}
    if isinstance(index, pd.MultiIndex) and of is column_content:
        levels = [_labels(level, of) for level in index.levels]
        return {"names": names, "levels": levels, "codes": [still(codes) for codes in index.codes]}
    if isinstance(index, pd.MultiIndex):
        levels = [_labels(index.get_level_values(place), of) for place in range(index.nlevels)]
        return {"kind": "MultiIndex", "names": names, "levels": levels}
    kind = type(index).__name__
    return {"kind": kind, "names": names, **freq_of(index), **of(index)}


def column_digest(column: Any) -> dict[str, Any]:
    """Give the content of one column for a digest: its dtype and its cells."""
    dtype, array = column.dtype, getattr(column, "array", column)
    if isinstance(dtype, pd.CategoricalDtype):
        labels = _labels(array.categories, column_digest)
        codes = array.codes.tobytes()
        return {"dtype": "category", "ordered": dtype.ordered, "categories": labels, "codes": codes}
    if isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)):
        return {"dtype": str(dtype), "cells": array.asi8.tobytes()}
    if isinstance(dtype, pd.IntervalDtype):
        ends = [column_digest(array.left), column_digest(array.right)]
        return {"dtype": str(dtype), "closed": array.closed, "cells": ends}
    if isinstance(dtype, np.dtype) and dtype.kind in "biufcmM":
        return {"dtype": dtype.str, "cells": bytes(raw(column.to_numpy()))}
    # the dtype in full, since two kinds of strings share a short name
    return {"dtype": f"{type(dtype).__name__} {dtype!r}", "cells": column.tolist()}


def column_content(column: Any) -> dict[str, Any]:
    """Give the content of one column for a comparison, without copies or Python objects."""
    dtype, array = column.dtype, getattr(column, "array", column)
    if isinstance(dtype, np.dtype):
        values = column.to_numpy()
        texts = only_texts(values) if dtype.kind == "O" else None
        if texts is not None:
            return {"dtype": dtype.str, "cells": texts_content(texts)}
        return {
            "dtype": dtype.str,
            "cells": values.tolist() if dtype.kind == "O" else still(values),
        }
    return {"dtype": f"{type(dtype).__name__} {dtype!r}", **_extension(dtype, array)}


def _extension(dtype: Any, array: Any) -> dict[str, Any]:
    """Give the cells of an extension array of pandas."""
    if isinstance(dtype, pd.CategoricalDtype):
        labels = _labels(array.categories, column_content)
        return {"ordered": dtype.ordered, "categories": labels, "codes": still(array.codes)}
    if isinstance(dtype, pd.DatetimeTZDtype):
        return {"zone": dtype.tz, "cells": still(array.asi8)}
    if isinstance(dtype, pd.PeriodDtype):
        return {"cells": still(array.asi8)}
    if isinstance(dtype, pd.IntervalDtype):
        ends = [column_content(array.left), column_content(array.right)]
        return {"closed": array.closed, "cells": ends}
    if isinstance(dtype, pd.SparseDtype):
        places = array.sp_index.to_int_index().indices
        cells = [still(array.sp_values), still(places), array.fill_value]
        return {"layout": array.kind, "cells": cells}
    if isinstance(dtype, pd.ArrowDtype):
        return {"cells": pa.array(array)}
    if isinstance(dtype, pd.StringDtype):
        texts = string_texts(array)
        return {"cells": array.tolist()} if texts is None else texts_content(texts)
    if hasattr(array, "_mask"):
        values, gaps = masked_parts(array)
        return {"cells": still(values), "gaps": still(gaps)}
    return {"cells": array.tolist()}


frame_content, frame_digested = partial(_frame, column_content), partial(_frame, column_digest)
series_content, series_digested = partial(_series, column_content), partial(_series, column_digest)
index_content, index_digested = partial(_index, column_content), partial(_index, column_digest)
array_content, array_digested = partial(_array, column_content), partial(_array, column_digest)
