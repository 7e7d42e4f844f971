"""The fold: records in, what the journal proves out. Pure, and the only reader of record kinds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from durable_nb.model import identity
from durable_nb.model.facets import INPUT, PRODUCED, FacetSet
from durable_nb.model.outcomes import (
    DECISIVE,
    OUTCOMES,
    RUN_STATUS,
    Effect,
    Kind,
    Outcome,
    RunStatus,
)
from durable_nb.model.records import RUN, Record
from durable_nb.model.spending import ENDS, NO_BILL, NOTHING_SPENT, Bill, Totals
from durable_nb.model.waits import Wait


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


#: Kinds after which the operation is done anew, as another effect with another key.
_RENEWS: Final = frozenset({Kind.INVALIDATED, Kind.RERUN})
#: Kinds that carry the result that replay returns.
_RESULTS: Final = frozenset(
    {
        Kind.COMPLETED,
        Kind.CONFIRMED,
        Kind.KEPT,
        Kind.DUPLICATE,
        Kind.APPROVED,
        Kind.SIGNALLED,
    }
)
#: Those of them that a person gave, so that the code does not count.
_VOUCHED: Final = frozenset({Kind.CONFIRMED, Kind.APPROVED, Kind.SIGNALLED})
#: Kinds that complete with an error, which replay raises again.
_FAILURES: Final = frozenset({Kind.OBSERVED, Kind.REJECTED})
#: That an operation came out differently, among what is asked about.
RESULT: Final = "result"
#: What a person may decide about a change.
_DECISIONS: Final = frozenset({Kind.KEPT, Kind.RERUN})
#: The account that the run acts for: another one is asked about, whatever the effect and costs.
ACCOUNT: Final = "account"
#: Facets that are one operation's own, so that a decision about them says nothing of another's.
OWN_FACETS: Final = (INPUT, RESULT, PRODUCED)


def is_about_result(body: Mapping[str, Any]) -> bool:
    """Tell whether a question, or its answer, is about what came out."""
    return any(row[0] == RESULT for row in body.get("rows") or ())


@dataclass(frozen=True, slots=True)
class OperationState:
    """What the records of one operation prove.

    Attributes
    ----------
    first_seq : int
        Its first record; operations are listed in that order.
    kind : Kind or None
        The last decisive record; with `effect` it gives `outcome`.
    intent : Mapping
        Body of the last `intended` record: inputs, code, idempotency key and so on.
    basis : Mapping
        The facets (``inputs``, the digest of the others, and ``produced`` files) that the recorded
        result stands on.
    result : str or None
        The recorded result, as `values.encode` gave it.
    preview : str or None
        The result in one line, where it was recorded beside it.
    failed : bool
        Whether it is completed with an error, which replay raises again.
    moved_seq : int
        The last record that changed what there is to judge; a verdict by somebody who saw less of
        it would be about something else.
    question : Mapping or None
        The change that waits for a decision: ``changes``, ``cost``, and the ``basis`` offered.
    key_expires : datetime or None
        From then on an idempotent effect in doubt counts as external (`key_ttl`).
    unpriced : int
        Attempts whose cost is not known, so that totals say "at least".
    differs : Mapping or None
        That it came out differently than what later effects stand on, and waits for a decision.
    former : str or None
        The result that later effects may stand on, from before it was invalidated or done again.
    vouched : bool
        Whether the result came from a verdict, so that the code does not count.
    bill : Bill
        What its attempts have cost.
    """

    id: str
    first_seq: int
    effect: Effect
    kind: Kind | None = None
    attempt: int = 0
    generation: int = 0
    last_seq: int = 0
    moved_seq: int = 0
    epoch: int = 0
    intent: Mapping[str, Any] = field(default_factory=_nothing)
    basis: Mapping[str, Any] = field(default_factory=_nothing)
    last: Mapping[str, Any] = field(default_factory=_nothing)
    result: str | None = None
    preview: str | None = None
    error: Mapping[str, Any] | None = None
    started: datetime | None = None
    ended: datetime | None = None
    duration_s: float | None = None
    usd: float | None = None
    tokens: int | None = None
    unpriced: int = 0
    failed: bool = False
    question: Mapping[str, Any] | None = None
    differs: Mapping[str, Any] | None = None
    former: str | None = None
    vouched: bool = False
    key_expires: datetime | None = None
    bill: Bill = NO_BILL

    @property
    def place(self) -> identity.Place:
        """Parent, name, key and occurrence."""
        return identity.parse(self.id)

    @property
    def asked(self) -> Mapping[str, Any] | None:
        """What waits for a decision: a change of what it stands on, else of what came out."""
        return self.question or self.differs

    @property
    def cell(self) -> str:
        """The cell that called it, at the root of the run."""
        return str(self.intent.get("cell", ""))

    def idempotency_key(self, run_id: str) -> str:
        """Give the key of the next attempt; one that was sent stays, also in a fork of the run."""
        if self.intent.get("generation") == self.generation and self.intent.get("idempotency_key"):
            return str(self.intent["idempotency_key"])
        return identity.idempotency_key(run_id, self.id, self.generation)

    @property
    def undoes(self) -> Mapping[str, Any] | None:
        """What a compensation takes back: ``op`` and ``generation``; `None` for all else."""
        return self.intent.get("undoes")

    @property
    def wait(self) -> Wait | None:
        """What it waits, or has waited, for; `None` of a step."""
        found = self.intent.get("wait")
        return None if found is None else Wait(found)

    @property
    def is_pending(self) -> bool:
        """Whether it is a wait that is asked for, and undecided."""
        return self.kind is Kind.INTENDED and self.wait is not None

    def outcome(self, now: datetime) -> Outcome:
        """Look the outcome up; `now` matters only where a provider forgets keys."""
        effect = self.effect
        if effect is Effect.IDEMPOTENT and self.key_expires and now >= self.key_expires:
            effect = Effect.EXTERNAL
        return OUTCOMES[effect, self.kind]

    def apply(self, record: Record) -> OperationState:
        """Give the state after one more record of this operation."""
        body, kind = record.body, record.kind
        if kind is Kind.ASKED:
            asked = body if body["changes"] else None
            moved = record.seq if asked else self.moved_seq
            return replace(self, last_seq=record.seq, moved_seq=moved, question=asked)
        if kind not in DECISIVE:
            return replace(self, last_seq=record.seq, bill=self.bill.after(record))
        new: dict[str, Any] = {"kind": kind, "last_seq": record.seq, "last": body}
        new["bill"] = self.bill.after(record)
        new["moved_seq"] = record.seq
        new["question"] = None
        if kind is Kind.INTENDED:
            new |= self._intended(record)
        if kind in ENDS:
            new |= self._ended(record)
        if kind in _RESULTS and body.get("result") is not None:
            new["result"], new["preview"] = body["result"], body.get("preview")
            new["failed"] = False
        if kind in _RESULTS and kind is not Kind.KEPT:
            new |= {"error": None, "ended": record.ts, "failed": False}
            new |= {"vouched": kind in _VOUCHED, "differs": body.get("differs")}
            new["former"] = self.former if body.get("differs") else None
        if kind in _RESULTS or kind in _FAILURES:
            new["basis"] = body.get("basis") or self.last.get("basis") or self.intent
            if body.get("produced"):
                new["basis"] = {**new["basis"], "produced": body["produced"]}
        if kind is Kind.KEPT and is_about_result(body):
            new |= {"differs": None, "former": None}
        if kind in _FAILURES:
            new["failed"] = True
            if body.get("error") is not None:  # of a wait, which had no attempt that raised it
                new |= {"error": body["error"], "ended": record.ts}
        if kind in _RENEWS:
            new |= {"generation": self.generation + 1, "result": None, "preview": None}
            new |= {"former": self.former or self.result, "differs": None, "vouched": False}
            new["error"] = None
            new["failed"] = False
            new["key_expires"] = None
        return replace(self, **new)

    def _intended(self, record: Record) -> dict[str, Any]:
        ttl = record.body.get("key_ttl")
        expires = record.ts + timedelta(seconds=ttl) if ttl is not None else None
        return {
            "effect": Effect(record.body["effect"]),
            "attempt": record.body["attempt"],
            "epoch": record.epoch,
            "intent": record.body,
            "started": record.ts,
            "ended": None,
            "duration_s": None,
            "key_expires": self.key_expires or expires,
            # an attempt that left nothing behind has a cost that nobody knows
            "unpriced": self.unpriced + (self.kind is Kind.INTENDED and self.wait is None),
        }

    def _ended(self, record: Record) -> dict[str, Any]:
        body = record.body
        new: dict[str, Any] = {"ended": record.ts, "duration_s": body.get("duration_s")}
        if body.get("usd") is not None:
            new["usd"] = (self.usd or 0.0) + body["usd"]
        if body.get("tokens") is not None:
            new["tokens"] = (self.tokens or 0) + body["tokens"]
        if body.get("error") is not None:
            new["error"] = body["error"]
        return new


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
    terms : dict
        What holds for the whole run, as last recorded: ``version``, ``facets``, ``scopes``,
        ``budget``, ``account``.
    known : dict
        The sets of facets that operations name, by digest.
    decided : dict
        What a person decided about a change (facet, digest before, digest after): `KEPT` or
        `RERUN`. The same change in what follows needs no second answer.
    containers : set of str
        Identities that others are below of.
    forked : Mapping or None
        Of what run this one is a fork: ``of, of_id, at, seq``; `None` of all others.
    spending : Totals
        What all attempts have cost.
    held : dict
        Signals that came before anything waited for them, by name.
    """

    operations: dict[str, OperationState] = field(default_factory=dict)
    openings: list[Opening] = field(default_factory=list)
    born: Mapping[str, Any] = field(default_factory=_nothing)
    born_at: datetime | None = None
    forked: Mapping[str, Any] | None = None
    kind: Kind | None = None
    doubted: Mapping[str, Any] | None = None
    run_id: str = ""
    folder_id: Sequence[int] | None = None
    last_seq: int = 0
    updated: datetime | None = None
    terms: dict[str, Any] = field(default_factory=dict)
    known: dict[str, FacetSet] = field(default_factory=dict)
    decided: dict[tuple[str, str, str], Kind] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)
    spending: Totals = NOTHING_SPENT
    held: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _first_seqs: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Fold:
        """Fold a whole journal."""
        fold = cls()
        for record in records:
            fold.apply(record)
        return fold

    def apply(self, record: Record) -> OperationState | None:
        """Take one more record in; give the operation's new state, if it is about one."""
        self.last_seq = max(self.last_seq, record.seq)
        self.updated = record.ts
        if record.op == RUN:
            self._apply_run(record)
            return None
        state = self.operations.get(record.op)
        if state is None:
            effect = Effect(record.body.get("effect", Effect.EXTERNAL))
            state = OperationState(record.op, record.seq, effect)
            insort(self._first_seqs, record.seq)
            self.operations[record.op] = state
            if record.op.rpartition("/")[0] not in self.containers:
                self.spending = self.spent_above(record.op)
                self.containers.update(_above(record.op))
        if record.kind in _DECISIONS and record.body.get("actor") != "policy":
            for facet, _, after, old, new in record.body.get("rows") or ():
                if not facet.startswith(OWN_FACETS):
                    self.decided[facet, old, new] = record.kind
                if facet == ACCOUNT and old == (self.terms.get(ACCOUNT) or [""])[0]:
                    # another one is the run's once a person has said so
                    self.terms[ACCOUNT] = [new, after]
        if record.kind is Kind.SIGNALLED and record.body.get("held"):
            self.held.pop(str(record.body.get("name")), None)  # this wait has taken it
        bill = state.bill
        state = self.operations[record.op] = state.apply(record)
        if state.bill is not bill:
            inner = record.op in self.containers
            self.spending = self.spending.moved(
                bill.share(container=inner), state.bill.share(container=inner)
            )
        return state

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
            case Kind.DEFINED:
                found = FacetSet.recorded(record.body)
                self.known[found.digest] = found
            case Kind.DOUBTED | Kind.ACCEPTED:
                self.doubted = record.body if record.kind is Kind.DOUBTED else None
            case Kind.FORKED:
                self.forked, self.kind = record.body, Kind.FORKED
            case Kind.GRANTED:
                self._grant(record.body)
            case Kind.SIGNALLED:
                self.held[str(record.body["name"])] = record.body
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
        return bisect_left(self._first_seqs, state.first_seq) + 1

    def ordered(self) -> list[OperationState]:
        """List the operations by first record."""
        return sorted(self.operations.values(), key=lambda s: s.first_seq)

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
        return [s for s in self.operations.values() if s.outcome(now) is Outcome.UNKNOWN]

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
    """Tell where a run stands; at rest, with something unknown or undecided, it waits."""
    status = RUN_STATUS[fold.kind or Kind.BORN, held]
    at_rest = status in {RunStatus.CLOSED, RunStatus.FAILED, RunStatus.CRASHED}
    return RunStatus.WAITING if waiting and at_rest and fold.kind is Kind.CLOSED else status
