"""The run: what a program holds while it executes, and what an operator settles."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import pandas as pd

from durable_nb import values
from durable_nb.engine import calls, fanout, settle, views
from durable_nb.engine.context import OPEN, Frame, frame_of, set_frame
from durable_nb.engine.drive import drive
from durable_nb.engine.operation import Operation, lone_signal
from durable_nb.engine.options import Options
from durable_nb.engine.recovery import reconcile
from durable_nb.engine.scope import Origin, Scope, new_block
from durable_nb.engine.step import Spelled, Step, invoke
from durable_nb.journal import Journal, deferred_interrupts
from durable_nb.model.errors import (
    IncompatibleCheckpoint,
    NestedEffect,
    RunClosed,
    RunHeld,
)
from durable_nb.model.fold import Fold, OperationState, status_of
from durable_nb.model.identity import identity
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import RUN, Draft, Record
from durable_nb.model.verdicts import Verdict

if TYPE_CHECKING:
    from durable_nb.engine.settle import Cascade
    from durable_nb.engine.views import OperationView, StatusView

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock and monotonic clock, handed in so that tests own them."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = monotonic


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run is told of where it runs.

    Attributes
    ----------
    origin : callable
        Gives the cell execution that is calling, or `None` in a script.
    say : callable
        Shows one line to the person: stderr in a script, the cell's output in a notebook.
    """

    origin: Callable[[], Origin | None]
    say: Callable[[str], None]


