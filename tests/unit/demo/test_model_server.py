"""The model server, over real sockets."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error

import pytest

from durable_nb.demo import client, model_server, servers
from durable_nb.demo.model_server import PACKAGES, SMOLLM2, missing_packages
from durable_nb.demo.serving import Server
from durable_nb.demo.tickets import Ticket, read_tickets

pytestmark = pytest.mark.slow  # each test starts processes of its own


@pytest.fixture
def at(tmp_path):
    with servers.running(tmp_path) as addresses:
        yield addresses


@pytest.fixture
def model(at):
    return client.Model(at.model)


def test_answers_as_the_openai_interface_does(at):
    """The content is JSON by the schema, and usage is counted."""
    ticket = {"order": "A-1", "amount": 5.0, "message": "it came broken"}
    completion = client._ask(
        "POST",
        f"{at.model}/v1/chat/completions",
        {
            "model": "any",
            "messages": [
                {"role": "system", "content": "decide"},
                {"role": "user", "content": json.dumps(ticket)},
            ],
        },
    )
    [choice] = completion["choices"]
    decision = json.loads(choice["message"]["content"])
    usage = completion["usage"]

    assert (decision["refund"], decision["amount"]) == (True, 5.0)
    assert set(decision) == set(client.DECISION_SCHEMA["required"])
    assert choice["finish_reason"] == "stop"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert client._ask("GET", f"{at.model}/v1/models")["data"][0]["id"] == "scripted"


def test_scripted_decisions_are_the_same_each_time(model):
    """About half of the customers get their money back, and the same ones again."""
    first = [model.decide(ticket) for ticket in read_tickets()]
    again = [model.decide(ticket) for ticket in read_tickets()]

    assert first == again
    granted = [
        ticket.order
        for ticket, decision in zip(read_tickets(), first, strict=True)
        if decision["refund"]
    ]
    assert 7 <= len(granted) <= len(first) - 4


def test_amount_is_never_more_than_was_paid(monkeypatch):
    """A model that is too generous is held to what the order cost."""
    generous = {"refund": True, "amount": 10_000, "reason": "why not"}
    answer = {"choices": [{"message": {"content": json.dumps(generous)}}]}
    monkeypatch.setattr(client, "_ask", lambda *_: answer)
    ticket = Ticket("A-1", "Ann", "ann@example.org", 12.0, "broken")

    assert client.Model("http://127.0.0.1:1").decide(ticket)["amount"] == 12.0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": "hello"}]},
        {"messages": [{"role": "user", "content": "[1]"}]},
        {"messages": [{"role": "user"}]},
        {"messages": ["hello"]},
    ],
)
def test_request_without_a_ticket_is_refused(at, body):
    """The scripted model says what it needs."""
    with pytest.raises(client.Rejected, match=r"messages|ticket") as no:
        client._ask("POST", f"{at.model}/v1/chat/completions", body)
    assert no.value.status == 400


def test_failure_of_the_server_itself_proves_nothing(capsys):
    """An error of the server is a 5xx, which no client takes for a refusal."""

    def route(request):
        raise LookupError("the till is stuck")

    with Server(0, route) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        with pytest.raises(urllib.error.HTTPError) as error:
            client.Shop(server.url).refund("A-1", 1.0, "key")
        server.shutdown()

    assert error.value.code == 500
    assert not isinstance(error.value, client.NOTHING_HAPPENED)
    assert "the till is stuck" in capsys.readouterr().err


def test_calls_are_listed_with_the_unanswered_ones(at, model):
    """A call counts once it is received; it is answered only if its client was still there."""
    first, second, third = read_tickets()[:3]
    model.decide(first)
    client.stall(at.model, "/v1/chat/completions", [second.order], 20)
    host, port = at.model.removeprefix("http://").split(":")
    content = json.dumps({"order": second.order, "message": "x", "amount": 1})
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        raw.sendall(head.encode() + b"\r\n" + body)
        deadline = time.monotonic() + 10
        while len(model.calls()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    began = time.monotonic()
    model.decide(third)
    time.sleep(0.2)  # the held answer notices within 0.02 s that its client is gone

    assert [call["order"] for call in model.calls()] == [first.order, second.order, third.order]
    assert [call["answered"] for call in model.calls()] == [True, False, True]
    assert time.monotonic() - began < 5


def test_missing_packages_are_named_by_their_pip_commands(monkeypatch):
    """Who asks for the real model without its packages is told what to run."""
    monkeypatch.setattr(model_server.importlib.util, "find_spec", lambda _: None)

    assert missing_packages(SMOLLM2) == list(PACKAGES.values())
    assert missing_packages("scripted") == []


def test_model_server_without_its_packages_exits_as_called_wrongly():
    """The server itself says the same, and exits with 2."""
    if not missing_packages(SMOLLM2):  # nothing is missing that could be told
        pytest.skip("the real model is installed here")
    done = subprocess.run(
        [sys.executable, "-m", "durable_nb.demo.model_server", "--model", SMOLLM2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    for command in missing_packages(SMOLLM2):
        assert command in done.stderr
