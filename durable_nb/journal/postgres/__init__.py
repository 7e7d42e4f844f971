"""Runs in PostgreSQL: for more than one machine. Needs the extra `postgres`."""

from __future__ import annotations

from durable_nb.journal.postgres.errors import (
    ExtraMissing,
    StoreForbidden,
    StoreRefused,
    StoreTooNew,
    StoreUnreachable,
)

try:
    import psycopg as _psycopg  # noqa: F401 -- what all below needs
except ImportError as error:
    raise ExtraMissing(str(error)) from error

from durable_nb.journal.postgres.artifacts import PostgresArtifacts
from durable_nb.journal.postgres.inbox import PostgresInbox
from durable_nb.journal.postgres.lease import PostgresLease, holders, probe
from durable_nb.journal.postgres.opening import open_postgres_journal, read_records
from durable_nb.journal.postgres.schema import prepare
from durable_nb.journal.postgres.server import LEASE_S, SCHEMES, Server

__all__ = [
    "LEASE_S",
    "SCHEMES",
    "ExtraMissing",
    "PostgresArtifacts",
    "PostgresInbox",
    "PostgresLease",
    "Server",
    "StoreForbidden",
    "StoreRefused",
    "StoreTooNew",
    "StoreUnreachable",
    "holders",
    "open_postgres_journal",
    "prepare",
    "probe",
    "read_records",
]
