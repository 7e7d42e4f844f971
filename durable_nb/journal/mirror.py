"""The mirror: a read-only Parquet copy of a run's operations, for other processes to read.

A view and never evidence: it is not fsynced, and whoever needs the truth takes the lease.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from durable_nb.journal.errors import MirrorSkipped, MirrorUnreadable
from durable_nb.journal.folder import HEAD_FILE, check_name
from durable_nb.journal.owner import Life, Role, probe
from durable_nb.journal.sql import queries
from durable_nb.model.errors import BadName
from durable_nb.model.outcomes import RUN_STATUS, Kind

MIRROR_FILE: Final = "operations.parquet"
_PATTERN: Final = "operations*.parquet"
#: Before each key of ours in a file's metadata.
_PREFIX: Final = "durable_nb."

_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")

#: Columns of a run's mirror, and of the view `operations`.
OPERATION_COLUMNS: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "run": _TEXT,
        "id": _TEXT,
        "parent": _TEXT,
        "name": _TEXT,
        "key": _TEXT,
        "row": _INT,
        "effect": _TEXT,
        "outcome": _TEXT,
        "live": _BOOL,
        "attempt": _INT,
        "source": _TEXT,
        "idempotency_key": _TEXT,
        "result": _TEXT,
        "error": _TEXT,
        "changes": _TEXT,
        "usd": _FLOAT,
        "tokens": _INT,
        "started": _TIME,
        "ended": _TIME,
        "duration_s": _FLOAT,
        "outside_s": _FLOAT,
        "last_seq": _INT,
        "inputs": _TEXT,
        "wait": _TEXT,
        "waits": _BOOL,
    }
)

if TYPE_CHECKING:
    import pandas as pd

#: Columns of the view `runs`; all but `folder` are keys of a mirror's metadata.
RUN_COLUMNS: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "name": _TEXT,
        "run_id": _TEXT,
        "status": _TEXT,
        "version": _TEXT,
        "epoch": _INT,
        "completed": _INT,
        "incomplete": _INT,
        "unknown": _INT,
        "usd": _FLOAT,
        "tokens": _INT,
        "opened": _TIME,
        "updated": _TIME,
        "folder": _TEXT,
    }
)

_SCHEMA: Final = pa.schema(list(OPERATION_COLUMNS.items()))
_SQL_TYPES: Final = {
    _TEXT: "VARCHAR",
    _INT: "BIGINT",
    _FLOAT: "DOUBLE",
    _BOOL: "BOOLEAN",
    _TIME: "TIMESTAMPTZ",
}
_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "memory_limit": "512MB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


class Mirror:
    """The mirror of one run.

    Parameters
    ----------
    folder : Path
        The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MIRROR_FILE

    def publish(
        self, rows: pa.Table | Sequence[Mapping[str, Any]], meta: Mapping[str, str]
    ) -> None:
        """Replace the mirror in one step, so that a reader sees the old one or the new one.

        Parameters
        ----------
        rows : pyarrow.Table or sequence of mappings
            Operations, with the columns of `OPERATION_COLUMNS`; missing ones are null.
        meta : mapping of str to str
            What the run says of itself, with the keys of `RUN_COLUMNS`; others are kept as well.
        """
        table = rows if isinstance(rows, pa.Table) else _table(rows)
        keys = {f"{_PREFIX}{key}": _printable(value) for key, value in meta.items()}
        table = table.replace_schema_metadata(keys)
        fd, part = tempfile.mkstemp(prefix=".operations-", dir=self.folder)
        try:
            with os.fdopen(fd, "wb") as file:
                pq.write_table(table, file)
            os.replace(part, self.path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    @staticmethod
    def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Give the operations, a mapping each, and what the run says of itself.

        Raises
        ------
        MirrorUnreadable
            If there is none, or it is damaged.
        """
        table, meta = _read(folder / MIRROR_FILE)
        return _conform(table).to_pylist(), meta


def query(store: Path, sql: str) -> pd.DataFrame:
    """Answer a question over the views `runs` and `operations` of a whole store.

    The query reaches these two and nothing else. A mirror that cannot be read is left out, and a
    `MirrorSkipped` warning names it.

    Parameters
    ----------
    store : Path
        The folder of run folders.
    sql : str
        In DuckDB's dialect.
    """
    tables, runs = [_SCHEMA.empty_table()], []
    for path in _mirrors(store):
        try:
            table, meta = _read(path)
        except MirrorUnreadable as error:
            warnings.warn(MirrorSkipped(f"{path} was left out: {error.cause}"), stacklevel=2)
            continue
        tables.append(_conform(table))
        if path.name == MIRROR_FILE:
            status = standing(path.parent, meta.get("status"))
            runs.append({**meta, "status": status, "folder": str(path.parent)})
    statements = queries("mirror")
    casts = ", ".join(
        f'TRY_CAST("{column}" AS {_SQL_TYPES[kind]}) AS "{column}"'
        for column, kind in RUN_COLUMNS.items()
    )
    con = duckdb.connect(":memory:", config=_CONFIG)
    try:
        con.execute(statements["extensions"])
        con.register("raw_operations", pa.concat_tables(tables))
        con.execute(statements["load_operations"])
        con.unregister("raw_operations")
        raw = {column: [run.get(column) or None for run in runs] for column in RUN_COLUMNS}
        con.register("raw_runs", pa.table(raw, schema=pa.schema([(c, _TEXT) for c in raw])))
        con.execute(statements["load_runs"].format(columns=casts))
        con.unregister("raw_runs")
        con.execute(statements["lock_down"])
        return con.execute(sql).df()
    finally:
        con.close()


def standing(folder: Path, mirrored: str | None) -> str:
    """Tell where a run stands: its owner's process knows better than a mirror that lags.

    Parameters
    ----------
    folder : Path
        Of the run.
    mirrored : str or None
        What the mirror says.
    """
    holder = probe(folder)
    if holder is None or holder.life is Life.ELSEWHERE or holder.info.role != Role.RUNNER:
        return mirrored or "unknown"
    return str(RUN_STATUS[Kind.OPENED, holder.live])


def lags(folder: Path) -> bool:
    """Whether something was recorded after the mirror was published.

    The head is written before each acknowledgement, and the mirror after the last of them; the
    journal's own file says less, since closing it moves the write-ahead file into it.
    """
    try:
        mirror = (folder / MIRROR_FILE).stat().st_mtime_ns
        return (folder / HEAD_FILE).stat().st_mtime_ns > mirror
    except FileNotFoundError:
        return True


def _read(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """Read one mirror whole.

    The bytes are taken in one go: readers that open a path several times (DuckDB's, and Arrow's
    `read_table`) meet two versions when the owner publishes in between.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
        found = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise MirrorUnreadable(str(path), str(error)) from error
    meta = {k.removeprefix(_PREFIX): v for k, v in found.items() if k.startswith(_PREFIX)}
    return table, meta


def _conform(table: pa.Table) -> pa.Table:
    """Give the columns of this version: missing ones and values that do not fit become null."""
    if table.schema.equals(_SCHEMA):
        return table.replace_schema_metadata(None)
    columns = []
    for name, kind in OPERATION_COLUMNS.items():
        try:
            columns.append(table[name].cast(kind))
        except (KeyError, pa.ArrowException):
            columns.append(pa.nulls(len(table), kind))
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _mirrors(store: Path) -> list[Path]:
    """List the mirrors of the runs of a store; what was set aside or is a link is none."""
    found = []
    for path in sorted(store.glob(f"*/{_PATTERN}")):
        try:
            check_name(path.parent.name)
        except BadName:
            continue
        if not path.parent.is_symlink() and not path.is_symlink():
            found.append(path)
    return found


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make a table with the fixed schema.

    By way of JSON, since `pyarrow.array` imports pandas: half a second of a run's first beat, and
    an import in one thread is what Ctrl-C must not meet in another (CPython may then keep the
    import lock for ever, and whatever imports next hangs).
    """
    if not rows:
        return _SCHEMA.empty_table()
    lines = "\n".join(
        json.dumps({c: _plain(row.get(c)) for c in OPERATION_COLUMNS}) for row in rows
    )
    data = lines.encode()
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=_SCHEMA),
    ).select(_SCHEMA.names)


def _plain(value: Any) -> Any:
    """Give what JSON has for a cell of the table."""
    if isinstance(value, str):
        return _printable(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _printable(text: str) -> str:
    """Write lone surrogates as escapes: Parquet takes valid UTF-8 only."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
