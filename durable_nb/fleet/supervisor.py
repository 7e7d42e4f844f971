"""The supervisor of one run: kernels, one after the other, until it is done or needs a person."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import nbformat

from durable_nb.engine.questions import Question
from durable_nb.engine.run import Run
from durable_nb.engine.store import open_run
from durable_nb.engine.supervised import PLAN, Plan, submitted_of
from durable_nb.engine.trajectory import QUIET
from durable_nb.engine.watched import watch
from durable_nb.fleet.claim import claimed
from durable_nb.fleet.errors import CrashLoop, RunTaken
from durable_nb.fleet.kernels import Ending, Pass, Stop, execute
from durable_nb.fleet.notebooks import Submitted
from durable_nb.journal import folder as folders
from durable_nb.model.errors import DurableError
from durable_nb.model.outcomes import Kind, RunStatus
from durable_nb.model.state import OperationState

#: So many kernels in a row that one operation ends: then it is left alone.
CRASH_LOOP: Final = 3
#: Seconds between two looks whether what is waited for has come.
_LOOK_S: Final = 0.5
#: What the cell ends with that waits for what needs no person here.
_WAITING: Final = frozenset({"SignalPending", "TimerPending"})
_SIGNAL: Final = "signal"
#: What answers that an outcome is unknown.
_DOUBTS: Final = frozenset({"confirm", "deny"})
_WHY_PAUSED: Final = "its supervisor was told to stop"
_TOLD_TO_STOP: Final = "it was told to stop; the run can be resumed"
#: Last lines that a dead kernel wrote, kept for the report.
_LOG_LINES: Final = 5


class End(StrEnum):
    """How a supervised run stands when its supervisor stops."""

    FINISHED = "finished"
    PERSON_NEEDED = "person needed"
    FAILED = "failed"
    BROKEN_OFF = "broken off"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a run.

    Attributes
    ----------
    run : str
        Its name.
    kernels : int
        How many were started.
    deaths : int
        How many of these died.
    why : str
        What stopped it, in one line; "" if it is finished.
    questions : tuple of Question
        What waits for a person.
    lines : tuple of str
        What the cell that stopped it showed.
    """

    run: str
    end: End
    kernels: int = 0
    deaths: int = 0
    why: str = ""
    questions: tuple[Question, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(slots=True)
class Supervisor:
    """Executes a notebook as a run, in as many kernels as it takes.

    Parameters
    ----------
    run : str
        Name of the run.
    submitted : Submitted
        What is executed.
    store : Path
        Where the run is.
    output : Path
        Where the executed notebook is written, after each pass.
    restarts : int
        How many dead kernels are replaced.
    tell : callable
        Told what happens, a line each.
    progress : callable
        Told the number of the cell that begins, and of how many.
    """

    run: str
    submitted: Submitted
    store: Path
    output: Path
    restarts: int = 5
    tell: Callable[[str], None] = lambda line: None
    progress: Callable[[int, int], None] = lambda cell, cells: None
    stop: Stop = field(default_factory=Stop)
    _paused: bool = False
    _kernels: int = 0
    _deaths: int = 0
    _ended_by: dict[str, int] = field(default_factory=dict)

    def supervise(self) -> Report:
        """Go on until the run is finished, a person is needed, or it has failed.

        Raises
        ------
        RunHeld
            A kernel, or another supervisor, has the run. Nothing was begun.
        RunTaken
            On record it executes another notebook, or other parameters. Nothing was begun.
        """
        with claimed(self.store, self.run), tempfile.TemporaryDirectory(prefix="durable-nb-") as at:
            report = self._before()
            plan = Path(at) / "plan.json"
            Plan(self.run, self.submitted.as_json()).save(plan)
            while report is None:
                report = self._judge(self._pass(plan))
            return replace(report, kernels=self._kernels, deaths=self._deaths)

    def _before(self) -> Report | None:
        """Look at what is on record before a kernel is started."""
        if not self._exists():
            return None
        with open_run(self.run, store=self.store, role="reader", surroundings=QUIET) as run:
            before, status = submitted_of(run), run.status()
            asked = for_a_person(run, next_kernel=True)
        if before is not None:
            now = self.submitted.as_json()
            for what in ("path", "parameters"):
                if before[what] != now[what]:
                    raise RunTaken(self.run, what, before[what], now[what])
            if before["text"] != now["text"]:
                self.tell(f"{self.submitted.path} has changed since run {self.run} was begun")
        if status == RunStatus.FINISHED:
            return Report(self.run, End.FINISHED, why="it was finished before")
        return self._needs(asked) if asked else None

    def _needs(self, asked: tuple[Question, ...], lines: tuple[str, ...] = ()) -> Report:
        return Report(self.run, End.PERSON_NEEDED, why=asked[0].text, questions=asked, lines=lines)

    def _pass(self, plan: Path) -> Pass:
        """Execute the notebook once, in a kernel of its own."""
        self._kernels += 1
        environment = {**os.environ, PLAN: str(plan), "DURABLE_STORE": str(self.store)}
        with (plan.parent / "kernel.log").open("w+", encoding="utf-8", errors="replace") as log:
            stop = replace(self.stop, begin=self._pause)
            found = execute(self.submitted, environment, log=log, tell=self.progress, stop=stop)
            if found.ending is Ending.DIED:
                log.seek(0)
                found = replace(found, lines=tuple(log.read().splitlines()[-_LOG_LINES:]))
        _write(found.notebook, self.output)
        return found

    def _pause(self) -> None:
        """Let nothing new begin in the run; it goes on again as the kernel has ended."""
        try:
            watch(self.run, store=self.store, surroundings=QUIET).pause(_WHY_PAUSED)
            self._paused = True
        except (
            DurableError
        ):  # it has no run yet, or is paused already: the next cell does not begin
            pass

    def _unpause(self) -> None:
        if self._paused:
            self._paused = False
            with open_run(self.run, store=self.store, role="operator", surroundings=QUIET) as run:
                run.unpause(_WHY_PAUSED)

    def _judge(self, found: Pass) -> Report | None:
        """Say how it stands after a pass; `None` to go on with another kernel."""
        self._unpause()
        self._deaths += found.ending is Ending.DIED
        if found.ending is Ending.BROKEN_OFF:
            return Report(self.run, End.BROKEN_OFF, why=_TOLD_TO_STOP)
        if not self._exists():
            if found.ending is Ending.FINISHED:
                return Report(self.run, End.FAILED, why="the notebook opens no run")
            why = _how(found) if found.ending is Ending.DIED else f"{found.error} in a cell"
            return Report(
                self.run, End.FAILED, why=f"{why}, before a run was opened", lines=found.lines
            )
        with open_run(self.run, store=self.store, role="reader", surroundings=QUIET) as run:
            asked = for_a_person(run, next_kernel=found.ending is Ending.DIED)
            pending = [s for s in run.states() if s.is_pending]
            at_work = _at_work(run)
        if asked:
            return self._needs(asked, found.lines)
        if found.ending is Ending.FINISHED:
            return Report(self.run, End.FINISHED)
        if found.ending is Ending.DIED:
            return self._after_death(found, at_work)
        if pending and found.error in _WAITING:
            return self._wait(pending)
        why = f"cell {found.cell} ended with {found.error}"
        return Report(self.run, End.FAILED, why=why, lines=found.lines)

    def _after_death(self, found: Pass, at_work: Sequence[str]) -> Report | None:
        """Replace a kernel that died, unless one operation has ended several in a row."""
        self._ended_by = {op: self._ended_by.get(op, 0) + 1 for op in at_work}
        for op, times in self._ended_by.items():
            if times >= CRASH_LOOP:
                loop = CrashLoop(op, times, found.memory)
                parked = open_run(self.run, store=self.store, surroundings=QUIET)
                parked.close(Kind.FAILED, loop)
                return Report(self.run, End.FAILED, why=str(loop))
        if self._deaths > self.restarts:
            why = f"{self._deaths} kernels have died ({_how(found)})"
            return Report(self.run, End.FAILED, why=why)
        self.tell(f"kernel {self._kernels} died ({_how(found)}); starting another one")
        return None

    def _wait(self, pending: Sequence[OperationState]) -> Report | None:
        """Wait for a timer or a signal, with no kernel."""
        names = {s.id for s in pending}
        due = [datetime.fromisoformat(s.intent["due"]) for s in pending if s.intent.get("due")]
        until = f" until {min(due):%Y-%m-%d %H:%M:%S} UTC" if due else ""
        self.tell(f"waiting{until}, with no kernel: {', '.join(sorted(names))}")
        while not self.stop.wanted.wait(_LOOK_S):
            if due and datetime.now(UTC) >= min(due):
                return None
            with open_run(  # which applies what has been sent
                self.run, store=self.store, role="operator", surroundings=QUIET
            ) as run:
                if not all(s.is_pending for s in run.states() if s.id in names):
                    return None
        return Report(self.run, End.BROKEN_OFF, why=_TOLD_TO_STOP)

    def _exists(self) -> bool:
        return self.run in folders.run_names(self.store)


def for_a_person(run: Run, *, next_kernel: bool) -> tuple[Question, ...]:
    """List what waits for a person; a signal may come from anywhere.

    Parameters
    ----------
    run : Run
        Held by whoever asks.
    next_kernel : bool
        Whether another kernel is to come: a doubt that its reconciler is asked about waits for it.
    """
    found = [q for q in run.status_view().questions if q.verb != _SIGNAL]
    if next_kernel:
        checked = {s.id for s in run.states() if s.intent.get("reconciles")}
        doubts = (q.view.id if q.view and q.verb in _DOUBTS else "" for q in found)
        found = [q for q, op in zip(found, doubts, strict=True) if op not in checked]
    return tuple(found)


def _at_work(run: Run) -> list[str]:
    """Name what was at work as a kernel died; not what has got on in that kernel, step by step."""
    states = list(run.states())
    ended = [s.id for s in states if s.epoch == run.fold.epoch and s.kind is not Kind.INTENDED]
    return [
        s.id
        for s in states
        if s.kind is Kind.INTENDED
        and s.wait is None
        and not any(op.startswith(f"{s.id}/") for op in ended)
    ]


def _how(found: Pass) -> str:
    """Say how a kernel ended."""
    code = found.exit_code
    used = f", at {found.memory / 1e6:,.0f} MB" if found.memory else ""
    if code is None:
        return f"no exit code is known{used}"
    return (f"signal {-code}" if code < 0 else f"exit code {code}") + used


def _write(notebook: Any, path: Path) -> None:
    """Write a notebook in one step."""
    part = path.with_name(f".{path.name}.part")
    nbformat.write(notebook, part)  # type: ignore[no-untyped-call]
    os.replace(part, path)
