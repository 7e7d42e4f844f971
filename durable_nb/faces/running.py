"""Verbs that execute notebooks without a front end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from durable_nb.faces.output import DONE, ERROR, INTERRUPTED, PERSON_NEEDED, Face, verb
from durable_nb.faces.problems import Unwrapped
from durable_nb.faces.settling import command, lines_for
from durable_nb.journal import folder as folders
from durable_nb.journal import store_of

if TYPE_CHECKING:
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import Submitted
    from durable_nb.fleet.supervisor import Supervised

#: What stops it in order.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: Last lines of what a cell showed, or of what a dead kernel wrote, that are told.
_SHOWN: Final = 12
#: By how a run ended.
_CODES: Final = {
    "finished": DONE,
    "person needed": PERSON_NEEDED,
    "broken off": INTERRUPTED,
    "left alone": DONE,
}


def needs_fleet(module: str = "durable_nb.fleet") -> None:
    """Say what to install where a module cannot be imported: one that names its extra."""
    try:
        import_module(module)
    except ImportError as missing:
        raise click.ClickException(f"{missing}. Nothing was begun.") from missing


@click.command(cls=Unwrapped)
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option("--run", "name", required=True, help="Name of the run; a new one, or one to resume.")
@click.option("-p", "parameters", multiple=True, metavar="K=V", help="A parameter; repeatable.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The executed notebook.")
@click.option("--restarts", default=5, show_default=True, help="Dead kernels that are replaced.")
@click.option("--notify", metavar="CMD", help="Run when it stops, with a JSON document on stdin.")
@verb
def run(
    face: Face,
    notebook: Path,
    name: str,
    parameters: tuple[str, ...],
    output: Path | None,
    restarts: int,
    notify: str | None,
) -> int:
    r"""Execute a notebook as a run, in as many kernels as it takes.

    A kernel that dies is replaced, and the run goes on where it was. While a timer or a signal is
    waited for there is no kernel. Ctrl-C stops it and leaves a run that can be resumed. Exits 0
    finished, 3 a person is needed (with the lines that settle it), 1 failed.

    \b
    Example:
      durable-nb run refunds.ipynb --run refunds-17 -p day=2026-03-01
    """
    needs_fleet()
    from durable_nb.fleet import supervising
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import submit

    folders.check_name(name)
    submitted = submit(notebook, dict(parameter(text) for text in parameters))
    where, stop = output or supervising.output_of(submitted, name), Stop()
    with supervising.stopping(stop, face.say, SIGNALS):
        report = _supervised(face, name, submitted, where, restarts, stop)
    document = _document(face, report)
    if notify:
        subprocess.run(notify, shell=True, input=json.dumps(document), text=True, check=False)
    if face.as_json:
        face.emit(document)
    else:
        _print(face, document)
    return _CODES.get(document["end"], ERROR)


@click.command(cls=Unwrapped)
@click.argument("name", metavar="[RUN]", required=False)
@click.option("--all", "every", is_flag=True, help="Every run of the store whose kernel crashed.")
@click.option("--jobs", default=1, show_default=True, help="How many at the same time.")
@click.option("--restarts", default=5, show_default=True, help="Dead kernels that are replaced.")
@verb
def resume(face: Face, name: str | None, every: bool, jobs: int, restarts: int) -> int:
    r"""Take a run up again with the notebook and parameters that are on record.

    With --all it takes every run whose kernel crashed, each in its turn, and tells of those that
    wait for a person without starting anything in them; what somebody else takes at this moment is
    left alone. Ctrl-C stops all of them. Exits 3 if a person is needed for any.

    \b
    Example:
      durable-nb resume refunds-17
      durable-nb resume --all --jobs 2
    """
    if bool(name) == every:
        raise click.UsageError("name a run, or say --all. Nothing was begun.")
    needs_fleet()
    from durable_nb.fleet import supervising
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.many import Many

    root, stop = store_of(face.store), Stop()
    with supervising.stopping(stop, face.say, SIGNALS):
        if name:
            submitted = supervising.recorded(name, root)
            output = supervising.output_of(submitted, name)
            found = [_supervised(face, name, submitted, output, restarts, stop)]
        else:
            with face.working("looking at the runs ...") as show:
                found = [*Many(root, restarts, stop, face.say, show).take_up(jobs)]
    documents = [_document(face, report) for report in found]
    if face.as_json:
        face.emit(documents)
    else:
        for document in documents:
            _print(face, document)
        if every:
            face.line(_summary(documents))
    codes = {_CODES.get(d["end"], ERROR) for d in documents}
    return ERROR if ERROR in codes else max(codes, default=DONE)


def _summary(found: Sequence[Mapping[str, Any]]) -> str:
    """Say in one line what became of them."""
    taken = sum(d["kernels"] > 0 for d in found)
    asking = sum(d["end"] == "person needed" for d in found)
    alone = sum(d["end"] == "left alone" for d in found)
    line = f"{taken} of {len(found)} crashed runs were taken up"
    line += f"; person needed: {asking}" if asking else ""
    return line + (f"; left alone: {alone}" if alone else "")


def _supervised(
    face: Face, name: str, submitted: Submitted, output: Path, restarts: int, stop: Stop
) -> Supervised:
    """Execute a run until it stops."""
    from durable_nb.fleet.supervisor import Supervisor

    with face.working(f"{name}: starting a kernel ...") as show:
        return Supervisor(
            name,
            submitted,
            store_of(face.store),
            output,
            restarts,
            tell=lambda line: face.say(f"{name}: {line}"),
            progress=lambda cell, cells: show(f"{name}: cell {cell} of {cells} ..."),
            stop=stop,
        ).supervise()


def parameter(text: str) -> tuple[str, Any]:
    """Take `NAME=VALUE` apart."""
    from durable_nb.fleet.notebooks import value_of

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-p")
    return name, value_of(value)


def _document(face: Face, report: Supervised) -> dict[str, Any]:
    return {
        "run": report.run,
        "end": str(report.end),
        "why": report.why or None,
        "kernels": report.kernels,
        "deaths": report.deaths,
        "notebook": None if report.notebook is None else str(report.notebook),
        "open": [line.as_dict() for line in lines_for(face, report.run, report.questions)],
        "shown": list(report.lines),
    }


def _print(face: Face, document: dict[str, Any]) -> None:
    from durable_nb.fleet.supervisor import told_of_kernels

    kernels = told_of_kernels(document["kernels"], document["deaths"])
    face.line(f"run {document['run']}: {document['end']}{kernels}")
    if document["why"] and not document["open"]:  # which say it as well
        face.line(f"why: {document['why']}")
        for line in document["shown"][-_SHOWN:]:
            face.line(f"  {line}".rstrip())
    for line in document["open"]:
        face.line(f"  {line['question']}")
        face.line(f"    {line['line']}")
    if document["open"]:
        face.line(f"then: {command(face, 'resume', document['run'])}")
    if document["notebook"]:
        path = Path(document["notebook"])
        here = path.is_relative_to(Path.cwd())
        face.line(f"notebook: {path.relative_to(Path.cwd()) if here else path}")


#: In the order in which `--help` lists them.
VERBS: Final = (run, resume)
