"""How a PostgreSQL server is reached: no secret in any text, and sessions with time-outs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from durable_nb.journal.postgres.errors import LeaseUnusable, StoreUnreachable
from durable_nb.journal.sql import queries

#: Seconds without a heartbeat after which a run may be taken over.
LEASE_S: Final = 60.0
#: The variable that says another number, the same for all who use a store; and the least.
LEASE_VARIABLE: Final = "DURABLE_LEASE_S"
_LEAST_LEASE_S: Final = 2.0
#: Beginnings of an address of PostgreSQL.
SCHEMES: Final = ("postgresql://", "postgres://")

# Shares of the lease. An owner that stands still in a transaction is thrown out by the server
# before a takeover, which begins after the whole lease, has waited for it in vain.
_STATEMENT, _LOCK, _IDLE, _TAKEOVER = 0.5, 0.25, 0.5, 0.75
_SHORT: Final = 63  # bytes of a name that PostgreSQL keeps
_CONNECT_S: Final = 5


@dataclass(frozen=True, slots=True)
class Server:
    """A database in which runs are kept.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host:port/database``; never shown. A pooler in between has to
        pool whole sessions: their settings keep a lease from being locked for ever.
    lease_s : float
        Seconds without a heartbeat after which a run may be taken over.
    """

    url: str = field(repr=False)
    lease_s: float = field(default_factory=lambda: lease_of(os.environ))

    @property
    def takeover_s(self) -> float:
        """Seconds that a takeover waits at most for a transaction that stands still."""
        return self.lease_s * _TAKEOVER

    @property
    def place(self) -> str:
        """Where it is, without its password."""
        return _place(self._parameters())

    def connect(self, purpose: str, *, takes_over: bool = False) -> psycopg.Connection[Any]:
        """Open a session that commits each statement; raises `StoreUnreachable`.

        Parameters
        ----------
        purpose : str
            What it is for, as `pg_stat_activity` shows it.
        takes_over : bool
            Whether it is one that takes leases: it waits longer for a lock.
        """
        lock = _TAKEOVER if takes_over else _LOCK
        settings = {
            "statement": _ms(self.lease_s * (1.0 if takes_over else _STATEMENT)),
            "lock": _ms(self.lease_s * lock),
            "idle": _ms(self.lease_s * _IDLE),
        }
        con: psycopg.Connection[Any] | None = None
        try:
            con = psycopg.connect(**self.conninfo(purpose), autocommit=True)
            con.execute(queries("postgres")["settings"], settings)
        except psycopg.Error as error:
            if con is not None:
                con.close()
            cause = self.clean(str(error))
        else:
            return con
        raise StoreUnreachable(self.place, cause)  # not in the `except`: no traceback shows more

    def conninfo(self, purpose: str) -> dict[str, Any]:
        """Give what libpq is told; never to be shown.

        Parameters
        ----------
        purpose : str
            As for `connect`.
        """
        name = f"durable_nb {purpose}".encode("ascii", "replace")[:_SHORT].decode()
        ms = max(2000, int(self.lease_s * _STATEMENT * 1000))
        return {
            "application_name": name,
            "connect_timeout": str(_CONNECT_S),
            "target_session_attrs": "read-write",
            "keepalives_idle": "5",
            "keepalives_interval": "2",
            "keepalives_count": "3",
            "tcp_user_timeout": str(ms),
            **self._parameters(),
        }

    def clean(self, text: str) -> str:
        """Give a text in one line, without the password if it should be in there."""
        secret = str(self._parameters().get("password") or "")
        said = " ".join(text.split())
        return said.replace(secret, "***") if secret else said

    def _parameters(self) -> dict[str, Any]:
        """Take the address apart."""
        if self.url.startswith(SCHEMES):
            try:
                found = conninfo_to_dict(self.url)
            except psycopg.ProgrammingError:
                pass  # its text shows the part that is wrong, which may be the password
            else:
                return {name: said for name, said in found.items() if said is not None}
        raise StoreUnreachable(
            "in PostgreSQL",
            "what was given is no address of one, such as postgresql://user:password@host/database",
        )


def lease_of(environment: Mapping[str, str]) -> float:
    """Give the seconds of a lease, as the environment says them.

    Raises
    ------
    LeaseUnusable
        It says no number, or too few.
    """
    said = environment.get(LEASE_VARIABLE)
    if not said:
        return LEASE_S
    try:
        found = float(said)
    except ValueError:
        found = 0.0
    if not _LEAST_LEASE_S <= found < math.inf:
        raise LeaseUnusable(LEASE_VARIABLE, said, _LEAST_LEASE_S)
    return found


def is_lost(error: BaseException) -> bool:
    """Tell whether an error leaves open what became of the statement: its answer never came.

    Otherwise the server has refused it, and nothing of it was done. A server that shuts down, or
    that has become a stand-by, is left as well.
    """
    if isinstance(error, StoreUnreachable):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state[:2] == "08" or state[:3] == "57P" or state in ("25006", "25P03")


def _ms(seconds: float) -> str:
    return f"{max(1, int(seconds * 1000))}ms"


def _place(given: dict[str, Any]) -> str:
    """Say where, in few words, and as an address that can be typed."""
    user = f"{quote(given['user'])}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    host, database = str(given.get("host", "")), quote(str(given.get("dbname", "")))
    if host.startswith("/"):  # the folder of a socket
        port = f"&port={given['port']}" if port else ""
        return f"postgresql://{user}/{database}?host={quote(host)}{port}"
    return f"postgresql://{user}{host}{port}/{database}"
