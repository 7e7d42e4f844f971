"""One pass over a notebook, from its top, in a kernel of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final

from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from durable_nb.fleet.notebooks import Submitted
from durable_nb.fleet.sockets import private_sockets

#: What libraries say of a kernel that dies is said by the supervisor: quiet unless configured.
_LOG: Final = logging.getLogger("durable_nb.fleet")
_LOG.addHandler(logging.NullHandler())
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_WATCH_S: Final = 0.05
#: Seconds that a kernel is given to end by itself once it is asked to.
_GRACE_S: Final = 10.0
#: What is executed after the last cell: it is all done.
_FINISH: Final = (
    "import durable_nb as _dnb\n_run = _dnb.current_run()\nif _run is not None:\n    _run.finish()"
)


class Ending(StrEnum):
    """How a pass ended."""

    FINISHED = "finished"  #: all cells were executed
    STOPPED = "stopped"  #: a cell ended with an error, or with a signal of control
    DIED = "died"  #: the kernel is gone
    BROKEN_OFF = "broken off"  #: whoever runs it wants it to stop


@dataclass(frozen=True, slots=True)
class Stop:
    """How whoever runs a notebook stops it.

    Attributes
    ----------
    wanted : threading.Event
        Let nothing new begin: no further cell, and no further operation.
    at_once : threading.Event
        Interrupt the cell at work, as Ctrl-C would.
    begin : callable
        Called once it is wanted, while the kernel is at work.
    """

    wanted: threading.Event = field(default_factory=threading.Event)
    at_once: threading.Event = field(default_factory=threading.Event)
    begin: Callable[[], None] = lambda: None


#: Goes on to the end.
NEVER: Final = Stop()


@dataclass(frozen=True, slots=True)
class Follow:
    """What whoever looks on is told, in the thread that executes.

    Attributes
    ----------
    begins : callable
        Told the notebook, with its outputs so far, and the index of the cell that begins.
    shows : callable
        Told the same of a cell that has shown something, and the output if it is a new one.
    """

    begins: Callable[[NotebookNode, int], None] = lambda notebook, cell: None
    shows: Callable[[NotebookNode, int, NotebookNode | None], None] = lambda notebook, cell, out: (
        None
    )


#: Nobody looks on.
UNSEEN: Final = Follow()


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited for a kernel.

    Attributes
    ----------
    start_s : float
        Seconds for a kernel to start.
    cell_s : float or None
        Seconds for a cell; then it is interrupted, as by Ctrl-C. `None` is for ever.
    """

    start_s: float = 60
    cell_s: float | None = None


#: A minute to start, and no end to a cell.
PATIENT: Final = Limits()


@dataclass(frozen=True, slots=True)
class Pass:
    """What became of one pass.

    Attributes
    ----------
    notebook : NotebookNode
        With the outputs so far.
    cell : int
        How many code cells were executed, the one that stopped it included.
    error : str
        The class of what stopped it; "" if nothing did.
    lines : tuple of str
        What the cell showed then.
    memory : int or None
        The most memory that the kernel was seen to use, in bytes; `None` where that is not told.
    exit_code : int or None
        Of the kernel that died; negative for a signal.
    """

    ending: Ending
    notebook: NotebookNode
    cell: int = 0
    error: str = ""
    lines: tuple[str, ...] = ()
    memory: int | None = None
    exit_code: int | None = None


def execute(
    submitted: Submitted,
    environment: Mapping[str, str],
    *,
    log: IO[str],
    tell: Callable[[int, int], object] = lambda cell, cells: None,
    stop: Stop = NEVER,
    follow: Follow = UNSEEN,
    limits: Limits = PATIENT,
) -> Pass:
    """Execute all cells in a fresh kernel.

    A slow kernel is never taken for dead: what tells is its process, and no heartbeat.

    Parameters
    ----------
    submitted : Submitted
        What is executed; the kernel works in the folder where the notebook was.
    environment : Mapping
        The kernel's whole environment.
    log : file
        Gets what the kernel writes beside the cells: why it could not start, or crashed.
    tell : callable
        Told the number of the code cell that begins, from 1, and how many there are.
    stop : Stop
        When and how to stop.
    follow : Follow
        Who looks on.
    limits : Limits
        How long is waited for a kernel.
    """
    with private_sockets() as sockets:
        manager = AsyncKernelManager(kernel_name=submitted.kernel, log=_LOG, **sockets)
        worker = _Worker(
            manager, submitted, dict(environment), log, tell, stop.wanted, follow, limits
        )
        return _watch(worker, stop)


