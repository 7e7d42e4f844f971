"""The pictures of the demo: operations, ledger, and the two agents side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from durable_nb.demo.ledger import Entry, What
from durable_nb.demo.record import Reading
from durable_nb.demo.result import DemoResult

OUTCOME_STYLES = {"completed": "green", "incomplete": "yellow", "unknown": "bold red"}


def operations_table(journal: Reading) -> Table:
    """Show what the run's journal holds."""
    table = Table(title="The run's journal: operations", title_justify="left")
    for heading in ("operation", "effect", "outcome", "attempt", "settled by"):
        table.add_column(heading)
    for op in journal.operations:
        table.add_row(
            Text(op.id),  # Text: the brackets of an id are not markup
            op.effect,
            Text(op.outcome, style=OUTCOME_STYLES.get(op.outcome, "")),
            str(op.attempt),
            journal.settled_by.get(op.id, ""),
        )
    return table


def ledger_table(entries: Sequence[Entry]) -> Table:
    """Show what the shop really did."""
    table = Table(title="The shop's own ledger: what really happened", title_justify="left")
    for heading in ("entry", "what", "for", "amount"):
        table.add_column(heading, justify="right" if heading == "amount" else "left")
    for entry in entries:
        refund = entry.what is What.REFUND
        amount = f"{entry.body['amount']:.2f}" if refund else ""
        target = entry.body["order"] if refund else entry.body["to"]
        table.add_row(entry.id, entry.what.value, Text(str(target)), amount)
    return table


def comparison_table(result: DemoResult) -> Table:
    """Show both agents beside each other, counted the same way."""
    table = Table(title="The same agent, the same kills", title_justify="left")
    table.add_column("counted in the shops' ledgers")
    table.add_column("with durable_nb", justify="right")
    table.add_column("without", justify="right")
    rows = (
        ("refunds paid again", result.refunds.duplicates, result.naive.refund_duplicates),
        ("mails sent again", result.mails.duplicates, result.naive.mail_duplicates),
    )
    for label, ours, theirs in rows:
        table.add_row(label, _verdict(ours), _verdict(theirs))
    return table


def _verdict(duplicates: int) -> Text:
    return Text(str(duplicates), style="bold red" if duplicates else "bold green")


def print_report(
    console: Console,
    result: DemoResult,
    journal: Reading,
    entries: Sequence[Entry],
) -> None:
    """Print everything that a reader needs to judge the demo."""
    for table in (operations_table(journal), ledger_table(entries), comparison_table(result)):
        console.print()
        console.print(table)
    refunds, mails, settled = result.refunds, result.mails, result.unknown_settled
    console.print()
    console.print(
        f"{result.kills} kernels killed in {result.seconds:.0f} s. "
        f"Refunds granted {refunds.expected}, paid {refunds.applied}; "
        f"customers {mails.expected}, mails sent {mails.applied}.",
        highlight=False,
    )
    console.print(
        f"Unknown outcomes settled: {settled.reconciler} by asking the shop, "
        f"{settled.person} by a person. "
        f"Model calls made again: {result.model_calls_repeated} (harmless, so simply repeated).",
        highlight=False,
    )
    console.print()
    console.print(
        Text.from_markup(
            "Now yourself: [cyan]durable-nb demo --lab[/cyan] opens this notebook in JupyterLab. "
            "You kill its kernel, and play the person."
        ),
        soft_wrap=True,
    )
