"""Ctrl-C in a script reaches the bodies that are shielded from their callers' cancellation."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class InterruptBodies:
    """Lets the first Ctrl-C through to async bodies while there are any.

    `asyncio.run` turns it into a cancellation of the main task only, and a body does not listen
    to its caller's cancellation: without this, a second Ctrl-C would be needed. In a notebook the
    cell's own handler does the same.

    Parameters
    ----------
    interrupt : callable
        What reaches the bodies: `Run.interrupt`.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._bodies = 0
        self._before: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._bodies += 1
        if self._bodies == 1:
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):
                signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._bodies -= 1
        # `==`: each look at a bound method makes a new one
        if self._bodies == 0 and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._interrupt()
        self._before(signum, frame)
