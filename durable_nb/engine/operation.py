"""The operation: the one mechanism from which every spelling of a step is made.

::

    with op:                 # reach: replay its record, or put its intent on disk
        if op.needed:
            op.result = ...  # leave: its outcome on disk, whatever ended the body
    op.result

The call form, the decorator, `map` and a durable cell are this, spelled differently.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import produced, validation
from durable_nb.engine.block import Block
from durable_nb.engine.context import Frame, current_context, set_frame
from durable_nb.engine.drive import Core
from durable_nb.engine.entered import Entered
from durable_nb.engine.facets import Code, outgrown
from durable_nb.engine.looking_back import refuse_changed_inputs, warn_of_secret
from durable_nb.engine.meter import Timing
from durable_nb.engine.options import SETTLE_AFTER_S, Options
from durable_nb.engine.recovery import branch_of, doubt_of, reconcile, why_unknown
from durable_nb.engine.scope import Lineage, Origin, Scope
from durable_nb.engine.standing import came_out_differently
from durable_nb.journal import deferred_interrupts
from durable_nb.model import identity
from durable_nb.model.bases import lone_signal
from durable_nb.model.errors import (
    ResultLost,
    StepFailed,
    UnguardedStep,
    UnknownOutcome,
)
from durable_nb.model.facets import CONSTANT, FacetSet, Part
from durable_nb.model.fold import ACCOUNT
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import Draft
from durable_nb.model.spending import amount_of
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

_MISSING: Final = object()


class Operation(Entered):
    """One operation that the program has come to; made by `Run`, entered once.

    Attributes
    ----------
    id : str
        Its identity, ``parent/name[key]#n``.
    needed : bool
        Whether the body has to run: False when the result is on record.
    result : Any
        On replay the recorded result; else what the body assigned.
    idempotency_key : str
        To hand to the receiver; the same for each attempt.
    known : FacetSet
        What its result depends on, but for its inputs.
    branch : str
        The innermost independent branch that it is in, which may be itself; "" is none.
    undoes : dict or None
        Which operation it takes back, for a compensation.
    inputs : dict
        What it was called with, by name.
    produced : dict
        The files that it has made, as they are: path to digest and text.
    has_failed : bool
        Whether it is a recorded failure that was replayed.
    time : Timing
        How long it took, and what was spent around it.
    keyed : bool or None
        Whether the function takes the idempotency key, as a parameter; `None` where it is not a
        function's: then nobody can tell.
    block : weakref of Block, or None
        The `with` around its body; `None` when it was entered by hand.
    """

    # What holds of each until it is said otherwise.
    undoes: dict[str, Any] | None = None
    has_failed = False
    block: weakref.ref[Block] | None = None
    keyed: bool | None = None
    source = ""
    attempt = 0
    _value: Any = _MISSING
    _consulted = _replayed = _left = False
    _awaits = _unproven = False  # in async code, what was recorded is waited for
    ends_lazily = False  # whoever has called it makes its outcome durable
    _around: Frame | None = None
    _usd: float | None = None
    _tokens: int | None = None
    _basis: dict[str, Any] | None = None

    def __init__(
        self,
        run: Run,
        scope: Scope,
        op_id: str,
        options: Options,
        inputs: dict[str, Any],
        known: FacetSet,
        code: tuple[Code, FacetSet],
        origin: Origin,
        lineage: Lineage,
        advice: str = "",
    ) -> None:
        self.run, self.id, self.options = run, op_id, options
        self.facets: dict[str, Any] = {
            "inputs": run.digests(inputs, op_id),
            "shown": {name: values.preview(value, name=name) for name, value in inputs.items()},
            "facets": known.digest,
        }
        self.known, self._code = known, code
        self.produced: dict[str, Any] = {}
        self._parent, self.inputs, self._origin, self._advice = scope, inputs, origin, advice
        self.branch = scope.branch
        self._lineage = lineage
        self.time = Timing(run, scope)

    # -- what a body uses ----------------------------------------------------------------

    @property
    def needed(self) -> bool:
        """Whether the body has to run."""
        self._consulted = True
        return not self._replayed

    @property
    def result(self) -> Any:
        """The recorded result, or what the body assigned."""
        if self._value is _MISSING:
            raise AttributeError(f"{self.id} has no result yet")
        return self._value

    @result.setter
    def result(self, value: Any) -> None:
        if self._left:
            self.run.late(self, value)
        elif not self._replayed:
            self._value = value

    @property
    def idempotency_key(self) -> str:
        """The key under which the receiver may recognise a repetition."""
        state = self.run.fold.operations.get(self.id)
        return self._key(state)

    def _key(self, state: OperationState | None) -> str:
        if state is None:
            return identity.idempotency_key(self.run.id, self.id, 0)
        return state.idempotency_key(self.run.id)

    @property
    def outcome(self) -> Outcome:
        """What the journal proves of it now."""
        state = self.run.fold.operations.get(self.id)
        return state.outcome(self.run.clock.now()) if state else Outcome.INCOMPLETE

    @property
    def place(self) -> identity.Place:
        """Parent, name, key and occurrence."""
        return identity.parse(self.id)

    @property
    def cell(self) -> str:
        """The cell that called it, at the root of the run; "" in a script."""
        return "" if self._parent.id or self._origin.script else self._origin.cell

    @property
    def called(self) -> set[str]:
        """The names that the program has called beside it, in this pass."""
        return self._parent.called(self._origin)

    @property
    def basis(self) -> dict[str, Any]:
        """What a result stands on that is recorded now."""
        return {**self.facets, "produced": self.produced} if self.produced else self.facets

    def refuse_missing_files(self) -> None:
        """Refuse to begin where a file that it uses is not there."""
        produced.refuse_missing(self.id, self.options.uses, self.known)

    def definition(self) -> list[Draft]:
        """Draft the record of its facets, where the run does not know them yet."""
        return self.run.definition(self.known)

    def is_running(self) -> bool:
        """Tell whether the body may still be at work: whether the `with` around it goes on.

        Without one (an `ExitStack`), an operation that has not left is taken to be at work.
        """
        return self.block is None or self.block() is not None

    def was_cut_off(self) -> bool:
        """Tell whether the body is over although it never left: an interrupt came before that."""
        return not self._left and not (self.run.live.get(self.id) is self and self.is_running())

    def spend(self, *, usd: float | None = None, tokens: int | None = None) -> None:
        """Add to what this attempt has cost.

        Parameters
        ----------
        usd : float or None
            Money, in US dollars; unknown is not zero.
        tokens : int or None
            Tokens of the model.
        """
        if usd is not None:
            self._usd = (self._usd or 0.0) + amount_of("usd", usd, zero=True)
        if tokens is not None:
            self._tokens = (self._tokens or 0) + int(amount_of("tokens", tokens, zero=True))

    def reserve(self, *, usd: float | None = None, tokens: int | None = None) -> None:
        """Record, before it is spent, what this attempt may cost: it counts until `spend` tells.

        If the kernel dies, or the attempt ends without saying what it cost, this stays counted.

        Parameters
        ----------
        usd : float or None
            Money, in US dollars, added to what it has reserved already.
        tokens : int or None
            Tokens of the model.
        """
        said = {"usd": usd, "tokens": tokens}
        body = {n: amount_of(n, v, zero=True) for n, v in said.items() if v is not None}
        if not self._replayed and not self._left:
            body["attempt"] = self.attempt
            self.run.append(Draft(self.id, Kind.RESERVED, body))

    def acts_for(self, account: Part) -> None:
        """Take in, while the body runs, whose account it acts for: its result depends on that."""
        if ACCOUNT not in self.known.parts:
            parts = {**self.known.parts, ACCOUNT: account}
            self._stands_on(FacetSet.of(parts, self.known.unwatched))

    def _stands_on(self, known: FacetSet) -> None:
        """Take in what the body has shown its result to depend on, instead of what was intended."""
        self.known = known
        self.facets = self._basis = {**self.facets, "facets": known.digest}

    # -- entering --------------------------------------------------------------------------

    def replayed(self, value: Any) -> None:
        """Take the recorded result; the body is not needed."""
        self._value, self._replayed, self.source = value, True, "record"

    def intent(self, state: OperationState | None) -> dict[str, Any]:
        """Give what the intent of the next attempt says; what is as by default is left out."""
        self.attempt = (state.attempt if state else 0) + 1
        options, cell = self.options, self.cell
        body: dict[str, Any] = {"effect": str(options.effect), "attempt": self.attempt}
        if state is not None and state.generation:  # what is unusual shows in the first bytes
            body["generation"] = state.generation
        if options.settle_after != SETTLE_AFTER_S:
            body["settle_after"] = options.settle_after
        if options.key_ttl is not None:
            body["key_ttl"] = options.key_ttl
        body |= self.facets
        body["idempotency_key"] = self._key(state)
        if self.keyed is not None and options.effect is not Effect.NONE:
            body["keyed"] = self.keyed
        if cell:
            body["cell"] = cell
        if self.branch:
            body["branch"] = self.branch
        if self.undoes is not None:
            body["undoes"] = self.undoes
        if options.reconcile is not None:
            body["reconciles"] = True
        return body

    def persist_intent(self, state: OperationState | None) -> None:
        """Put the intent on disk, with the failures that the program has seen; then go."""
        run, options, body = self.run, self.options, self.intent(state)
        rides = options.rides and not run.budget
        try:
            with deferred_interrupts():
                intended = Draft(self.id, Kind.INTENDED, body)
                run.append(*self.definition(), intended, lazy=rides or self._awaits)
                self._unproven = self._awaits and not rides
                if run.begun is not None:
                    run.begun(self.id, self.attempt)
                self._parent.retried(self.id)
                self.source = run.sources[self.id] = "ran"
                self.time.began = run.clock.monotonic()
                inner = Scope(
                    self.id, options.effect, self._advice, self.time.began, branch=self.branch
                )
                self.time.inner, self._around = inner, current_context()
                set_frame(Frame(run, inner, self, around=self._around))
        except BaseException as stop:
            self._never_began(stop)
            raise

    def _never_began(self, stop: BaseException) -> None:
        """Take an intent back: an interrupt came before the body, so that nothing happened."""
        try:
            state = self.run.fold.operations.get(self.id)
            if state is not None and state.kind is Kind.INTENDED and state.attempt == self.attempt:
                self._append(Kind.NOT_APPLIED, error=values.describe_error(stop))
        finally:
            self.run.live.pop(self.id, None)

    # -- leaving ---------------------------------------------------------------------------

    def _leave(self, raised: BaseException | None) -> Core[bool]:
        """Record what ended the body; tell whether the error is settled and goes no further."""
        if self._replayed:
            if raised is None and not self._consulted:
                raise UnguardedStep(self.id, replayed=True)
            return False
        self.time.ended = self.run.clock.monotonic()
        set_frame(self._around)
        error = raised
        if error is None and self._value is _MISSING:
            error = StepFailed(
                self.id,
                "its body ended without assigning op.result, so it does not count as done "
                "(`op.result = None` says that there is nothing to keep)",
            )
        try:
            with deferred_interrupts():
                self._left = True
                if error is None:
                    self._complete()
                else:
                    self._record_failure(error)
        finally:
            self.run.live.pop(self.id, None)
        if error is None:
            if not self._consulted:
                raise UnguardedStep(self.id, replayed=False)
            return False
        signal = lone_signal(error)
        if signal is not None and signal is not error:
            raise signal from error
        if isinstance(error, Exception) and (yield from self._surface(error)):
            return True
        if raised is None:
            raise error
        return False

    def _complete(self) -> None:
        """Record the result, verified; the value becomes what a replay will return."""
        run, value = self.run, self._value
        try:
            if self.options.record is not None:
                value = self.options.record(value)
            if self.options.validate is not None:
                validation.check(self.options.validate, value)
            self.produced = produced.take(self.options.produces)
            refuse_changed_inputs(self)
            text, again = values.round_trip(value, run.artifacts)
            show = self.options.preview
            shown = {} if show is None else {"preview": show(value)}
            warn_of_secret(run, self.id, value, text)
        except Exception as problem:
            self._append(Kind.UNRECORDED, error={**values.describe_error(problem), "lost": True})
            unknown = self.outcome is Outcome.UNKNOWN
            if not unknown:
                self._parent.failed(self.id, self._origin, self._lineage)
            raise ResultLost(self.id, str(problem), unknown) from problem
        inner = run.unknown_states() if self.id in run.fold.containers else ()
        below = [s for s in inner if s.id.startswith(self.id + "/")]
        if below:
            self._append(Kind.INTERRUPTED, error={"type": "UnknownOutcome", "message": below[0].id})
            views = [run.view(s) for s in below]
            branch = branch_of(below)
            raise UnknownOutcome(run.name, views, why_unknown(below[0]), self.id, branch)
        state = run.fold.operations[self.id]
        self._let_go_of_outgrown()
        asked = came_out_differently(self, state, again)
        made = {"produced": self.produced} if self.produced else {}
        self._append(Kind.COMPLETED, result=text, **shown, **made, **asked)
        self._value = again

    def _let_go_of_outgrown(self) -> None:
        """Leave out the constants that the body has changed: no comparison with them holds."""
        look, before = self._code
        changed = outgrown(before, look()) - self.run.outgrown
        if not changed:
            return
        self.run.outgrown |= changed
        what = ", ".join(name.removeprefix(CONSTANT) for name in sorted(changed))
        if not self.options.single:  # a durable cell records what it changed
            self.run.say(
                f"warning: {self.id} changed {what} in place, which it reads from outside of "
                "itself; no replay brings that back: return it instead"
            )
        self._stands_on(self.known.without(changed))

    def _record_failure(self, error: BaseException) -> None:
        """Record how the body ended without a result."""
        if lone_signal(error) is not None or not isinstance(error, Exception):
            kind = Kind.INTERRUPTED
        elif self.options.proves_nothing_happened(error):
            kind = Kind.NOT_APPLIED
        else:
            kind = Kind.RAISED
        self._let_go_of_outgrown()
        self._append(kind, error=values.describe_error(error))

    def _surface(self, error: Exception) -> Core[bool]:
        """Hand the failure on: as it is, or as the doubt that it leaves behind."""
        run = self.run
        state = run.fold.operations[self.id]
        if state.outcome(run.clock.now()) is Outcome.UNKNOWN:
            if not (yield from reconcile(run, self.options, state)):
                raise doubt_of(run, state) from error
            state = run.fold.operations[self.id]
            if state.kind is Kind.CONFIRMED and state.result is not None:
                self._value = values.decode(state.result, run.artifacts)
                return True
        self._parent.failed(self.id, self._origin, self._lineage)
        return False

    def _append(self, kind: Kind, **body: Any) -> None:
        body |= self.time.told()
        body["attempt"] = self.attempt
        if self._usd is not None:
            body["usd"] = self._usd
        if self._tokens is not None:
            body["tokens"] = self._tokens
        if self._basis is not None:
            body["basis"] = self._basis
        lazy = self._awaits or self.ends_lazily
        self.run.append(*self.definition(), Draft(self.id, kind, body), lazy=lazy)
        self._unproven = self._awaits
