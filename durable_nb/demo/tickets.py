"""The customers' messages, and the orders that they are about."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

FIELDS = ("order", "customer", "email", "amount", "message")


@dataclass(frozen=True, slots=True)
class Ticket:
    """One customer's message about one order."""

    order: str
    customer: str
    email: str
    amount: float  #: what was paid for the order
    message: str


def read_tickets() -> list[Ticket]:
    """Read the messages that come with this package, in their order."""
    text = files(__package__).joinpath("data/tickets.csv").read_text(encoding="utf-8")
    return [
        Ticket(row["order"], row["customer"], row["email"], float(row["amount"]), row["message"])
        for row in csv.DictReader(text.splitlines())
    ]


def orders() -> dict[str, float]:
    """Give what was paid for each order."""
    return {ticket.order: ticket.amount for ticket in read_tickets()}
