"""The verb that reports: what durability cost a run, and what it saved."""

from __future__ import annotations

from typing import Final

import click

from durable_nb.faces import look
from durable_nb.faces.judging import run_argument
from durable_nb.faces.output import DONE, Face, verb
from durable_nb.faces.problems import Unwrapped


@click.command(cls=Unwrapped)
@run_argument
@verb
def report(face: Face, name: str) -> int:
    r"""Report what durability cost a run, and what it saved.

    Of a run that a kernel holds, that kernel tells; else its journal is read, and nothing is
    recorded.

    \b
    Example:
      durable-nb report refund-17
    """
    found = look.watched(face, name).report()
    if face.as_json:
        face.emit(found.as_dict())
    else:
        face.line(found.headline, style="bold")
        for line in found.lines:
            face.line(line.to_text())
    return DONE


#: In the order in which `--help` lists them.
VERBS: Final = (report,)
