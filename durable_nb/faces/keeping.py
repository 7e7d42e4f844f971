"""The verbs that keep a store: verify, recover, export, import and gc."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from durable_nb.engine.archive import export_run, import_run
from durable_nb.engine.gc import gc
from durable_nb.engine.questions import questions_of
from durable_nb.engine.recover import recover
from durable_nb.engine.report import Level
from durable_nb.engine.verify import verify
from durable_nb.faces.output import DONE, ERROR, PERSON_NEEDED, Face, verb
from durable_nb.faces.problems import Unwrapped
from durable_nb.faces.settling import command, lines_for

_STYLES: Final = {Level.DAMAGE: "bold red", Level.NOTE: ""}

_run = click.argument("name", metavar="RUN")


@click.command(name="verify", cls=Unwrapped)
@click.argument("name", metavar="RUN|FOLDER")
@verb
def verify_(face: Face, name: str) -> int:
    r"""Read everything of a run, and repair nothing.

    RUN is a run of the store. What has a slash in it is a FOLDER: a copy, or an extracted backup.
    Not a byte in it changes. Exits 0 if all is well, 1 if something is damaged, and 3 if a kernel
    holds the run, so that only its surroundings could be read.

    \b
    Example:
      durable-nb verify refund-17
    """
    with face.working("reading ...") as tell:
        report = verify(name, store=face.store, tell=tell)
    if face.as_json:
        face.emit(report.as_dict())
    else:
        head, *rest = report.to_text().split("\n")
        face.line(head, style="bold")
        if report.complete:
            face.line(rest[0])
        for finding in report.findings:
            face.line(finding.to_text(), style=_STYLES[finding.level])
    if report.damage:
        return ERROR
    return DONE if report.complete else PERSON_NEEDED


@click.command(name="recover", cls=Unwrapped)
@_run
@verb
def recover_(face: Face, name: str) -> int:
    r"""Bring back the committed part of a damaged journal.

    The damaged whole is set aside; nothing is deleted or executed. A kernel that opens the run
    does the same. Exits 3 if something is in doubt afterwards, and 1 if other damage is left.

    \b
    Example:
      durable-nb recover refund-17
    """
    with face.working("reading ...") as tell:
        found = recover(name, store=face.store, tell=tell)
    asked = lines_for(face, found.run, questions_of(found.unknown, doubt=found.doubt))
    if face.as_json:
        face.emit({**found.as_dict(), "open": [q.as_dict() for q in asked]})
    else:
        face.line(found.to_text())
        for question in asked:
            face.line(question.question)
            face.line(f"    {question.line}")
    if found.left:
        return ERROR
    return PERSON_NEEDED if asked else DONE


@click.command(name="export", cls=Unwrapped)
@_run
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@verb
def export_(face: Face, name: str, file: Path) -> int:
    r"""Write a run to one file, verified.

    FILE is a zip archive that only you can read, and must not exist. It holds all that the run
    recorded, results included. A run that is damaged, or that a kernel holds, is refused.

    \b
    Example:
      durable-nb export refund-17 refund-17.zip
    """
    with face.working("reading ...") as tell:
        done = export_run(name, file, store=face.store, tell=tell)
    if face.as_json:
        face.emit(done.as_dict())
    else:
        face.line(done.to_text())
    return DONE


@click.command(name="import", cls=Unwrapped)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--as", "name", metavar="NAME", help="The run's name here.")
@verb
def import_(face: Face, file: Path, name: str | None) -> int:
    r"""Bring an exported run into the store.

    It is the same run as where it was exported. If a kernel goes on with both, effects happen
    twice: the answer says what to do. Nothing in FILE can run code, and nothing is replaced.

    \b
    Example:
      durable-nb import refund-17.zip --as refund-17b
    """
    with face.working("reading ...") as tell:
        done = import_run(file, name, store=face.store, tell=tell)
    if face.as_json:
        face.emit(done.as_dict())
    else:
        face.line(done.to_text())
    return DONE


@click.command(name="gc", cls=Unwrapped)
@_run
@click.option("--yes", is_flag=True, help="Remove them; else they are only counted.")
@verb
def gc_(face: Face, name: str, yes: bool) -> int:
    r"""Remove the artifacts that no record of a run names.

    Without --yes they are counted, and nothing is changed. What a record of the history names
    stays. A run that a kernel holds is refused: it may have stored what it records in a moment.

    \b
    Example:
      durable-nb gc refund-17 --yes
    """
    with face.working("reading ...") as tell:
        found = gc(name, yes, store=face.store, tell=tell)
    if face.as_json:
        face.emit(found.as_dict())
        return DONE
    face.line(found.to_text())
    if found.artifacts and not found.removed:
        face.line(f"To remove them: {command(face, 'gc', name, more='--yes')}")
    return DONE


VERBS: Final = (verify_, recover_, export_, import_, gc_)
