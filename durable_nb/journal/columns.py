"""The columns of a mirror, and Arrow tables that have them.

Arrow is imported on first use, since importing this package must not wait for it; `prepare` is
that first use in the main thread, before any other thread publishes. An import in one thread is
what Ctrl-C must not meet in another: CPython may then keep the import lock for ever. For the same
reason arrays are made from buffers: `pyarrow.array` imports pandas.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of a run's mirror, and of the view `operations`, with their types in SQL.
OPERATION_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": "VARCHAR",
        "id": "VARCHAR",
        "parent": "VARCHAR",
        "name": "VARCHAR",
        "key": "VARCHAR",
        "row": "BIGINT",
        "effect": "VARCHAR",
        "outcome": "VARCHAR",
        "live": "BOOLEAN",
        "attempt": "BIGINT",
        "source": "VARCHAR",
        "idempotency_key": "VARCHAR",
        "result": "VARCHAR",
        "error": "VARCHAR",
        "changes": "VARCHAR",
        "usd": "DOUBLE",
        "tokens": "BIGINT",
        "started": "TIMESTAMPTZ",
        "ended": "TIMESTAMPTZ",
        "duration_s": "DOUBLE",
        "outside_s": "DOUBLE",
        "last_seq": "BIGINT",
        "inputs": "VARCHAR",
        "wait": "VARCHAR",
        "waits": "BOOLEAN",
        "decided": "VARCHAR",
    }
)

#: Columns of the view `runs`, with their types in SQL; all but `folder` are keys of a mirror's
#: metadata.
RUN_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "name": "VARCHAR",
        "run_id": "VARCHAR",
        "status": "VARCHAR",
        "version": "VARCHAR",
        "epoch": "BIGINT",
        "completed": "BIGINT",
        "incomplete": "BIGINT",
        "unknown": "BIGINT",
        "usd": "DOUBLE",
        "tokens": "BIGINT",
        "opened": "TIMESTAMPTZ",
        "updated": "TIMESTAMPTZ",
        "folder": "VARCHAR",
    }
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def prepare() -> None:
    """Import what reading and writing a mirror needs."""
    import pyarrow.parquet  # noqa: F401


def schema() -> pa.Schema:
    """Give the columns as Arrow has them."""
    return _schema(OPERATION_COLUMNS)


def texts(columns: Iterable[str]) -> pa.Schema:
    """Give columns that are all text."""
    return _schema(dict.fromkeys(columns, "VARCHAR"))


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    types = {
        "VARCHAR": pa.string(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])


def table_of(rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Make a table of operations, each a row with all of `OPERATION_COLUMNS` in their order."""
    import pyarrow as pa

    wanted = schema()
    values = list(zip(*rows, strict=True)) or [()] * len(wanted)
    arrays = [
        _MAKERS[kind](field.type, column)
        for kind, field, column in zip(OPERATION_COLUMNS.values(), wanted, values, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


def table_of_mappings(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Make a table of operations; what a row lacks is null."""
    return table_of([row.get(name) for name in OPERATION_COLUMNS] for row in rows)


def chosen(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Give some rows of a table."""
    import pyarrow as pa

    return table.take(_numbers("q")(pa.int64(), rows))


def with_texts(table: pa.Table, column: str, values: Sequence[str | None]) -> pa.Table:
    """Put other texts into a column."""
    import pyarrow as pa

    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), _texts(pa.string(), values))


def conform(table: pa.Table) -> pa.Table:
    """Give the columns of this version: missing ones and values that do not fit become null."""
    import pyarrow as pa

    wanted = schema()
    if table.schema.equals(wanted):
        return table.replace_schema_metadata(None)
    columns = []
    for field in wanted:
        try:
            columns.append(table[field.name].cast(field.type))
        except (KeyError, pa.ArrowException):
            columns.append(pa.nulls(len(table), field.type))
    return pa.Table.from_arrays(columns, schema=wanted)


def printable(text: str) -> str:
    """Write lone surrogates as escapes: Parquet takes valid UTF-8 only."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# -- arrays --------------------------------------------------------------------------------------


def _array(kind: pa.DataType, values: Sequence[Any], *buffers: bytes | array[Any]) -> pa.Array:
    """Put an array together, with the map of what is not null where something is."""
    import pyarrow as pa

    nulls = None
    if None in values:
        nulls = pa.py_buffer(_bits("0" if value is None else "1" for value in values))
    parts = [nulls, *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(kind, len(values), parts)


def _bits(digits: Iterable[str]) -> bytes:
    """Pack ones and zeros, the first into the lowest bit."""
    written = "".join(digits)
    return int(written[::-1] or "0", 2).to_bytes(len(written) // 8 + 1, "little")


def _texts(kind: pa.DataType, values: Sequence[str | None]) -> pa.Array:
    known = [value or "" for value in values]
    whole = "".join(known)
    if whole.isascii():
        return _array(kind, values, _ends(known), whole.encode())
    coded = [value.encode("utf-8", "backslashreplace") for value in known]
    return _array(kind, values, _ends(coded), b"".join(coded))


def _ends(parts: Iterable[str | bytes]) -> array[int]:
    return array("i", accumulate(map(len, parts), initial=0))


def _numbers(code: str) -> Callable[[pa.DataType, Sequence[Any]], pa.Array]:
    def make(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
        return _array(kind, values, array(code, [value or 0 for value in values]))

    return make


def _floats(kind: pa.DataType, values: Sequence[float | None]) -> pa.Array:
    """Take numbers; what is none (a cost of NaN) is null, since a view goes on."""
    known = [v if v is not None and math.isfinite(v) else None for v in values]
    return _numbers("d")(kind, known)


def _flags(kind: pa.DataType, values: Sequence[bool | None]) -> pa.Array:
    return _array(kind, values, _bits("1" if value else "0" for value in values))


def _moments(kind: pa.DataType, values: Sequence[datetime | None]) -> pa.Array:
    return _numbers("q")(kind, [None if v is None else _micros(v) for v in values])


def _micros(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_MAKERS: Final[Mapping[str, Callable[[pa.DataType, Sequence[Any]], pa.Array]]] = {
    "VARCHAR": _texts,
    "BIGINT": _numbers("q"),
    "DOUBLE": _floats,
    "BOOLEAN": _flags,
    "TIMESTAMPTZ": _moments,
}
