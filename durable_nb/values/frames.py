"""Codec rows for pandas: plain cells as numbers and texts, all that names them as values of ours.

Parquet sees numbers and texts only, under the names "0", "1", …: labels of any type, index, names,
dtypes, zones, attrs and flags are written beside it, so none of them has to survive a file format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from durable_nb.values import frames_v1
from durable_nb.values.cells import Cells, give, take
from durable_nb.values.frame_content import (
    array_content,
    array_digested,
    column_names,
    columns_of,
    flags_of,
    frame_content,
    frame_digested,
    freq_of,
    index_content,
    index_digested,
    series_content,
    series_digested,
)
from durable_nb.values.parquet import Columns, write_columns
from durable_nb.values.parts import CannotTake, Codec, Parts, Shape

_ADVICE: Final = "convert that part first, or name what to keep with record="


def _own(value: Any) -> None:
    """Refuse attributes that somebody hung on a frame: pandas drops them at the next operation."""
    for name in vars(value):
        if not name.startswith("_"):
            kind = type(value).__name__
            raise CannotTake(f"{kind} with an attribute {name!r}", f"keep it in .attrs[{name!r}]")


def _frame(value: Any) -> Parts:
    """Take a frame: one Parquet file for plain cells, inner values for all else."""
    _own(value)
    columns = [take(column) for column in columns_of(value)]
    bulks = [cells.bulk for cells in columns if cells.bulk is not None]
    inner: dict[str, Any] = {"columns": value.columns, "index": value.index}
    if value.attrs:
        inner["attrs"] = value.attrs
    for name, cells in zip(column_names(value.columns), columns, strict=True):
        for place, item in enumerate(cells.inner):
            inner[f"{name}{place or ''}"] = item
    data = {"cells": [_counted(cells) for cells in columns], **flags_of(value)}
    blob = write_columns(bulks) if bulks else None
    return Parts(data, tuple(inner.values()), Shape.NAMED, tuple(inner), blob)


def _counted(cells: Cells) -> dict[str, Any]:
    """Note beside the kind of cells how many inner values are theirs."""
    facts = dict(cells.facts)
    if cells.inner:
        facts["inner"] = len(cells.inner)
    if cells.bulk is not None:
        plain = isinstance(cells.bulk, np.ndarray)
        facts["bulk"] = cells.bulk.dtype.str if plain else "texts"
    return facts


def _to_frame(parts: Parts) -> Any:
    kinds = parts.data["cells"]
    items = iter(parts.items)
    columns, index = next(items), next(items)
    attrs = next(items) if "attrs" in parts.names else None
    bulks = None if parts.blob is None else Columns(parts.blob)
    frame = _block(kinds, bulks, len(index))
    if frame is None:
        rows = len(index)
        cells = {n: _given(facts, bulks, rows, items) for n, facts in enumerate(kinds)}
        small = len(kinds) * rows <= _SMALL
        frame = pd.DataFrame(cells, index=pd.RangeIndex(rows), copy=small)
    frame.index, frame.columns = index, columns
    if attrs is not None:
        frame.attrs = attrs
    _set_flags(frame, parts)
    return frame


#: Cells up to which columns of one dtype are gathered in one piece of memory, which copies them.
_SMALL: Final = 1_000_000


def _block(kinds: list[Any], bulks: Columns | None, rows: int) -> Any:
    """Make a frame of numbers of one dtype in place, or None: a large one is never there twice."""
    names = {facts.get("dtype") if facts["kind"] == "numpy" else None for facts in kinds}
    if len(names) != 1 or None in names or bulks is None:
        return None
    block: Any = np.empty((len(kinds), rows), kinds[0]["bulk"])
    for row in block:
        bulks.numbers(row)
    return pd.DataFrame(block.view(kinds[0]["dtype"]).T, copy=False)


def _given(facts: Mapping[str, Any], bulks: Columns | None, rows: int, items: Iterator[Any]) -> Any:
    """Put one column together; objects stay objects, whatever pandas would make of them."""
    inner = tuple(next(items) for _ in range(facts.get("inner", 0)))
    bulk = None
    if bulks is not None and "bulk" in facts:
        kind = facts["bulk"]
        bulk = bulks.texts() if kind == "texts" else bulks.numbers(np.empty(rows, kind))
    cells = give(facts, bulk, inner)
    return pd.Series(cells, dtype=object, copy=False) if cells.dtype == object else cells


def _set_flags(value: Any, parts: Parts) -> None:
    if parts.data.get("unique"):
        value.flags.allows_duplicate_labels = False


def _alone(cells: Cells) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the facts and inner values of cells that stand alone, the bulk being one of those."""
    inner = {} if cells.bulk is None else {"cells": cells.bulk}
    inner |= {f"[{place}]": item for place, item in enumerate(cells.inner)}
    return _counted(cells), inner


def _of_alone(parts: Parts, skip: int) -> Any:
    """Put such cells together, behind so many other inner values."""
    facts = parts.data["cells"]
    rest = list(parts.items[skip:])
    bulk = rest.pop(0) if facts.get("bulk") else None
    return give(facts, bulk, tuple(rest))


