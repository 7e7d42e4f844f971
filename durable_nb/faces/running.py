"""Verbs that execute notebooks without a front end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
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
from durable_nb.journal import folder as folders
from durable_nb.journal import probe
from durable_nb.journal.owner import Role
from durable_nb.model.errors import DurableError, RunHeld
from durable_nb.model.outcomes import RunStatus

if TYPE_CHECKING:
    from durable_nb.engine.questions import Question
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import Submitted
    from durable_nb.fleet.supervisor import Supervised

_EXTRA: Final = "pip install 'durable-nb[run]'"
#: How a run among many is told of that somebody else takes, or nobody can.
LEFT_ALONE: Final = "left alone"

#: By how a run ended.
_CODES: Final = {
    "finished": DONE,
    "person needed": PERSON_NEEDED,
    "broken off": INTERRUPTED,
    LEFT_ALONE: DONE,
}
#: Of a run that nobody executes, and that is not at its end.
_LEFT: Final = frozenset({RunStatus.CRASHED, RunStatus.WAITING})
#: Of one that is at its end.
_ENDED: Final = frozenset({RunStatus.CLOSED, RunStatus.FAILED, RunStatus.FINISHED})


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

    With --all it takes every run whose kernel crashed, each in its turn, and tells of those that
    wait for a person without starting anything in them; what somebody else takes at this moment is
    left alone. Ctrl-C stops all of them. Exits 3 if a person is needed for any.

    \b
    Example:
      durable-nb resume refunds-17
      durable-nb resume --all --jobs 2
    """
    _needs_fleet()
    from durable_nb.fleet.kernels import Stop

    if bool(name) == every:
        raise click.UsageError("name a run, or say --all. Nothing was begun.")
    root, stop = stores.store_folder(face.store), Stop()
    _stop_on_signals(face, stop)
    if name:
        found = [_resumed(face, root, name, restarts, stop)]
    else:
        found = _resume_all(face, root, jobs, restarts, stop)
    if face.as_json:
        face.emit(found)
    else:
        for document in found:
            _print(face, document)
        if every:
            face.line(_summary(found))
    codes = {_CODES.get(d["end"], ERROR) for d in found}
    return ERROR if ERROR in codes else max(codes, default=DONE)


def _resumed(face: Face, root: Path, name: str, restarts: int, stop: Stop) -> dict[str, Any]:
    """Take up one run, named by a person."""
    submitted, _, _ = _on_record(root, name)
    return _supervised(face, name, submitted, _output(submitted, name), restarts, stop)


def _resume_all(
    face: Face, root: Path, jobs: int, restarts: int, stop: Stop
) -> list[dict[str, Any]]:
    """Take up every run that is left, some at the same time; give what is told of each."""
    names = _left(face, root)

    def one(name: str) -> dict[str, Any] | None:
        document = _one_of_many(face, root, name, restarts, stop, show)
        if document is not None:
            face.say(f"{name}: {document['end']}")
        return document

    with (
        face.working(f"{len(names)} runs ...") as show,
        ThreadPoolExecutor(max_workers=max(1, jobs)) as pool,
    ):
        return [document for document in pool.map(one, names) if document is not None]


def _left(face: Face, root: Path) -> list[str]:
    """Name the runs that nobody executes, and that are not at their end.

    One that somebody holds only to look at it may be among them: the claim decides.
    """
    names = []
    for row in look.list_runs(face):
        holder = probe(root / row["name"])
        looked_at = holder is not None and holder.live and holder.info.role != Role.RUNNER
        if row["status"] in _LEFT or (looked_at and row["status"] not in _ENDED):
            names.append(row["name"])
    return names


