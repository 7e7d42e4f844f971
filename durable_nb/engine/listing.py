"""The whole store: its runs, and SQL over their mirrors."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import QUIET
from durable_nb.journal import Store, StoreLike, mirror, store_of
from durable_nb.journal.owner import Life, Role
from durable_nb.journal.sql import queries
from durable_nb.model.errors import DurableError
from durable_nb.model.pace import AtWork, pace_of

if TYPE_CHECKING:
    import pandas as pd


def refresh(
    root: Store, reading: Callable[[str], AbstractContextManager[object]] = nullcontext
) -> dict[str, str]:
    """Bring the mirrors of a store up to date where their owner cannot do so any more.

    Parameters
    ----------
    root : Store
        The store.
    reading : callable
        Gives a context manager in which the run of that name is read, to show progress.

    Returns
    -------
    dict
        Run to why it is shown as it is: who holds it, or what stood in the way.
    """
    notes: dict[str, str] = {}
    for name, (holder, lags) in root.overview().items():
        if holder is not None and holder.life is not Life.CRASHED:
            notes[name] = f"held by {holder}"
        elif holder is not None or lags:
            try:
                with reading(name):
                    # a reader publishes the mirror as it leaves, and records nothing
                    open_run(
                        name, store=root, must_exist=True, role="reader", surroundings=QUIET
                    ).close()
            except (DurableError, OSError) as problem:
                notes[name] = str(problem)
    return notes


def at_work(root: Store, now: datetime | None = None) -> dict[str, tuple[AtWork, ...]]:
    """Tell what live kernels are executing, as their mirrors have it.

    Where a run has recorded more than its mirror shows, time counts to when that was published.

    Parameters
    ----------
    root : Store
        The store.
    now : datetime, optional
        By the clock of this machine, UTC; by default the time that it is.

    Returns
    -------
    dict
        Run to what is at work in it, for each run that a kernel on this machine holds, one that is
        stopped (SIGSTOP) included. Waits are left out, and so are operations that have called
        others: they are as fast as those.
    """
    now = now or datetime.now(UTC)
    until = {}
    for name, (holder, _) in root.overview().items():
        if holder is not None and holder.live and holder.info.role == Role.RUNNER:
            place = root.place(name)
            place.fetch()
            epoch, last = holder.info.epoch, place.last_seq()
            until[name] = mirror.known_until(place.view, epoch, last, now)
    found: dict[str, list[AtWork]] = {name: [] for name in until}
    if any(until.values()):
        frame = query_of(root, queries("mirror")["at_work"])
        for run, op, started, usual in frame.itertuples(index=False, name=None):
            if known := until.get(run):
                elapsed = max(0.0, (known - started).total_seconds())  # clocks may be set
                found[run].append(AtWork(op, elapsed, None if math.isnan(usual) else usual))
    return {name: tuple(works) for name, works in found.items()}


def runs(store: StoreLike | None = None) -> pd.DataFrame:
    """List the runs of a store, a row each.

    Parameters
    ----------
    store : path, optional
        Default: `DURABLE_STORE`, else the nearest ``.durable`` upwards.

    Returns
    -------
    DataFrame
        ``name, run_id, status, pace, version, epoch, completed, incomplete, unknown, usd, tokens,
        opened, updated, folder, at_work``. A run that somebody holds is shown as its mirror has it:
        renewed within two seconds of a change, but not before 66 times as long as the last renewal
        took.

        ``pace`` is ``"live"`` while a kernel on this machine holds the run, and ``"slow"`` if that
        takes longer than usual: an operation at work that has taken longer than both three times
        the median and the median and ten seconds, of what completed operations of its name took in
        this store. Without such a history nothing is slow, and neither is a wait. Else it is "".

        ``at_work`` is a list of mappings ``op, elapsed_s, usual_s``, in seconds; ``usual_s`` is
        that median, or `None`. Where a run has recorded more than its mirror shows, time counts to
        when that was published.
    """
    root = store_of(store)
    frame = sql("SELECT * FROM runs ORDER BY name", store=store)
    working = at_work(root)
    paces = [str(pace_of(working.get(name))) for name in frame["name"]]
    works = [[work.as_dict() for work in working.get(name, ())] for name in frame["name"]]
    frame.insert([*frame].index("status") + 1, "pace", paces)
    frame.insert(len(frame.columns), "at_work", works)
    return frame


def sql(query: str, *, store: StoreLike | None = None) -> pd.DataFrame:
    """Answer an SQL query over the views ``runs`` and ``operations`` of a whole store.

    Parameters
    ----------
    query : str
        DuckDB SQL. It reads the mirrors: a view, never evidence.
    store : path, optional
        As for `runs`.
    """
    root = store_of(store)
    refresh(root)
    return query_of(root, query)


def query_of(root: Store, query: str) -> pd.DataFrame:
    """Answer an SQL query over the mirrors of a store, as they are.

    Parameters
    ----------
    root : Store
        The store.
    query : str
        DuckDB SQL.
    """
    return mirror.query(root.views(), query, root.place, root.overview())
