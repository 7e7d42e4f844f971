"""What the shop and the model server have in common: JSON over HTTP, and a slow network.

Both can be made slow from outside, so that a kill can land inside a request: `--latency` and
`--answer-delay` for every request, and `POST /stall` for one chosen request only.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

LARGEST_BODY = 1_000_000  #: bytes; a refund or a ticket is far below it
POLL_S = 0.02  #: how often a held answer looks whether its client has hung up

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, parsed."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Json
    hold: Callable[[], None]  #: wait as long as the network is told to be slow


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; `sent` is told whether it reached the client's socket."""

    status: int
    body: Any
    sent: Callable[[bool], None] = field(default=lambda _: None)


class Refused(Exception):
    """The request is not acceptable; nothing was done."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text


@dataclass(slots=True)
class Stalls:
    """Requests that will get their answer late: each entry holds one request, then is spent."""

    _armed: list[tuple[str, tuple[str, ...], float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, path: str, words: tuple[str, ...], seconds: float) -> None:
        """Hold the answer to the next POST on `path` whose body has one of `words`."""
        with self._lock:
            self._armed.append((path, words, seconds))

    def take(self, path: str, text: str) -> float:
        """Give the seconds that this request has to wait, and spend the entry."""
        with self._lock:
            for entry in self._armed:
                wanted, words, seconds = entry
                if wanted == path and any(word in text for word in words):
                    self._armed.remove(entry)
                    return seconds
        return 0.0


Route = Callable[[Request], Answer]


class Server(ThreadingHTTPServer):
    """A loopback HTTP server that answers in JSON."""

    daemon_threads = True

    def __init__(self, port: int, route: Route, *, answer_delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.route = route
        self.answer_delay = answer_delay
        self.stalls = Stalls()
        self.last_request = time.monotonic()

    @property
    def url(self) -> str:
        """The address to reach it at."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Turn HTTP into `Request` and `Answer`."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer a look-up."""
        self._serve("GET")

    def do_POST(self) -> None:
        """Answer something that is to be done."""
        self._serve("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet: the ledger and the list of calls are the log."""

    def _serve(self, method: str) -> None:
        self.server.last_request = time.monotonic()
        try:
            answer = self._answer(method)
        except Refused as no:
            answer = Answer(no.status, {"error": no.text})
        except Exception as error:  # a 5xx proves nothing to the client, which is the truth
            traceback.print_exc()
            answer = Answer(500, {"error": repr(error)})
        data = json.dumps(answer.body, ensure_ascii=False).encode()
        try:
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            answer.sent(False)
            self.close_connection = True
        else:
            answer.sent(True)

    def _answer(self, method: str) -> Answer:
        parts = urlsplit(self.path)
        text = self._read_text() if method == "POST" else ""
        body = self._parse(text) if method == "POST" else {}
        if (method, parts.path) == ("POST", "/stall"):
            return self._stall(body)
        if (method, parts.path) == ("GET", "/health"):
            return Answer(200, {"ok": True, "pid": os.getpid()})

        def hold() -> None:
            self._wait(self.server.answer_delay + self.server.stalls.take(parts.path, text))

        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.server.route(Request(method, parts.path, query, headers, body, hold))

    def _read_text(self) -> str:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= LARGEST_BODY:
            self.close_connection = True  # what follows in the stream cannot be told apart
            raise Refused(413, f"the body must have a length of 0 to {LARGEST_BODY} bytes")
        return self.rfile.read(length).decode("utf-8", "replace")

    @staticmethod
    def _parse(text: str) -> Json:
        try:
            body = json.loads(text)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Refused(400, "the body must be a JSON object")
        return body

    def _stall(self, body: Json) -> Answer:
        try:
            path, seconds = str(body["path"]), float(body["seconds"])
            words = tuple(str(word) for word in body["words"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(400, 'wanted: {"path": ..., "words": [...], "seconds": ...}') from error
        self.server.stalls.arm(path, words, seconds)
        return Answer(200, {"armed": path})

    def _wait(self, seconds: float) -> None:
        """Hold the answer, but no longer than somebody is there to hear it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._client_left():
            time.sleep(min(POLL_S, max(0.0, end - time.monotonic())))

    def _client_left(self) -> bool:
        """Look whether the client has closed its end."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True


def common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both servers know."""
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--answer-delay", type=float, default=0.0, metavar="S", help="hold every answer this long"
    )
    parser.add_argument(
        "--stop-with-stdin", action="store_true", help="end when standard input closes"
    )
    parser.add_argument(
        "--idle-exit", type=float, default=None, metavar="S", help="end after S quiet seconds"
    )
    parser.add_argument(
        "--stop-with-folder", type=Path, default=None, help="end when this folder is gone"
    )


def serve(server: Server, options: argparse.Namespace, **facts: Any) -> None:
    """Serve until SIGINT, SIGTERM or one of the conditions in `options`; say when it is ready.

    The first line on standard output is JSON: `{"url": ..., "pid": ...}` and `facts`.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    if options.stop_with_stdin:
        threading.Thread(target=_watch_stdin, args=(stop,), daemon=True).start()
    print(json.dumps({"url": server.url, "pid": os.getpid(), **facts}), flush=True)
    folder: Path | None = options.stop_with_folder
    while not stop.wait(0.5):
        quiet = time.monotonic() - server.last_request
        if options.idle_exit is not None and quiet > options.idle_exit:
            break
        if folder is not None and not folder.is_dir():
            break
    server.shutdown()
    server.server_close()


def _watch_stdin(stop: threading.Event) -> None:
    """Set `stop` when the parent's end of the pipe closes, which its death does as well."""
    while os.read(0, 4096):
        pass
    stop.set()
