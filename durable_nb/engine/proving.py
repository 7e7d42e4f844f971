"""The threads of a map: one does what is done at once, and many what takes its time.

A thread that waits for each of its commits is woken for each, and takes turns with all others for
the interpreter's lock. So a map of steps whose intents may ride begins with one thread, which
records its outcomes lazily and goes on to the next item; whoever waits for the map commits what has
come together, and gives nothing back before all of it is on disk. Where bodies take their time
there are more threads, and each waits for its own commits, which they share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from durable_nb.engine.entered import STOPS

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

#: Seconds between two looks at the one thread, and over which the processor's use is told.
_MOMENT_S: Final = 0.003
_WINDOW_S: Final = 0.02
#: Shares of one processor below which it is idle: at any look, and over a whole window.
_IDLE: Final = 0.25
_SLACK: Final = 0.6


class Proving:
    """Has no more threads for a map than it takes, and brings to the disk what one of them records.

    Parameters
    ----------
    run : Run
        Whose threads they are.
    ahead : int
        Results that may wait for the next commit; a thread that has one more commits by itself.

    Attributes
    ----------
    lazily : bool
        Whether an item that begins now may record its outcome lazily, and is noted.
    """

    def __init__(self, run: Run, ahead: int) -> None:
        self._run, self._most, self._ahead = run, ahead, 0
        self._news = threading.Event()
        self._begun = self._through = self._ended = 0
        self.lazily = False

    def note(self, lazily: bool) -> None:
        """Say, in a thread, that an item has ended, and whether its outcome is recorded lazily."""
        if not lazily:
            return
        self._ended += 1
        self._ahead += 1
        if self._ahead > self._most:
            self._prove()
        if not self._news.is_set():
            self._news.set()

    def is_through(self) -> None:
        """Say, in a thread, that it takes no further item."""
        with self._run.lock:
            self._through += 1
        self._news.set()

    def give_up(self) -> None:
        """Let each thread commit by itself from now on."""
        self._most, self.lazily = 0, False

    def attend(
        self,
        begin: Callable[[], object],
        most: int,
        *,
        few: bool,
        on_problem: Callable[[], object],
    ) -> None:
        """Begin threads, and commit whenever there is something, until all are through.

        Parameters
        ----------
        begin : callable
            Begins one thread.
        most : int
            How many there may be.
        few : bool
            Begin with one, and have all of them once it leaves the processor idle, or takes its
            time for an item; otherwise with all of them.
        on_problem : callable
            Called if it cannot be written: nothing more is to begin.

        Raises
        ------
        JournalUnwritable, RunClosed, RunHeld
            It could not be written; nothing more has begun, and what was under way has ended.
        """
        problem: BaseException | None = None
        self._begin(begin, 1 if few else most, alone=few and most > 1)
        while self._through < self._begun:
            if self.lazily and self._has_room():
                self._begin(begin, most)
            if not self._news.wait(_MOMENT_S if self.lazily else None):
                continue
            self._news.clear()
            try:
                self._prove()
            except STOPS as error:
                problem = problem or error
                on_problem()
            self.lazily = self.lazily and not self._through  # nothing is left for more of them
        self._prove()
        if problem is not None:
            raise problem

    def _begin(self, begin: Callable[[], object], wanted: int, *, alone: bool = False) -> None:
        """Have so many threads."""
        self.lazily = alone
        self._look()
        while self._begun < wanted:
            begin()
            self._begun += 1

    def _look(self) -> None:
        """Begin a window."""
        self._looked, self._used, self._done = time.monotonic(), _used_s(), self._ended

    def _has_room(self) -> bool:
        """Tell whether more threads would be through sooner, which share one interpreter."""
        passed, spent = time.monotonic() - self._looked, _used_s() - self._used
        if passed > _MOMENT_S and spent < _IDLE * passed:
            return True
        if passed < _WINDOW_S:
            return False
        slow = spent < _SLACK * passed or self._ended == self._done
        self._look()
        return slow

    def _prove(self) -> None:
        if self._ahead:
            self._ahead = 0
            self._run.make_durable()


def _used_s() -> float:
    """Give the processor time of all threads but this one, which commits."""
    return time.process_time() - time.thread_time()
