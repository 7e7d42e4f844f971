"""The thread by which an owner tells others, again and again, that it lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from durable_nb.model.errors import StaleOwner

#: Seconds between heartbeats.
HEARTBEAT: Final = 5.0
#: Seconds to the first one: soon, so that others see what was opened, and long enough that a short
#: script never pays for it.
_FIRST: Final = 0.2


class Heartbeat:
    """Beats from a thread of its own, which raises to nobody.

    Parameters
    ----------
    run : str
        Name of the run, for the name of the thread.
    beat : callable
        Does one beat.
    note : callable
        Told each failure.
    """

    def __init__(self, run: str, beat: Callable[[], None], note: Callable[[str], None]) -> None:
        self._run, self._beat, self._note = run, beat, note
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, every: float) -> None:
        """Begin to beat, every so many seconds; a second time does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._go_on, args=(every,), name=f"durable_nb lease {self._run}", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End it, and wait for a beat that is under way."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=HEARTBEAT)

    def _go_on(self, every: float) -> None:
        """Beat until it is stopped, or the run has another owner."""
        pause = min(every, _FIRST)
        while not self._stop.wait(pause):
            pause = every
            try:
                self._beat()
            except StaleOwner as lost:
                self._note(f"heartbeat: {lost.why}")
                return
            except Exception as error:
                self._note(f"heartbeat: {type(error).__name__}: {error}")