def _watch(worker: _Worker, stop: Stop) -> Pass:
    """Let the notebook run, and stop it where that is wanted."""
    worker.start()
    is_told = is_interrupted = False
    try:
        while worker.is_alive():
            worker.look()
            if stop.wanted.is_set() and not is_told:
                is_told = True
                stop.begin()
            if stop.at_once.is_set() and not is_interrupted:
                is_interrupted = True
                worker.signal(signal.SIGINT)
            worker.join(_WATCH_S)
    except BaseException:
        worker.give_up()
        raise
    return worker.outcome(broken_off=is_told)


class _Enough(Exception):
    """No further cell is to begin."""


class _Client(NotebookClient):
    """Tells what a cell shows while it is at work."""

    shows: Callable[[NotebookNode, int, NotebookNode | None], None]

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """Take in one message of the kernel."""
        output: NotebookNode | None = super().process_message(msg, cell, cell_index)
        self.shows(self.nb, cell_index, output)
        return output


class _Worker(threading.Thread):
    """Runs the notebook; a thread, because nbclient takes over Ctrl-C in the main one."""

    def __init__(
        self,
        manager: Any,
        submitted: Submitted,
        environment: dict[str, str],
        log: IO[str],
        tell: Callable[[int, int], object],
        enough: threading.Event,
        follow: Follow,
        limits: Limits,
    ) -> None:
        super().__init__(daemon=True, name="durable_nb notebook")
        self.notebook = notebook = submitted.notebook
        self._tell, self._enough, self._follow = tell, enough, follow
        self._last = new_code_cell(_FINISH, id="durable-nb-finish")  # type: ignore[no-untyped-call]
        notebook.cells.append(self._last)
        self.manager = manager
        self._client = _Client(
            notebook,
            km=manager,
            kernel_name=submitted.kernel,
            startup_timeout=limits.start_s,
            timeout=limits.cell_s,
            interrupt_on_timeout=True,
            coalesce_streams=True,
            on_cell_start=self._begun,
            log=_LOG,
        )
        self._client.shows = follow.shows
        self._client.owns_km = True  # so that it also ends the kernel
        self._arguments = {"cwd": str(submitted.works_in), "env": environment, "stderr": log}
        self._error: BaseException | None = None
        self._cell, self._memory, self._pid = 0, 0, 0
        self._code: int | None = None

    def run(self) -> None:
        try:
            self._client.execute(**self._arguments)
        except BaseException as error:  # handed to the thread that waits
            self._error = error

    def _begun(self, cell: NotebookNode, cell_index: int) -> None:
        if self._enough.is_set():
            raise _Enough
        if cell is self._last:
            return
        self._follow.begins(self.notebook, cell_index)
        if cell.cell_type != "code":
            return
        self._cell += 1
        self._tell(self._cell, sum(c.cell_type == "code" for c in self.notebook.cells) - 1)

    def look(self) -> None:
        """Note the kernel's process, how it ended, and how much memory it uses."""
        provisioner = getattr(self.manager, "provisioner", None)
        self._pid = getattr(provisioner, "pid", None) or self._pid
        process = getattr(provisioner, "process", None)
        if process is not None and process.poll() is not None:
            self._code = process.poll()
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{self._pid}/statm").read_text("ascii")
            self._memory = max(self._memory, int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    def signal(self, number: int) -> None:
        """Send a signal to the kernel."""
        self.look()
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def give_up(self) -> None:
        """End the kernel and wait for the thread: no kernel may stay behind."""
        deadline = time.monotonic() + _GRACE_S
        while self.is_alive() and time.monotonic() < deadline:
            self.signal(signal.SIGKILL)  # again and again: it may only just be starting
            self.join(0.1)

    def outcome(self, *, broken_off: bool) -> Pass:
        """Say how it ended."""
        notebook, error = self.notebook, self._error
        notebook.cells = [c for c in notebook.cells if c is not self._last]
        name, lines = "", tuple[str, ...]()
        if broken_off or isinstance(error, _Enough):
            ending = Ending.BROKEN_OFF
        elif error is None:
            ending = Ending.FINISHED
        elif isinstance(error, CellExecutionError):
            ending, name = Ending.STOPPED, error.ename
            lines = _shown(notebook) or (str(error),)
        elif isinstance(error, DeadKernelError) or self._code is not None:
            ending, name = Ending.DIED, type(error).__name__
        else:
            raise error
        return Pass(ending, notebook, self._cell, name, lines, self._memory or None, self._code)


def _shown(notebook: NotebookNode) -> tuple[str, ...]:
    """Give the lines of the error that the front end would show."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                return tuple(_COLOUR.sub("", "\n".join(output.traceback)).splitlines())
    return ()
