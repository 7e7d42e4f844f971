"""The same agent without durable_nb: the same tools, the same order, nothing remembered."""

from __future__ import annotations

import nbformat
from nbformat import NotebookNode

CELLS = (
    """\
import uuid

from durable_nb.demo import servers
from durable_nb.demo.client import Model, Shop, letter
from durable_nb.demo.tickets import read_tickets

where = servers.ensure()
shop, model = Shop(where.shop), Model(where.model)
""",
    """\
for ticket in read_tickets():
    decision = model.decide(ticket)
    if decision["refund"]:
        shop.refund(ticket.order, decision["amount"], str(uuid.uuid4()))
    shop.mail(ticket.email, letter(ticket, decision))
""",
)


def notebook() -> NotebookNode:
    """Build the notebook."""
    new: NotebookNode = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    new.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]  # type: ignore[no-untyped-call]
    return new
