"""Executing notebooks without a front end, from Python."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from durable_nb.engine.run import Run
from durable_nb.engine.store import open_run
from durable_nb.engine.supervised import submitted_of
from durable_nb.engine.trajectory import QUIET
from durable_nb.fleet.errors import NotebookUnusable
from durable_nb.fleet.kernels import Stop
from durable_nb.fleet.notebooks import Submitted, submit, submitted_from
from durable_nb.fleet.supervisor import Supervised, Supervisor
from durable_nb.journal import Store, StoreLike, store_of
from durable_nb.journal import folder as folders

#: Dead kernels that are replaced, if nobody says how many.
RESTARTS: Final = 5
_STOPPING: Final = "stopping before the next operation; once more interrupts the cell at work"


def supervise(
    notebook: str | os.PathLike[str],
    run: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    restarts: int = RESTARTS,
    store: StoreLike | None = None,
    tell: Callable[[str], object] = print,
) -> Supervised:
    """Execute a notebook as a run, in as many kernels as it takes.

    A kernel that dies is replaced, and the run goes on where it was. While a timer or a signal is
    waited for there is no kernel. Ctrl-C stops it before the next operation, and leaves a run that
    can be resumed; a second one interrupts the cell that is at work.

    Parameters
    ----------
    notebook : path
        The kernel works in its folder. The first run that it opens is the one of this name.
    run : str
        A new name, or that of a run to go on with.
    parameters : Mapping, optional
        Assigned after the cell that is tagged ``parameters``, which has to assign them as well.
    output : path, optional
        Where the executed notebook is written, after each kernel. Default: ``NOTEBOOK.RUN.ipynb``
        beside it.
    restarts : int
        Dead kernels that are replaced.
    store : path, optional
        As for `open_run`.
    tell : callable
        Told what happens, a line each.

    Returns
    -------
    Supervised

    Raises
    ------
    NotebookUnusable
        It does not load, its kernel is not installed, or it has no such parameter.
    RunTaken
        On record the run executes another notebook, or has other parameters.
    RunHeld
        A kernel, or another supervisor, has the run.
    BadName
    """
    folders.check_name(run)
    submitted = submit(Path(notebook), dict(parameters or {}))
    return _supervise(run, submitted, output, restarts, store, tell)


def resume(
    run: str,
    *,
    output: str | os.PathLike[str] | None = None,
    restarts: int = RESTARTS,
    store: StoreLike | None = None,
    tell: Callable[[str], object] = print,
) -> Supervised:
    """Take a run up again, with the notebook and parameters that are on record.

    Parameters
    ----------
    run : str
        Its name.
    output, restarts, store, tell
        As for `supervise`.

    Returns
    -------
    Supervised

    Raises
    ------
    NotebookUnusable
        There is no notebook on record: it was executed in a front end. Nothing was begun.
    RunMissing, RunHeld, BadName
    """
    return _supervise(run, recorded(run, store_of(store)), output, restarts, store, tell)


def recorded(run: str, store: Store) -> Submitted:
    """Give what a run executes, as it is on record; raises `NotebookUnusable` if nothing is."""
    with looking(run, store) as held:
        return submitted_in(held)


@contextmanager
def looking(run: str, store: Store) -> Iterator[Run]:
    """Hold a run just to look at it, before it is supervised.

    It is claimed first, so that nobody who only reads it stands in the way of its kernels, and so
    that whoever supervises it is named.

    Raises
    ------
    RunHeld, RunMissing
    """
    exists = store.place(run).exists()
    with (
        store.claimed(run) if exists else nullcontext(),
        open_run(run, store=store, must_exist=True, role="reader", surroundings=QUIET) as held,
    ):
        yield held


def submitted_in(run: Run) -> Submitted:
    """Give the notebook that is on record, if there is one and this user has submitted it.

    Raises
    ------
    NotebookUnusable
        The run was executed in a front end or in a script; or its notebook is somebody else's.
    """
    said, what = submitted_of(run), f"run {run.name!r}"
    if said is None:
        advice = "Resume it in its notebook, or name that: durable-nb run NOTEBOOK --run NAME"
        raise NotebookUnusable(what, "it has no notebook on record", advice)
    if not said["signed"]:
        advice = (
            "It came in an archive, or from another user or machine, and would be executed as "
            "you. If you trust it, name the file yourself: durable-nb run NOTEBOOK --run NAME"
        )
        raise NotebookUnusable(what, "its notebook was not submitted by you", advice)
    return submitted_from(said)


def output_of(submitted: Submitted, run: str) -> Path:
    """Give where the executed notebook is written, if nobody says where."""
    path = Path(submitted.path)
    return path.with_name(f"{path.stem}.{run}.ipynb")


@contextmanager
def stopping(
    stop: Stop, tell: Callable[[str], object], signals: Iterable[int] = (signal.SIGINT,)
) -> Iterator[None]:
    """Stop at the next boundary when a signal comes, and interrupt the cell when a second does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no signal comes to another one
        return

    def told(_number: int, _frame: object) -> None:
        if stop.wanted.is_set():
            stop.at_once.set()
        stop.wanted.set()
        tell(_STOPPING)

    before = {number: signal.signal(number, told) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _supervise(
    run: str,
    submitted: Submitted,
    output: str | os.PathLike[str] | None,
    restarts: int,
    store: StoreLike | None,
    tell: Callable[[str], object],
) -> Supervised:
    where = output_of(submitted, run) if output is None else Path(output)
    stop = Stop()
    supervisor = Supervisor(
        run,
        submitted,
        store_of(store),
        where,
        restarts,
        tell=tell,
        stop=stop,
    )
    with stopping(stop, tell):
        return supervisor.supervise()
