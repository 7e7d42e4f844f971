"""The active run and operation: found from another cell, after an await, and from `to_thread`."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from durable_nb.engine.scope import Lineage, Scope, extend

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.run import Run
    from durable_nb.journal import Place


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a call stands.

    Attributes
    ----------
    run : Run
        Its run.
    scope : Scope
        Where it counts.
    operation : Operation or None
        The operation around it.
    lineage : Lineage
        The tasks and threads that it comes from.
    around : Frame or None
        The frame that it was entered from.
    """

    run: Run
    scope: Scope
    operation: Operation | None = None
    lineage: Lineage = field(default_factory=lambda: extend(()))
    around: Frame | None = None

    def here(self) -> Frame:
        """Give this frame as the running task or thread has it, and remember that."""
        lineage = extend(self.lineage)
        if lineage is self.lineage:
            return self
        frame = Frame(self.run, self.scope, self.operation, lineage, self.around)
        _frame.set(frame)
        return frame


_frame: Final[ContextVar[Frame | None]] = ContextVar("durable_nb_frame", default=None)


class OpenRuns:
    """The runs that this process holds, in the order they were opened.

    A context variable alone does not do: it is lost between cells and after an await.
    """

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._reached: dict[str, set[str]] = {}
        self.called: dict[str, str] = {}  #: what the program calls a run -> its name
        self._lock = threading.Lock()

    def add(self, run: Run) -> None:
        """Remember an opened run."""
        with self._lock:
            self._runs.append(run)

    def remove(self, run: Run) -> None:
        """Forget a closed one."""
        with self._lock:
            self._runs = [r for r in self._runs if r is not run]

    def reached(self, run_id: str) -> set[str]:
        """Give the operations of a run that this process has come to, in all of its openings."""
        with self._lock:
            return self._reached.setdefault(run_id, set())

    def at(self, place: Place) -> Run | None:
        """Give the run that this process holds at a place."""
        with self._lock:
            return next((r for r in self._runs if r.place == place), None)

    def latest(self) -> Run | None:
        """Give the run opened last."""
        with self._lock:
            return self._runs[-1] if self._runs else None

    def all(self) -> tuple[Run, ...]:
        """Give all of them."""
        with self._lock:
            return tuple(self._runs)


#: One per process, as the lease is.
OPEN: Final = OpenRuns()


def set_frame(frame: Frame | None) -> None:
    """Enter a frame in this context, or go back to one."""
    _frame.set(frame)


def current_context() -> Frame | None:
    """Give the frame of this context, whatever became of its run.

    An operation whose body was cut off left its frame behind: it is not inside of that any more.
    """
    frame = _frame.get()
    while frame is not None and frame.operation is not None and frame.operation.was_cut_off():
        frame = frame.around
    return frame


def frame_of(run: Run) -> Frame:
    """Give the frame for a call on a run that the caller holds in hand."""
    frame = current_context()
    return frame if frame is not None and frame.run is run else Frame(run, run.root)


def current_frame() -> Frame | None:
    """Give the frame of the running code.

    A plain thread that was not handed the run has none, even while one is open: its parent would
    be a guess.
    """
    frame = current_context()
    if frame is not None and frame.run.is_open:
        return frame
    latest = OPEN.latest()
    if latest is not None and threading.current_thread() is threading.main_thread():
        return Frame(latest, latest.root)
    return None


def current_run() -> Run | None:
    """Give the active run, if there is one.

    Returns
    -------
    Run or None
        The run that a decorated step called here would go to.
    """
    frame = current_frame()
    return frame.run if frame else None


def current_operation() -> Operation | None:
    """Give the operation whose body is running.

    Returns
    -------
    Operation or None
        `None` outside of steps.
    """
    frame = current_context()
    return frame.operation if frame is not None else None


def adopt_latest() -> None:
    """Let a new cell, and the threads it starts with `to_thread`, find the open run."""
    latest = OPEN.latest()
    _frame.set(None if latest is None else Frame(latest, latest.root))
