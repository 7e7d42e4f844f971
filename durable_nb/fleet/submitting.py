"""Giving runs to the fleet, and seeing how it comes on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_nb.engine.supervised import submitted_of
from durable_nb.fleet import notebooks
from durable_nb.fleet.differences import refuse_another
from durable_nb.fleet.errors import AtWork, NotebookUnusable, NotOfTheFleet, RunTaken
from durable_nb.fleet.needs import needs_of
from durable_nb.fleet.notebooks import Submitted, submitted_from
from durable_nb.fleet.queue import prepare_queue, put
from durable_nb.fleet.supervising import looking
from durable_nb.fleet.turns import is_signed, signed
from durable_nb.journal import Store, StoreLike, store_of
from durable_nb.journal import folder as folders
from durable_nb.journal.errors import DatabaseOnly
from durable_nb.journal.postgres.fleet import FleetRow, FleetState, FleetTable, Known
from durable_nb.journal.postgres.place import PostgresStore
from durable_nb.model.outcomes import RunStatus

if TYPE_CHECKING:
    import pandas as pd


def submit(
    notebook: str | os.PathLike[str] | None,
    run: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    needs: Iterable[str] = (),
    any_packages: bool = False,
    store: StoreLike | None = None,
) -> FleetState:
    """Give a run to the fleet: any worker of the store executes it, as `supervise` would.

    Parameters
    ----------
    notebook : path or None
        As for `supervise`. It is kept as it is now. `None` tries a run again as it was submitted,
        such as one that is parked.
    run : str
        A new name, or that of a run to go on with.
    parameters : Mapping, optional
        As for `supervise`.
    needs : iterable of str
        Files that it reads, relative to its folder: a worker where one is missing or differs parks
        the run.
    any_packages : bool
        Whether workers may have other versions of the packages that the notebook imports.
    store : str or Store, optional
        A database's address, as for `open_run`.

    Returns
    -------
    FleetState
        Where it stood before: ``finished`` if nothing is left to do, else it is queued.

    Raises
    ------
    NotebookUnusable
        It does not load, its kernel is not installed, it has no such parameter, or a file that it
        needs is missing. Nothing was begun.
    RunTaken
        The name is in use for another notebook, or with other parameters.
    AtWork
        A worker executes it just now.
    NotOfTheFleet
        There is no such run, and no notebook was given.
    DatabaseOnly
        The store is a folder.
    BadName
    """
    folders.check_name(run)
    there = database_of(store, "submit")
    given = None
    if notebook is not None:
        given = notebooks.submit(Path(notebook), dict(parameters or {}))
    there.prepare()
    prepare_queue(there.server)
    with closing(FleetTable(there.server)) as table:
        known = table.known(run)
        document = _document(run, there, known, given, needs, any_packages)
        if known is not None and known.state is FleetState.FINISHED:
            return known.state
        if known is None:
            table.add(run, document)
        elif not table.again(run, document):
            raise AtWork(run, known.worker or "a worker")
    put(there.server, run)
    return FleetState.QUEUED if known is None else known.state


def _document(
    run: str,
    store: PostgresStore,
    known: Known | None,
    given: Submitted | None,
    needs: Iterable[str],
    any_packages: bool,
) -> Mapping[str, Any]:
    """Give what is to be executed, signed; refuse what does not go on with what there is."""
    if given is None:
        if known is None:
            raise NotOfTheFleet(run, store.shown)
        return _as_it_was(run, known, any_packages)
    if known is not None:
        before = submitted_from(known.submitted)
        refuse_another(run, before, given, str(known.state))
    elif run in store.names():
        _refuse_another_run(run, store, given)
    found = needs_of(given, needs, packages=not any_packages)
    return signed(run, {**given.as_json(), "needs": found.as_json()})


def _as_it_was(run: str, known: Known, any_packages: bool) -> Mapping[str, Any]:
    """Give what was submitted before, if it was this user who did."""
    if not is_signed(run, known.submitted):
        advice = f"Name the file yourself: durable-nb submit NOTEBOOK --run {run}"
        raise NotebookUnusable(f"run {run!r}", "its notebook was not submitted by you", advice)
    document = {key: said for key, said in known.submitted.items() if key != "signature"}
    if any_packages:
        document["needs"] = {**document["needs"], "packages": {}}
    return signed(run, document)


def _refuse_another_run(run: str, store: Store, given: Submitted) -> None:
    """Refuse a run that was executed without the fleet, and is another one."""
    with looking(run, store) as held:
        said, status = submitted_of(held), held.status()
    if said is None and status != RunStatus.FINISHED:
        raise RunTaken(run, "another notebook", "one that was executed in a front end", given.path)
    refuse_another(run, None if said is None else submitted_from(said), given, status)


def roster(store: StoreLike | None = None, *, every: bool = False) -> list[FleetRow]:
    """List the runs of the fleet.

    Parameters
    ----------
    store : str or Store, optional
        A database's address, as for `open_run`.
    every : bool
        Also those that are finished.

    Raises
    ------
    DatabaseOnly, StoreUnreachable
    """
    there = database_of(store, "fleet")
    there.prepare()
    prepare_queue(there.server)
    with closing(FleetTable(there.server)) as table:
        return table.roster(every=every)


def fleet_runs(store: StoreLike | None = None, *, every: bool = False) -> pd.DataFrame:
    """Show what runs where, what is orphaned, and what waits for a person.

    Parameters
    ----------
    store, every
        As for `roster`.

    Returns
    -------
    DataFrame
        One row a run: ``run, state, worker, since_s, due_s, failures, why``.
    """
    import pandas as pd

    columns = ["run", "state", "worker", "since_s", "due_s", "failures", "why"]
    rows = [row_of(row) for row in roster(store, every=every)]
    return pd.DataFrame([{c: row[c] for c in columns} for row in rows], columns=columns)


def row_of(row: FleetRow) -> dict[str, Any]:
    """Give a run of the fleet as a document; ``errors`` are how it failed, one each."""
    return {
        "run": row.name,
        "state": str(row.state),
        "worker": row.worker,
        "since_s": round(row.since_s, 1),
        "due_s": None if row.due_s is None else round(max(0.0, row.due_s), 1),
        "failures": len(row.failures),
        "why": row.why,
        "errors": [dict(failure) for failure in row.failures],
    }


def database_of(store: StoreLike | None, verb: str) -> PostgresStore:
    """Give the store, which has to be a database; raises `DatabaseOnly`."""
    found = store_of(store)
    if not isinstance(found, PostgresStore):
        raise DatabaseOnly(verb, found.shown)
    return found
