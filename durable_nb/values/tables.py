"""Codec rows for pyarrow: the Arrow stream format, compared column by column."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from durable_nb.values.parts import CannotTake, Codec, Parts, Shape

#: Name of the only column of a stream that holds one array.
_ALONE: Final = "0"


def _stream(schema: Any, write: Callable[[Any], None]) -> Parts:
    """Write a stream; extension types are refused, since reading them runs their library's code."""
    for column in schema:
        if _extended(column.type):
            raise CannotTake(
                f"pyarrow data of extension type {column.type} in column {column.name!r}",
                "convert it to its storage type",
            )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        write(writer)
    blob = sink.getvalue()
    if _EXTENSION in _schema_of(blob):
        raise CannotTake("pyarrow data whose metadata names an extension type", "drop it")
    return Parts(blob=blob)


def _extended(kind: Any) -> bool:
    """Say whether a type is an extension type or has one inside."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_dictionary(kind):
        return _extended(kind.value_type)
    return any(_extended(kind.field(place).type) for place in range(kind.num_fields))


#: How a schema names an extension type, which Arrow looks up among those of imported libraries.
_EXTENSION: Final = b"ARROW:extension:name"


def _schema_of(blob: bytes) -> bytes:
    """Give the schema of a stream as bytes, to look at before Arrow acts on it."""
    if blob[:4] != b"\xff\xff\xff\xff":
        raise ValueError("no Arrow stream")
    return blob[8 : 8 + int.from_bytes(blob[4:8], "little")]


def _open(parts: Parts) -> Any:
    """Open a stream over the bytes that were recorded, without a copy."""
    blob = bytes(parts.blob or b"")
    if _EXTENSION in _schema_of(blob):
        raise ValueError("an Arrow stream with an extension type")
    return pa.ipc.open_stream(pa.py_buffer(blob))


def _table(value: Any) -> Parts:
    return _stream(value.schema, lambda writer: writer.write_table(value))


def _to_table(parts: Parts) -> Any:
    with _open(parts) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def _batch(value: Any) -> Parts:
    return _stream(value.schema, lambda writer: writer.write_batch(value))


def _to_batch(parts: Parts) -> Any:
    with _open(parts) as reader:
        (batch,) = reader
    batch.validate(full=True)
    return batch


def _array(value: Any) -> Parts:
    return _batch(pa.record_batch([value], schema=_one(value.type)))


def _chunked(value: Any) -> Parts:
    return _table(pa.table([value], schema=_one(value.type)))


def _one(kind: Any) -> Any:
    """Give the schema of a stream that holds one array."""
    return pa.schema([pa.field(_ALONE, kind)])


def _schema(value: Any) -> Parts:
    return _stream(value, lambda writer: None)


def _to_schema(parts: Parts) -> Any:
    with _open(parts) as reader:
        return reader.schema


def column_digest(column: Any) -> Any:
    """Give the content of a column for a digest, the same however it is chunked or sliced."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return column.to_numpy().tobytes()
    return column.to_pylist()


def column_content(column: Any) -> Any:
    """Give the content of a column for a comparison, without copies or Python objects."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return texts_content(column.cast(pa.large_string()))
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        column = column.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
        kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        gaps = column.is_null().to_numpy(**copied(column)) if column.null_count else None
        full = pc.fill_null(column, 0) if column.null_count else column
        return {"cells": still(full.to_numpy(**copied(column))), "gaps": gaps}
    return column.to_pylist()


def copied(column: Any) -> dict[str, bool]:
    """Allow a copy, which a chunked array does not need to be told."""
    return {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}


def texts_content(texts: Any) -> dict[str, Any]:
    """Give large strings as their bytes, where each ends, and where there are gaps."""
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    full = pc.fill_null(whole, "")
    _, ends, cells = full.buffers()
    if not len(full):
        return {"text": b""}
    at = np.frombuffer(ends, "i8")[full.offset : full.offset + len(full) + 1]
    used = np.frombuffer(cells or b"", "u1")[at[0] : at[-1]]
    gaps = whole.is_null().to_numpy(zero_copy_only=False)
    return {"ends": still(at - at[0]), "text": still(used), "gaps": still(gaps)}


def still(values: Any) -> Any:
    """Give a view that cannot be written to: whether the original could is not compared."""
    view = values.view()
    view.flags.writeable = False
    return view


def _content(of: Callable[[Any], Any], value: Any) -> Parts:
    """Give what equality and digests look at: schema, metadata and columns."""
    return Parts(
        {"rows": value.num_rows, "schema": _kinds(value.schema), **_metadata(value.schema)},
        tuple(of(column) for column in value.columns),
        Shape.SEQUENCE,
    )


def _array_content(of: Callable[[Any], Any], value: Any) -> Parts:
    return Parts({"rows": len(value), "type": str(value.type)}, (of(value),))


def _schema_content(value: Any) -> Parts:
    return Parts({"schema": _kinds(value), **_metadata(value)})


def _kinds(schema: Any) -> list[Any]:
    """Write the fields of a schema as JSON."""
    return [[c.name, str(c.type), c.nullable, _plain(c.metadata)] for c in schema]


def _metadata(schema: Any) -> dict[str, Any]:
    return {"metadata": _plain(schema.metadata)}


def _plain(metadata: Any) -> Any:
    """Write metadata as JSON."""
    pairs = (metadata or {}).items()
    return sorted([key.decode("latin-1"), item.decode("latin-1")] for key, item in pairs)


def _family(base: type[Any]) -> Callable[[type], bool]:
    """Make a test for the classes of pyarrow that hold one kind of thing."""
    return lambda cls: issubclass(cls, base) and cls.__module__ == "pyarrow.lib"


# What Arrow holds cannot be changed in place, so shared references mean nothing.
ROWS: Final[tuple[Codec, ...]] = (
    Codec(
        "pyarrow.Table",
        pa.Table,
        _table,
        _to_table,
        content=partial(_content, column_content),
        digested=partial(_content, column_digest),
    ),
    Codec(
        "pyarrow.RecordBatch",
        pa.RecordBatch,
        _batch,
        _to_batch,
        content=partial(_content, column_content),
        digested=partial(_content, column_digest),
    ),
    Codec(
        "pyarrow.ChunkedArray",
        pa.ChunkedArray,
        _chunked,
        lambda parts: _to_table(parts).column(0),
        content=partial(_array_content, column_content),
        digested=partial(_array_content, column_digest),
    ),
    Codec(
        "pyarrow.Array",
        _family(pa.Array),
        _array,
        lambda parts: _to_batch(parts).column(0),
        content=partial(_array_content, column_content),
        digested=partial(_array_content, column_digest),
    ),
    Codec("pyarrow.Schema", pa.Schema, _schema, _to_schema, content=_schema_content),
    Codec(
        "pyarrow.DataType",
        _family(pa.DataType),
        lambda value: _schema(_one(value)),
        lambda parts: _to_schema(parts).field(0).type,
        content=lambda value: Parts({"type": str(value)}),
    ),
)
