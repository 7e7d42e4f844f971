"""The outside ledger behind HTTP: what was asked for, and what really happened.

An address for each effect. ``/external`` does whatever it is told, as often as it is told;
``/idempotent`` does a thing once for each key; ``/none`` only answers. A key can be looked up.
Beside that, ``/begin`` is told of a kernel, and ``/now`` and ``/told`` tell all of it. As a program
it serves until its standard input closes.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from durable_nb.demo.serving import Answer, Refused, Request, Server, common_options, serve
from durable_nb.journal.owner import is_alive

#: Seconds between two looks whether a request that is on its way may come.
_WAY_S: Final = 0.05


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

    before: float
    after: float
    slow: frozenset[str] = frozenset()
    slow_s: float = 1.5
    slow_since: float | None = None
    requests: Counter[str] = field(default_factory=Counter)
    _happened: list[tuple[str, str]] = field(default_factory=list)
    _begun: list[str] = field(default_factory=list)
    _at_work: list[dict[str, Any]] = field(default_factory=list)
    _to_hold: list[tuple[str, float]] = field(default_factory=list)
    _let_go: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _limit: float = math.inf
    _to_lose: int = 0

    def route(self, request: Request) -> Answer:
        """Answer a request."""
        body = request.body
        match (request.method, request.path.strip("/")):
            case ("POST", ("none" | "idempotent" | "external") as kind):
                return self._do(kind, body)
            case ("POST", "begin"):
                return self._begin(body)
            case ("POST", "hold"):
                self._let_go.clear()
                self._to_hold.append((body["kind"], float(body["seconds"])))
                return Answer(200, {})
            case ("POST", "limit"):
                self._limit = body["asked"]
                return Answer(200, {})
            case ("POST", "lose"):
                self._to_lose += body["number"]
                return Answer(200, {})
            case ("POST", "let_go"):
                self._let_go.set()
                return Answer(200, {})
            case ("GET", "find"):
                return Answer(200, self._find(request.query["key"]))
            case ("GET", "now"):
                return Answer(200, self._now())
            case ("GET", "told"):
                return Answer(200, self._told())
        raise Refused(404, "no such thing")

    def lines(self) -> list[tuple[str, str]]:
        """Give every effect and the key that it carried, in order."""
        with self._lock:
            return list(self._happened)

    def asked(self) -> int:
        """Count the different keys that have been asked for."""
        with self._lock:
            return len(self.requests)

    def _do(self, kind: str, body: Mapping[str, Any]) -> Answer:
        what, key = body["what"], body["key"]
        self._wait_for_room(kind, body)
        with self._lock:
            self.requests[key] += 1
            first = self.requests[key] == 1
            slow = what in self.slow and first
            self.slow_since = time.monotonic() if slow else self.slow_since
            held_s = self._held_s(kind) if first else 0.0
            mine = {"kind": kind, **body, "held": held_s > 0}
            self._at_work.append(mine)
        if held_s:
            self._let_go.wait(held_s)
        time.sleep(self.slow_s if slow else self.before)
        with self._lock:
            if slow:
                self.slow_since = None
            is_new = kind == "external" or (what, key) not in self._happened
            if kind != "none" and is_new:
                self._happened.append((what, key))
            mine["held"] = False
        time.sleep(self.after)
        with self._lock:
            self._at_work.remove(mine)
        return Answer(201, {"done": what})

    def _wait_for_room(self, kind: str, body: Mapping[str, Any]) -> None:
        """Let nothing new come beyond the limit: it is on its way, and dies with its client.

        Of what is to be lost nothing comes at all.
        """
        mine: dict[str, Any] = {"kind": kind, **body, "held": False, "on_its_way": True}
        with self._lock:
            lost = kind == "external" and self._to_lose > 0 and body["key"] not in self.requests
            if not lost and self._has_room(body["key"]):
                return
            self._to_lose -= lost
            mine["lost"] = lost
            self._at_work.append(mine)
        alive = True
        while alive:
            time.sleep(_WAY_S)
            alive = is_alive(body["pid"])
            with self._lock:
                if not alive or (not lost and self._has_room(body["key"])):
                    self._at_work.remove(mine)
                    break
        if not alive:
            raise Refused(410, "its client is gone: it has not come")

    def _has_room(self, key: str) -> bool:
        """Count this key among what has come, if it may come."""
        has = key in self.requests or len(self.requests) < self._limit
        if has:
            self.requests[key] += 0
        return has

    def _begin(self, body: Mapping[str, Any]) -> Answer:
        """Take note of a kernel that has not opened its run yet."""
        with self._lock:
            held_s = self._held_s("begin")
            mine = {"kind": "begin", **body, "key": "", "held": held_s > 0}
            self._at_work.append(mine)
            self._begun.append(body["who"])
        if held_s:
            self._let_go.wait(held_s)
        with self._lock:
            self._at_work.remove(mine)
        return Answer(201, {"done": body["who"]})

    def _held_s(self, kind: str) -> float:
        """Give the seconds for which this request is held, and spend the order."""
        for order in self._to_hold:
            if order[0] == kind:
                self._to_hold.remove(order)
                return order[1]
        return 0.0

    def _find(self, key: str) -> dict[str, Any]:
        with self._lock:
            found = [what for what, sent in self._happened if sent == key]
            mine = (one for one in self._at_work if one["key"] == key)
            at_work = any(not one.get("on_its_way") for one in mine)
        return {"what": found, "at_work": at_work}

    def _now(self) -> dict[str, Any]:
        with self._lock:
            at_work = [dict(one) for one in self._at_work]
            return {"asked": len(self.requests), "begun": Counter(self._begun), "at_work": at_work}

    def _told(self) -> dict[str, Any]:
        with self._lock:
            return {"requests": dict(self.requests), "happened": list(self._happened)}


@contextmanager
def serving(ledger: HttpLedger) -> Iterator[str]:
    """Serve a ledger from a thread; give its address."""
    server = Server(0, ledger.route)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def main() -> None:
    """Serve a ledger of its own."""
    made = argparse.ArgumentParser(description="The outside ledger behind HTTP.")
    common_options(made)
    made.add_argument("--before", type=float, default=0.04, help="seconds until an effect is there")
    made.add_argument("--after", type=float, default=0.05, help="seconds from then to the answer")
    asked = made.parse_args()
    ledger = HttpLedger(asked.before, asked.after)
    serve(Server(asked.port, ledger.route), asked)


if __name__ == "__main__":
    main()