def _one_of_many(
    face: Face, root: Path, name: str, restarts: int, stop: Stop, show: Callable[[str], None]
) -> dict[str, Any] | None:
    """Take up one run, or tell why it is left alone: it must not stop the others.

    One that waits is told of only if it waits for a person; `None` where there is nothing to tell.
    """
    from durable_nb.fleet.supervisor import End, Supervised

    if stop.wanted.is_set():
        return {**_left_alone(name, "it was told to stop before this one"), "end": "broken off"}
    try:
        submitted, status, asked = _on_record(root, name)
        output = _output(submitted, name)
        if status is RunStatus.WAITING and not asked:
            return None
        if status is RunStatus.WAITING:
            told = Supervised(name, End.PERSON_NEEDED, why=asked[0].text, questions=asked)
            return _document(face, told, output)
        if status not in _LEFT:
            return _left_alone(name, f"it is {status}: somebody else has taken it up")
        return _supervised(face, name, submitted, output, restarts, stop, show)
    except (RunHeld, NotebookUnusable) as problem:
        return _left_alone(name, str(problem))
    except (DurableError, OSError) as problem:
        return {**_left_alone(name, str(problem)), "end": "failed"}


def _on_record(root: Path, name: str) -> tuple[Submitted, RunStatus, tuple[Question, ...]]:
    """Read what a run executes, how it stands, and what it waits for a person with.

    Whoever is about to supervise a run has claimed it first, so that nobody who only reads it
    stands in the way of its kernels.
    """
    from durable_nb.fleet.claim import claimed
    from durable_nb.fleet.notebooks import submitted_from
    from durable_nb.fleet.supervisor import for_a_person

    exists = name in folders.run_names(root)
    with (
        claimed(root, name) if exists else nullcontext(),
        stores.open_run(
            name, store=root, must_exist=True, role="reader", surroundings=QUIET
        ) as run,
    ):
        said, status = submitted_of(run), RunStatus(run.status())
        asked = for_a_person(run, next_kernel=False)
    if said is None:
        raise NotebookUnusable(
            f"run {name!r}", "it has no notebook on record", "Resume it in its notebook."
        )
    return submitted_from(said), status, asked


def _output(submitted: Submitted, name: str) -> Path:
    """Say where the executed notebook of a run goes that is taken up."""
    path = Path(submitted.path)
    return path.with_name(f"{path.stem}.{name}.ipynb")


def _left_alone(name: str, why: str) -> dict[str, Any]:
    """Give what is told of a run that was not taken up."""
    return {
        "run": name,
        "end": LEFT_ALONE,
        "why": why,
        "kernels": 0,
        "deaths": 0,
        "notebook": None,
        "open": [],
        "shown": [],
    }


def _summary(found: Sequence[Mapping[str, Any]]) -> str:
    """Say in one line what became of them."""
    taken = sum(d["kernels"] > 0 for d in found)
    asking = sum(d["end"] == "person needed" for d in found)
    alone = sum(d["end"] == LEFT_ALONE for d in found)
    line = f"{taken} of {len(found)} crashed runs were taken up"
    line += f"; person needed: {asking}" if asking else ""
    return line + (f"; left alone: {alone}" if alone else "")


def _supervised(
    face: Face,
    name: str,
    submitted: Submitted,
    output: Path,
    restarts: int,
    stop: Stop,
    shown: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Execute a run until it stops; give what is told of it.

    `shown` is where progress shows if that is not for this run alone.
    """
    from durable_nb.fleet.supervisor import Supervisor

    with face.working(f"{name}: ...") if shown is None else nullcontext(shown) as show:
        report = Supervisor(
            name,
            submitted,
            stores.store_folder(face.store),
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
    kernels = f" ({document['kernels']} kernels{died})" if document["notebook"] else ""
    face.line(f"run {document['run']}: {document['end']}{kernels}")
    if document["why"]:
        face.line(f"why: {document['why']}")
    for line in document["open"]:
        face.line(f"  {line['question']}")
        face.line(f"    {line['line']}")
    if document["notebook"]:
        face.line(f"notebook: {document['notebook']}")


#: In the order in which `--help` lists them.
VERBS: Final = (run, resume)