class Run:
    """One logical execution, across any number of kernels; made by `durable_nb.run`.

    Use it as a context manager (``with`` or ``async with``), or keep it for a notebook's life.

    Attributes
    ----------
    name, id : str
        The name that the user gave, and the id minted at the run's birth.
    folder : Path
        Where its journal, artifacts and lease are.
    epoch : int
        Number of this owner.
    """

    def __init__(
        self,
        *,
        name: str,
        folder: Path,
        journal: Journal,
        fold: Fold,
        artifacts: Callable[[], values.Artifacts],
        surroundings: Surroundings,
        clock: Clock,
        role: str,
        on_close: Callable[[], None],
        expected: Iterable[str] = (),
    ) -> None:
        self.name, self.folder, self.role, self.clock = name, folder, role, clock
        self.fold, self.say = fold, surroundings.say
        self.id = str(fold.born.get("run_id", ""))
        self.lock = threading.RLock()
        self.live: dict[str, Operation] = {}
        self.sources: dict[str, str] = {}
        self.undecided: dict[str, IncompatibleCheckpoint] = {}
        self.offered: dict[str, Mapping[str, Any]] = {}
        self.bodies: set[asyncio.Future[Any]] = set()
        self.pools: list[Executor] = []
        self.interrupted = False
        self.expected = tuple(expected)
        self.root = Scope()
        self.headline = ""
        self._journal, self._open_artifacts = journal, artifacts
        self._artifacts: values.Artifacts | None = None
        self._origin, self._on_close = surroundings.origin, on_close
        self._blocks: list[tuple[Origin, Frame | None]] = []
        self._script = new_block()
        self._pid, self._open = os.getpid(), True
        self._unknown = {s.id for s in fold.operations.values() if self._is_unknown(s)}

    # -- the guarded append ----------------------------------------------------------------

    def append(self, *drafts: Draft, lazy: bool = False) -> list[Record]:
        """Add records in one transaction, and fold them; the only way anything is recorded.

        Raises
        ------
        RunHeld, RunClosed, JournalUnwritable
            Nothing was written, or (after a lost answer) what was written was read again.
        """
        with deferred_interrupts():
            self.check_owner()
            records = self._journal.append(drafts, lazy=lazy)
            with self.lock:
                for record in records:
                    state = self.fold.apply(record)
                    if state is not None:
                        (self._unknown.add if self._is_unknown(state) else self._unknown.discard)(
                            state.id
                        )
        return records

    def check_owner(self) -> None:
        """Refuse a forked child, and a run that was closed."""
        if os.getpid() != self._pid:
            raise RunHeld(
                self.name,
                f"process {self._pid}, of which this one is a forked child",
                "Do the journalled work in the parent, or start the child with 'spawn'.",
            )
        if not self._open:
            raise RunClosed(self.name)

    # -- what the engine asks --------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether this object still takes operations."""
        return self._open and os.getpid() == self._pid

    @property
    def epoch(self) -> int:
        """Number of this owner."""
        return self.fold.epoch

    @property
    def artifacts(self) -> values.Artifacts:
        """Large values, opened when the first is needed."""
        if self._artifacts is None:
            self._artifacts = self._open_artifacts()
        return self._artifacts

    def digests(self, inputs: Mapping[str, Any], op: str) -> dict[str, str]:
        """Digest inputs, for comparison on a resume."""
        return calls.digests(inputs, op)

    def states(self) -> list[OperationState]:
        """All operations on record, by when they first began."""
        with self.lock:
            return list(self.fold.operations.values())

    def is_live(self, op: str) -> bool:
        """Tell whether a body of this process is running the operation.

        A body that an interrupt cut off before it could leave is not: its own task or thread is
        here again, outside of it.
        """
        operation = self.live.get(op)
        return operation is not None and operation.is_running()

    def unknown_states(self) -> list[OperationState]:
        """Operations in doubt: unknown, and nobody is running them."""
        with self.lock:
            now = self.clock.now()
            expired = [s for s in self.fold.operations.values() if s.key_expires]
            self._unknown.update(s.id for s in expired if s.outcome(now) is Outcome.UNKNOWN)
            found = [self.fold.operations[i] for i in self._unknown if not self.is_live(i)]
        return sorted(found, key=lambda s: s.row)

    def _is_unknown(self, state: OperationState) -> bool:
        return state.outcome(self.clock.now()) is Outcome.UNKNOWN

    def view(self, state: OperationState) -> OperationView:
        """Show one operation."""
        return views.view_of(self, state)

    def origin(self) -> Origin:
        """Give the cell execution that is calling; in a script the innermost `with` block."""
        found = self._origin()
        if found is not None:
            return found
        return self._blocks[-1][0] if self._blocks else self._script

    def operation(
        self,
        frame: Frame,
        name: str,
        options: Options,
        *,
        inputs: dict[str, Any],
        code: str | None,
    ) -> Callable[[], Operation]:
        """Take an occurrence and give a maker of attempts at it.

        Raises
        ------
        NestedEffect, DuplicateStep, RunClosed
            Before any intent.
        """
        self.check_owner()
        scope, origin = frame.scope, self.origin()
        if scope.effect is not Effect.NONE:
            raise NestedEffect(
                scope.id, str(scope.effect), identity(scope.id, name, options.key, 1), scope.advice
            )
        with self.lock:
            taken = scope.take(
                name, options.key, origin, single=options.single, open_ended=self._open_ended
            )
            seen = scope.observe(origin)
        if seen:
            self.append(*(Draft(op, Kind.OBSERVED, {}) for op in seen), lazy=True)
        advice = "add `--effect none` to its %%durable line" if options.single else ""
        return lambda: Operation(self, scope, taken, options, inputs, code, origin, advice)

    def _open_ended(self, op: str) -> bool:
        state = self.fold.operations.get(op)
        return state is None or state.outcome(self.clock.now()) is Outcome.INCOMPLETE

    def late(self, operation: Operation, value: Any) -> None:
        """Take a result that arrives after its body was left: evidence, and perhaps a double.

        It wins over "interrupted" or "denied" while no later attempt exists; otherwise it is
        recorded as a suspected duplicate, which stops the run.
        """
        text = values.encode(value, self.artifacts)
        with self.lock:
            state = self.fold.operations[operation.id]
            first = state.attempt == operation.attempt
            if first and state.kind in {Kind.INTERRUPTED, Kind.DENIED, Kind.RAISED}:
                kind = Kind.COMPLETED
            elif state.effect is Effect.EXTERNAL and state.kind is not Kind.CONFIRMED:
                kind = Kind.DUPLICATE
            else:
                kind = Kind.EVIDENCE
            error = {"type": "LateResult", "message": f"of attempt {operation.attempt}"}
            body = {"result": text, "late": True, "attempt": operation.attempt, "error": error}
            self.append(Draft(operation.id, kind, body))

    # -- steps -----------------------------------------------------------------------------

    def call(self, fn: Callable[..., R] | Step[..., R], /, *args: Any, **kwargs: Any) -> R:
        """Journal one call: all arguments go to the function.

        Parameters
        ----------
        fn : callable
            A plain or async function, or a decorated step with its options.
        *args, **kwargs
            For the function. Options go elsewhere: ``run.step(**options).call(fn, ...)``.

        Returns
        -------
        Any
            The recorded result; for an async function something to await.
        """
        frame = frame_of(self)
        if isinstance(fn, Step):
            result: R = fn.call_in(frame, *args, **kwargs)
            return result
        spelled: R = invoke(frame, fn, args, kwargs, name=None, options=Options())
        return spelled

    def step(self, name: str | Callable[..., Any] | None = None, **options: Any) -> Any:
        """Name a step and its options; then use it as context manager, decorator or ``.call``.

        Parameters
        ----------
        name : str, optional
            Needed for the ``with`` form; else the function's own name.
        **options
            Step options, see `durable_nb.step`.
        """
        if callable(name):
            return Spelled(self, None, Options().with_(options))(name)
        return Spelled(self, name, Options().with_(options))

    def map(
        self,
        fn: Callable[..., Any] | Step[..., Any],
        items: Iterable[Any],
        *,
        key: Callable[[Any], Any] | None = None,
        limit: int = 8,
        **options: Any,
    ) -> Any:
        """Journal one call for each item, several at once.

        Parameters
        ----------
        fn : callable
            Called with one item; an async one makes the whole awaitable.
        items : iterable
            What to call it with.
        key : callable, optional
            Gives each item's key; without it, items are told apart by their order.
        limit : int
            How many run at once.
        **options
            Step options.

        Returns
        -------
        list
            Results in the order of the items. The first error is raised once those in flight
            have ended.
        """
        return fanout.run_map(self, fn, items, key=key, limit=limit, options=options)

    @contextmanager
    def branch(self, name: str, *, key: object = None) -> Iterator[None]:
        """Open a scope of its own, so that concurrent loops count apart.

        Parameters
        ----------
        name : str
            Part of the identity of every operation in it.
        key : str or int, optional
            Tells branches of one name apart.
        """
        frame = frame_of(self)
        options = Options().with_({"key": key} if key is not None else {})
        self.check_owner()
        with self.lock:
            taken = frame.scope.take(
                calls.check_step_name(name),
                options.key,
                self.origin(),
                open_ended=lambda op: not any(
                    s.id.startswith(op + "/") for s in self.fold.operations.values()
                ),
            )
        before = set_frame(Frame(self, Scope(taken, frame.scope.effect), frame.operation))
        try:
            yield
        finally:
            set_frame(before)

    # -- the operator's side ---------------------------------------------------------------

    def operations(self) -> pd.DataFrame:
        """All operations, a row each (columns: `durable_nb.engine.views.COLUMNS`)."""
        return views.frame_of_operations([self.view(s) for s in self.states()])

    def unknown(self) -> list[OperationView]:
        """Operations whose outcome only evidence can settle."""
        return [self.view(s) for s in self.unknown_states()]

    def get(self, op: object) -> OperationView:
        """One operation, by id, unique name or row number."""
        return self.view(settle.find(self, op)[0])

    def history(self, op: object = None) -> pd.DataFrame:
        """The records of one operation (or of the whole run), in order.

        Returns
        -------
        DataFrame
            ``seq, op, kind, ts, epoch, actor, attempt, detail``.
        """
        wanted = None if op is None else settle.find(self, op)[0].id
        self._journal.flush()
        rows = [
            {
                "seq": r.seq,
                "op": r.op,
                "kind": str(r.kind),
                "ts": r.ts,
                "epoch": r.epoch,
                "actor": r.body.get("actor"),
                "attempt": r.body.get("attempt"),
                "detail": _detail(r),
            }
            for r in self._journal.load()
            if wanted is None or r.op == wanted
        ]
        return pd.DataFrame(
            rows, columns=["seq", "op", "kind", "ts", "epoch", "actor", "attempt", "detail"]
        )

    def confirm(self, op: object, result: Any = None, *, evidence: str = "") -> OperationView:
        """Record that an operation happened, with the result that replay will return.

        Parameters
        ----------
        op
            A view, an id, a unique name, or the row number that `show` prints.
        result : Any
            What the step would have returned.
        evidence : str
            How it is known; kept in the history.
        """
        body = {"result": settle.encoded(self, result), "evidence": values.redact(evidence)}
        return self.view(settle.give(self, Verdict.CONFIRM, op, body))

    def deny(self, op: object, *, evidence: str = "") -> OperationView:
        """Record that an operation did not happen: it is done again, under the same key."""
        body = {"evidence": values.redact(evidence)}
        return self.view(settle.give(self, Verdict.DENY, op, body))

    def invalidate(self, op: object, reason: str, *, effect: str | None = None) -> Cascade:
        """Record that a result no longer counts: it is done again, under a new key.

        Parameters
        ----------
        op
            As for `confirm`.
        reason : str
            Kept in the history.
        effect : {"stands", "compensated"}, optional
            What became of the effect; needed where an external one is completed.

        Returns
        -------
        Cascade
            What was invalidated with it, and what is checked when it is reached.
        """
        cascade = self.dependants(op)
        body = {"reason": values.redact(reason), "effect_is": effect}
        settle.give(self, Verdict.INVALIDATE, op, body)
        return cascade

    def dependants(self, op: object) -> Cascade:
        """Show what `invalidate` would touch, and change nothing."""
        return settle.dependants(self, settle.find(self, op)[0])

    def keep(self, op: object, *, reason: str = "") -> OperationView:
        """Use a recorded result although something that it depended on has changed."""
        state, _ = settle.find(self, op)
        basis = self.offered.get(state.id) or state.basis
        body = {"reason": values.redact(reason), "basis": dict(basis)}
        return self.view(settle.give(self, Verdict.KEEP, op, body))

    def rerun(self, op: object, *, reason: str = "") -> OperationView:
        """Do an operation again, under a new key, because something it depended on has changed."""
        body = {"reason": values.redact(reason)}
        return self.view(settle.give(self, Verdict.RERUN, op, body))

    def accept(self, reason: str) -> None:
        """Accept that records of this run are lost; what they said stays unknown for good."""
        body = {"reason": values.redact(reason), "actor": settle.actor()}
        self.append(Draft(RUN, Kind.ACCEPTED, body))

    def reconcile(self, **reconcilers: Callable[[Any], Any]) -> list[OperationView]:
        """Ask reconcilers about all unknown operations now; give those that stay unknown.

        Parameters
        ----------
        **reconcilers
            Step name to ``look_up(op)``. Steps reached in this kernel bring their own.
        """
        for state in self.unknown_states():
            look_up = reconcilers.get(state.place.name)
            if look_up is None:
                continue
            options = Options().with_(
                {"reconcile": look_up, "settle_after": state.intent.get("settle_after", 30.0)}
            )
            op = Operation(self, self.root, state.id, options, {}, None, self.origin())
            drive(reconcile(op, state))
        return self.unknown()

    def status_view(self) -> StatusView:
        """Show the run at this moment; prints as stable plain text."""
        return views.status_view(self)

    def status(self) -> str:
        """Where the run stands: new, open, waiting, crashed, closed, failed or finished."""
        held = self.is_open and self.role == "runner"
        return str(status_of(self.fold, held, len(self.unknown_states())))

    # -- opening and closing ---------------------------------------------------------------

    def interrupt(self) -> None:
        """Let the next cancellation reach the bodies that are shielded from it (Ctrl-C)."""
        self.interrupted = True
        for body in list(self.bodies):
            body.get_loop().call_soon_threadsafe(body.cancel)

    async def settle(self) -> None:
        """Await the bodies that still run, so that their outcomes are recorded."""
        while self.bodies:
            await asyncio.wait(set(self.bodies))
            await asyncio.sleep(0)

    def finish(self) -> None:
        """Record that the run reached its end, and close it."""
        self.close(Kind.FINISHED)

    def close(self, kind: Kind = Kind.CLOSED, error: BaseException | None = None) -> None:
        """Record the end of this owner, publish the mirror, and let go of the run."""
        if not self.is_open:
            return
        fanout.await_threads(self)
        body: dict[str, Any] = {"role": self.role}
        if error is not None:
            body["error"] = values.describe_error(error)
        try:
            with deferred_interrupts():
                self.append(Draft(RUN, kind, body))
        finally:
            with deferred_interrupts():
                self._open = False
                OPEN.remove(self)
                self._on_close()

    def __enter__(self) -> Self:
        before = set_frame(Frame(self, self.root))
        self._blocks.append((new_block(), before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        _, before = self._blocks.pop()
        set_frame(before)
        if self._blocks:
            return
        signal = None if error is None else lone_signal(error)
        failed = error is not None and signal is None
        self.close(Kind.FAILED if failed else Kind.CLOSED, error)
        if signal is not None and signal is not error:
            raise signal from error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.settle()
        self.__exit__(kind, error, tb)

    def __repr__(self) -> str:
        c = self.status_view().counts
        return (
            f"<run {self.name}: {c['completed']} completed, {c['incomplete']} incomplete, "
            f"{c['unknown']} unknown>"
        )


def _detail(record: Record) -> str:
    """Say in one line what a record adds."""
    body = record.body
    error = body.get("error") or {}
    parts = [
        ": ".join(str(v) for v in (error.get("type"), error.get("message")) if v),
        str(body.get("evidence") or ""),
        str(body.get("reason") or ""),
        "; ".join(body.get("changes") or ()),
        str(body.get("verdict") or ""),
    ]
    return " · ".join(p for p in parts if p)


