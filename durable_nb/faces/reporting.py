"""The verbs that report: what durability cost a run and saved it, and what ran when."""

from __future__ import annotations

from pathlib import Path
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


@click.command(cls=Unwrapped)
@run_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, over one that is there. Default: stdout, where that is no terminal.",
)
@verb
def timeline(face: Face, name: str, output: Path | None) -> int:
    r"""Draw a run as SVG: what ran when, in which kernel, and what was killed.

    Of a run that a kernel holds, that kernel tells; where it does not, the picture is made from
    its mirror, and says so. Nothing is recorded. With --json it is the data, in seconds since
    the run's birth.

    \b
    Example:
      durable-nb timeline refund-17 -o run.svg
    """
    if output is None and not face.as_json and face.out.is_terminal:
        raise click.UsageError(
            f"a picture is for a file, not for a terminal: durable-nb timeline {name} -o run.svg"
        )
    found = look.watched(face, name).timeline()
    if output is not None:
        found.save(output)
    if face.as_json:
        face.emit(found.as_dict())
    elif output is None:
        click.echo(found.svg, nl=False)
    else:
        face.line(f"{found} in {output}")
    return DONE


#: In the order in which `--help` lists them.
VERBS: Final = (report, timeline)
