"""One turn of a run: a worker opens it, executes what was submitted, and puts it down."""

from __future__ import annotations

import json
import os
import platform
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from durable_nb import values
from durable_nb.fleet.errors import NotebookUnusable, RunTaken
from durable_nb.fleet.kernels import Stop
from durable_nb.fleet.needs import lacking
from durable_nb.fleet.notebooks import Submitted, submitted_from
from durable_nb.fleet.queue import Again
from durable_nb.fleet.supervising import RESTARTS, output_of
from durable_nb.fleet.supervisor import End, Supervised, Supervisor
from durable_nb.journal import Store
from durable_nb.journal.postgres.errors import StoreUnreachable
from durable_nb.journal.postgres.fleet import FleetState, FleetTable, Turn
from durable_nb.model.errors import DurableError, RunHeld
from durable_nb.values.signing import key_file

#: A run that has failed so many times is parked.
PARKED_AFTER: Final = 5
#: Seconds until it is tried again: so many to the power of how often it has failed.
_BACKOFF: Final = 2.0
#: Seconds until a run is looked at again that somebody else has, or that cannot be reached.
_LATER_S: Final = 5.0
#: What a cell ends with that is no failure of the run: its kernel was succeeded, or cut off.
_CIRCUMSTANCES: Final = frozenset({"RunHeld", "StaleOwner", "StoreUnreachable", "StoreRefused"})
_STATES: Final = {
    End.FINISHED: FleetState.FINISHED,
    End.PERSON_NEEDED: FleetState.PERSON_NEEDED,
    End.WAITING: FleetState.WAITING,
}
_LINES: Final = 12
_STOPPED: Final = "its worker was told to stop"


def signed(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Sign what a run of the fleet executes, with the key of this user."""
    return {**document, "signature": values.sign(_context(name), _signable(document))}


def is_signed(name: str, document: Mapping[str, Any]) -> bool:
    """Tell whether it was signed with the key that this user has."""
    rest = {key: said for key, said in document.items() if key != "signature"}
    return values.is_signed(_context(name), _signable(rest), document.get("signature"))


def this_worker() -> str:
    """Say who this is, for others."""
    return f"process {os.getpid()} on {platform.node()}"


@dataclass(frozen=True, slots=True)
class Turns:
    """Executes runs as they are given to this worker.

    Parameters
    ----------
    store : Store
        Where the runs are.
    table : FleetTable
        What the fleet executes.
    stop : Stop
        When and how to stop all of them.
    tell : callable
        Told what happens, a line each; from several threads.
    restarts : int
        Dead kernels that are replaced, in each turn.
    worker : str
        Who this is.
    """

    store: Store
    table: FleetTable
    stop: Stop
    tell: Callable[[str], object]
    restarts: int = RESTARTS
    worker: str = field(default_factory=this_worker)

    def take(self, name: str) -> None:
        """Execute a run until it stops, and put it down.

        Raises
        ------
        Again
            It is to have another turn.
        """
        turn = self.table.begin(name, self.worker)
        if turn is None:
            return
        try:
            report = self._execute(turn)
        except RunHeld as other:
            report = Supervised(name, End.LEFT_ALONE, why=str(other))
        except StoreUnreachable as problem:
            report = Supervised(name, End.LEFT_ALONE, why=str(problem))
        except (NotebookUnusable, RunTaken) as problem:
            report = Supervised(name, End.FAILED, why=str(problem), hopeless=True)
        except (DurableError, OSError) as problem:
            report = Supervised(name, End.FAILED, why=str(problem), error=type(problem).__name__)
        except Exception as problem:  # a mistake of ours must not end the worker
            lines = tuple(traceback.format_exception(problem))
            report = Supervised(name, End.FAILED, why=repr(problem), lines=lines)
        self._put_down(turn, report)

    def _execute(self, turn: Turn) -> Supervised:
        name, document = turn.name, turn.submitted
        submitted = submitted_from(document)
        if not is_signed(name, document):
            raise NotebookUnusable(
                f"run {name!r}",
                "its notebook was not submitted with the key of this worker's user",
                f"If it is yours, bring the key of the machine where it was submitted to this one "
                f"({key_file()}), then: durable-nb submit --run {name}",
            )
        if missing := lacking(document["needs"], submitted):
            why = f"{self.worker} lacks what it needs: {'; '.join(missing)}"
            return Supervised(name, End.FAILED, why=why, hopeless=True)
        self.tell(f"{name}: begins")
        return Supervisor(
            name,
            submitted,
            self.store,
            _output(submitted, name),
            self.restarts,
            tell=lambda line: self.tell(f"{name}: {line}"),
            stop=self.stop,
            stays=False,
            strict=True,
        ).supervise()

    def _put_down(self, turn: Turn, report: Supervised) -> None:
        """Say where the run stands now; whoever was succeeded says nothing."""
        end = report.end
        if end is End.FAILED and report.error in _CIRCUMSTANCES:
            end = End.LEFT_ALONE
        self.tell(f"{turn.name}: {end}" + (f" ({report.why})" if report.why else ""))
        if end in _STATES:
            due = None if report.due is None else (report.due - datetime.now(UTC)).total_seconds()
            state = _STATES[end]
            self.table.put_down(
                turn, state, report.why, seq=report.seq, due_s=due, failures=_forgiven(state)
            )
        elif end is End.FAILED:
            self._failed(turn, report)
        else:
            in_s = 0.0 if end is End.BROKEN_OFF else _LATER_S
            why = _STOPPED if end is End.BROKEN_OFF else report.why
            self.table.put_down(turn, FleetState.QUEUED, why)
            raise Again(in_s)

    def _failed(self, turn: Turn, report: Supervised) -> None:
        """Try it again later, unless it has failed too often or would fail just so."""
        failure = {
            "why": report.why,
            "worker": self.worker,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "lines": list(report.lines[-_LINES:]),
        }
        failures = [*turn.failures, failure]
        if report.hopeless or len(failures) >= PARKED_AFTER:
            self.table.put_down(turn, FleetState.PARKED, report.why, failures=failures)
            return
        self.table.put_down(turn, FleetState.QUEUED, report.why, failures=failures)
        raise Again(_BACKOFF ** len(failures))


def _forgiven(state: FleetState) -> list[Mapping[str, Any]] | None:
    """Forget earlier failures of a run that came through."""
    return [] if state is FleetState.FINISHED else None


def _output(submitted: Submitted, run: str) -> Path | None:
    """Give where the executed notebook is written; nowhere if this machine cannot."""
    path = output_of(submitted, run)
    return path if path.parent.is_dir() and os.access(path.parent, os.W_OK) else None


def _context(name: str) -> str:
    return f"fleet {name}"


def _signable(document: Mapping[str, Any]) -> dict[str, str]:

    return {"submitted": json.dumps(document, sort_keys=True)}
