"""One supervisor a run, wherever it is: a lock that the server drops with its session."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from typing import Any

import psycopg

from durable_nb.journal.postgres.errors import StoreUnreachable
from durable_nb.journal.postgres.server import Server
from durable_nb.journal.sql import queries
from durable_nb.model.errors import RunHeld


@contextlib.contextmanager
def claimed(server: Server, run: str) -> Iterator[None]:
    """Be the only supervisor of a run, or say who is.

    One whose connection is lost goes on without its claim; two kernels still never own the run.

    Raises
    ------
    RunHeld
        Another one is at work; nothing was begun.
    """
    con = server.connect(f"supervisor process {os.getpid()} on {platform.node()}")
    try:
        try:
            mine, who = _try(con, run)
        except psycopg.Error as error:
            cause = server.clean(str(error))
            raise StoreUnreachable(server.place, cause) from None
        if not mine:
            advice = "It goes on by itself. To stop it, send that process SIGTERM."
            raise RunHeld(run, who, advice)
        yield
    finally:
        con.close()


def _try(con: psycopg.Connection[Any], run: str) -> tuple[bool, str]:
    """Take the lock, or tell who has it."""
    sql: Any = queries("postgres")
    row = con.execute(sql["claim"], {"name": run}).fetchone()
    if row is not None and row[0]:
        return True, ""
    found = con.execute(sql["claimant"], {"name": run}).fetchone()
    said = str(found[0] or "") if found is not None else ""
    return False, said.removeprefix("durable_nb ") or "another supervisor"
