"""Verbs that end a wait of the program: an approval that is given or refused, and signals."""

from __future__ import annotations

from typing import BinaryIO, Final

import click

from durable_nb.faces import verdicts
from durable_nb.faces.arguments import parse_result, telling
from durable_nb.faces.judging import op_argument, reason_option, run_argument
from durable_nb.faces.output import DONE, Face, verb
from durable_nb.faces.problems import Unwrapped


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def approve(face: Face, name: str, op: str, reason: str) -> int:
    r"""Say yes to an approval that waits.

    What it is bound to are the details that `show` prints: with others, the program asks again.

    \b
    Example:
      durable-nb approve refund-17 'approval[Send 40 mails?]#1' --reason "the list is right"
    """
    verdicts.give(face, name, "approve", op, {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@op_argument
@reason_option
@verb
def reject(face: Face, name: str, op: str, reason: str) -> int:
    r"""Say no to an approval that waits: the program gets an error.

    \b
    Example:
      durable-nb reject refund-17 'approval[Send 40 mails?]#1' --reason "not before Monday"
    """
    verdicts.give(face, name, "reject", op, {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.argument("signal_name", metavar="NAME")
@click.argument("value", required=False)
@click.option(
    "--value-file", type=click.File("rb"), help="Read VALUE from a file; - is standard input."
)
@verb
def signal(
    face: Face, name: str, signal_name: str, value: str | None, value_file: BinaryIO | None
) -> int:
    r"""Send a value to what waits for a signal of that name.

    VALUE is JSON, else a Python literal; without it the program gets None. One that begins with a
    dash goes after `--`. NAME is the signal's name, or the id of the operation that waits. If
    nothing waits for it yet, it is held for the first that will.

    \b
    Example:
      durable-nb signal refund-17 paid '{"amount": 12.5}'
    """
    if value is not None and value_file is not None:
        raise click.UsageError("give VALUE or --value-file, not both.")
    if value_file is not None:
        value = value_file.read().decode("utf-8", "replace")
    if value is not None:
        parse_result(value)
    verdicts.give(face, name, "signal", "", {"name": signal_name, "value": value})
    return DONE


#: In the order in which `--help` lists them.
VERBS: Final = (approve, reject, signal)
