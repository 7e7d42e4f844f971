"""Codec row for pyarrow tables: the Arrow stream format, compared column by column."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from durable_nb.values.parts import CannotTake, Codec, Parts, Shape


def _table(value: Any) -> Parts:
    for column in value.schema:
        if isinstance(column.type, pa.BaseExtensionType):
            raise CannotTake(f"pyarrow table with column {column.name!r} of an extension type")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write_table(value)
    return Parts(blob=sink.getvalue().to_pybytes())


def _to_table(parts: Parts) -> Any:
    # to the memory of this process: a reader over our bytes would keep them alive twice
    with pa.ipc.open_stream(pa.py_buffer(parts.blob)) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def column_content(column: Any) -> Any:
    """Give the content of a column, the same however it is chunked or sliced."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return column.to_numpy().tobytes()
    return column.to_pylist()


def _content(value: Any) -> Parts:
    """Give what equality and digests look at: schema, metadata and columns."""
    kinds = [[c.name, str(c.type), c.nullable, _plain(c.metadata)] for c in value.schema]
    return Parts(
        {"rows": value.num_rows, "schema": kinds, "metadata": _plain(value.schema.metadata)},
        tuple(column_content(column) for column in value.columns),
        Shape.SEQUENCE,
    )


def _plain(metadata: Any) -> Any:
    """Write metadata as JSON."""
    pairs = (metadata or {}).items()
    return sorted([key.decode("latin-1"), item.decode("latin-1")] for key, item in pairs)


ROWS: Final[tuple[Codec, ...]] = (
    # An Arrow table cannot be changed in place, so shared references mean nothing.
    Codec("pyarrow.Table", pa.Table, _table, _to_table, content=_content),
)
