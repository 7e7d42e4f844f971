"""The whole store: its runs, and SQL over their mirrors."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from durable_nb.engine.store import open_run, store_folder
from durable_nb.engine.trajectory import QUIET
from durable_nb.journal import folder as folders
from durable_nb.journal import mirror, probe
from durable_nb.journal.owner import Life
from durable_nb.model.errors import DurableError

if TYPE_CHECKING:
    import pandas as pd


def refresh(
    root: Path, reading: Callable[[str], AbstractContextManager[object]] = nullcontext
) -> dict[str, str]:
    """Bring the mirrors of a store up to date where their owner cannot do so any more.

    Parameters
    ----------
    root : Path
        The store.
    reading : callable
        Gives a context manager in which the run of that name is read, to show progress.

    Returns
    -------
    dict
        Run to why it is shown as it is: who holds it, or what stood in the way.
    """
    notes: dict[str, str] = {}
    for name in folders.run_names(root):
        holder = probe(root / name)
        if holder is not None and holder.life is not Life.CRASHED:
            notes[name] = f"held by {holder}"
        elif holder is not None or mirror.lags(root / name):
            try:
                with reading(name):
                    # a reader publishes the mirror as it leaves, and records nothing
                    open_run(
                        name, store=root, must_exist=True, role="reader", surroundings=QUIET
                    ).close()
            except (DurableError, OSError) as problem:
                notes[name] = str(problem)
    return notes


def runs(store: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """List the runs of a store, a row each.

    Parameters
    ----------
    store : path, optional
        Default: `DURABLE_STORE`, else the nearest ``.durable`` upwards.

    Returns
    -------
    DataFrame
        ``name, run_id, status, version, epoch, completed, incomplete, unknown, usd, tokens,
        opened, updated, folder``. A run that somebody holds is shown as its mirror has it: renewed
        within two seconds of a change, but not before 66 times as long as the last renewal took.
    """
    return sql("SELECT * FROM runs ORDER BY name", store=store)


def sql(query: str, *, store: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Answer an SQL query over the views ``runs`` and ``operations`` of a whole store.

    Parameters
    ----------
    query : str
        DuckDB SQL. It reads the mirrors: a view, never evidence.
    store : path, optional
        As for `runs`.
    """
    root = store_folder(store)
    refresh(root)
    return mirror.query(root, query)
