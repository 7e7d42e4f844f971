"""Resumable agents in notebooks: a killed kernel goes on in the middle of the trajectory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine import store as _store
from durable_nb.engine.context import current_operation, current_run
from durable_nb.engine.credentials import Credentials
from durable_nb.engine.evidence import DidNotHappen, Happened, Undecided
from durable_nb.engine.fork import Forked
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import http_rejected
from durable_nb.engine.pinned import Loop
from durable_nb.engine.run import Run
from durable_nb.engine.stage import Stage
from durable_nb.engine.step import Step, step
from durable_nb.engine.terms import Terms
from durable_nb.engine.trajectory import Surroundings
from durable_nb.engine.usage import UsageLine, UsageReport
from durable_nb.engine.views import OperationView, StatusView
from durable_nb.engine.watched import Watched
from durable_nb.engine.watched import watch as _watch
from durable_nb.journal.errors import ArchiveRefused
from durable_nb.model.control import (
    ApprovalPending,
    ApprovalRejected,
    BudgetExceeded,
    NotAwaited,
    RunPaused,
    ScopeDenied,
    SignalPending,
    TimerPending,
)
from durable_nb.model.errors import (
    AlreadySettled,
    BadName,
    DuplicateStep,
    DurableError,
    DurableSignal,
    IncompatibleCheckpoint,
    JournalDamaged,
    JournalTooNew,
    JournalUnwritable,
    NestedEffect,
    NoActiveRun,
    NotApplied,
    NotRecordable,
    NotTrusted,
    OperationMissing,
    OutputUnknown,
    OwnerRefused,
    ResultLost,
    ResultNotLoadable,
    RunClosed,
    RunCopied,
    RunHeld,
    RunMissing,
    StaleOwner,
    StepFailed,
    StillRunning,
    UnguardedStep,
    UnknownOutcome,
    VerdictRefused,
)
from durable_nb.values import register_codec

if TYPE_CHECKING:
    import pandas as pd

    from durable_nb.engine.archive import Exported, Imported, export_run, import_run
    from durable_nb.engine.compare import Named as _Named
    from durable_nb.engine.gc import Garbage, gc
    from durable_nb.engine.listing import runs, sql
    from durable_nb.engine.picture.timeline import TimelinePicture
    from durable_nb.engine.recover import Recovered, recover
    from durable_nb.engine.report import Finding, Report, RunDamaged
    from durable_nb.engine.verify import verify
    from durable_nb.fleet.errors import CrashLoop, NotebookUnusable, RunTaken
    from durable_nb.fleet.many import resume_all
    from durable_nb.fleet.submitting import fleet_runs, submit
    from durable_nb.fleet.supervising import resume, supervise
    from durable_nb.fleet.supervisor import Supervised
    from durable_nb.fleet.worker import work

__version__ = "0.1.0"

#: What keeps and looks through runs, by module: brought when it is used first.
_LATER: Final = {
    "engine.archive": ("Exported", "Imported", "export_run", "import_run"),
    "engine.gc": ("Garbage", "gc"),
    "engine.listing": ("runs", "sql"),
    "engine.picture.timeline": ("TimelinePicture",),
    "engine.recover": ("Recovered", "recover"),
    "engine.report": ("Finding", "Report", "RunDamaged"),
    "engine.verify": ("verify",),
    "fleet.errors": ("CrashLoop", "NotebookUnusable", "RunTaken"),
    "fleet.many": ("resume_all",),
    "fleet.submitting": ("fleet_runs", "submit"),
    "fleet.supervising": ("resume", "supervise"),
    "fleet.supervisor": ("Supervised",),
    "fleet.worker": ("work",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"durable_nb.{module}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open_run(
    name: str,
    *,
    store: str | os.PathLike[str] | None = None,
    must_exist: bool = False,
    fresh: bool | str = False,
    expect: Iterable[str] = (),
    adopt: str | None = None,
    version: str | None = None,
    facets: Mapping[str, Any] | None = None,
    scopes: Iterable[str] | None = None,
    budget: Mapping[str, float] | None = None,
    on_change: str | Callable[[Any, Any], Any] | None = None,
    credentials: Callable[[tuple[str, ...]], Any] | None = None,
    allow_network_fs: bool = False,
) -> Run:
    """Open or resume a run: for a notebook's whole life, or for a ``with`` block.

    `run` is the same function. Leaving the block closes the run, and an error that leaves it makes
    the run failed.

    Parameters
    ----------
    name : str
        The run's name: what you call the job, the same in each kernel.
    store : path or text, optional
        The folder of run folders, or a database: ``postgresql://user@host/database``. Default:
        `DURABLE_STORE`, else the nearest ``.durable`` upwards, else ``./.durable``.
    must_exist : bool
        Refuse to begin a new run.
    fresh : bool or "finished"
        Set the old folder aside and begin anew, under a new run id: with True whenever this is
        called, so that what is on record is done again; with "finished" only where the last run of
        this name has come to its end (`Run.finish`), while one that was cut off is resumed.
    expect : iterable of str
        Names of steps to come, so that a status shows what was not reached yet.
    adopt : {"moved", "abandoned", "fork"}, optional
        Why the run is found in another folder than it was executed in: the old one is gone; this
        is a copy, and the other is not executed any more; or both go on, and what begins here
        gets idempotency keys of its own. Without need it says nothing.
    version : str, optional
        Of the workflow. Another one than was recorded asks before anything goes on.
    facets : Mapping, optional
        What every result depends on, by name: ``{"model": "m-1", "prompt": PROMPT, "tools":
        [search, refund]}``; of a function its signature and description count.
    scopes : iterable of str, optional
        What its steps may do at most; recorded at birth, never widened by a resume.
    budget : Mapping, optional
        ``usd``, ``tokens``, ``calls``, ``seconds``: what it may spend in all its kernels.
    on_change : {"rerun", "keep", "ask"} or callable, optional
        What to do about a change, for steps that do not say so themselves.
    credentials : callable, optional
        Called with the recorded scopes; `Run.credentials` is what it gives.
    allow_network_fs : bool
        Use a network file system all the same.

    Returns
    -------
    Run
        Opened twice in one process, the same object. Nothing is executed by opening.

    Raises
    ------
    RunHeld, RunMissing, RunCopied, BadName, NotTrusted, JournalDamaged, JournalTooNew
        In each case nothing was changed.
    """
    return _store.open_run(
        name,
        store=store,
        must_exist=must_exist,
        fresh=fresh,
        expect=expect,
        adopt=adopt,
        terms=Terms(
            version=version,
            facets=facets,
            scopes=scopes,
            budget=budget,
            on_change=on_change,
            credentials=credentials,
        ),
        allow_network_fs=allow_network_fs,
        **_surroundings(),
    )


#: The same, as it reads in a `with`: ``with durable_nb.run("refund-17") as run:``.
run = open_run


def watch(name: str, *, store: str | os.PathLike[str] | None = None) -> Watched:
    """Watch and settle a run from where it is not executed, whoever holds it.

    Parameters
    ----------
    name : str
        The run's name.
    store : path, optional
        As for `open_run`.

    Returns
    -------
    Watched
        With a run's own operator verbs: ``status_view, operations, unknown, history, audit,
        report, confirm, deny, invalidate, keep, rerun, approve, reject, signal, accept, grant,
        reconcile, fork, timeline, panel``. A live run in another process is shown from its mirror,
        which is renewed within two seconds of a change, but not before 66 times as long as the
        last renewal took; what is asked of it is done by its owner, which answers within two
        seconds.

    Raises
    ------
    RunMissing, BadName, NotTrusted
        Nothing was changed.
    """
    around = _surroundings().get("surroundings", _store.SCRIPT)
    return _watch(name, store=store, surroundings=around)


def panel(*, store: str | os.PathLike[str] | None = None) -> None:
    """Show all runs of a store: where each stands, what it has cost, and what waits for a person.

    In a notebook it is a live table from which the panel of each run opens; in a script, text.
    Nothing is opened or executed.

    Parameters
    ----------
    store : path or str, optional
        As for `open_run`.
    """
    from durable_nb.engine.overview import overview
    from durable_nb.notebook.origin import current_shell

    if current_shell() is None:
        print(overview(store))
        return
    from durable_nb.journal import store_of
    from durable_nb.notebook.panel import show_runs

    show_runs(store_of(store))


def compare(a: _Named, b: _Named, *, store: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Show two runs side by side, such as a run and its fork.

    Parameters
    ----------
    a, b : str, Run or Watched
        Names of runs, or runs.
    store : path, optional
        Of the names; as for `open_run`.

    Returns
    -------
    DataFrame
        A row for each operation of `a`, in its order, then for those that only `b` has: ``op,
        outcome_a, outcome_b, result_a, result_b, same, usd_a, usd_b, duration_a, duration_b,
        changes``. Results are short texts; ``same`` compares the recorded values themselves, and
        is `None` where one of the two has no result. ``changes`` says what differs in what the
        two stand on. Of a run that another process holds, only its mirror is compared; that is
        said.

    Raises
    ------
    RunMissing, BadName, NotTrusted, RunDamaged, RunHeld
        Nothing is changed in any case.
    """
    around = _surroundings().get("surroundings", _store.SCRIPT)
    from durable_nb.engine.compare import compare as compared

    return compared(a, b, store=store, say=around.say)


