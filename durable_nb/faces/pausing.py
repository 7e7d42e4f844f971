"""Verbs that stop a run before its next operation, and let it go on."""

from __future__ import annotations

from typing import Final

import click

from durable_nb.faces import verdicts
from durable_nb.faces.arguments import telling
from durable_nb.faces.judging import run_argument
from durable_nb.faces.output import DONE, Face, verb
from durable_nb.faces.problems import Unwrapped


@click.command(cls=Unwrapped)
@run_argument
@click.option("--reason", default="", callback=telling, help="Why; shown until it goes on.")
@verb
def pause(face: Face, name: str, reason: str) -> int:
    r"""Stop a run before its next operation.

    What is in flight finishes. It stays paused, in every kernel, until it is let go on.

    \b
    Example:
      durable-nb pause refund-17 --reason "the shop is being moved"
    """
    verdicts.give(face, name, "pause", "", {"reason": reason})
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def unpause(face: Face, name: str, reason: str) -> int:
    r"""Let a paused run go on.

    Nothing is started by it: the next call in its notebook does that.

    \b
    Example:
      durable-nb unpause refund-17
    """
    verdicts.give(face, name, "unpause", "", {"reason": reason})
    return DONE


#: In the order in which `--help` lists them.
VERBS: Final = (pause, unpause)
