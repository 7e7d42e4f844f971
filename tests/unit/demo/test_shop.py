"""The shop, over real sockets."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from durable_nb.demo import client, ledger, servers
from durable_nb.demo.ledger import What
from durable_nb.demo.serving import common_options
from durable_nb.demo.tickets import orders, read_tickets

pytestmark = pytest.mark.slow  # each starts a server


@pytest.fixture
def at(tmp_path):
    with servers.running(tmp_path) as addresses:
        yield addresses


@pytest.fixture
def shop(at):
    return client.Shop(at.shop)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """One shop for all that is refused: its ledger stays empty."""
    with servers.running(tmp_path_factory.mktemp("refusing")) as addresses:
        yield addresses


def post(url, data, **headers):
    """POST raw bytes; give status and text."""
    request = urllib.request.Request(url, data, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_each_refund_is_applied_even_under_the_same_key(shop, at):
    """The shop deduplicates nothing, so that a duplicate shows in its ledger."""
    first = shop.refund("A-1001", 5.0, "key-1")
    second = shop.refund("A-1001", 5.0, "key-1")

    assert first["id"] != second["id"]
    assert [found["id"] for found in shop.find_refunds("key-1")] == [first["id"], second["id"]]
    assert ledger.count(ledger.read(Path(at.ledger)), What.REFUND) == ledger.Count(2, 1)


def test_refund_that_was_not_made_is_not_found(shop):
    """A look-up tells only of refunds under its own key."""
    shop.refund("A-1001", 5.0, "key-1")

    assert shop.find_refunds("key-2") == []


def test_mails_cannot_be_looked_up(shop, at):
    """A mail that was sent is in the ledger, and nowhere that a program can ask."""
    shop.mail("nora@lindqvist.example", "Dear Nora")

    with pytest.raises(client.Rejected, match="cannot be looked up") as no:
        client._ask("GET", f"{at.shop}/mails?to=nora")
    assert no.value.status == 404
    assert ledger.count(ledger.read(Path(at.ledger)), What.MAIL) == ledger.Count(1, 0)


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (("A-9999", 1.0), 404, "no order 'A-9999'"),
        (("A-1001", 1000.0), 422, "is more"),
        (("A-1001", 0), 400, "above 0"),
        (("A-1001", -1), 400, "above 0"),
        (("A-1001", "12"), 400, "above 0"),
        (("A-1001", True), 400, "above 0"),
        (("A-1001", float("nan")), 400, "above 0"),
        (("", 1.0), 400, "'order' is missing"),
        ((None, 1.0), 400, "'order' is missing"),
    ],
)
def test_bad_refund_is_refused_with_a_reason_and_moves_nothing(refusing, request_, status, text):
    """A refusal says why, and proves that nothing happened."""
    with pytest.raises(client.Rejected, match=text) as no:
        client.Shop(refusing.shop).refund(*request_, "key")

    assert no.value.status == status
    assert ledger.read(Path(refusing.ledger)) == []


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe"])
def test_body_that_is_no_json_object_is_refused(refusing, data):
    """What cannot be read is not acted upon."""
    status, text = post(f"{refusing.shop}/refunds", data)

    assert status == 400
    assert "error" in json.loads(text)
    assert ledger.read(Path(refusing.ledger)) == []


@pytest.mark.parametrize(("to", "text"), [("", "x"), ("nobody", "x"), ("a@b", ""), (None, "x")])
def test_bad_mail_is_refused(refusing, to, text):
    """A mail needs an address and a text."""
    with pytest.raises(client.Rejected):
        client.Shop(refusing.shop).mail(to, text)
    assert ledger.read(Path(refusing.ledger)) == []


def test_oversized_body_is_refused_unread(at):
    """A length beyond the limit is refused before anything is read."""
    host, port = at.shop.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"POST /refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")


def test_orders_are_those_of_the_tickets(at):
    """Each ticket's order can be looked up, another cannot."""
    for order, amount in orders().items():
        assert client._ask("GET", f"{at.shop}/orders/{order}")["amount"] == amount
    with pytest.raises(client.Rejected, match="no order"):
        client._ask("GET", f"{at.shop}/orders/X")
    with pytest.raises(client.Rejected, match="there is no GET /nothing"):
        client._ask("GET", f"{at.shop}/nothing")


def test_tickets_are_enough_for_a_story():
    """At least 12 customers write, each of one order of their own."""
    tickets = read_tickets()

    assert len(tickets) >= 12
    assert len({ticket.order for ticket in tickets}) == len(tickets)
    assert len({ticket.email for ticket in tickets}) == len(tickets)
    assert all(ticket.amount > 0 for ticket in tickets)


