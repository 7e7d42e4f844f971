"""Verbs that execute notebooks without a front end."""

from __future__ import annotations

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from durable_nb.engine import store as stores
from durable_nb.engine.supervised import submitted_of
from durable_nb.engine.trajectory import QUIET
from durable_nb.faces import look
from durable_nb.faces.output import DONE, ERROR, INTERRUPTED, PERSON_NEEDED, Face, verb
from durable_nb.faces.problems import Unwrapped
from durable_nb.faces.settling import lines_for
from durable_nb.fleet.errors import NotebookUnusable
from durable_nb.journal import Store, store_of
from durable_nb.journal import folder as folders
from durable_nb.model.errors import RunHeld
from durable_nb.model.outcomes import RunStatus

if TYPE_CHECKING:
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import Submitted
    from durable_nb.fleet.supervisor import Supervised

_EXTRA: Final = "pip install 'durable-nb[run]'"


#: By how a run ended.
_CODES: Final = {"finished": DONE, "person needed": PERSON_NEEDED, "broken off": INTERRUPTED}


def _needs_fleet() -> None:
    """Say what to install where nothing can execute a notebook."""
    try:
        import nbclient  # noqa: F401
    except ImportError as missing:
        raise click.ClickException(f"{missing}. Nothing was begun. {_EXTRA}") from missing


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
    _needs_fleet()
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import submit

    folders.check_name(name)
    submitted = submit(notebook, dict(_parameter(text) for text in parameters))
    stop = Stop()
    _stop_on_signals(face, stop)
    where = output or notebook.with_name(f"{notebook.stem}.{name}.ipynb")
    document = _supervised(face, name, submitted, where, restarts, stop)
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

    With --all it takes every run whose kernel crashed; never one that waits for a person, and
    never one that somebody else takes at this moment. Exits 3 if a person is needed for any.

    \b
    Example:
      durable-nb resume refunds-17
      durable-nb resume --all --jobs 2
    """
    _needs_fleet()
    from durable_nb.fleet.kernels import Stop

    if bool(name) == every:
        raise click.UsageError("name a run, or say --all. Nothing was begun.")
    root, stop = store_of(face.store), Stop()
    names = [name] if name else _crashed(face)
    _stop_on_signals(face, stop)
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        documents = list(pool.map(lambda n: _resumed(face, root, n, restarts, stop, every), names))
    found = [d for d in documents if d is not None]
    if face.as_json:
        face.emit(found)
    else:
        for document in found:
            _print(face, document)
        if every:
            face.line(f"{len(found)} of {len(names)} crashed runs were taken up")
    codes = {_CODES.get(d["end"], ERROR) for d in found}
    return ERROR if ERROR in codes else max(codes, default=DONE)


def _crashed(face: Face) -> list[str]:
    rows = look.list_runs(face)
    return [row["name"] for row in rows if row["status"] == RunStatus.CRASHED]


def _resumed(
    face: Face, root: Store, name: str, restarts: int, stop: Stop, every: bool
) -> dict[str, Any] | None:
    """Take up one run; `None` for one that is left alone among many, which is told."""
    from durable_nb.fleet.notebooks import submitted_from

    try:
        with stores.open_run(
            name, store=root, must_exist=True, role="reader", surroundings=QUIET
        ) as run:
            said = submitted_of(run)
        if said is None:
            raise NotebookUnusable(
                f"run {name!r}", "it has no notebook on record", "Resume it in its notebook."
            )
        submitted = submitted_from(said)
        path = Path(submitted.path)
        return _supervised(
            face, name, submitted, path.with_name(f"{path.stem}.{name}.ipynb"), restarts, stop
        )
    except (RunHeld, NotebookUnusable) as problem:
        if not every:
            raise
        face.say(f"{name} is left alone: {problem}")
        return None


def _supervised(
    face: Face, name: str, submitted: Submitted, output: Path, restarts: int, stop: Stop
) -> dict[str, Any]:
    """Execute a run until it stops; give what is told of it."""
    from durable_nb.fleet.supervisor import Supervisor

    with face.working(f"{name}: starting a kernel ...") as show:
        report = Supervisor(
            name,
            submitted,
            store_of(face.store),
            output,
            restarts,
            tell=lambda line: face.say(f"{name}: {line}"),
            progress=lambda cell, cells: show(f"{name}: cell {cell} of {cells} ..."),
            stop=stop,
        ).supervise()
    return _document(face, report, output)


def _stop_on_signals(face: Face, stop: Stop) -> None:
    """Stop at the next boundary when first told to, and interrupt the cell the second time."""

    def told(number: int, _frame: object) -> None:
        if stop.wanted.is_set():
            stop.at_once.set()
        stop.wanted.set()
        face.say("stopping before the next operation; once more interrupts the cell at work")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, told)


def _parameter(text: str) -> tuple[str, Any]:
    from durable_nb.fleet.notebooks import value_of

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-p")
    return name, value_of(value)


def _document(face: Face, report: Supervised, output: Path) -> dict[str, Any]:
    return {
        "run": report.run,
        "end": str(report.end),
        "why": report.why or None,
        "kernels": report.kernels,
        "deaths": report.deaths,
        "notebook": str(output),
        "open": [line.as_dict() for line in lines_for(face, report.run, report.questions)],
        "shown": list(report.lines),
    }


def _print(face: Face, document: dict[str, Any]) -> None:
    deaths = document["deaths"]
    died = f", of which {deaths} died" if deaths else ""
    face.line(f"run {document['run']}: {document['end']} ({document['kernels']} kernels{died})")
    if document["why"]:
        face.line(f"why: {document['why']}")
    for line in document["open"]:
        face.line(f"  {line['question']}")
        face.line(f"    {line['line']}")
    face.line(f"notebook: {document['notebook']}")


#: In the order in which `--help` lists them.
VERBS: Final = (run, resume)
