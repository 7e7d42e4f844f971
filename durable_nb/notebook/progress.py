"""One line under a long cell: how far it is, what it cost, and how long it has taken."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from durable_nb.engine.context import OPEN
from durable_nb.engine.run import Run
from durable_nb.engine.supervised import PLAN
from durable_nb.engine.usage import usd_text
from durable_nb.model.outcomes import Outcome
from durable_nb.notebook.display import INSET
from durable_nb.notebook.origin import ipython_origin, message_id

#: Seconds until a cell is a long one, and between two updates.
LONG_S: Final = 1.5
EVERY_S: Final = 0.5
#: How much of the name of what is under way is shown, in characters: its end tells it apart.
_LONGEST: Final = 60
#: What the page says by itself where no update comes any more: a kernel that is gone says nothing.
_LATE: Final = (
    "<style>@keyframes durable-nb-late { to { font-size: inherit } } .durable-nb-late::after { "
    'content: " · nothing heard since: the kernel is gone (then run all cells again), or too busy";'
    " font-size: 0; animation: durable-nb-late 0s linear 5s forwards }</style>"
    '<span class="durable-nb-late"></span>'
)
#: In a terminal: to the beginning of the line, which is emptied.
_OVER: Final = "\r\x1b[2K"


class Progress:
    """Shows how the cell of one shell comes on, while it is at work.

    Nothing is shown where nobody looks: not where a cell has no id, as in nbval, papermill and
    nbclient, nor in a run that a supervisor executes, nor in a terminal that is none.

    Parameters
    ----------
    shell : InteractiveShell
        Whose cells.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Watch the cell that begins."""
        self.end()
        show = self._how()
        if show is None:
            return
        counts = [Count.anew(run) for run in OPEN.all()]
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=_watch,
            args=(self._over, counts, time.monotonic(), show),
            name="durable_nb progress",
            daemon=True,
        )
        self._thread.start()

    def end(self) -> None:
        """Leave the last state of the line, if there is one."""
        thread, self._thread = self._thread, None
        self._over.set()
        if thread is not None:
            thread.join()

    def _how(self) -> Callable[[str, bool], None] | None:
        """Give what shows a line, and whether it is the last one; `None` where nobody looks."""
        if os.environ.get(PLAN):
            return None
        if getattr(self._shell, "kernel", None) is None:
            return _in_terminal if sys.stderr.isatty() else None
        origin, message = ipython_origin(), message_id(self._shell)
        if origin is None or not origin.has_id or not message:
            return None
        publish, shown = self._shell.display_pub.publish, threading.Event()

        def show(line: str, last: bool) -> None:
            late = "" if last else _LATE
            html = (
                f'<div class="durable-nb-progress" style="{INSET}" role="status">'
                f"{escape(line)}{late}</div>"
            )
            about = {"display_id": f"durable-nb-progress-{message}"}
            data = {"text/plain": line, "text/html": html}
            publish(data, transient=about, update=shown.is_set())
            shown.set()

        return show


@dataclass(slots=True)
class Count:
    """How many operations of a run the cell has reached, also those that one before it had.

    Attributes
    ----------
    reached : dict
        Those, each with where its result is from.
    """

    run: Run
    reached: dict[str, str]
    looked: int = 0
    steps: int = 0
    completed: int = 0
    recorded: int = 0
    _open: set[str] = field(default_factory=set)

    @classmethod
    def anew(cls, run: Run) -> Count:
        """Count what is reached from here on."""
        reached: dict[str, str] = {}
        run.sources.lately = reached
        return cls(run, reached)

    def look(self) -> None:
        """Count what is new since the last look."""
        run = self.run
        new = list(self.reached.items())[self.looked :]
        self.looked += len(new)
        for op, source in new:
            if op not in run.fold.containers:
                self.steps += 1
                self.recorded += source == "record"
                self._open.add(op)
        now = run.clock.now()
        for op in list(self._open):
            state = run.fold.operations.get(op)
            if state is None or state.outcome(now) is Outcome.COMPLETED:  # a pin retires it
                self.completed += 1
                self._open.discard(op)

    @property
    def at_work(self) -> int:
        """How many are at work that were not reached before."""
        return sum(op not in self.reached for op in self.under_way)

    @property
    def under_way(self) -> list[str]:
        """What is at work: an operation that others are below of is in one of those."""
        run = self.run
        return [op for op in list(run.live) if op not in run.fold.containers and run.is_live(op)]


def line_of(counts: list[Count], elapsed_s: float, *, over: bool = False) -> str:
    """Say how far a cell is; "" as long as it has reached nothing.

    Steps are those that the cell reached; money is what the whole run has cost. At the end stands
    what is under way, so that a killed kernel leaves on the page what was cut off.

    Parameters
    ----------
    counts : list of Count
        One a run, looked at.
    elapsed_s : float
        Seconds since the cell began.
    over : bool
        Whether this is the last line, in which nothing is under way.
    """
    steps = sum(count.steps + count.at_work for count in counts)
    if not steps:
        return ""
    completed = sum(count.completed for count in counts)
    recorded = sum(count.recorded for count in counts)
    done = f"{completed} completed" + (f", {recorded} of them from record" if recorded else "")
    money = [usd for usd in (c.run.fold.spending.as_dict()["usd"] for c in counts) if usd]
    which = "this run" if len(money) == 1 else "these runs"
    spent = [f"{usd_text(float(sum(money)))} in {which} so far"] if money else []
    minutes, seconds = divmod(int(elapsed_s), 60)
    hours, minutes = divmod(minutes, 60)
    took = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    now = [] if over else [op for count in counts for op in count.under_way]
    return " · ".join([f"this cell: step {steps}", done, *spent, took, *_named(now)])


def _named(ops: list[str]) -> list[str]:
    """Name what is under way, in few characters that can be sent."""
    if not ops:
        return []
    name = ops[0].encode("utf-8", "backslashreplace").decode("utf-8")
    name = name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
    return [f"{name} and {len(ops) - 1} more" if len(ops) > 1 else name]


def _watch(
    over: threading.Event,
    counts: list[Count],
    began: float,
    show: Callable[[str, bool], None],
) -> None:
    """Show the line once the cell is long; at its end it says the last state."""
    said = ""
    pause = LONG_S
    while True:
        is_over = over.wait(pause)
        if is_over and not said:
            return
        pause = EVERY_S
        try:
            known = {count.run.id for count in counts}
            counts += [Count(run, run.sources) for run in OPEN.all() if run.id not in known]
            for count in counts:
                count.look()
            said = line_of(counts, time.monotonic() - began, over=is_over) or said
            if said:
                show(said, is_over)
        except Exception:  # what only tells must not disturb what it tells of
            return
        if is_over:
            return


def _in_terminal(line: str, last: bool) -> None:
    width = shutil.get_terminal_size().columns - 1  # a line that is wrapped is not emptied whole
    sys.stderr.write(f"{_OVER}{line[:width]}" + ("\n" if last else ""))
    sys.stderr.flush()
