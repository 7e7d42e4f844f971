"""Verbs of the fleet: runs that any worker of a database executes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from durable_nb.faces.output import DONE, PERSON_NEEDED, Face, verb
from durable_nb.faces.problems import Unwrapped
from durable_nb.faces.running import SIGNALS, needs_fleet, parameter
from durable_nb.faces.settling import command

#: In which the fleet is listed: what needs a look comes first.
_ORDER: Final = (
    "person needed", "parked", "orphaned", "working", "queued", "waiting", "finished",
)  # fmt: skip
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@click.command(cls=Unwrapped)
@click.argument("notebook", type=click.Path(path_type=Path), required=False)
@click.option("--run", "name", required=True, help="Name of the run; a new one, or one to go on.")
@click.option("-p", "parameters", multiple=True, metavar="K=V", help="A parameter; repeatable.")
@click.option(
    "--needs", multiple=True, metavar="FILE", help="A file that it reads, beside it; repeatable."
)
@click.option("--any-packages", is_flag=True, help="Workers may have other versions of packages.")
@verb
def submit(
    face: Face,
    notebook: Path | None,
    name: str,
    parameters: tuple[str, ...],
    needs: tuple[str, ...],
    any_packages: bool,
) -> int:
    r"""Give a run to the fleet: any worker of the database executes it.

    The notebook is kept as it is now. A worker that has other versions of the packages that it
    imports, or lacks a file of --needs, parks the run and says what differs. Without a NOTEBOOK, a
    run that is parked is tried again, as it was submitted.

    \b
    Example:
      durable-nb submit refunds.ipynb --run refunds-17 --store postgresql://agents@db/agents
    """
    needs_fleet("durable_nb.fleet.queue")
    from durable_nb.fleet.submitting import submit as give

    given = dict(parameter(text) for text in parameters)
    before = give(notebook, name, given, needs=needs, any_packages=any_packages, store=face.store)
    document = {"run": name, "before": str(before)}
    if face.as_json:
        face.emit(document)
    elif before == "finished":
        face.line(f"run {name} is finished: nothing is left to do")
    else:
        face.line(f"run {name} is queued; see: {command(face, 'fleet')}")
    return DONE


@click.command(cls=Unwrapped)
@click.option("--slots", default=4, show_default=True, help="How many runs at the same time.")
@click.option("--restarts", default=5, show_default=True, help="Dead kernels that are replaced.")
@click.option("--once", is_flag=True, help="End once nothing is queued.")
@click.option(
    "--postgres",
    metavar="ADDRESS",
    help="The database, as --store; embedded: one in the nearest .durable, for trying it out.",
)
@verb
def worker(face: Face, slots: int, restarts: int, once: bool, postgres: str | None) -> int:
    r"""Execute runs of the fleet, until it is stopped.

    Start as many as you like, on as many machines. What a dead worker leaves is queued again once
    it has said nothing for the time of a lease (DURABLE_LEASE_S, 60 seconds). A run that waits for
    a person, a timer or a signal takes no slot. Ctrl-C and SIGTERM take nothing more, stop what is
    at work at its next step, and give it back; a second one interrupts the cells at work.

    \b
    Example:
      durable-nb worker --slots 4 --store postgresql://agents@db/agents
    Two terminals on a laptop:
      durable-nb worker --postgres embedded
      durable-nb submit refunds.ipynb --run refunds-17 --store embedded
    """
    needs_fleet("durable_nb.fleet.queue")
    if slots < 1:
        raise click.BadParameter("at least 1", param_hint="--slots")
    from durable_nb.fleet import supervising
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.submitting import database_of
    from durable_nb.fleet.worker import Worker

    store, stop = database_of(postgres or face.store, "worker"), Stop()
    work = Worker(store, slots, restarts, face.tell, stop, once)
    with supervising.stopping(stop, face.tell, SIGNALS):
        work.work()
    return DONE


@click.command(name="fleet", cls=Unwrapped)
@click.option("--all", "every", is_flag=True, help="Also runs that are finished.")
@verb
def fleet_(face: Face, every: bool) -> int:
    r"""List what runs where, what is orphaned, and what waits for a person.

    \b
    queued         for any worker that has a free slot
    working        a worker executes it
    orphaned       its worker says nothing any more; it is queued again by itself
    waiting        for a timer or a signal, in no slot
    person needed  show the run, and settle it; it is queued again by itself
    parked         it has failed five times, or would fail just so: durable-nb submit --run RUN

    Exits 3 if a person is needed for any.

    \b
    Example:
      durable-nb fleet --store postgresql://agents@db/agents
    """
    needs_fleet("durable_nb.fleet.queue")
    from durable_nb.fleet.submitting import roster, row_of

    rows = [row_of(row) for row in roster(face.store, every=every)]
    rows.sort(key=lambda row: (_ORDER.index(row["state"]), row["run"]))
    if face.as_json:
        face.emit(rows)
    else:
        _print(face, rows)
    asks = any(row["state"] in {"person needed", "parked"} for row in rows)
    return PERSON_NEEDED if asks else DONE


def _print(face: Face, rows: list[dict[str, Any]]) -> None:
    if not rows:
        face.line("nothing is to be done")
        return
    headings = ("run", "state", "for", "failed", "where", "why")
    face.table(headings, [_cells(row) for row in rows])
    asking = [row["run"] for row in rows if row["state"] == "person needed"]
    parked = [row["run"] for row in rows if row["state"] == "parked"]
    if asking:
        face.line(f"see what it asks: {command(face, 'show', asking[0])}")
    if parked:
        face.line(f"try it again: {command(face, 'submit', '--run', parked[0])}")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    due = "" if row["due_s"] is None or row["state"] == "working" else f" in {_time(row['due_s'])}"
    why = row["why"].splitlines()[0] if row["why"] else ""
    failed = str(row["failures"] or "")
    return (row["run"], row["state"] + due, _time(row["since_s"]), failed, row["worker"] or "", why)


def _time(seconds: float) -> str:
    """Write a time as people say it."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} d"


#: In the order in which `--help` lists them.
VERBS: Final = (submit, worker, fleet_)
