"""Waiting, in async code, until what was recorded is on disk: one commit for all that wait.

Blocking code commits where it stands. A task would hold up all others by that, and each of a
thousand would pay for a commit of its own. So it records lazily, and waits here: when the loop
comes round, what all tasks have recorded meanwhile is committed at once, and they go on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from durable_nb.journal import deferred_interrupts

Loop = asyncio.AbstractEventLoop


class Durability:
    """The tasks of each event loop that wait for the next commit.

    Parameters
    ----------
    flush : callable
        Commits all that was recorded lazily.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._waiting: WeakKeyDictionary[Loop, list[asyncio.Future[None]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def reached(self) -> None:
        """Return once everything that was recorded before is on disk.

        A cancellation waits for that, too: the outcome of a body is not to be lost by it.

        Raises
        ------
        JournalUnwritable
            It could not be written; the next commit tries again.
        """
        loop = asyncio.get_running_loop()
        cancelled: asyncio.CancelledError | None = None
        while True:
            mine = loop.create_future()
            with self._lock:
                waiting = self._waiting.get(loop)
                if waiting is None:
                    waiting = self._waiting[loop] = []
                    loop.call_soon(self._commit, loop)
                waiting.append(mine)
            try:
                await mine
                break
            except asyncio.CancelledError as stop:
                cancelled = stop
        if cancelled is not None:
            raise cancelled

    def _commit(self, loop: Loop) -> None:
        """Commit for all that wait by now, and let them go on."""
        with deferred_interrupts():
            with self._lock:
                waiting = self._waiting.pop(loop, [])
            error: BaseException | None = None
            try:
                self._flush()
            except Exception as problem:
                error = problem
            for one in waiting:
                if one.done():  # cancelled: it waits anew
                    continue
                if error is None:
                    one.set_result(None)
                else:
                    one.set_exception(error)
