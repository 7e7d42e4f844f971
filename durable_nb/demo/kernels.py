"""Run a notebook in a real kernel, and kill that kernel from outside at a chosen place."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from durable_nb.demo import ledger
from durable_nb.demo.client import Model, stall
from durable_nb.demo.ledger import What
from durable_nb.demo.problems import KernelTrouble
from durable_nb.demo.servers import Addresses
from durable_nb.fleet.sockets import private_sockets

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CELL_TIMEOUT_S = 180
WATCH_S = 0.01
HOLD_S = 30.0  #: how long the fatal request hangs; the kill comes within seconds of it

#: How long the model thinks before the kill. By then the harmless intent is in the journal, too:
#: it rides with the next commit, at latest after a second, so that the table can show it.
THINKING_S = 1.3

#: How long the shop keeps its answer before the kill. By then the kernel's last words are out: what
#: a reconciler has settled would else be lost in the kernel's buffer of printed text (0.2 s).
SPEAKING_S = 1.0


class Place(Protocol):
    """A place where the kernel is to be killed."""

    def arm(self) -> None:
        """Make the network slow there, so that the kill lands inside the request."""

    def reached(self) -> str | None:
        """Give the order that the kernel is busy with once it is there."""


@dataclass(slots=True)
class InModelCall:
    """The model was asked, and has not answered."""

    at: Addresses
    orders: Sequence[str]
    _before: int = 0
    _since: float | None = None

    def arm(self) -> None:
        """Hold the answer of the next call about one of the orders."""
        self._before = len(Model(self.at.model).calls())
        stall(self.at.model, "/v1/chat/completions", list(self.orders), HOLD_S)

    def reached(self) -> str | None:
        """Look into the model server's list of calls, and let the model think for a while."""
        calls = Model(self.at.model).calls()[self._before :]
        waiting = [str(c["order"]) for c in calls if c["order"] in self.orders]
        if not waiting:
            return None
        self._since = self._since or time.monotonic()
        return waiting[0] if time.monotonic() - self._since > THINKING_S else None


@dataclass(slots=True)
class AfterEffect:
    """The shop has done it, its line is in the ledger, and the answer is still on its way."""

    at: Addresses
    what: What
    orders: Sequence[str]
    _before: int = 0
    _since: float | None = None

    def arm(self) -> None:
        """Hold the answer to the next such request about one of the orders."""
        self._before = len(ledger.read(self._ledger))
        stall(self.at.shop, f"/{self.what}s", list(self.orders), HOLD_S)

    def reached(self) -> str | None:
        """Look into the shop's ledger, and let the shop keep its answer for a while."""
        order = self._applied()
        if order is None:
            return None
        self._since = self._since or time.monotonic()
        return order if time.monotonic() - self._since > SPEAKING_S else None

    def _applied(self) -> str | None:
        """Give the order that the shop has done something about."""
        for entry in ledger.read(self._ledger)[self._before :]:
            if entry.what is self.what:
                text = " ".join(str(value) for value in entry.body.values())
                for order in self.orders:
                    if order in text:
                        return order
        return None

    @property
    def _ledger(self) -> Path:
        assert self.at.ledger is not None
        return Path(self.at.ledger)


class Ending(StrEnum):
    """How the execution of a notebook ended."""

    FINISHED = "finished"
    KILLED = "killed"
    STOPPED = "stopped"  #: a cell ended with an error or a signal


@dataclass(frozen=True, slots=True)
class Execution:
    """What became of one pass over a notebook, from its top."""

    ending: Ending
    notebook: NotebookNode
    place: str | None = None  #: the order at which the kernel was killed
    pid: int | None = None  #: of the kernel
    error: str = ""  #: the class that stopped a cell
    lines: tuple[str, ...] = ()  #: what the cell showed then

    def said(self, cell: str, wanted: str = "") -> list[str]:
        """Give the lines that a cell printed, by the cell's id; those with `wanted` in them."""
        outputs = [o for c in self.notebook.cells if c.get("id") == cell for o in c.outputs]
        text = "".join(str(o.get("text", "")) for o in outputs)
        return [line for line in text.splitlines() if wanted in line]


