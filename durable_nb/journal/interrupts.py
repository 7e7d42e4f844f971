"""SIGINT waits while a record is being written.

An interrupted DuckDB commit may be committed all the same, and surfaces as an ordinary
`RuntimeError` as often as a `KeyboardInterrupt`. So the interrupt is noted, and delivered once the
batch is acknowledged.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from durable_nb.journal.process import THIS

# The functions under those of `signal`, which make members of an enum of what they give: that
# takes longer than all else here.
_getsignal, _setsignal = _signal.getsignal, _signal.signal
_SIGINT, _SIG_IGN = int(signal.SIGINT), int(signal.SIG_IGN)

_get_ident = threading.get_ident


class _State:
    """The one swap of the process: only the main thread touches it."""

    __slots__ = ("depth", "noted", "previous", "swapped")

    def __init__(self) -> None:
        self.depth = 0
        self.swapped = False
        self.noted: tuple[int, FrameType | None] | None = None
        self.previous: Any = None


_state = _State()


def _note(signum: int, frame: FrameType | None) -> None:
    """Remember the interrupt for later."""
    _state.noted = (signum, frame)


def interrupt_waits() -> bool:
    """Tell whether an interrupt is held back that this thread will have to hear of."""
    return _state.noted is not None and _get_ident() == THIS.main


class deferred_interrupts:
    """Hold SIGINT back for the length of a `with` block.

    Re-entrant; does nothing outside the main thread, where Python never runs signal handlers. A
    handler that somebody else installed (ipykernel's, asyncio's) is called with the signal's own
    arguments afterwards. If the block raises as well, the interrupt comes on top of that error.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        if _get_ident() != THIS.main:
            return
        if not _state.depth:
            previous = _getsignal(_SIGINT)
            # None: a handler that C installed, which Python could not put back.
            if previous is not None and previous != _SIG_IGN:
                _state.previous, _state.noted = previous, None
                # From the next line on nothing can raise, so the depth is never left behind.
                _setsignal(_SIGINT, _note)
                _state.swapped = True
        _state.depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if _get_ident() != THIS.main or not _state.depth:  # 0: forked in here, by another thread
            return
        _state.depth -= 1
        if _state.depth or not _state.swapped:
            return
        _state.swapped = False
        previous = _state.previous
        _state.previous = None
        current = _getsignal(_SIGINT)
        if current is _note:
            _setsignal(_SIGINT, previous)  # runs a pending `_note` first
        else:
            previous = current  # the block installed a handler of its own: it stays
        noted, _state.noted = _state.noted, None
        if noted is None:
            return
        if callable(previous):
            previous(*noted)
        elif previous == signal.SIG_DFL:
            os.kill(os.getpid(), signal.SIGINT)
