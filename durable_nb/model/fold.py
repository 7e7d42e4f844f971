"""The fold: records in, what the journal proves out. Pure, and the only reader of record kinds."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from durable_nb.model import retiring
from durable_nb.model.facets import INPUT, PRODUCED, FacetSet
from durable_nb.model.outcomes import (
    RUN_STATUS,
    Effect,
    Kind,
    Outcome,
    RunStatus,
)
from durable_nb.model.pins import Carried, add_totals, is_retired
from durable_nb.model.records import RUN, Record
from durable_nb.model.spending import NO_BILL, NOTHING_SPENT, Totals, total_of
from durable_nb.model.state import RESULT, OperationState, nothing
from durable_nb.model.unfolded import (
    Operations,
    Read,
    Unfolded,
    begin,
    effect_of,
    effects_of,
    firsts_of,
    nowhere,
)

#: The account that the run acts for: another one is asked about, whatever the effect and costs.
ACCOUNT: Final = "account"
#: Facets that are one operation's own, so that a decision about them says nothing of another's.
OWN_FACETS: Final = (INPUT, RESULT, PRODUCED)
#: What a person may decide about a change.
_DECISIONS: Final = frozenset({Kind.KEPT, Kind.RERUN})
#: Bound once: to look a member of an enum up takes as long as to compare it three times.
_PINNED, _SIGNALLED = Kind.PINNED, Kind.SIGNALLED


@dataclass(frozen=True, slots=True)
class Opening:
    """One owner's beginning: its epoch, when, and whether it executes or only settles."""

    epoch: int
    ts: datetime
    role: str
    closed: bool = False