def _surroundings() -> dict[str, Any]:
    """Give what a notebook knows of itself; in a script, nothing."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return {}
    from durable_nb.notebook import surroundings

    return surroundings()


def load_ipython_extension(shell: Any) -> None:
    """Register ``%durable`` and ``%%durable``, and list unfinished runs; it starts none."""
    from durable_nb.notebook.extension import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again."""
    from durable_nb.notebook.extension import unload_ipython_extension as unload

    unload(shell)


__all__ = [
    "AlreadySettled",
    "ApprovalPending",
    "ApprovalRejected",
    "ArchiveRefused",
    "BadName",
    "BudgetExceeded",
    "CrashLoop",
    "Credentials",
    "DidNotHappen",
    "DuplicateStep",
    "DurableError",
    "DurableSignal",
    "Exported",
    "Finding",
    "Forked",
    "Garbage",
    "Happened",
    "Imported",
    "IncompatibleCheckpoint",
    "JournalDamaged",
    "JournalTooNew",
    "JournalUnwritable",
    "Loop",
    "NestedEffect",
    "NoActiveRun",
    "NotApplied",
    "NotAwaited",
    "NotRecordable",
    "NotTrusted",
    "NotebookUnusable",
    "Operation",
    "OperationMissing",
    "OperationView",
    "OutputUnknown",
    "OwnerRefused",
    "Recovered",
    "Report",
    "ResultLost",
    "ResultNotLoadable",
    "Run",
    "RunClosed",
    "RunCopied",
    "RunDamaged",
    "RunHeld",
    "RunMissing",
    "RunPaused",
    "RunTaken",
    "ScopeDenied",
    "SignalPending",
    "Stage",
    "StaleOwner",
    "StatusView",
    "Step",
    "StepFailed",
    "StillRunning",
    "Supervised",
    "Surroundings",
    "TimelinePicture",
    "TimerPending",
    "Undecided",
    "UnguardedStep",
    "UnknownOutcome",
    "UsageLine",
    "UsageReport",
    "VerdictRefused",
    "Watched",
    "compare",
    "current_operation",
    "current_run",
    "export_run",
    "fleet_runs",
    "gc",
    "http_rejected",
    "import_run",
    "load_ipython_extension",
    "open_run",
    "panel",
    "recover",
    "register_codec",
    "resume",
    "resume_all",
    "run",
    "runs",
    "sql",
    "step",
    "submit",
    "supervise",
    "unload_ipython_extension",
    "verify",
    "watch",
    "work",
]
