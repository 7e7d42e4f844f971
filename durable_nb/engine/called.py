"""A call that has taken its place: it gives what is on record, or makes an attempt.

Most calls of a resumed program find their record, and need nothing of an `Operation`: what they
were called with and what they depend on compares equal, so that the record is decoded, and that
is all. Whatever differs, or has to be said, is for the operation to find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine.facets import Code
from durable_nb.engine.loading import recorded_value
from durable_nb.engine.meter import Looking
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.recovery import was_replayed
from durable_nb.engine.scope import Lineage, Origin, Scope
from durable_nb.model.errors import ResultNotLoadable
from durable_nb.model.facets import FacetSet
from durable_nb.model.identity import parse
from durable_nb.model.outcomes import Kind

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

#: What `Call.recorded` gives where it takes an operation to say more.
MISSING: Final = object()

_COMPLETED: Final = Kind.COMPLETED


class Call:
    """One call, with the occurrence that it took; made by `Run.operation`.

    Attributes
    ----------
    run : Run
        Its run.
    id : str
        The identity that it took.
    scope : Scope
        Where it was counted.
    options : Options
        Of its step.
    inputs : dict
        What it was called with, by name.
    known : FacetSet
        What its result depends on, but for its inputs.
    independent : bool
        Whether it is a branch of its own: its doubts stop what is below it, and no more.
    """

    __slots__ = (
        "_advice", "_code", "_lineage", "_looking", "_origin", "id", "independent", "inputs",
        "known", "options", "run", "scope",
    )  # fmt: skip

    def __init__(
        self,
        run: Run,
        scope: Scope,
        op_id: str,
        options: Options,
        inputs: dict[str, Any],
        known: FacetSet,
        code: tuple[Code, FacetSet],
        looking: Looking,
        origin: Origin,
        lineage: Lineage,
        advice: str,
    ) -> None:
        self.run, self.scope, self.id, self.options, self.inputs = (
            run,
            scope,
            op_id,
            options,
            inputs,
        )
        self.known, self._code, self._looking = known, code, looking
        self._origin, self._lineage, self._advice = origin, lineage, advice
        self.independent = False

    def recorded(self) -> Any:
        """Give the recorded result, if all that it stands on is as it was; else `MISSING`."""
        run = self.run
        try:
            state = run.fold.operations.get(self.id)
            if state is None or state.kind is not _COMPLETED or state.asked or state.wait:
                return MISSING
            options, basis = self.options, state.basis
            if basis.get("facets") != self.known.digest or "produced" in basis:
                return MISSING
            if options.uses or options.produces or not run.is_open or run.is_live(self.id):
                return MISSING
            if not run.is_durable(state):
                return MISSING
            with self._looking:
                if run.digests(self.inputs, self.id) != basis.get("inputs"):
                    return MISSING
                value = recorded_value(run, state)
            was_replayed(run, state)
            return value
        except BaseException as stop:
            if isinstance(stop, Exception | ResultNotLoadable):
                return MISSING  # the operation meets it too, and says what it means
            self.give_back()
            raise

    def give_back(self) -> None:
        """Let the next call be this one: it was stopped before it gave or began anything."""
        with self.run.lock:
            self.scope.give_back(parse(self.id), self._origin)

    def __call__(self) -> Operation:
        """Make an attempt, with the files as they are by now."""
        looking = self._looking
        try:
            with looking:
                made = Operation(
                    self.run,
                    self.scope,
                    self.id,
                    self.options,
                    self.inputs,
                    self.run.with_files(self.options, self.known),
                    self._code,
                    self._origin,
                    self._lineage,
                    self._advice,
                )
        except BaseException:
            self.give_back()
            raise
        if self.independent:
            made.branch = self.id
        made.time.looking_s = looking.take()
        return made
