"""A reconciler looks outside, over a real socket, while the effect may still be under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest
from support.child import Bench
from support.ledger import Ledger


class SlowShop:
    """A receiver that applies a POST only some time after it has arrived."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.delay_s = 0.0
        self.loses = False
        self.arrived = threading.Event()
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                key = self.headers["Idempotency-Key"]
                shop.arrived.set()
                time.sleep(shop.delay_s)
                if shop.loses:
                    shop.loses = False
                else:
                    shop.ledger.add("charge", key)
                self.answer(200)

            def do_GET(self) -> None:
                found = unquote(self.path[1:]) in shop.ledger.keys("charge")
                self.answer(200 if found else 404)

            def answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:  # the client was killed
                    return

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@pytest.fixture
def shop(ledger: Ledger) -> Iterator[SlowShop]:
    made = SlowShop(ledger)
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


CHARGE = """
import urllib.error
import urllib.request

url, settle_after = more[0], float(more[1])

def look_up(op):
    try:
        urllib.request.urlopen(url + op.idempotency_key)
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return dnb.DidNotHappen("404")
    return dnb.Happened("charged", evidence="200")

@dnb.step(reconcile=look_up, settle_after=settle_after)
def charge(order, *, idempotency_key):
    headers = {"Idempotency-Key": idempotency_key}
    urllib.request.urlopen(urllib.request.Request(url, b"{}", headers))
    return "charged"

with dnb.run("shop", store=store) as run:
    tell(result=charge(7))
    tell(kinds=kinds(run, "charge#1"))
"""


@pytest.mark.slow
def test_a_not_found_waits_for_settle_after(bench: Bench, ledger: Ledger, shop: SlowShop) -> None:
    """A request that outlives its killed sender is still found, and is not sent a second time."""
    shop.delay_s = 2.0
    with bench.start(CHARGE, shop.url, 3.0) as child:
        child.until(shop.arrived.is_set).kill()
    assert ledger.count("charge") == 0

    seen = bench.run(CHARGE, shop.url, 3.0).ok().facts

    assert seen["result"] == "charged"
    assert seen["kinds"] == ["intended", "undecided", "confirmed"]
    assert ledger.count("charge") == 1


@pytest.mark.slow
def test_a_not_found_counts_after_settle_after(
    bench: Bench, ledger: Ledger, shop: SlowShop
) -> None:
    """What is still not there after that time did not happen: it is sent again, under its key."""
    shop.loses, shop.delay_s = True, 0.5
    with bench.start(CHARGE, shop.url, 1.0) as child:
        child.until(shop.arrived.is_set).kill()

    seen = bench.run(CHARGE, shop.url, 1.0).ok().facts

    assert seen["result"] == "charged"
    assert seen["kinds"] == ["intended", "undecided", "denied", "intended", "completed"]
    assert ledger.count("charge") == 1
