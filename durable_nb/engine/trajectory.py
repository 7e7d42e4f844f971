"""A trajectory: the records of one run in this process's hands, and the only way to add to them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine import calls, permits, views
from durable_nb.engine.change import Policy
from durable_nb.engine.changed import Changed, Sources
from durable_nb.engine.context import OPEN
from durable_nb.engine.durability import Durability
from durable_nb.engine.facets import Gatherer, of_scopes
from durable_nb.engine.meter import Meter
from durable_nb.engine.options import Options
from durable_nb.engine.produced import used
from durable_nb.engine.recovery import check_artifacts
from durable_nb.engine.scope import Origin
from durable_nb.engine.terms import another, own_facets, recorded_facets
from durable_nb.engine.undone import undone
from durable_nb.engine.validation import schema_of
from durable_nb.journal import THIS, Journal, Place, deferred_interrupts, folder_of
from durable_nb.model.errors import RunClosed, RunHeld, StaleOwner
from durable_nb.model.facets import ANY, FacetSet, Part
from durable_nb.model.fold import Fold
from durable_nb.model.identity import named
from durable_nb.model.outcomes import OUTCOMES, Effect, Kind, Outcome
from durable_nb.model.records import RUN, Draft, Record
from durable_nb.model.state import OperationState
from durable_nb.model.unfolded import Operations

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.views import OperationView
    from durable_nb.journal.place import RunArtifacts


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
    panel : callable or None
        Shows the run of a place as a panel; `None` where there is nothing to show one in.
    """

    origin: Callable[[], Origin | None]
    say: Callable[[str], None]
    panel: Callable[[Place], None] | None = None


#: Where nobody is to be told anything.
QUIET = Surroundings(origin=lambda: None, say=lambda line: None)


_PINNED: Final = Kind.PINNED
_EXTERNAL: Final = Effect.EXTERNAL


def _may_be_in_doubt(state: OperationState) -> bool:
    """Tell whether it is unknown, or will be once a receiver has forgotten its key."""
    if state.effect is not _EXTERNAL and state.key_expires is None:
        return False
    return OUTCOMES[_EXTERNAL, state.kind] is Outcome.UNKNOWN


