"""Plain columns as one Parquet file in memory: numbers and texts, nothing else and no metadata."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Bytes of numbers that are read at a time, so that no second copy of a large frame ever exists.
_AT_A_TIME: Final = 32 * 2**20


def write_columns(columns: Sequence[Any]) -> bytes:
    """Write arrays of equal length, under the names "0", "1" and so on.

    Parameters
    ----------
    columns : sequence of numpy.ndarray, pyarrow.Array or pyarrow.ChunkedArray
        Numbers or texts; only those of Arrow may have gaps.

    Returns
    -------
    bytes
        A Parquet file. It carries no schema of Arrow or pandas, so no type of theirs is looked up
        when it is read.
    """
    fields, arrays, texts = [], [], []
    for place, column in enumerate(columns):
        plain = isinstance(column, np.ndarray)
        array = pa.array(column, from_pandas=False) if plain else column
        fields.append(pa.field(str(place), array.type, nullable=not plain))
        arrays.append(array)
        if pa.types.is_large_string(array.type):
            texts.append(str(place))
    sink = io.BytesIO()  # its bytes are handed over without a copy
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=pa.schema(fields)),
        sink,
        use_dictionary=texts,
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()


def read_columns(blob: bytes | memoryview) -> Iterator[Any]:
    """Read the columns one after the other.

    Raises
    ------
    ValueError
        It is no file of ours.
    """
    if b"ARROW:" in footer(blob):
        raise ValueError("a Parquet file with a schema of its own")
    file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(blob)), pre_buffer=False)
    if any(map(_foreign, file.schema_arrow)):
        raise ValueError("a Parquet file with other types than numbers and texts")
    count = file.metadata.num_columns
    step = max(1, _AT_A_TIME // (8 * max(1, file.metadata.num_rows)))
    for start in range(0, count, step):
        names = [str(place) for place in range(start, min(start + step, count))]
        table = file.read(columns=names, use_threads=False)
        if table.column_names != names:
            raise ValueError("a Parquet file with other columns")
        yield from table.columns


def footer(blob: bytes | memoryview) -> bytes:
    """Give the metadata of a Parquet file, to look at before Arrow acts on it.

    Opening a file already looks up the extension types that it names.
    """
    size = int.from_bytes(blob[-8:-4], "little")
    return bytes(blob[-8 - size : -8])


def _foreign(field: Any) -> bool:
    """Say whether a field is neither a number nor a text."""
    kind = field.type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return not (plain or pa.types.is_string(kind) or pa.types.is_large_string(kind))