@dataclass(slots=True)
class Fold:
    """All that a run's records prove; grows by `apply` and never looks back.

    Attributes
    ----------
    operations : Operations
        Identity to state.
    terms : dict
        What holds for the whole run, as last recorded: ``version``, ``facets``, ``scopes``,
        ``budget``, ``account``.
    known : dict
        The sets of facets that operations name, by digest.
    decided : dict
        What a person decided about a change (facet, digest before, digest after): `KEPT` or
        `RERUN`. The same change in what follows needs no second answer.
    paused : Mapping or None
        Who paused the run (``actor``), when (``at``) and why (``reason``).
    submitted : Mapping or None
        The notebook, and its parameters, that a supervisor executes.
    deaths : list of Mapping
        The kernels that a supervisor saw die since the run last failed: what was ``at_work``.
    containers : dict
        Identities that others are below of, and which those are.
    forked : Mapping or None
        Of what run this one is a fork: ``of, of_id, at, seq``; `None` of all others.
    spending : Totals
        What all attempts have cost, those of retired operations included.
    held : dict
        Signals that came before anything waited for them, by name.
    signalled : bool
        Whether any ever did.
    carried : dict
        What each loop has retired, by the loop's identity. No operation of that is in
        `operations`, however the records were loaded.
    dropped : tuple of OperationState
        What the last pin has retired, for those who keep things beside.
    """

    operations: Operations = field(default_factory=Operations)
    openings: list[Opening] = field(default_factory=list)
    born: Mapping[str, Any] = field(default_factory=nothing)
    born_at: datetime | None = None
    forked: Mapping[str, Any] | None = None
    kind: Kind | None = None
    doubted: Mapping[str, Any] | None = None
    paused: Mapping[str, Any] | None = None
    submitted: Mapping[str, Any] | None = None
    deaths: list[Mapping[str, Any]] = field(default_factory=list)
    run_id: str = ""
    folder_id: Sequence[int] | None = None
    last_seq: int = 0
    updated: datetime | None = None
    terms: dict[str, Any] = field(default_factory=dict)
    known: dict[str, FacetSet] = field(default_factory=dict)
    decided: dict[tuple[str, str, str], Kind] = field(default_factory=dict)
    containers: dict[str, set[str]] = field(default_factory=dict)
    spending: Totals = NOTHING_SPENT
    held: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    signalled: bool = False
    carried: dict[str, Carried] = field(default_factory=dict)
    dropped: tuple[OperationState, ...] = ()
    _first_seqs: array[int] = field(default_factory=lambda: array("q"))
    _retires: bool = True

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        retired_seqs: Iterable[int] = (),
        unfolded: Unfolded | None = None,
        read: Read = nowhere,
    ) -> Fold:
        """Fold a journal: whole, or without what its pins have retired.

        Parameters
        ----------
        records : iterable of Record
            In order.
        retired_seqs : iterable of int
            The first record of each operation that was left out, so that row numbers stay.
        unfolded : Unfolded, optional
            The operations of which no records are given, because they are read when asked for.
        read : callable
            Reads those.
        """
        rest = unfolded or Unfolded()
        places = dict.values(rest.operations.places)
        fold = cls(_first_seqs=array("q", sorted([*retired_seqs, *firsts_of(places)])))
        fold.operations = rest.operations
        fold.operations.read, fold.operations.effects = read, effects_of(places)
        for op in rest.operations:
            if "/" in op:
                fold._put_below(op)
        return fold._with(records)._with_unfolded(rest)

    @classmethod
    def whole(cls, records: Iterable[Record]) -> Fold:
        """Fold a whole journal, and keep what its pins have retired: for what tells of all of it.

        Parameters
        ----------
        records : iterable of Record
            All of them, in order.
        """
        return cls(_retires=False)._with(records)

    def _with(self, records: Iterable[Record]) -> Fold:
        for record in records:
            self._take(record, self.operations.get(record.op))
        # added up once, and not moved from each record to the next
        bills = ((s.bill, s.id in self.containers) for s in self.operations.folded())
        self.spending = add_totals([*(c.totals for c in self.carried.values()), total_of(bills)])
        return self

    def _with_unfolded(self, rest: Unfolded) -> Fold:
        """Count in what was not folded; what others are below of is folded, for its share."""
        effects = self.operations.effects
        found = Totals(calls=effects.total(), busy=rest.busy)
        for op in [op for op in self.containers if self.operations.place(op) is not None]:
            state = self.operations[op] = self.operations[op]
            effects[state.effect] -= 1
            found = found.moved(state.bill.share(container=False), state.bill.share(container=True))
        self.spending = add_totals([self.spending, found])
        if rest.last_seq > self.last_seq:
            self.last_seq, self.updated = rest.last_seq, rest.updated
        return self

    def apply(self, record: Record) -> OperationState | None:
        """Take one more record in; give the operation's new state, if it is about one."""
        return self.moved(record)[1]

    def moved(self, record: Record) -> tuple[OperationState | None, OperationState | None]:
        """Do the same; give the operation's state before, and after it."""
        op, old = record.op, self.operations.get(record.op)
        if old is None and "/" in op and not is_retired(op, self.carried):
            self.spending = self.spent_above(op)
        state = self._take(record, old)
        bill = NO_BILL if old is None else old.bill
        if state is not None and state.bill is not bill:
            self.spending = self.spending.billed(bill, state.bill, container=op in self.containers)
        return old, state

    def _take(self, record: Record, state: OperationState | None) -> OperationState | None:
        """Take one more record in, without the total of what is spent."""
        seq, op, kind, self.updated, _, body = record
        self.last_seq = max(self.last_seq, seq)
        if op == RUN:
            self._apply_run(record)
            return None
        if state is None:
            if self.carried and is_retired(op, self.carried):
                return None  # a late remark: the history has it
            state = begin(record)
            self._count_row(seq)
            if "/" in op:
                self._put_below(op)
        if kind in _DECISIONS and body.get("actor") != "policy":
            self._decide(record)
        if kind is _SIGNALLED and body.get("held"):
            self.held.pop(str(body.get("name")), None)  # this wait has taken it
        state = self.operations[op] = state.apply(record)
        if kind is _PINNED and self._retires:
            self._retire(record)
        return state

    def _count_row(self, seq: int) -> None:
        """Note when an operation began; two threads may fold theirs in another order."""
        seqs = self._first_seqs
        if not seqs or seq > seqs[-1]:
            seqs.append(seq)
        else:
            insort(seqs, seq)

    def _decide(self, record: Record) -> None:
        """Remember what a person decided about a change."""
        for facet, _, after, old, new in record.body.get("rows") or ():
            if not facet.startswith(OWN_FACETS):
                self.decided[facet, old, new] = record.kind
            if facet == ACCOUNT and old == (self.terms.get(ACCOUNT) or [""])[0]:
                # another one is the run's once a person has said so
                self.terms[ACCOUNT] = [new, after]

    def _put_below(self, op: str) -> None:
        """Note what an operation is below of."""
        for above in _above(op):
            known = above in self.containers
            self.containers.setdefault(above, set()).add(op)
            if known:
                break
            op = above

    def _retire(self, record: Record) -> None:
        """Let go of what a pin has retired; what it cost stays in the pin's own numbers."""
        self.dropped = retiring.retire(self, record)
        for facet, old, new, kind in record.body.get("decided") or ():
            self.decided[facet, old, new] = Kind(kind)
        if record.body.get(ACCOUNT):
            self.terms[ACCOUNT] = record.body[ACCOUNT]
        if "held" in record.body:
            self.held = {n: said for n, said in self.held.items() if n in record.body["held"]}

    def decisions(self) -> dict[str, Any]:
        """Give what a pin repeats of what was decided: some of it may be retired by the pin.

        So may the wait be that has taken a signal, which is held by a record of the run.
        """
        told: dict[str, Any] = {"held": sorted(self.held)} if self.signalled else {}
        if self.decided:
            rows = [[*change, str(kind)] for change, kind in self.decided.items()]
            told |= {"decided": rows, ACCOUNT: self.terms.get(ACCOUNT)}
        return told

    def retired(self, op: str) -> bool:
        """Tell whether a pin has retired an operation of this identity."""
        return is_retired(op, self.carried)

    def spent_above(self, op: str) -> Totals:
        """Give what is spent once an operation is on record: those above it are no calls then."""
        spending = self.spending
        for above in _above(op):
            if above in self.containers:
                break  # and so are those above it
            if above in self.operations:
                bill = self.operations[above].bill
                spending = spending.moved(bill.share(container=False), bill.share(container=True))
        return spending

    def _apply_run(self, record: Record) -> None:
        executing = record.body.get("role", "runner") == "runner"
        self.terms |= record.body.get("terms") or {}
        self.run_id = record.body.get("run_id", self.run_id)  # minted at birth, and by a fork
        if executing:
            self.folder_id = record.body.get("folder_id", self.folder_id)
        match record.kind:
            case Kind.BORN:
                self.born, self.born_at, self.kind = record.body, record.ts, Kind.BORN
            case Kind.FORKED:
                self.forked, self.kind = record.body, Kind.FORKED
            case Kind.OPENED:
                role = record.body.get("role", "runner")
                self.openings.append(Opening(record.epoch, record.ts, role))
                if executing:
                    self.kind = Kind.OPENED
            case Kind.CLOSED | Kind.FAILED | Kind.FINISHED:
                role = record.body.get("role", "runner")
                if self.openings and self.openings[-1].role == role:
                    self.openings[-1] = replace(self.openings[-1], closed=True)
                if executing and not (record.kind is Kind.CLOSED and self.kind is Kind.FINISHED):
                    self.kind = record.kind
                    if record.kind is Kind.FAILED:
                        self.deaths = []
            case _:
                self._learn(record)

    def _learn(self, record: Record) -> None:
        """Take in what is said of the run between its openings and ends."""
        match record.kind:
            case Kind.DEFINED:
                found = FacetSet.recorded(record.body)
                self.known[found.digest] = found
            case Kind.DOUBTED:
                self.doubted = record.body
            case Kind.ACCEPTED:
                self.doubted = None
            case Kind.PAUSED:
                self.paused = {**record.body, "at": record.ts}
            case Kind.UNPAUSED:
                self.paused = None
            case Kind.SUBMITTED:
                self.submitted = record.body
            case Kind.DIED:
                self.deaths.append(record.body)
            case Kind.GRANTED:
                self._grant(record.body)
            case Kind.SIGNALLED:
                self.held[str(record.body["name"])], self.signalled = record.body, True
            case _:
                pass

    def _grant(self, body: Mapping[str, Any]) -> None:
        """Widen what holds for the run."""
        if body.get("scopes"):
            both = {*(self.terms.get("scopes") or ()), *body["scopes"]}
            self.terms["scopes"] = sorted(both)
        if body.get("budget"):
            self.terms["budget"] = {**(self.terms.get("budget") or {}), **body["budget"]}

    def row_of(self, state: OperationState) -> int:
        """Give the place of an operation in the list that `show` prints, from 1.

        By first record, so that it is the same in the kernel that ran it and in the next, in
        whatever order two threads got to fold what they had recorded.
        """
        return self.row(state.first_seq)

    def row(self, first_seq: int) -> int:
        """Give the same of an operation that began with this record."""
        return bisect_left(self._first_seqs, first_seq) + 1

    def ordered(self) -> list[OperationState]:
        """List the operations by first record."""
        known = self.operations
        return [known[op] for op in sorted(known, key=known.first_seq)]

    def with_effect(self) -> list[OperationState]:
        """List the same without those whose effect is `none`, which need not be folded for that."""
        known = self.operations
        found = [s.id for s in known.folded() if s.effect is not Effect.NONE]
        found += [op for op, at in known.unfolded() if effect_of(at) is not Effect.NONE]
        return [known[op] for op in sorted(found, key=known.first_seq)]

    @property
    def salt(self) -> str:
        """What fingerprints of the account are made with; a fork has that of its original."""
        return str(self.born.get("salt") or self.born["run_id"])

    @property
    def epoch(self) -> int:
        """The largest epoch on record."""
        return self.openings[-1].epoch if self.openings else 0

    def unknown(self, now: datetime) -> list[OperationState]:
        """List the operations that only evidence can settle, whoever may be running them."""
        return [s for s in self.operations.folded() if s.outcome(now) is Outcome.UNKNOWN]

    def alive_until(self, state: OperationState) -> datetime | None:
        """Give the latest moment at which the last attempt can have been alive.

        The end of the attempt if it is on record, else the next opening of the run: the lease was
        free by then. `None` while the attempt's own owner is still there.
        """
        if state.kind is not Kind.INTENDED:
            return state.ended or state.started
        return next((o.ts for o in self.openings if o.epoch > state.epoch), None)

    def previous(self, epoch: int) -> Opening | None:
        """Give the last executing owner before `epoch`."""
        earlier = [o for o in self.openings if o.epoch < epoch and o.role == "runner"]
        return earlier[-1] if earlier else None


def _above(op: str) -> Iterator[str]:
    """Give the identities above an operation, from the inside out."""
    above = op.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def status_of(fold: Fold, held: bool, waiting: int) -> RunStatus:
    """Tell where a run stands; at rest, paused or with something undecided in it, it waits."""
    status = RUN_STATUS[fold.kind or Kind.BORN, held]
    at_rest = status in {RunStatus.CLOSED, RunStatus.FAILED, RunStatus.CRASHED}
    undecided = waiting and fold.kind is Kind.CLOSED
    return RunStatus.WAITING if at_rest and (undecided or fold.paused) else status
