"""Opening a DuckDB file so that it survives kills, forks and being offline.

Every line here answers a failure that was seen with DuckDB 2.0.1.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb

#: The name under which the file is attached; the SQL qualifies every table with it.
SCHEMA: Final = "j"

#: Of the machine's memory, and of that what reading a long journal may keep of the file: what was
#: read is not read again soon, and takes more than all else that an opening keeps.
_MEMORY: Final = "512MB"
_SPARING: Final = "8MB"

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,  # the default takes every core
    "memory_limit": _MEMORY,  # the default takes 80 % of the machine
    "temp_directory": "",  # the default would litter the working directory
    "autoinstall_known_extensions": False,  # never the network
    "autoload_known_extensions": False,
}

_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def connect(path: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Attach the file to a connection of its own.

    The connection is to memory and the file is attached: a direct `connect(file)` fails for ever
    on some un-checkpointed schema changes when offline.
    """
    con = duckdb.connect(":memory:", config=_CONFIG)
    try:
        # 12 KB for an empty file instead of 274 KB; a block size is fixed at birth.
        how = "READ_ONLY" if read_only else "BLOCK_SIZE 16384"
        con.execute(f"ATTACH {quoted(str(path))} AS {SCHEMA} ({how})")
        # Else a fork child that exits checkpoints, unlinks the write-ahead file, and the
        # parent's later commits are lost.
        con.execute("PRAGMA disable_checkpoint_on_shutdown")
    except BaseException:
        con.close()
        raise
    _connections.add(con)
    return con


@contextmanager
def sparing(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Keep little of the file in memory while this reads it."""
    with suppress(duckdb.OutOfMemoryException):  # so much is in use that cannot be let go of
        con.execute(f"SET memory_limit = '{_SPARING}'")
    try:
        yield
    finally:
        con.execute(f"SET memory_limit = '{_MEMORY}'")


def quoted(text: str) -> str:
    """Give an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _keep_for_ever() -> None:
    """In a fork child: never run the finaliser of an inherited connection."""
    for con in list(_connections):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(con))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_for_ever)