def execute(
    notebook: NotebookNode, folder: Path, environment: Mapping[str, str], kill: Place | None = None
) -> Execution:
    """Run all cells in a fresh kernel; SIGKILL it when `kill` is reached.

    Parameters
    ----------
    notebook : NotebookNode
        Left as it is; the executed copy is in the answer.
    folder : Path
        The kernel's working folder.
    environment : mapping
        The kernel's whole environment.
    kill : Place, optional
        Where to kill the kernel. If it is never reached, the notebook ends by itself.

    Raises
    ------
    KernelTrouble
        If the kernel died without having been killed here, or a cell did not end in time.
    """
    copied = copy.deepcopy(notebook)
    with private_sockets() as sockets, (folder / "kernels.log").open("a") as log:
        # No folder of kernel specs is searched: a "python3" of another environment could be there.
        specs = KernelSpecManager(kernel_dirs=[])
        manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs, **sockets)
        client = NotebookClient(copied, km=manager, timeout=CELL_TIMEOUT_S)
        client.owns_km = True  # so that it also ends the kernel
        arguments = {"cwd": str(folder), "env": dict(environment), "stderr": log}
        return _watch(_Worker(client, arguments), kill)


def _watch(worker: _Worker, kill: Place | None) -> Execution:
    """Let the notebook run, and kill its kernel at the place."""
    place: str | None = None
    if kill is not None:
        kill.arm()
    worker.start()
    try:
        while worker.is_alive():
            worker.note_pid()
            if kill is not None and place is None:
                place = kill.reached()
                if place is not None:
                    worker.kill_kernel()
            worker.join(WATCH_S)
    except BaseException:  # Ctrl-C above all: no kernel may stay behind
        worker.give_up()
        raise
    return worker.outcome(place)


class _Worker(threading.Thread):
    """Runs the notebook; a thread, because nbclient takes over Ctrl-C in the main one."""

    def __init__(self, client: NotebookClient, arguments: Mapping[str, Any]) -> None:
        super().__init__(daemon=True)
        self.client, self.arguments = client, arguments
        self.manager: Any = client.km
        self.error: BaseException | None = None
        self.pid: int | None = None

    def run(self) -> None:
        try:
            self.client.execute(**self.arguments)
        except BaseException as error:  # handed to the thread that waits
            self.error = error

    def note_pid(self) -> None:
        """Note the kernel's process id, once it has been started."""
        self.pid = getattr(self.manager.provisioner, "pid", None) or self.pid

    def kill_kernel(self) -> None:
        """Send SIGKILL: nothing in the kernel gets to run after this."""
        self.note_pid()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def give_up(self) -> None:
        """End the kernel and wait for the thread."""
        deadline = time.monotonic() + 10
        while self.is_alive() and time.monotonic() < deadline:
            self.kill_kernel()  # again and again: it may only just be starting
            self.join(0.1)

    def outcome(self, place: str | None) -> Execution:
        """Say how it ended."""
        notebook, error = self.client.nb, self.error
        if place is not None and isinstance(error, DeadKernelError):
            return Execution(Ending.KILLED, notebook, place, self.pid)
        if isinstance(error, CellExecutionError):
            lines = _shown(notebook)
            return Execution(Ending.STOPPED, notebook, None, self.pid, error.ename, lines)
        if isinstance(error, DeadKernelError | CellTimeoutError):
            raise KernelTrouble(str(error)) from error
        if error is not None:
            raise error
        return Execution(Ending.FINISHED, notebook, None, self.pid)


def _shown(notebook: NotebookNode) -> tuple[str, ...]:
    """Give the lines of the error that the front end would show."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                text = COLOUR.sub("", "\n".join(output.traceback))
                return tuple(text.splitlines())
    return ()
