"""The outside ledger behind HTTP: what was asked for, and what really happened.

An address for each effect. ``/external`` does whatever it is told, as often as it is told;
``/idempotent`` does a thing once for each key; ``/none`` only answers. A key can be looked up.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from durable_nb.demo.serving import Answer, Refused, Request, Server
from support.ledger import Ledger


@dataclass
class HttpLedger:
    """A ledger that is reached over loopback.

    Attributes
    ----------
    before, after : float
        Seconds that a request takes until its effect is there, and from then to its answer: a
        kill lands in either.
    slow : frozenset of str
        What takes `slow_s` seconds until its effect is there when it is first asked for.
    requests : Counter
        Requests by the key that they carried.
    slow_since : float or None
        When the slow request at work has come (`time.monotonic`).
    """

    ledger: Ledger
    before: float
    after: float
    slow: frozenset[str] = frozenset()
    slow_s: float = 1.5
    slow_since: float | None = None
    requests: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def route(self, request: Request) -> Answer:
        match (request.method, request.path.strip("/")):
            case ("POST", ("none" | "idempotent" | "external") as kind):
                return self._do(kind, request.body["what"], request.body["key"])
            case ("GET", "find"):
                key = request.query["key"]
                found = [what for what, sent in self.ledger.lines() if sent == key]
                return Answer(200, {"what": found})
        raise Refused(404, "no such thing")

    def _do(self, kind: str, what: str, key: str) -> Answer:
        with self._lock:
            self.requests[key] += 1
            slow = what in self.slow and self.requests[key] == 1
            self.slow_since = time.monotonic() if slow else self.slow_since
        time.sleep(self.slow_s if slow else self.before)
        if slow:
            self.slow_since = None
        with self._lock:
            if kind == "external" or (kind == "idempotent" and key not in self.ledger.keys(what)):
                self.ledger.add(what, key)
        time.sleep(self.after)
        return Answer(201, {"done": what})

    def asked(self) -> int:
        """Count the different keys that have been asked for."""
        with self._lock:
            return len(self.requests)


@contextmanager
def serving(ledger: HttpLedger) -> Iterator[str]:
    """Serve a ledger; give its address."""
    server = Server(0, ledger.route)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
