"""What has to happen around each execution, once a notebook uses a run; no extension is needed."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, Final

from durable_nb.engine.context import OPEN, adopt_latest, current_operation
from durable_nb.engine.recovery import doubt_left
from durable_nb.engine.trajectory import Surroundings
from durable_nb.journal import OwnerInfo, Place
from durable_nb.model.bases import DurableSignal, left_by, lone_signal
from durable_nb.notebook import panel
from durable_nb.notebook.interrupt import CancelOnInterrupt
from durable_nb.notebook.origin import count_execution, current_shell, ipython_origin, message_id
from durable_nb.notebook.progress import Progress

#: Where a shell keeps its hooks.
_HOOKS: Final = "_durable_nb_hooks"


def surroundings() -> dict[str, Any]:
    """Give what `durable_nb.open_run` has to know of the notebook that calls it.

    Returns
    -------
    dict
        Arguments of `durable_nb.engine.store.open_run`: ``surroundings`` and ``who``.
    """
    shell = current_shell()
    if shell is None:
        return {}
    install(shell).watch_for_interrupt()
    return {
        "surroundings": Surroundings(origin=ipython_origin, say=print, panel=panel.show),
        "who": OwnerInfo.here(kernel=_kernel(shell), notebook=_notebook()),
    }


def _kernel(shell: Any) -> str:
    """Name the kernel by its connection file, as `jupyter` lists it."""
    kernel = getattr(shell, "kernel", None)
    file = getattr(getattr(kernel, "parent", None), "connection_file", "") or ""
    return PurePath(file).stem.removeprefix("kernel-")


def _notebook() -> str:
    """Name the notebook, where the server told the kernel; without its folder."""
    return PurePath(os.environ.get("JPY_SESSION_NAME", "")).name


class Hooks:
    """Before and after each execution of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._seen = message_id(shell)
        self._interrupt: CancelOnInterrupt | None = None
        self._progress = Progress(shell)
        self._known: dict[str, int] = {}

    def before(self) -> None:
        """Let the cell, and the threads that it starts, find the open run; watch for Ctrl-C."""
        count_execution(self._shell)
        message = message_id(self._shell)
        nested = message == self._seen if message else current_operation() is not None
        self._seen = message
        if nested:
            return  # `%run` and its like execute cells inside of a cell
        adopt_latest()
        self._progress.begin()
        self._known = {run.id: run.fold.last_seq for run in OPEN.all()}
        if OPEN.all():
            self.watch_for_interrupt()

    def watch_for_interrupt(self) -> None:
        """From here to the end of the cell, Ctrl-C cancels what it awaits."""
        if self._interrupt is None:
            self._interrupt = CancelOnInterrupt()
            self._interrupt.install()

    def after(self) -> None:
        """Give Ctrl-C back."""
        self._progress.end()
        if self._interrupt is not None:
            self._interrupt.remove()
            self._interrupt = None

    def show_what_stopped(self, result: Any) -> None:
        """Under a cell that stopped: what it leaves in doubt, and the panel of that run.

        A signal has said already why it stopped. Without a kernel there is only text.
        """
        error = getattr(result, "error_in_exec", None)
        if error is None:
            return
        signal = lone_signal(error)
        stopped = [] if signal is None else self._place_of(signal)
        said = _in_doubt(signal)
        for doubt in self._doubts(error):
            if not _in_doubt(doubt) <= said:
                print(doubt)
                stopped.append(doubt.place)
        if getattr(self._shell, "kernel", None) is None:
            return
        for place in stopped[-1:]:
            try:
                panel.show(place, stopped=True, notebook=_notebook())
            except DurableSignal as problem:  # IPython stops at one, and would answer nobody
                print(f"the panel cannot be shown: {problem}")

    @staticmethod
    def _place_of(signal: DurableSignal) -> list[Place]:
        if signal.place is not None:
            return [signal.place]  # it left the run's `with` block, which closed the run
        name = getattr(signal, "run", "")
        return [run.place for run in OPEN.all() if run.name == name]

    def _doubts(self, error: BaseException) -> list[DurableSignal]:
        """Give what began in this cell and is in doubt now, of runs open and closed; once."""
        found = list(left_by(error))
        for run in OPEN.all():
            doubt = doubt_left(run, self._known.get(run.id))
            self._known[run.id] = run.fold.last_seq
            if doubt is not None:
                doubt.place = run.place
                found.append(doubt)
        return found


def _in_doubt(signal: DurableSignal | None) -> set[str]:
    """Give the operations that a signal says something of."""
    return {op.id for op in getattr(signal, "operations", ())}


def install(shell: Any) -> Hooks:
    """Put the hooks in place, once."""
    hooks: Hooks | None = getattr(shell, _HOOKS, None)
    if hooks is None:
        hooks = Hooks(shell)
        setattr(shell, _HOOKS, hooks)
        shell.events.register("pre_execute", hooks.before)
        shell.events.register("post_execute", hooks.after)
        shell.events.register("post_run_cell", hooks.show_what_stopped)
    return hooks


def remove(shell: Any) -> None:
    """Take the hooks away."""
    hooks: Hooks | None = getattr(shell, _HOOKS, None)
    if hooks is None:
        return
    setattr(shell, _HOOKS, None)
    forget(shell, "pre_execute", hooks.before)
    forget(shell, "post_execute", hooks.after)
    forget(shell, "post_run_cell", hooks.show_what_stopped)


def forget(shell: Any, event: str, callback: Any) -> None:
    """Unregister a callback, if nobody else has."""
    if callback in shell.events.callbacks[event]:
        shell.events.unregister(event, callback)
