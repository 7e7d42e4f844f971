"""The state of one operation: what its records prove, folded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from durable_nb.model import identity
from durable_nb.model.outcomes import DECISIVE, EFFECTS, OUTCOMES, Effect, Kind, Outcome
from durable_nb.model.records import Record
from durable_nb.model.spending import ENDS, NO_BILL, Bill
from durable_nb.model.waits import Wait

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def nothing() -> Mapping[str, Any]:
    """Give a mapping that is empty, and stays so."""
    return _NOTHING


#: Kinds after which the operation is done anew, as another effect with another key.
_RENEWS: Final = frozenset({Kind.INVALIDATED, Kind.RERUN})
#: Kinds that carry the result that replay returns.
_RESULTS: Final = frozenset(
    {
        Kind.COMPLETED,
        Kind.PINNED,
        Kind.CONFIRMED,
        Kind.KEPT,
        Kind.DUPLICATE,
        Kind.APPROVED,
        Kind.SIGNALLED,
    }
)
#: Those of them that a person gave, so that the code does not count.
_VOUCHED_BY: Final = frozenset({Kind.CONFIRMED, Kind.APPROVED, Kind.SIGNALLED})
#: Kinds that complete with an error, which replay raises again.
_FAILURES: Final = frozenset({Kind.OBSERVED, Kind.REJECTED})
#: That an operation came out differently, among what is asked about.
RESULT: Final = "result"


def is_about_result(body: Mapping[str, Any]) -> bool:
    """Tell whether a question, or its answer, is about what came out."""
    return any(row[0] == RESULT for row in body.get("rows") or ())


class OperationState(NamedTuple):
    """What the records of one operation prove.

    A named tuple, and no dataclass: a new one is made for each record that is loaded, and that
    takes a thirtieth of the time.

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
    intent: Mapping[str, Any] = _NOTHING
    basis: Mapping[str, Any] = _NOTHING
    last: Mapping[str, Any] = _NOTHING
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
    def branch(self) -> str:
        """The innermost independent branch that it is in; "" where there is none."""
        return str(self.intent.get("branch", ""))

    @property
    def cell(self) -> str:
        """The cell that called it, at the root of the run."""
        return str(self.intent.get("cell", ""))

    def idempotency_key(self, run_id: str) -> str:
        """Give the key of the next attempt; one that was sent stays, also in a fork of the run."""
        sent = self.intent.get("idempotency_key")
        if sent and self.intent.get("generation", 0) == self.generation:
            return str(sent)
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
        new: list[Any] = list(self)
        new[_LAST_SEQ] = record.seq
        if kind is _ASKED:
            new[_QUESTION] = body if body["changes"] else None
            new[_MOVED_SEQ] = record.seq if body["changes"] else self.moved_seq
            return _made(new)
        new[_BILL] = self.bill.after(record)
        if kind not in DECISIVE:
            return _made(new)
        new[_KIND], new[_LAST], new[_MOVED_SEQ], new[_QUESTION] = kind, body, record.seq, None
        if kind is _BEGUN:
            self._intended(record, new)
            return _made(new)
        if kind in ENDS:
            self._ended(record, new)
        if kind in _RESULTS:
            self._resulted(record, new)
        if kind in _RESULTS or kind in _FAILURES:
            new[_BASIS] = body.get("basis") or self.last.get("basis") or self.intent
            if body.get("produced"):
                new[_BASIS] = {**new[_BASIS], "produced": body["produced"]}
        if kind is _KEPT and is_about_result(body):
            new[_DIFFERS] = new[_FORMER] = None
        if kind in _FAILURES:
            new[_FAILED] = True
            if body.get("error") is not None:  # of a wait, which had no attempt that raised it
                new[_ERROR], new[_ENDED] = body["error"], record.ts
        if kind in _RENEWS:
            self._renewed(new)
        return _made(new)

    def _renewed(self, new: list[Any]) -> None:
        new[_GENERATION] = self.generation + 1
        new[_FORMER] = self.former or self.result
        for place in (_RESULT, _PREVIEW, _DIFFERS, _ERROR, _KEY_EXPIRES):
            new[place] = None
        new[_VOUCHED] = new[_FAILED] = False

    def _intended(self, record: Record, new: list[Any]) -> None:
        body = record.body
        new[_EFFECT] = EFFECTS[body["effect"]]
        new[_ATTEMPT], new[_EPOCH], new[_INTENT] = body["attempt"], record.epoch, body
        new[_STARTED], new[_ENDED], new[_DURATION_S] = record.ts, None, None
        ttl = body.get("key_ttl")
        if ttl is not None and not self.key_expires:
            new[_KEY_EXPIRES] = record.ts + timedelta(seconds=ttl)
        if self.kind is Kind.INTENDED and self.wait is None:
            # an attempt that left nothing behind has a cost that nobody knows
            new[_UNPRICED] = self.unpriced + 1

    def _ended(self, record: Record, new: list[Any]) -> None:
        body = record.body
        new[_ENDED], new[_DURATION_S] = record.ts, body.get("duration_s")
        if body.get("usd") is not None:
            new[_USD] = (self.usd or 0.0) + body["usd"]
        if body.get("tokens") is not None:
            new[_TOKENS] = (self.tokens or 0) + body["tokens"]
        if body.get("error") is not None:
            new[_ERROR] = body["error"]

    def _resulted(self, record: Record, new: list[Any]) -> None:
        body, kind = record.body, record.kind
        if body.get("result") is not None:
            new[_RESULT], new[_PREVIEW] = body["result"], body.get("preview")
            new[_FAILED] = False
        if kind is not Kind.KEPT:
            differs = body.get("differs")
            new[_ERROR], new[_ENDED], new[_FAILED] = None, record.ts, False
            new[_VOUCHED], new[_DIFFERS] = kind in _VOUCHED_BY, differs
            new[_FORMER] = self.former if differs else None


def _made(fields: list[Any]) -> OperationState:
    """Make a state of its fields; without the count of them that `_make` repeats."""
    return _new(OperationState, fields)


_new: Final[Callable[..., OperationState]] = tuple.__new__
#: Bound once: to look a member of an enum up takes as long as to compare it three times.
_ASKED, _BEGUN, _KEPT = Kind.ASKED, Kind.INTENDED, Kind.KEPT

#: Where each field is: a state is made from a list, which is changed in place before that.
(
    _ID,
    _FIRST_SEQ,
    _EFFECT,
    _KIND,
    _ATTEMPT,
    _GENERATION,
    _LAST_SEQ,
    _MOVED_SEQ,
    _EPOCH,
    _INTENT,
    _BASIS,
    _LAST,
    _RESULT,
    _PREVIEW,
    _ERROR,
    _STARTED,
    _ENDED,
    _DURATION_S,
    _USD,
    _TOKENS,
    _UNPRICED,
    _FAILED,
    _QUESTION,
    _DIFFERS,
    _FORMER,
    _VOUCHED,
    _KEY_EXPIRES,
    _BILL,
) = range(len(OperationState._fields))
