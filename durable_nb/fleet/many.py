"""Taking up all that was left: every run of a store that nobody executes and no person holds up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from durable_nb.engine import listing
from durable_nb.engine.run import Run
from durable_nb.fleet.errors import NotebookUnusable
from durable_nb.fleet.kernels import Stop
from durable_nb.fleet.notebooks import Submitted
from durable_nb.fleet.supervising import RESTARTS, looking, output_of, stopping, submitted_in
from durable_nb.fleet.supervisor import End, Supervised, Supervisor, for_a_person
from durable_nb.journal import Store, StoreLike, mirror, store_of
from durable_nb.journal.owner import Role
from durable_nb.model.errors import DurableError, RunHeld
from durable_nb.model.outcomes import RunStatus

#: Of a run that nobody executes, and that is not at its end.
_LEFT: Final = frozenset({RunStatus.CRASHED, RunStatus.WAITING})
#: Of one that is at its end.
_ENDED: Final = frozenset({RunStatus.CLOSED, RunStatus.FAILED, RunStatus.FINISHED})
_STOPPED: Final = "it was told to stop before this one"


def resume_all(
    *,
    jobs: int = 1,
    restarts: int = RESTARTS,
    store: StoreLike | None = None,
    tell: Callable[[str], object] = print,
) -> tuple[Supervised, ...]:
    """Take up every run whose kernel crashed and that has its notebook on record.

    One that waits for a person is told of, and nothing is started in it. One that somebody else
    takes at this moment, or whose timer is not due, is left alone. Ctrl-C stops all of them.

    Parameters
    ----------
    jobs : int
        How many at the same time.
    restarts : int
        Dead kernels that are replaced, in each run.
    store : path, optional
        As for `open_run`.
    tell : callable
        Told what happens, a line each; from several threads.

    Returns
    -------
    tuple of Supervised
        Of each run that was left, by name; `end` is ``left alone`` where it was not taken up.
    """
    stop = Stop()
    many = Many(store_of(store), restarts, stop, tell)
    with stopping(stop, tell):
        return many.take_up(jobs)


@dataclass(frozen=True, slots=True)
class Many:
    """Takes up all runs of a store that are left.

    Parameters
    ----------
    root : Store
        Where the runs are.
    restarts : int
        Dead kernels that are replaced, in each run.
    stop : Stop
        When and how to stop all of them.
    tell : callable
        Told what happens, a line each.
    progress : callable
        Told what is being done; the next such text takes its place.
    """

    root: Store
    restarts: int
    stop: Stop
    tell: Callable[[str], object]
    progress: Callable[[str], object] = lambda text: None

    def take_up(self, jobs: int) -> tuple[Supervised, ...]:
        """Take them up, some at the same time."""
        with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
            return tuple(found for found in pool.map(self._told, self._left()) if found)

    def _left(self) -> list[str]:
        """Name the runs that nobody executes, and that are not at their end.

        One that somebody holds only to look at it may be among them: the claim decides.
        """
        listing.refresh(self.root)
        frame = listing.query_of(self.root, "SELECT name, status FROM runs")
        known = dict(zip(frame["name"], frame["status"], strict=True))
        names = []
        for name, (holder, _) in self.root.overview().items():
            looked_at = holder is not None and holder.live and holder.info.role != Role.RUNNER
            status = mirror.standing(holder, known.get(name))
            if status in _LEFT or (looked_at and status not in _ENDED):
                names.append(name)
        return names

    def _told(self, name: str) -> Supervised | None:
        found = self._one(name)
        if found is not None:
            self.tell(f"{name}: {found.end}")
        return found

    def _one(self, name: str) -> Supervised | None:
        """Take up one run, or tell why it is left alone: it must not stop the others."""
        if self.stop.wanted.is_set():
            return Supervised(name, End.BROKEN_OFF, why=_STOPPED)
        try:
            look = self._look(name)
            if isinstance(look, Supervised):
                return look
            return Supervisor(
                name,
                look,
                self.root,
                output_of(look, name),
                self.restarts,
                tell=lambda line: self.tell(f"{name}: {line}"),
                progress=lambda n, of: self.progress(f"{name}: cell {n} of {of} ..."),
                stop=self.stop,
            ).supervise()
        except (RunHeld, NotebookUnusable) as problem:
            return _left_alone(name, str(problem))
        except (DurableError, OSError) as problem:
            return Supervised(name, End.FAILED, why=str(problem))

    def _look(self, name: str) -> Submitted | Supervised:
        """Give what a run executes, or why it is not taken up."""
        with looking(name, self.root) as run:
            status, submitted = RunStatus(run.status()), submitted_in(run)
            asked, waits = for_a_person(run, next_kernel=False), _waits(run)
        if status not in _LEFT:
            return _left_alone(name, f"it is {status}: somebody else has taken it up")
        if status is RunStatus.WAITING and asked:
            return Supervised(name, End.PERSON_NEEDED, why=asked[0].text, questions=asked)
        if status is RunStatus.WAITING and waits:
            return _left_alone(name, waits)
        return submitted


def _waits(run: Run) -> str:
    """Tell what a run waits for that has not come; "" if there is nothing, or it is due."""
    pending = [s for s in run.states() if s.is_pending]
    due = [datetime.fromisoformat(s.intent["due"]) for s in pending if s.intent.get("due")]
    if not pending or (due and min(due) <= datetime.now(UTC)):
        return ""
    until = f", until {min(due):%Y-%m-%d %H:%M:%S} UTC" if due else ""
    return f"it waits for {', '.join(s.id for s in pending)}{until}"


def _left_alone(name: str, why: str) -> Supervised:
    return Supervised(name, End.LEFT_ALONE, why=why)
