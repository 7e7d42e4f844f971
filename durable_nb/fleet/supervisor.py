"""The supervisor of one run: kernels, one after the other, until it is done or needs a person."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import nbformat

from durable_nb.engine.questions import Question
from durable_nb.engine.run import Run
from durable_nb.engine.store import open_run
from durable_nb.engine.supervised import PLAN, Plan, begun, submitted_of
from durable_nb.engine.trajectory import QUIET
from durable_nb.engine.watched import watch
from durable_nb.fleet.deaths import how_it_ended, record_death
from durable_nb.fleet.differences import (
    differences,
    files_differing,
    refuse_another,
    refuse_homeless,
    refuse_unwritable,
)
from durable_nb.fleet.errors import CrashLoop
from durable_nb.fleet.kernels import PATIENT, UNSEEN, Ending, Follow, Limits, Pass, Stop, execute
from durable_nb.fleet.notebooks import Submitted, submitted_from
from durable_nb.journal import Store
from durable_nb.model.errors import DurableError
from durable_nb.model.outcomes import Kind, RunStatus
from durable_nb.model.state import OperationState

#: Seconds between two looks whether what is waited for has come.
_LOOK_S: Final = 0.5
#: What the cell ends with that waits for what needs no person here.
_WAITING: Final = frozenset({"SignalPending", "TimerPending"})
_SIGNAL, _UNPAUSE = "signal", "unpause"
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
    WAITING = "waiting"  #: for a timer or a signal, and nobody stays to wait
    BROKEN_OFF = "broken off"
    LEFT_ALONE = "left alone"  #: among many: somebody else has it, or it waits


@dataclass(frozen=True, slots=True, repr=False)
class Supervised:
    """What became of a run that was executed without a front end.

    Attributes
    ----------
    run : str
        Its name.
    end : End
        ``finished``, ``person needed``, ``failed``, ``waiting``, ``broken off`` or ``left alone``.
    notebook : Path or None
        The executed notebook, if one was written.
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
    error : str
        The class of what stopped it; "" if that was no error in a cell.
    hopeless : bool
        Whether it would fail again just so.
    due : datetime or None
        When what it waits for comes by itself; aware.
    seq : int
        The last record when it was judged.
    """

    run: str
    end: End
    kernels: int = 0
    deaths: int = 0
    why: str = ""
    questions: tuple[Question, ...] = ()
    lines: tuple[str, ...] = ()
    notebook: Path | None = None
    error: str = ""
    hopeless: bool = False
    due: datetime | None = None
    seq: int = 0

    def to_text(self) -> str:
        """Tell how it stands, and the Python lines that settle what waits for a person."""
        found = [f"run {self.run}: {self.end}{told_of_kernels(self.kernels, self.deaths)}"]
        if self.why and not self.questions:  # which say it as well
            found.append(f"why: {self.why}")
        if self.questions:
            found.append(
                f"settle it with run = dnb.watch({self.run!r}), then dnb.resume({self.run!r}):"
            )
        for question in self.questions:
            found += [f"  {question.text}", f"    {question.line(self.run)}"]
        if self.notebook is not None:
            found.append(f"notebook: {self.notebook.name}")
        return "\n".join(found)

    __str__ = __repr__ = to_text


def told_of_kernels(kernels: int, deaths: int) -> str:
    """Tell how many there were: `` (3 kernels, of which 2 died)``; "" if none was started."""
    if not kernels:
        return ""
    died = f", of which {deaths} died" if deaths else ""
    return f" ({kernels} kernel{'s' * (kernels > 1)}{died})"


@dataclass(slots=True)
class Supervisor:
    """Executes a notebook as a run, in as many kernels as it takes.

    Parameters
    ----------
    run : str
        Name of the run.
    submitted : Submitted
        What is executed.
    store : Store
        Where the run is.
    output : Path or None
        Where the executed notebook is written, after each pass; `None` for whoever follows it.
    restarts : int
        How many dead kernels are replaced.
    tell : callable
        Told what happens, a line each.
    progress : callable
        Told the number of the cell that begins, and of how many.
    stop : Stop
        When and how to stop.
    follow : Follow
        Who looks on.
    limits : Limits
        How long is waited for a kernel.
    again : bool
        Go through a finished run once more: what is recorded comes from the record.
    stays : bool
        Whether to stay until a timer or a signal has come, or to leave that to whoever asked.
    strict : bool
        Begin nothing where files that the run has seen are missing or differ.
    """

    run: str
    submitted: Submitted
    store: Store
    output: Path | None
    restarts: int = 5
    tell: Callable[[str], object] = lambda line: None
    progress: Callable[[int, int], object] = lambda cell, cells: None
    stop: Stop = field(default_factory=Stop)
    follow: Follow = UNSEEN
    limits: Limits = PATIENT
    again: bool = False
    stays: bool = True
    strict: bool = False
    _kernels: int = 0
    _deaths: int = 0

    def supervise(self) -> Supervised:
        """Go on until the run is finished, a person is needed, or it has failed.

        Raises
        ------
        RunHeld
            A kernel, or another supervisor, has the run. Nothing was begun.
        RunTaken
            On record it executes another notebook, or other parameters. Nothing was begun.
        """
        refuse_unwritable(self.output)
        claim = self.store.claimed(self.run)
        with claim, tempfile.TemporaryDirectory(prefix="durable-nb-") as at:
            report = self._before()
            plan = Path(at) / "plan.json"
            Plan(self.run, self.submitted.as_json()).save(plan)
            while report is None:
                report = self._judge(self._pass(plan), begun(plan))
            written = self.output if self.output and self.output.exists() else None
            return replace(report, kernels=self._kernels, deaths=self._deaths, notebook=written)

    def _before(self) -> Supervised | None:
        """Look at what is on record before a kernel is started."""
        if not self._exists():
            return None
        self._unpause()
        with self._held("reader") as run:
            said, status = submitted_of(run), run.status()
            asked = for_a_person(run, next_kernel=True)
            before = None if said is None else submitted_from(said)
            refuse_homeless(self.submitted)
            refuse_another(self.run, before, self.submitted, status)
            found = differences(run, self.submitted, before)
            lacking = files_differing(run, self.submitted.works_in) if self.strict else []
        if status == RunStatus.FINISHED and not self.again:
            return Supervised(self.run, End.FINISHED, why="it was finished before")
        for line in found:
            self.tell(line)
        if status == RunStatus.FINISHED:
            self.tell("it was finished before: what is on record is shown, and not done again")
        if asked:
            return self._needs(asked, run.fold.last_seq)
        if lacking:
            return Supervised(self.run, End.FAILED, why="; ".join(lacking), hopeless=True)
        return None

    def _needs(
        self, asked: tuple[Question, ...], seq: int, lines: tuple[str, ...] = ()
    ) -> Supervised:
        return Supervised(
            self.run, End.PERSON_NEEDED, why=asked[0].text, questions=asked, lines=lines, seq=seq
        )

    def _pass(self, plan: Path) -> Pass:
        """Execute the notebook once, in a kernel of its own."""
        self._kernels += 1
        environment = {**os.environ, PLAN: str(plan), "DURABLE_STORE": self.store.address}
        with (plan.parent / "kernel.log").open("w+", encoding="utf-8", errors="replace") as log:
            stop = replace(self.stop, begin=self._pause)
            found = execute(
                self.submitted,
                environment,
                log=log,
                tell=self.progress,
                stop=stop,
                follow=self.follow,
                limits=self.limits,
            )
            if found.ending is Ending.DIED:
                log.seek(0)
                found = replace(found, lines=tuple(log.read().splitlines()[-_LOG_LINES:]))
        if self.output is not None:
            _write(found.notebook, self.output)
        return found

    def _pause(self) -> None:
        """Let nothing new begin in the run; it goes on again as the kernel has ended."""
        # No run yet, or paused already: then it is enough that the next cell does not begin.
        with contextlib.suppress(DurableError):
            watch(self.run, store=self.store, surroundings=QUIET).pause(_WHY_PAUSED)

    def _unpause(self) -> None:
        """Take back a pause of a supervisor: this one, or one that was killed before it could."""
        if not self._exists():
            return
        with self._held("reader") as run:
            is_ours = _is_paused_by_a_supervisor(run)
        if is_ours:
            with self._held("operator") as run:
                run.unpause(_WHY_PAUSED)

    def _held(self, role: str) -> Run:
        """Hold the run, between two kernels."""
        return open_run(self.run, store=self.store, role=role, surroundings=QUIET)

    def _judge(self, found: Pass, started: Mapping[str, int]) -> Supervised | None:
        """Say how it stands after a pass; `None` to go on with another kernel."""
        self._unpause()
        self._deaths += found.ending is Ending.DIED
        if found.ending is Ending.BROKEN_OFF:
            return Supervised(self.run, End.BROKEN_OFF, why=_TOLD_TO_STOP)
        if not self._exists():
            if found.ending is Ending.FINISHED:
                return Supervised(self.run, End.FAILED, why="the notebook opens no run")
            why = how_it_ended(found) if found.ending is Ending.DIED else f"{found.error} in a cell"
            why += ", before a run was opened"
            return Supervised(self.run, End.FAILED, why=why, lines=found.lines, error=found.error)
        died = found.ending is Ending.DIED
        role = "operator" if died else "reader"
        with self._held(role) as run:
            loop = record_death(run, found, started) if died else None
            asked = for_a_person(run, next_kernel=died)
            pending = [s for s in run.states() if s.is_pending]
            seq = run.fold.last_seq + died  # an operator's own end is a record as well
        if asked:
            return self._needs(asked, seq, found.lines)
        if found.ending is Ending.FINISHED:
            return Supervised(self.run, End.FINISHED)
        if died:
            return self._after_death(found, loop)
        if pending and found.error in _WAITING:
            return self._wait(pending, seq)
        why = f"cell {found.cell} ended with {found.error}"
        return Supervised(self.run, End.FAILED, why=why, lines=found.lines, error=found.error)

    def _after_death(self, found: Pass, loop: CrashLoop | None) -> Supervised | None:
        """Replace a kernel that died, unless one operation has ended several in a row."""
        if loop is not None:
            self._park(loop)
            return Supervised(self.run, End.FAILED, why=str(loop), hopeless=True)
        how = how_it_ended(found)
        if self._deaths > self.restarts:
            why = f"{self._deaths} kernels have died ({how}), and --restarts allows no more"
            return Supervised(self.run, End.FAILED, why=why)
        self.tell(f"kernel {self._kernels} died ({how}); starting another one")
        return None

    def _park(self, why: DurableError) -> None:
        """Leave the run as failed, with the reason on record."""
        self._held("runner").close(Kind.FAILED, why)

    def _wait(self, pending: Sequence[OperationState], seq: int) -> Supervised | None:
        """Wait for a timer or a signal, with no kernel."""
        names = {s.id for s in pending}
        due = [datetime.fromisoformat(s.intent["due"]) for s in pending if s.intent.get("due")]
        until = f" until {min(due):%Y-%m-%d %H:%M:%S} UTC" if due else ""
        if not self.stays:
            why = f"it waits for {', '.join(sorted(names))}{until}"
            return Supervised(self.run, End.WAITING, why=why, due=min(due, default=None), seq=seq)
        self.tell(f"waiting{until}, with no kernel: {', '.join(sorted(names))}")
        while not self.stop.wanted.wait(_LOOK_S):
            if due and datetime.now(UTC) >= min(due):
                return None
            with self._held("operator") as run:  # which applies what has been sent
                if not all(s.is_pending for s in run.states() if s.id in names):
                    return None
        return Supervised(self.run, End.BROKEN_OFF, why=_TOLD_TO_STOP)

    def _exists(self) -> bool:
        return self.store.place(self.run).exists()


def for_a_person(run: Run, *, next_kernel: bool) -> tuple[Question, ...]:
    """List what waits for a person; a signal may come from anywhere.

    Nor does a person take back the pause of a supervisor that was killed before it could.

    Parameters
    ----------
    run : Run
        Held by whoever asks.
    next_kernel : bool
        Whether another kernel is to come: a doubt that its reconciler is asked about waits for it.
    """
    nobodys = {_SIGNAL, _UNPAUSE} if _is_paused_by_a_supervisor(run) else {_SIGNAL}
    found = [q for q in run.status_view().questions if q.verb not in nobodys]
    if next_kernel:
        checked = {s.id for s in run.states() if s.intent.get("reconciles")}
        doubts = (q.view.id if q.view and q.verb in _DOUBTS else "" for q in found)
        found = [q for q, op in zip(found, doubts, strict=True) if op not in checked]
    return tuple(found)


def _is_paused_by_a_supervisor(run: Run) -> bool:
    paused = run.fold.paused
    return paused is not None and paused["reason"] == _WHY_PAUSED


def _write(notebook: Any, path: Path) -> None:
    """Write a notebook in one step."""
    part = path.with_name(f".{path.name}.part")
    nbformat.write(notebook, part)  # type: ignore[no-untyped-call]
    os.replace(part, path)
