"""Plain columns as one Parquet file in memory: numbers and texts, nothing else and no metadata."""

from __future__ import annotations

import io
from collections.abc import Sequence
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


class Columns:
    """The columns of such a file, read one after the other.

    Parameters
    ----------
    blob : bytes
        What `write_columns` gave.

    Raises
    ------
    ValueError
        It carries a schema of its own, which no file of ours does.
    """

    def __init__(self, blob: bytes | memoryview) -> None:
        if b"ARROW:" in footer(blob):
            raise ValueError("a Parquet file with a schema of its own")
        self._file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(blob)), pre_buffer=False)
        self._rows = self._file.metadata.num_rows
        self._step = max(1, _AT_A_TIME // (8 * max(1, self._rows)))
        self._next = 0
        self._ahead: list[Any] = []

    def texts(self) -> Any:
        """Read the next column as a chunked array of Arrow, gaps and all."""
        if not self._ahead:
            self._ahead = self._file.read(self._names(), use_threads=False).columns[::-1]
        return self._ahead.pop()

    def numbers(self, target: Any) -> Any:
        """Read the next column into an array, a tall one piece by piece; give that array."""
        if len(target) != self._rows:
            raise ValueError(f"{self._rows} cells where {len(target)} are expected")
        if self._step > 1 or self._ahead:
            return _copy(target, self.texts())
        names, at = self._names(), 0
        for group in range(self._file.num_row_groups):
            piece = self._file.read_row_group(group, names, use_threads=False).column(0)
            _copy(target[at : at + len(piece)], piece)
            at += len(piece)
        return target

    def _names(self) -> list[str]:
        """Name the columns that are read next."""
        start, self._next = self._next, self._next + self._step
        return [str(n) for n in range(start, min(self._next, self._file.metadata.num_columns))]


def _copy(target: Any, column: Any) -> Any:
    """Copy numbers into an array; a gap among them is damage."""
    if column.null_count or len(column) != len(target):
        raise ValueError("a column of numbers with gaps")
    at = 0
    for chunk in column.chunks:
        cells = chunk.to_numpy(zero_copy_only=False)
        if cells.dtype != target.dtype:
            raise ValueError(f"numbers of {cells.dtype} where {target.dtype} is expected")
        target[at : at + len(chunk)] = cells
        at += len(chunk)
    return target


def footer(blob: bytes | memoryview) -> bytes:
    """Give the metadata of a Parquet file, to look at before Arrow acts on it.

    Opening a file already looks up the extension types that it names.
    """
    size = int.from_bytes(blob[-8:-4], "little")
    return bytes(blob[-8 - size : -8])
