"""The tables of a store: made and migrated under a lock, refused if they are newer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from durable_nb.journal.postgres.errors import (
    StoreForbidden,
    StoreRefused,
    StoreTooNew,
    StoreUnreachable,
)
from durable_nb.journal.postgres.server import Server, is_lost
from durable_nb.journal.sql import queries

#: Version of the tables that this code makes: one migration each, in `migrations.sql`.
VERSION: Final = 6

_GRANTS: Final = (
    "Have its administrator run: GRANT CREATE ON DATABASE {database} TO {user}, or make the schema "
    "for you: CREATE SCHEMA durable_nb AUTHORIZATION {user}."
)


def prepare(server: Server, *, version: int = VERSION) -> int:
    """Bring the tables of a store to this version, and give the version that was there.

    A store that is up to date is only looked at, so that no right to create is needed.

    Parameters
    ----------
    version : int
        How far; the tests stop at older ones.

    Raises
    ------
    StoreUnreachable
        If the server cannot be reached.
    StoreTooNew
        If a newer version of this package made the tables; nothing was changed.
    StoreForbidden
        If the right to make them is missing; nothing was made.
    StoreRefused
        If something else is in the way, such as tables of that name; nothing was made.
    """
    con = server.connect("schema")
    try:
        found = _version(con)
        if found > VERSION:
            raise StoreTooNew(server.place, found, VERSION)
        for target in range(found + 1, version + 1):
            _migrate(con, target)
        return found
    except psycopg.errors.InsufficientPrivilege as error:
        cause = server.clean(error.diag.message_primary or str(error))
        names = {"database": con.info.dbname, "user": con.info.user}
        advice = _GRANTS.format(**{n: _quoted(said) for n, said in names.items()})
        raise StoreForbidden(server.place, cause, advice) from error
    except psycopg.Error as error:
        if is_lost(error):
            raise StoreUnreachable(server.place, server.clean(str(error))) from None
        raise StoreRefused(server.place, server.clean(str(error))) from error
    finally:
        con.close()


def _version(con: psycopg.Connection[Any]) -> int:
    """Give the version of the tables; 0 if there are none."""
    _, has_versions = _one(con, "has_schema")
    return int(_one(con, "version")[0]) if has_versions else 0


def _migrate(con: psycopg.Connection[Any], target: int) -> None:
    """Make one migration, unless somebody else has made it meanwhile."""
    sql = queries("migrations")
    with con.transaction():
        _one(con, "migration_lock")
        if _version(con) >= target:
            return
        has_schema, has_versions = _one(con, "has_schema")
        if not has_schema:
            con.execute(_raw(sql["create_schema"]))
        if not has_versions:
            con.execute(_raw(sql["create_versions"]))
        con.execute(_raw(sql[f"migration_{target}"]))
        con.execute(_raw(sql["add_version"]), {"version": target})


def _one(con: psycopg.Connection[Any], name: str) -> Sequence[Any]:
    """Give the one row of a statement."""
    row: Sequence[Any] | None = con.execute(_raw(queries("migrations")[name])).fetchone()
    assert row is not None
    return row


def _raw(text: str) -> Any:
    """Hand over a statement of ours, which is no literal: psycopg's types insist on one."""
    return text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
