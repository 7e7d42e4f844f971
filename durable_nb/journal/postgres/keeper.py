"""Stops a server once nobody uses it: a process of its own, which outlives whoever started it.

It is run as a file and needs nothing of this package, so that it is up at once and small. Users
hold a shared lock, which ends with their process however that ends; who has only the address is
seen by the sessions that it has.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from typing import Any, Final

#: Seconds between two looks for sessions, once no process that started the server is left.
_LOOK_S: Final = 1.0
_SESSIONS: Final = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def keep(users: str, mine: int, address: str, stop: list[str], user: str) -> None:
    """Wait until nobody uses the server, and stop it.

    Parameters
    ----------
    users : str
        The file that users lock.
    mine : int
        Descriptor whose lock tells that there is a keeper; it came with the process.
    address : str
        Of the server.
    stop : list of str
        Command that stops it.
    user : str
        Whose server it is, if not this user's.
    """
    descriptor = os.open(users, os.O_RDWR | os.O_CLOEXEC)
    while True:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not _same(users, descriptor):
            return  # the folder was removed, and what is there now is another server's
        if not _has_sessions(address):
            break
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_LOOK_S)
    other: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
    subprocess.run(stop, check=False, stdin=subprocess.DEVNULL, **other)
    os.close(mine)  # before the users' lock: who comes next starts a server and a keeper
    os.close(descriptor)


def _same(path: str, descriptor: int) -> bool:
    """Tell whether a file is still the one that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _has_sessions(address: str) -> bool:
    """Tell whether anybody has a session; one that has no room for another one is full of them."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=5) as con:
            row = con.execute(_SESSIONS).fetchone()
    except psycopg.Error:
        given = conninfo_to_dict(address)
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(f"{given['host']}/.s.PGSQL.{given['port']}") == 0
    return row is not None and row[0] > 0


if __name__ == "__main__":
    keep(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[5:], sys.argv[4])