def _series(value: Any) -> Parts:
    """Take a series: name, index and attrs beside its cells."""
    _own(value)
    facts, inner = _alone(take(value, listed=True))
    inner = {"name": value.name, "index": value.index, "attrs": value.attrs, **inner}
    data = {"cells": facts, **flags_of(value)}
    return Parts(data, tuple(inner.values()), Shape.NAMED, tuple(inner))


def _to_series(parts: Parts) -> Any:
    name, index, attrs = parts.items[:3]
    cells = _of_alone(parts, 3)
    series = pd.Series(cells, dtype=cells.dtype, copy=False)
    series.index, series.name, series.attrs = index, name, attrs
    _set_flags(series, parts)
    return series


def _index(value: Any) -> Parts:
    """Take an index: a range as such, several levels with their codes, any other by its cells."""
    if isinstance(value, pd.RangeIndex):
        data = {"range": [value.start, value.stop, value.step]}
        return Parts(data, (value.name,), Shape.NAMED, ("name",))
    if isinstance(value, pd.MultiIndex):
        inner = {"names": list(value.names), "codes": [np.asarray(codes) for codes in value.codes]}
        inner |= {f"levels[{place}]": level for place, level in enumerate(value.levels)}
        return Parts({"levels": value.nlevels}, tuple(inner.values()), Shape.NAMED, tuple(inner))
    freq = freq_of(value)
    if freq and not _says_all(freq["freq"], value.freq):
        raise CannotTake(f"pandas index with frequency {value.freq!r}", "set its freq to None")
    facts, inner = _alone(take(value, listed=True))
    inner = {"name": value.name, **inner}
    return Parts({"cells": facts, **freq}, tuple(inner.values()), Shape.NAMED, tuple(inner))


def _says_all(text: str, freq: Any) -> bool:
    """Say whether the text of a frequency is all of it: holidays and opening hours are not."""
    try:
        return bool(pd.tseries.frequencies.to_offset(text) == freq)
    except ValueError:
        return False


def _to_index(parts: Parts) -> Any:
    if "range" in parts.data:
        start, stop, step = parts.data["range"]
        return pd.RangeIndex(start, stop, step, name=parts.items[0])
    if "levels" in parts.data:
        names, codes, *levels = parts.items
        return pd.MultiIndex(levels=levels, codes=codes, names=names, copy=False)
    cells = _of_alone(parts, 1)
    index: Any = pd.Index(cells, dtype=cells.dtype, name=parts.items[0], tupleize_cols=False)
    if "freq" in parts.data:
        index.freq = parts.data["freq"]
    return index


def _array(value: Any) -> Parts:
    """Take an array of pandas' own kinds."""
    facts, inner = _alone(take(value, listed=True))
    return Parts({"cells": facts}, tuple(inner.values()), Shape.NAMED, tuple(inner))


def _of_pandas(base: type[Any]) -> Any:
    """Make a test for classes of pandas itself: others that derive from them are not flattened."""
    return lambda cls: issubclass(cls, base) and cls.__module__.partition(".")[0] == "pandas"


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
        content=frame_content,
        digested=frame_digested,
        mutable=True,
        advice=_ADVICE,
        version=2,
        older=MappingProxyType({1: frames_v1.to_frame}),
    ),
    Codec(
        "pandas.Series",
        pd.Series,
        _series,
        _to_series,
        content=series_content,
        digested=series_digested,
        mutable=True,
        advice=_ADVICE,
        version=2,
        older=MappingProxyType({1: frames_v1.to_series}),
    ),
    Codec(
        "pandas.Index",
        _of_pandas(pd.Index),
        _index,
        _to_index,
        content=index_content,
        digested=index_digested,
        advice=_ADVICE,
        version=2,
        older=MappingProxyType({1: frames_v1.to_index}),
    ),
    Codec(
        "pandas.array",
        _of_pandas(pd.api.extensions.ExtensionArray),
        _array,
        lambda parts: _of_alone(parts, 0),
        content=array_content,
        digested=array_digested,
        mutable=True,
        advice=_ADVICE,
    ),
    Codec("pandas.Timestamp", pd.Timestamp, _timestamp, _to_timestamp),
    Codec(
        "pandas.Timedelta",
        pd.Timedelta,
        _timedelta,
        lambda p: pd.Timedelta(np.timedelta64(p.data["ticks"], p.data["unit"])),
    ),
    Codec(
        "pandas.Period",
        pd.Period,
        lambda v: Parts({"ordinal": v.ordinal, "freq": v.freqstr}),
        lambda p: pd.Period(ordinal=p.data["ordinal"], freq=p.data["freq"]),
    ),
    Codec(
        "pandas.Interval",
        pd.Interval,
        lambda v: Parts({"closed": v.closed}, (v.left, v.right)),
        lambda p: pd.Interval(p.items[0], p.items[1], closed=p.data["closed"]),
    ),
    Codec("pandas.NA", type(pd.NA), lambda v: Parts(), lambda p: pd.NA),
    Codec("pandas.NaT", type(pd.NaT), lambda v: Parts(), lambda p: pd.NaT),
)
