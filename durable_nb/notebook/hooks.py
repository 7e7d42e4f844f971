"""What has to happen around each execution, once a notebook uses a run; no extension is needed."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any, Final

from durable_nb.engine.context import OPEN, adopt_latest, current_operation
from durable_nb.engine.trajectory import Surroundings
from durable_nb.journal import OwnerInfo
from durable_nb.model.bases import DurableSignal, lone_signal
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
        """Show the panel under a cell that a signal stopped, below the lines that say why.

        Without a kernel there is only text, and those lines are all there is to say.
        """
        if getattr(self._shell, "kernel", None) is None:
            return
        error = getattr(result, "error_in_exec", None)
        signal = None if error is None else lone_signal(error)
        if signal is None:
            return
        name = getattr(signal, "run", "")
        left = [run.place for run in OPEN.all() if run.name == name]
        if signal.place is not None:
            left = [signal.place]  # it left the run's `with` block, which closed the run
        for stopped in left[-1:]:
            try:
                panel.show(stopped)
            except DurableSignal as problem:  # IPython stops at one, and would answer nobody
                print(f"the panel cannot be shown: {problem}")


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
