"""Ctrl-C in a cell that awaits.

ipykernel 7.4 does not act on SIGINT until the await ends. Here a handler cancels the cell's own
task at once, and first tells the open runs, whose bodies are shielded from any other cancellation.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType
from typing import Any, Final

from durable_nb.engine.context import OPEN

#: Coroutines that IPython makes a task of, one for each cell that awaits.
_CELL_COROUTINES: Final = frozenset({"run_cell_async", "run_code"})


def cell_task() -> asyncio.Task[Any] | None:
    """Give the task of an awaiting cell; `None` in a blocking one, whose task is the kernel's."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    if task is None:
        return None
    name = getattr(task.get_coro(), "__name__", "")
    return task if name in _CELL_COROUTINES else None


class CancelOnInterrupt:
    """From `install` to `remove`, SIGINT cancels the cell's task.

    Attributes
    ----------
    fired : bool
        Whether an interrupt came.
    """

    def __init__(self) -> None:
        self.fired = False
        self._task: asyncio.Task[Any] | None = None
        self._before: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def install(self) -> bool:
        """Take SIGINT over, if this is the task of an awaiting cell; tell whether it was done."""
        task = cell_task()
        if task is None or threading.current_thread() is not threading.main_thread():
            return False
        for run in OPEN.all():
            run.interrupted = False
        self._task, self._loop = task, task.get_loop()
        self._before = signal.signal(signal.SIGINT, self._handle)
        return True

    def remove(self) -> None:
        """Put the handler back that was there before."""
        if self._task is None:
            return
        self._task = None
        if signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        task, loop = self._task, self._loop
        if task is None or loop is None:
            return
        self.fired = True
        for run in OPEN.all():
            run.interrupt()
        loop.call_soon_threadsafe(task.cancel)