def test_stalled_refund_is_in_the_ledger_before_its_answer(at, shop):
    """While an answer is held the money has moved already; one request only is held."""
    client.stall(at.shop, "/refunds", ["A-1003"], 0.5)
    began = time.monotonic()
    shop.refund("A-1001", 1.0, "other")
    assert time.monotonic() - began < 0.4

    caller = hanging_refund(at, "A-1003", "held")
    wait_for(lambda: shop.find_refunds("held"))
    assert caller.recv(4096).startswith(b"HTTP/1.1 201")
    assert time.monotonic() - began > 0.5
    caller.close()

    began = time.monotonic()
    shop.refund("A-1003", 1.0, "again")
    assert time.monotonic() - began < 0.4


def hanging_refund(at, order, key):
    """Send a refund and do not wait for the answer; give the open connection."""
    host, port = at.shop.removeprefix("http://").split(":")
    body = json.dumps({"order": order, "amount": 1.0}).encode()
    raw = socket.create_connection((host, int(port)), timeout=10)
    head = f"POST /refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\n"
    raw.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return raw


def wait_for(condition, seconds=10):
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start_shop(path, *more, **popen):
    """Start a shop by its command line; give the process and its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "durable_nb.demo.shop", "--ledger", str(path), *more],
        stdout=subprocess.PIPE,
        text=True,
        **popen,
    )
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_shop_ends_cleanly_on_a_signal(tmp_path, number):
    """Ctrl-C and SIGTERM end the shop with exit code 0 and nothing to read but its address."""
    process, ready = start_shop(tmp_path / "ledger", stderr=subprocess.PIPE)
    assert ready["pid"] == process.pid
    process.send_signal(number)
    out, err = process.communicate(timeout=10)

    assert (process.returncode, out, err) == (0, "", "")


def test_shop_ends_when_its_parent_lets_go_of_the_pipe(tmp_path):
    """A parent that dies, however, takes its shop with it."""
    process, _ = start_shop(tmp_path / "ledger", "--stop-with-stdin", stdin=subprocess.PIPE)
    process.stdin.close()

    assert process.wait(timeout=10) == 0


def test_shop_ends_when_nobody_asks_or_its_folder_is_gone(tmp_path):
    """A shop that a notebook left behind does not stay for ever."""
    idle, _ = start_shop(tmp_path / "ledger", "--idle-exit", "0.1")
    folder = tmp_path / "gone"
    folder.mkdir()
    orphan, _ = start_shop(tmp_path / "ledger2", "--stop-with-folder", str(folder))
    assert idle.wait(timeout=10) == 0
    assert orphan.poll() is None
    folder.rmdir()

    assert orphan.wait(timeout=10) == 0


def test_shop_remembers_its_ledger(tmp_path):
    """A restarted shop still finds yesterday's refund, and numbers go on."""
    path = tmp_path / "ledger"
    ids = []
    for _ in range(2):
        process, ready = start_shop(path)
        shop = client.Shop(ready["url"])
        ids.append(shop.refund("A-1001", 1.0, "key")["id"])
        found = shop.find_refunds("key")
        process.terminate()
        process.wait(timeout=10)
        assert [each["id"] for each in found] == ids
    assert len(set(ids)) == 2


def test_refused_connection_proves_that_nothing_happened(tmp_path):
    """Nobody listens: the client says so with an error that a step can name."""
    process, ready = start_shop(tmp_path / "ledger")
    process.kill()
    process.wait()

    with pytest.raises(client.NOTHING_HAPPENED):
        client.Shop(ready["url"]).refund("A-1001", 1.0, "key")


def test_broken_connection_proves_nothing(at):
    """A shop that is killed after it paid leaves an error that is not in the list."""
    client.stall(at.shop, "/refunds", ["A-1001"], 5)
    pid = client._ask("GET", f"{at.shop}/health")["pid"]
    raw = hanging_refund(at, "A-1001", "key")
    wait_for(lambda: ledger.read(Path(at.ledger)))
    os.kill(pid, signal.SIGKILL)
    try:
        left = raw.recv(4096)
    except ConnectionResetError:
        left = b""
    raw.close()

    assert left == b""
    assert len(ledger.read(Path(at.ledger))) == 1
    assert not issubclass(ConnectionResetError, client.NOTHING_HAPPENED)


def test_both_servers_know_the_common_options():
    """The options that end and slow a server are the same for both."""
    import argparse

    parser = argparse.ArgumentParser()
    common_options(parser)
    assert parser.parse_args(["--answer-delay", "0.5"]).answer_delay == 0.5