class Trajectory:
    """What the journal of one run proves, and the only way to add to it.

    Attributes
    ----------
    name, id : str
        The name that the user gave, and the id minted at the run's birth.
    place : Place
        Where its journal, artifacts and lease are.
    fold : Fold
        All records, folded.
    artifacts : Artifacts
        Large values.
    live : dict
        The operations whose body this process is running.
    changed : Changed
        What changed since the run was last published, and its numbers.
    sources : dict
        Identity to ``"ran"`` or ``"record"``, for what this process has reached.
    copied : bool
        Whether it was last executed in another folder, so that a person has to `adopt` it first.
    own_facets : FacetSet
        The run's own, which every operation has: version, model, tools and so on.
    stale : deque of str
        The operations on record that stand on other ones, until the program reaches them.
    on_change : str, callable or None
        The policy of steps that name none of their own.
    outgrown : set of str
        Facets that steps have changed themselves, so that nothing is said by comparing them.
    working : Path
        The folder whose modules count as the user's own code.
    unloadable : dict
        Identity to why its recorded value cannot be loaded here.
    permits : Permits
        What this opening of the run holds back from of its recorded scopes and budget.
    other_account : Change or None
        The account that it acts for now, where that is not the recorded one.
    told_secrets : set of str
        The steps of which it was said that their results hold something like a secret.
    durability : Durability
        Where async code waits until what it recorded is on disk.
    meter : Meter
        What this opening spent on checkpointing, and what its replays saved.
    role : str
        ``runner`` executes, ``operator`` settles, ``reader`` looks.
    begun : callable or None
        Told each operation and its attempt as it begins: a dead kernel cannot say what it was at.
    """

    def __init__(
        self,
        *,
        name: str,
        place: Place,
        journal: Journal,
        fold: Fold,
        artifacts: RunArtifacts,
        surroundings: Surroundings,
        clock: Clock,
        role: str,
        expected: Iterable[str] = (),
        on_change: Policy | None = None,
        permits: permits.Permits = permits.AS_RECORDED,
        account: Part | None = None,
    ) -> None:
        self.name, self.place, self.role, self.clock = name, place, role, clock
        self.fold, self.say, self._panel = fold, surroundings.say, surroundings.panel
        self.lock, self.meter = threading.RLock(), Meter()
        self.live: dict[str, Operation] = {}
        self._looked_from = 1
        self.changed = Changed(expected)
        self.sources = Sources(self.changed)
        self.reconcilers: dict[str, Options] = {}
        self.undoing: dict[str, Callable[..., Any]] = {}
        self.previews: dict[str, tuple[int, str]] = {}
        self.on_change = on_change
        self.headline, self.copied = "", False
        self.begun: Callable[[str, int], None] | None = None
        self.artifacts = artifacts
        self._journal = journal
        self.durability = Durability(journal.flush)
        self._pid, self._open = THIS.pid, True
        self._doubtful: set[str] = set()
        self._asked: set[str] = set()
        self._named: set[str] | None = None
        self._effects: dict[tuple[str, str], list[str]] | None = None
        self.unloadable: dict[str, str] = {}
        self.permits, self.other_account = permits, another(fold, account)
        self.own_facets, self._gatherer = own_facets(fold, account), Gatherer()
        self.stale = self._left_behind()
        self._without: dict[tuple[str, int], FacetSet] = {}
        self.outgrown = {
            n for f in fold.known.values() for n, p in f.parts.items() if p.digest == ANY
        }
        self.working = Path.cwd()
        self.told_secrets: set[str] = set()
        self._note_all(fold.operations)
        check_artifacts(self)

    @property
    def folder(self) -> Path:
        """Where its files are; raises `FoldersOnly` where there are none."""
        return folder_of(self.place, "run.folder")

    # -- the guarded append ----------------------------------------------------------------

    def append(self, *drafts: Draft, lazy: bool = False) -> list[Record]:
        """Add records in one transaction, and fold them; the only way anything is recorded.

        Raises
        ------
        RunHeld, RunClosed, JournalUnwritable
            Nothing was written, or (after a lost answer) what was written was read again.
        """
        with deferred_interrupts():
            began = self.clock.monotonic()
            self.check_owner()
            drafts = (*drafts, *undone(self.fold, drafts, self.clock.now))
            records = self._journal.append(drafts, lazy=lazy)
            with self.lock:
                fold = self.fold
                for record in records:
                    before, state = fold.moved(record)
                    if state is not None:
                        self._note(state)
                        self.changed.moved(before, state, fold)
                    if record.kind is _PINNED:
                        self._let_go(fold.dropped)
                self.meter.pending += self.clock.monotonic() - began
        return records

    def _let_go(self, retired: Iterable[OperationState]) -> None:
        """Forget what is kept beside the fold of operations that a pin has retired."""
        self.changed.retired(retired)
        for op in (state.id for state in retired):
            self._doubtful.discard(op)
            self._asked.discard(op)
            for beside in (self.sources, self.previews, self.undoing, self.unloadable):
                beside.pop(op, None)
            if self._named is not None and op.rpartition("#")[0] not in self.fold.carried:
                self._named.discard(named(op))
        self.stale = deque(op for op in self.stale if op in self.fold.operations)

    @property
    def trouble(self) -> str:
        """What is in the way of what is to be kept at this moment; "" if nothing is."""
        return self._journal.trouble or self.artifacts.trouble

    def remove_artifacts(self, sha256s: Collection[str]) -> None:
        """Remove what no record names; raises `StaleOwner` if the run has another owner by now."""
        if not self.artifacts.remove(sha256s, self._journal.epoch):
            raise StaleOwner(self.name, "another owner took it over in the middle of removing.")

    def is_durable(self, state: OperationState) -> bool:
        """Tell whether all that is recorded of an operation is on disk; lazy records may not be."""
        return state.last_seq <= self._journal.durable_seq

    def make_durable(self) -> None:
        """Bring what was recorded lazily to the disk.

        Raises
        ------
        JournalUnwritable
            It could not be written; the next commit tries again.
        """
        self._journal.flush()

    def read_again(self, first: int, last: int) -> Sequence[Record]:
        """Read records that the opening has left out."""
        return self._journal.read(first, last)

    def tidy(self) -> None:
        """Keep what the next opening has to read short; costs nothing most of the time."""
        self._journal.tidy()

    def has_name(self, op: str) -> bool:
        """Tell whether an operation of this name and parent is on record."""
        with self.lock:
            if self._named is None:
                self._named = {named(known) for known in self.fold.operations}
            return named(op) in self._named

    def _note(self, state: OperationState) -> None:
        """Keep at hand the few operations that stop what is new, now or once a key is forgotten."""
        op = state.id
        if self._named is not None:
            self._named.add(named(op))
        (self._asked.add if state.asked else self._asked.discard)(op)
        (self._doubtful.add if _may_be_in_doubt(state) else self._doubtful.discard)(op)

    def _note_all(self, operations: Operations) -> None:
        """Do the same for what was loaded, where nothing is at hand yet."""
        self.changed.unfolded(operations)
        for state in operations.folded():
            if state.asked:
                self._asked.add(state.id)
            if _may_be_in_doubt(state):
                self._doubtful.add(state.id)
            self.changed.loaded(state)

    def check_owner(self) -> None:
        """Refuse a forked child, and a run that was closed."""
        if THIS.pid != self._pid:
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
        return self._open and THIS.pid == self._pid

    @property
    def id(self) -> str:
        """The run id: minted at birth, or when a copy became a run of its own."""
        return self.fold.run_id

    @property
    def epoch(self) -> int:
        """Number of this owner."""
        return self.fold.epoch

    @property
    def version(self) -> str | None:
        """The version of the workflow, as recorded."""
        found = self.fold.terms.get("version")
        return None if found is None else str(found)

    @property
    def facets(self) -> dict[str, Any]:
        """The facets that were declared for the whole run, as recorded."""
        return recorded_facets(self.fold, self.artifacts)

    @property
    def scopes(self) -> tuple[str, ...]:
        """What its steps may do at most: as recorded, or less if this opening asked for less."""
        return self.permits.scopes_now(self.fold)

    @property
    def budget(self) -> dict[str, float]:
        """What it may spend in all its kernels; empty where nothing is limited."""
        return self.permits.budget_now(self.fold)

    def spent(self) -> dict[str, float | int | bool | None]:
        """Give what it has spent so far, failed attempts included.

        Returns
        -------
        dict
            ``usd``, ``tokens`` (`None` where nobody said), ``calls``, ``seconds``, and
            ``at_least``: whether an attempt is under way, or left nothing, so that only what it
            reserved is in there.
        """
        return self.fold.spending.as_dict()

    def digests(self, inputs: Mapping[str, Any], op: str) -> dict[str, str]:
        """Digest inputs, for comparison on a resume."""
        return calls.digests(inputs, op)

    def gathered(self, options: Options, code: FacetSet) -> FacetSet:
        """Put the facets of an operation together."""
        found = self._gatherer.gather(
            self.own_facets,
            code,
            schema_of(options.validate),
            options.declared,
            of_scopes(options.requires),
        )
        if not self.outgrown:
            return found
        key = (found.digest, len(self.outgrown))  # of which nothing is ever taken away
        if key not in self._without:
            self._without[key] = found.without(self.outgrown)
        return self._without[key]

    def with_files(self, options: Options, known: FacetSet) -> FacetSet:
        """Add the files that an operation uses, as they are at this moment."""
        return self._gatherer.gather(known, used(options.uses)) if options.uses else known

    def definition(self, known: FacetSet) -> list[Draft]:
        """Draft the record of a set of facets, where it is not on record yet."""
        if not known.parts or known.digest in self.fold.known:
            return []
        return [Draft(RUN, Kind.DEFINED, known.body())]

    def was_reached(self, state: OperationState) -> bool:
        """Tell whether the program has come to an operation in this process, or to one above."""
        steps, before = state.id.split("/"), OPEN.reached(self.id)
        above = ("/".join(steps[:n]) for n in range(1, len(steps) + 1))
        return any(op in self.sources or op in before for op in above)

    def effects_left(self, parent: str, cell: str) -> list[OperationState]:
        """List the effects on record of a parent and cell that the program has not come to here.

        What is once reached stays so, and what is new is reached: the list only gets shorter.
        """
        with self.lock:
            known = self.fold.operations
            if self._effects is None:
                self._effects = {}
                for s in self.fold.with_effect():
                    if s.effect is not Effect.NONE and s.undoes is None:
                        place = s.id.rpartition("/")[0], s.cell
                        self._effects.setdefault(place, []).append(s.id)
            found = self._effects.get((parent, cell), [])
            left = [op for op in found if op in known and not self.was_reached(known[op])]
            self._effects[parent, cell] = left
            return [known[op] for op in left]

    def _left_behind(self) -> deque[str]:
        """List what is completed and stands on other facets of the run than hold now."""
        parts, known = self.own_facets.parts.items(), self.fold.known
        differing = {
            digest
            for digest, old in known.items()
            if any(name in old.parts and old.parts[name].digest != p.digest for name, p in parts)
        }
        if not differing:
            return deque()
        return deque(s.id for s in self.fold.ordered() if s.basis.get("facets") in differing)

    def states(self) -> list[OperationState]:
        """Give all operations on record, by when they first began."""
        with self.lock:
            return self.fold.ordered()

    def is_live(self, op: str) -> bool:
        """Tell whether a body of this process is running the operation.

        A body that an interrupt cut off before it could leave is not: the `with` around it is over.
        """
        operation = self.live.get(op)
        return operation is not None and operation.is_running()

    def let_go_of_cut_off(self) -> None:
        """Forget the bodies that an interrupt has cut off: nobody else would, and they add up.

        Looked for when their number has doubled, or come down, so that a thousand tasks that run
        at the same time do not look at one another.
        """
        if not self.live or self._looked_from // 4 < len(self.live) < self._looked_from:
            return
        for op in [op for op in list(self.live) if not self.is_live(op)]:
            self.live.pop(op, None)
        self._looked_from = 2 * len(self.live) + 1

    def restless(self) -> set[str]:
        """Name the few operations that may show otherwise without a record that says so."""
        with self.lock:
            return {*self.live, *self._doubtful, *self.unloadable}

    def unknown_states(self) -> list[OperationState]:
        """List operations in doubt: unknown, and nobody is running them."""
        if not self._doubtful:
            return []
        with self.lock:
            live = self.live.get  # `is_live`, without a call for each of a thousand tasks
            near = [
                self.fold.operations[op]
                for op in self._doubtful
                if (found := live(op)) is None or not found.is_running()
            ]
        if not near:
            return near
        now = self.clock.now()
        unknown = [s for s in near if s.outcome(now) is Outcome.UNKNOWN]
        return sorted(unknown, key=lambda s: s.first_seq)

    def undecided_states(self) -> list[OperationState]:
        """List operations whose change waits for a decision."""
        if not self._asked:
            return []
        with self.lock:
            asked = [self.fold.operations[op] for op in self._asked]
        return sorted(asked, key=lambda s: s.first_seq)

    def view(self, state: OperationState) -> OperationView:
        """Show one operation."""
        return views.view_of(self, state)
