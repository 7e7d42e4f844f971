"""The run: what a program holds while it executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from durable_nb import values
from durable_nb.engine import fanout
from durable_nb.engine.called import Call
from durable_nb.engine.context import OPEN, Frame, current_context, set_frame
from durable_nb.engine.credentials import Wallet
from durable_nb.engine.facets import Code
from durable_nb.engine.interrupts import InterruptBodies
from durable_nb.engine.meter import Looking
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.publishing import Publisher
from durable_nb.engine.recovery import doubt_left
from durable_nb.engine.scope import Origin, Scope, new_block
from durable_nb.engine.spellings import Spellings
from durable_nb.engine.terms import own_facets
from durable_nb.engine.trajectory import Surroundings
from durable_nb.engine.unawaited import Unawaited
from durable_nb.engine.views import counts_of
from durable_nb.journal import deferred_interrupts
from durable_nb.model.bases import leave, lone_signal
from durable_nb.model.errors import NestedEffect, names
from durable_nb.model.facets import FacetSet
from durable_nb.model.fold import ACCOUNT
from durable_nb.model.identity import identity, parse
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import RUN, Draft

P = ParamSpec("P")
R = TypeVar("R")


class Run(Spellings):
    """One logical execution, across any number of kernels; made by `durable_nb.run`.

    Use it as a context manager (``with`` or ``async with``), or keep it for a notebook's life.

    Attributes
    ----------
    root : Scope
        Where operations at the root are counted.
    bodies : set of Future
        Async bodies under way, shielded from their callers' cancellation.
    pools : list of Executor
        Threads that the engine started.
    interrupted : bool
        Whether a cancellation is a person's Ctrl-C, which reaches shielded bodies too.
    wallet : Wallet
        Gets the credentials of this opening.
    unawaited : list of Unawaited
        Waits that async code has called, and not awaited yet.
    stop_listening : callable
        Ends what watches the inbox; nothing is applied after the record of the run's end.
    publisher : Publisher
        Writes its mirror.
    """

    def __init__(
        self,
        *,
        surroundings: Surroundings,
        on_close: Callable[[], None],
        wallet: Wallet,
        **trajectory: Any,
    ) -> None:
        super().__init__(surroundings=surroundings, **trajectory)
        self.root = Scope()
        self.bodies: set[asyncio.Future[Any]] = set()
        self.pools: list[Executor] = []
        self.unawaited: list[Unawaited] = []
        self.interrupted = False
        self.stop_listening: Callable[[], None] = lambda: None
        self.publisher = Publisher(self)
        self.wallet = wallet
        self._origin, self._on_close = surroundings.origin, on_close
        self.interrupt_bodies = InterruptBodies(self.interrupt)
        self._blocks: list[tuple[Origin, Frame | None]] = []
        self._script = new_block()

    @property
    def credentials(self) -> Any:
        """What this opening acts with: what its ``credentials=`` function gave.

        It is called once, with the recorded scopes that hold. If it names an account, that is
        recorded from here on; the secret never is.
        """
        found = self.wallet.open(self.name, lambda: self.scopes)
        account = self.wallet.account(self.fold.salt)
        with self.lock:
            if account is not None and not self.fold.terms.get(ACCOUNT):
                whose = {ACCOUNT: [account.digest, account.shown]}
                self.append(Draft(RUN, Kind.IDENTIFIED, {"terms": whose}))
                self.own_facets = own_facets(self.fold)
                for operation in list(self.live.values()):
                    operation.acts_for(account)
        return found

    # -- what the engine asks --------------------------------------------------------------

    @property
    def in_script(self) -> bool:
        """Whether no cell is calling."""
        return self._origin() is None

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
        code: Code,
        independent: bool = False,
    ) -> Call:
        """Take an occurrence; give what makes attempts at it, or finds its record.

        An `independent` one is a branch of its own: its doubts stop what is below it, and no more.

        Raises
        ------
        NestedEffect, DuplicateStep, RunClosed
            Before any intent.
        """
        self.check_owner()
        self.interrupted = False
        frame = frame.here()
        scope, origin, lineage = frame.scope, self.origin(), frame.lineage
        if scope.effect is not Effect.NONE:
            raise NestedEffect(
                scope.id, str(scope.effect), identity(scope.id, name, options.key, 1), scope.advice
            )
        if options.reconcile is not None:
            self.reconcilers[name] = options
        with self.lock:
            taken = scope.take(
                name,
                options.key,
                origin,
                single=options.single,
                counted=options.counted,
                open_ended=self._open_ended,
            )
            seen = scope.observe(origin)
        if options.compensate is not None:
            self.undoing[taken] = options.compensate
        advice = "add `--effect none` to its %%durable line" if options.single else ""
        looking = Looking(self, scope)
        try:
            if seen:
                self.append(*(Draft(op, Kind.OBSERVED, {}) for op in seen), lazy=True)
            with looking:
                found = code()
                known = self.gathered(options, found) if options.wait is None else FacetSet()
        except BaseException:  # the next call is this one
            with self.lock:
                scope.give_back(parse(taken), origin)
            raise
        looked = (code, found)
        call = Call(
            self, scope, taken, options, inputs, known, looked, looking, origin, lineage, advice
        )
        call.independent = independent
        return call

    def _open_ended(self, op: str) -> bool:
        state = self.fold.operations.get(op)
        if state is None:
            return not self.fold.retired(op)
        return state.outcome(self.clock.now()) is Outcome.INCOMPLETE

    def nothing_in(self, op: str) -> bool:
        """Tell whether nothing is on record in a branch, or in a loop of this first stretch."""
        known = any(known.startswith(f"{op}/") for known in self.fold.operations)
        return not known and op.rpartition("#")[0] not in self.fold.carried

    def late(self, operation: Operation, value: Any) -> None:
        """Take a result that arrives after its body was left: evidence, and perhaps a double.

        It wins over "interrupted" or "denied" while no later attempt exists; otherwise it is
        recorded as a suspected duplicate, which stops the run.
        """
        text = values.encode(value, self.artifacts)
        with self.lock:
            state = self.fold.operations.get(operation.id)
            if state is None:  # a pin has retired it
                body = {"result": text, "late": True, "attempt": operation.attempt}
                self.append(Draft(operation.id, Kind.EVIDENCE, body))
                return
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
        """Record that the run reached its end, close it, and say so."""
        self._say_unreached()
        was_open = self.is_open
        self.close(Kind.FINISHED)
        if was_open:
            c = counts_of(self)
            left = "".join(f", {c[word]} {word}" for word in ("incomplete", "unknown") if c[word])
            self.say(f"run {self.name} is finished: {c['completed']} completed{left}")

    def _say_unreached(self) -> None:
        """At the end of a program, tell what it no longer does."""
        left = self.unreached()
        if not left:
            return
        self.say(f"on record, and not reached by this program: {names(left, 8)}")
        happened = [
            v for v in left if v.effect == Effect.EXTERNAL and v.outcome == Outcome.COMPLETED
        ]
        if happened:
            what = "is an effect that" if len(happened) == 1 else "are effects that"
            self.say(f"{names(happened, 8)} {what} happened; run.unreached() lists all")

    def close(self, kind: Kind = Kind.CLOSED, error: BaseException | None = None) -> None:
        """Record the end of this owner, publish the mirror, and let go of the run."""
        if not self.is_open:
            return
        fanout.await_threads(self)
        body: dict[str, Any] = {"role": self.role}
        if error is not None:
            body["error"] = values.describe_error(error)
        try:
            if self.role != "reader":  # a reader records nothing, not even its end
                with deferred_interrupts():
                    self.stop_listening()
                    self.append(Draft(RUN, kind, {**body, **self._told_at_its_end()}))
        finally:
            with deferred_interrupts():
                self._open = False
                OPEN.reached(self.id).update(self.sources)
                OPEN.remove(self)
                self._on_close()

    def _told_at_its_end(self) -> dict[str, Any]:
        """Give what this opening has spent on checkpointing, and what its replays saved."""
        with self.lock:
            told: dict[str, Any] = {"checkpoint_s": self.meter.take()}
            if self.role == "runner":
                told["saved"] = self.meter.saved(self.fold)
            if self.root.outside is not None:
                told |= self.root.outside.ended(self.clock.monotonic())
        return told

    def __enter__(self) -> Self:
        if not self._blocks:
            self.root.began = self.clock.monotonic()
        before = current_context()
        set_frame(Frame(self, self.root))
        self._blocks.append((new_block(), before))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        _, before = self._blocks.pop()
        set_frame(before)
        if self._blocks:
            return
        signal = None if error is None else lone_signal(error)
        failed = error is not None and signal is None
        if error is None and self.is_open:
            self._say_unreached()
        if signal is not None:
            signal.place = self.place
        self.close(Kind.FAILED if failed else Kind.CLOSED, error)
        if error is not None and (doubt := doubt_left(self)) is not None:
            doubt.place = self.place
            leave(signal or error, doubt)
        if signal is not None and signal is not error:
            raise signal from error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.settle()
        self.__exit__(kind, error, tb)

    def __repr__(self) -> str:
        c = counts_of(self)
        return (
            f"<run {self.name}: {c['completed']} completed, {c['incomplete']} incomplete, "
            f"{c['unknown']} unknown>"
        )
