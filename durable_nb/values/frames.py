"""Codec rows for pandas: frames as Parquet where the read-back is equal, compared by column."""

from __future__ import annotations

import io
import warnings
from typing import Any, Final

import numpy as np
import pandas as pd

from durable_nb.values.parts import CannotTake, Codec, Parts, Shape

_ADVICE: Final = "reset_index(), rename or convert columns first, or name what to keep with record="


def _frame(value: Any) -> Parts:
    """Take a frame as Parquet; what Parquet refuses is refused."""
    bare = value.copy(deep=False)
    bare.attrs = {}  # Parquet would write them as JSON: they go as an inner value
    attrs = (value.attrs,) if value.attrs else ()
    return Parts(_freq(value.index), attrs, blob=_parquet(bare, "DataFrame"))


def _parquet(frame: Any, found: str) -> bytes:
    """Write Parquet; warnings are for people, and what they warn of is found by comparing."""
    sink = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame.to_parquet(sink, engine="pyarrow")
    except Exception as cause:
        why = f"Parquet refuses it ({type(cause).__name__}: {str(cause)[:200]}); {_ADVICE}"
        raise CannotTake(found, why) from cause
    return sink.getvalue()


def _freq(index: Any) -> dict[str, Any]:
    """Note the frequency of a time index, which Parquet drops."""
    freq = getattr(index, "freqstr", None) if _has_freq(index) else None
    return {} if freq is None else {"freq": freq}


def _has_freq(index: Any) -> bool:
    """Say whether a frequency can be set on an index."""
    return isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex))


def _read(parts: Parts) -> Any:
    """Read the frame of a blob and put back what Parquet dropped."""
    frame: Any = pd.read_parquet(io.BytesIO(parts.blob or b""), engine="pyarrow")
    if "freq" in parts.data:
        frame.index.freq = parts.data["freq"]
    return frame


def _to_frame(parts: Parts) -> Any:
    frame = _read(parts)
    if parts.items:
        (frame.attrs,) = parts.items
    return frame


def _series(value: Any) -> Parts:
    """Take a series as a frame of one column, its name beside it."""
    bare = value.to_frame(name="0")
    bare.attrs = {}
    return Parts(_freq(value.index), (value.name, value.attrs), blob=_parquet(bare, "Series"))


def _to_series(parts: Parts) -> Any:
    series = _read(parts)["0"]
    series.name, series.attrs = parts.items
    return series


def _index(value: Any) -> Parts:
    """Take an index as that of a frame without columns."""
    return Parts(_freq(value), blob=_parquet(pd.DataFrame(index=value), "Index"))


def _frame_content(value: Any) -> Parts:
    """Give what equality and digests look at: columns, index, dtypes, attrs and every cell."""
    columns = [_column(value.iloc[:, place]) for place in range(value.shape[1])]
    names = [f'["{str(label)[:40]}"]' for label in value.columns]
    return Parts(
        {"shape": list(value.shape)},
        (_labels(value.columns), _labels(value.index), value.attrs, *columns),
        Shape.NAMED,
        ("columns", "index", "attrs", *names),
    )


def _series_content(value: Any) -> Parts:
    return Parts(
        items=(value.name, _labels(value.index), value.attrs, _column(value)),
        shape=Shape.NAMED,
        names=("name", "index", "attrs", "values"),
    )


def _index_content(value: Any) -> Parts:
    return Parts(items=(_labels(value),), shape=Shape.NAMED, names=("labels",))


def _labels(index: Any) -> dict[str, Any]:
    """Give the content of an index with its kind, names and frequency."""
    names = list(index.names)
    if isinstance(index, pd.MultiIndex):
        levels = [_labels(index.get_level_values(place)) for place in range(index.nlevels)]
        return {"kind": "MultiIndex", "names": names, "levels": levels}
    kind = type(index).__name__
    return {"kind": kind, "names": names, **_freq(index), **_column(index)}


def _column(column: Any) -> dict[str, Any]:
    """Give the content of one column: its dtype and its cells."""
    dtype, array = column.dtype, column.array
    if isinstance(dtype, pd.CategoricalDtype):
        labels = _labels(array.categories)
        codes = array.codes.tobytes()
        return {"dtype": "category", "ordered": dtype.ordered, "categories": labels, "codes": codes}
    if isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)):
        return {"dtype": str(dtype), "cells": array.asi8.tobytes()}
    if isinstance(dtype, pd.IntervalDtype):
        ends = [_column(array.left), _column(array.right)]
        return {"dtype": str(dtype), "closed": array.closed, "cells": ends}
    if isinstance(dtype, np.dtype) and dtype.kind in "biufcmM":
        return {"dtype": dtype.str, "cells": column.to_numpy().tobytes()}
    # the dtype in full, since two kinds of strings share a short name
    return {"dtype": f"{type(dtype).__name__} {dtype!r}", "cells": column.tolist()}


def _timestamp(value: Any) -> Parts:
    """Take a Timestamp: ticks since 1970 in its own unit, in UTC if it has a zone, and the zone."""
    zone = () if value.tz is None else (value.tz,)
    return Parts({"ticks": value._value, "unit": value.unit, "fold": value.fold}, zone)


def _to_timestamp(parts: Parts) -> Any:
    stamp = pd.Timestamp(np.datetime64(parts.data["ticks"], parts.data["unit"]))
    return stamp.tz_localize("UTC").tz_convert(parts.items[0]) if parts.items else stamp


def _timedelta(value: Any) -> Parts:
    return Parts({"ticks": value._value, "unit": value.unit})


ROWS: Final[tuple[Codec, ...]] = (
    Codec(
        "pandas.DataFrame",
        pd.DataFrame,
        _frame,
        _to_frame,
        content=_frame_content,
        mutable=True,
        advice=_ADVICE,
    ),
    Codec(
        "pandas.Series",
        pd.Series,
        _series,
        _to_series,
        content=_series_content,
        mutable=True,
        advice=_ADVICE,
    ),
    Codec(
        "pandas.Index",
        lambda cls: issubclass(cls, pd.Index) and cls.__module__.partition(".")[0] == "pandas",
        _index,
        lambda parts: _read(parts).index,
        content=_index_content,
        advice=_ADVICE,
    ),
    Codec("pandas.Timestamp", pd.Timestamp, _timestamp, _to_timestamp),
    Codec(
        "pandas.Timedelta",
        pd.Timedelta,
        _timedelta,
        lambda p: pd.Timedelta(np.timedelta64(p.data["ticks"], p.data["unit"])),
    ),
    Codec("pandas.NA", type(pd.NA), lambda v: Parts(), lambda p: pd.NA),
    Codec("pandas.NaT", type(pd.NaT), lambda v: Parts(), lambda p: pd.NaT),
)
