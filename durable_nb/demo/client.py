"""The agent's tools: plain HTTP to the model and the shop. Nothing here knows of durable_nb."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import asdict
from http.client import HTTPException
from typing import Any

from durable_nb.demo.tickets import Ticket

TIMEOUT_S = 60.0
TASK = (
    "You decide about refunds of a shop. Refund when the goods are broken, wrong, late, or were "
    "charged twice. Do not refund praise, questions or changes. Answer in JSON."
)
DECISION_SCHEMA = {
    "type": "object",
    "properties": {
        "refund": {"type": "boolean"},
        "amount": {"type": "number"},
        "reason": {"type": "string", "maxLength": 60},
    },
    "required": ["refund", "amount", "reason"],
    "additionalProperties": False,
}


class Rejected(Exception):
    """The server understood the request and refused it (4xx): nothing was done."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text

    def __str__(self) -> str:
        return f"{self.status}: {self.text}"


#: Errors that prove that nothing happened: no connection was made, or the server said no.
#: A time-out or a connection that broke off proves nothing.
NOTHING_HAPPENED = (ConnectionRefusedError, Rejected)


class Model:
    """A model behind an OpenAI-compatible address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def decide(self, ticket: Ticket) -> dict[str, Any]:
        """Ask for a decision: `{"refund": bool, "amount": number, "reason": str}`."""
        completion = _ask(
            "POST",
            f"{self.url}/v1/chat/completions",
            {
                "model": "refunds",
                "temperature": 0,
                "max_tokens": 160,
                "messages": [
                    {"role": "system", "content": TASK},
                    {"role": "user", "content": json.dumps(asdict(ticket), ensure_ascii=False)},
                ],
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "decision", "schema": DECISION_SCHEMA, "strict": True},
                },
            },
        )
        decision: dict[str, Any] = json.loads(completion["choices"][0]["message"]["content"])
        # A model proposes, it does not own the till: never more than what was paid.
        if decision["refund"] and not 0 < decision["amount"] <= ticket.amount:
            decision["amount"] = ticket.amount
        return decision

    def calls(self) -> list[dict[str, Any]]:
        """List the calls that reached the model server so far."""
        calls: list[dict[str, Any]] = _ask("GET", f"{self.url}/calls")
        return calls


class Shop:
    """The shop's HTTP interface."""

    def __init__(self, url: str) -> None:
        self.url = url

    def refund(self, order: str, amount: float, idempotency_key: str) -> dict[str, Any]:
        """Pay money back."""
        paid: dict[str, Any] = _ask(
            "POST",
            f"{self.url}/refunds",
            {"order": order, "amount": amount},
            {"Idempotency-Key": idempotency_key},
        )
        return paid

    def find_refunds(self, idempotency_key: str) -> list[dict[str, Any]]:
        """List the refunds that were made under this key."""
        query = urllib.parse.urlencode({"idempotency_key": idempotency_key})
        found: list[dict[str, Any]] = _ask("GET", f"{self.url}/refunds?{query}")
        return found

    def mail(self, to: str, text: str) -> dict[str, Any]:
        """Send a mail. There is no way to ask later whether it was sent."""
        sent: dict[str, Any] = _ask("POST", f"{self.url}/mails", {"to": to, "text": text})
        return sent


def letter(ticket: Ticket, decision: dict[str, Any]) -> str:
    """Write the mail to a customer."""
    answer = (
        f"we have paid back {decision['amount']:.2f} for your order {ticket.order}."
        if decision["refund"]
        else f"thank you for writing about your order {ticket.order}. We have noted it."
    )
    return f"Dear {ticket.customer}, {answer}"


def stall(url: str, path: str, words: list[str], seconds: float) -> None:
    """Make the network slow for one request: the next POST on `path` that has one of `words`."""
    _ask("POST", f"{url}/stall", {"path": path, "words": words, "seconds": seconds})


def healthy(url: str) -> bool:
    """Ask whether a server is there."""
    try:
        _ask("GET", f"{url}/health", timeout=2.0)
    except (OSError, HTTPException, Rejected, ValueError):
        return False
    return True


def _ask(
    method: str,
    url: str,
    body: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    *,
    timeout: float = TIMEOUT_S,
) -> Any:
    """Send one request, give the parsed answer, and say plainly when nothing can have happened."""
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
        method=method,
    )
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode("utf-8", "replace")
        if 400 <= error.code < 500:
            raise Rejected(error.code, text) from error
        raise
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise error.reason from error
        raise


#: Loopback is reached directly, whatever proxy the environment names.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
