"""A small shop with a payment provider and a mail service, as a process of its own.

It behaves as providers do in the worst case that is still common: each POST is applied, an
idempotency key is noted and can be looked up, and nothing is deduplicated. So a duplicate shows.
Run it: `python -m durable_nb.demo.shop --ledger FILE --port 0`.
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_nb.demo import ledger
from durable_nb.demo.ledger import Entry, What
from durable_nb.demo.serving import Answer, Json, Refused, Request, Server, common_options, serve
from durable_nb.demo.tickets import orders


@dataclass(slots=True)
class Shop:
    """The shop's rules; its memory is the ledger file."""

    path: Path
    orders: dict[str, float]
    latency: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def route(self, request: Request) -> Answer:
        """Answer one request."""
        time.sleep(self.latency)
        match (request.method, request.path.strip("/").split("/")):
            case ("POST", ["refunds"]):
                return self._refund(request)
            case ("GET", ["refunds"]):
                return self._find_refunds(request)
            case ("POST", ["mails"]):
                return self._mail(request)
            case ("GET", ["mails", *_]):
                raise Refused(404, "mails cannot be looked up: once sent, they are gone")
            case ("GET", ["orders", order]):
                return self._order(order)
        raise Refused(404, f"there is no {request.method} {request.path}")

    def _refund(self, request: Request) -> Answer:
        order = self._text(request.body, "order")
        if order not in self.orders:
            raise Refused(404, f"there is no order {order!r}")
        amount = request.body.get("amount")
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not amount > 0:
            raise Refused(400, f"amount must be a number above 0, not {amount!r}")
        if amount > self.orders[order]:
            raise Refused(422, f"order {order} was {self.orders[order]:.2f}; {amount} is more")
        body = {"order": order, "amount": amount}
        entry = self._apply(What.REFUND, body, request.headers.get("idempotency-key"))
        request.hold()  # the money has moved, and the customer's program does not know it yet
        return Answer(201, {"id": entry.id, **body})

    def _find_refunds(self, request: Request) -> Answer:
        key = request.query.get("idempotency_key")
        if not key:
            raise Refused(400, "name the refund: GET /refunds?idempotency_key=...")
        found = [
            {"id": entry.id, **entry.body, "applied_at": entry.at}
            for entry in ledger.read(self.path)
            if entry.what is What.REFUND and entry.key == key
        ]
        return Answer(200, found)

    def _mail(self, request: Request) -> Answer:
        body = {name: self._text(request.body, name) for name in ("to", "text")}
        if "@" not in body["to"]:
            raise Refused(400, f"{body['to']!r} is no mail address")
        entry = self._apply(What.MAIL, body, request.headers.get("idempotency-key"))
        request.hold()
        return Answer(202, {"id": entry.id, "to": body["to"]})

    def _order(self, order: str) -> Answer:
        if order not in self.orders:
            raise Refused(404, f"there is no order {order!r}")
        return Answer(200, {"order": order, "amount": self.orders[order]})

    def _apply(self, what: What, body: Json, key: str | None) -> Entry:
        """Do it: the line in the ledger is the effect."""
        with self._lock:
            number = len(ledger.read(self.path)) + 1
            entry = Entry(f"{what[:2]}_{number:04d}", what, ledger.now(), body, key)
            ledger.append(self.path, entry)
        return entry

    @staticmethod
    def _text(body: Json, name: str) -> str:
        value: Any = body.get(name)
        if not isinstance(value, str) or not value.strip():
            raise Refused(400, f"{name!r} is missing or not a text")
        return value


def main(arguments: list[str] | None = None) -> None:
    """Run the shop until it is told to stop."""
    parser = argparse.ArgumentParser(prog="durable_nb.demo.shop", description=__doc__)
    parser.add_argument("--ledger", type=Path, required=True, help="append-only JSON lines")
    parser.add_argument("--latency", type=float, default=0.0, metavar="S", help="before each work")
    common_options(parser)
    options = parser.parse_args(arguments)
    shop = Shop(options.ledger.resolve(), orders(), options.latency)
    serve(Server(options.port, shop.route, answer_delay=options.answer_delay), options)


if __name__ == "__main__":
    main()
