"""Effects, record kinds and outcomes: the state machine, as one table.

Code, tests and docs read `OUTCOMES`; nothing else decides what a record means.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Effect(StrEnum):
    """What an operation may do outside the run."""

    NONE = "none"  #: nothing: doing it again costs time only
    IDEMPOTENT = "idempotent"  #: something, but repeating it with its key is harmless
    EXTERNAL = "external"  #: something that a repetition would double


class Outcome(StrEnum):
    """What the journal can prove about one operation."""

    COMPLETED = "completed"  #: a result is on record; replay returns it
    INCOMPLETE = "incomplete"  #: nothing outside is in doubt; safe to do
    UNKNOWN = "unknown"  #: something outside may have happened; only evidence settles it


class Kind(StrEnum):
    """What one record says: a transition of an operation, or of the run."""

    # of an operation
    INTENDED = "intended"  #: the body is about to run
    RAISED = "raised"  #: the body raised, which proves nothing about an external effect
    NOT_APPLIED = "not_applied"  #: the body raised, and that error proves that nothing happened
    INTERRUPTED = "interrupted"  #: the body was interrupted, cancelled, or stopped by a signal
    UNRECORDED = "unrecorded"  #: the body returned, but its result could not be recorded
    OBSERVED = "observed"  #: the program saw the failure and went on, so it is history
    COMPLETED = "completed"  #: the body returned and its result is on record
    PINNED = "pinned"  #: a loop's state is on record, and what lies before it is retired
    CONFIRMED = "confirmed"  #: verdict: it happened, with this result
    DENIED = "denied"  #: verdict: it did not happen
    INVALIDATED = "invalidated"  #: verdict: the result no longer counts
    KEPT = "kept"  #: verdict on a change: the result still counts
    RERUN = "rerun"  #: verdict on a change: do it again
    APPROVED = "approved"  #: verdict on an approval: yes
    REJECTED = "rejected"  #: verdict on an approval: no, which replay raises again
    SIGNALLED = "signalled"  #: what a wait was for has come, with a value; of the run: it is held
    DUPLICATE = "duplicate"  #: a late result although a later attempt exists: it may be double
    # remarks on an operation: kept as evidence, they change no outcome
    ASKED = "asked"  #: a change was found and the choice offered; without changes: withdrawn
    UNDECIDED = "undecided"  #: a reconciler looked and could not tell
    EVIDENCE = "evidence"  #: something learnt after the fact
    CONTESTED = "contested"  #: a verdict that came second
    RESERVED = "reserved"  #: what an attempt may cost at most, should it leave no outcome

    # of the run
    BORN = "born"
    OPENED = "opened"
    CLOSED = "closed"
    FAILED = "failed"
    FINISHED = "finished"
    DEFINED = "defined"  #: a set of facets, under the digest by which operations name it
    DOUBTED = "doubted"  #: records are known to be lost
    ACCEPTED = "accepted"  #: a person accepts the loss
    ADOPTED = "adopted"  #: a person says why the run is found in another folder
    GRANTED = "granted"  #: a person widens its scopes or its budget
    IDENTIFIED = "identified"  #: the account that it acts for
    FORKED = "forked"  #: it began as a copy of what another run had recorded
    PAUSED = "paused"  #: a person wants nothing new to begin
    UNPAUSED = "unpaused"  #: a person lets it go on
    DIED = "died"  #: a kernel that executed it is gone, with what was at work
    SUBMITTED = "submitted"  #: the notebook and the parameters that a supervisor executes


#: By what stands in a record: a call of the class takes five times as long.
EFFECTS: Final[Mapping[str, Effect]] = MappingProxyType({str(e): e for e in Effect})

#: Kinds that decide an outcome; the others of an operation are remarks.
DECISIVE: Final = frozenset(
    {
        Kind.INTENDED,
        Kind.RAISED,
        Kind.NOT_APPLIED,
        Kind.INTERRUPTED,
        Kind.UNRECORDED,
        Kind.OBSERVED,
        Kind.COMPLETED,
        Kind.PINNED,
        Kind.CONFIRMED,
        Kind.DENIED,
        Kind.INVALIDATED,
        Kind.KEPT,
        Kind.RERUN,
        Kind.APPROVED,
        Kind.REJECTED,
        Kind.SIGNALLED,
        Kind.DUPLICATE,
    }
)

_C, _I, _U = Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.UNKNOWN

#: Last decisive record -> outcome for effects none, idempotent, external (DESIGN section 3).
_ROWS: Final[Mapping[Kind | None, tuple[Outcome, Outcome, Outcome]]] = {
    None: (_I, _I, _I),
    Kind.INTENDED: (_I, _I, _U),
    Kind.RAISED: (_I, _I, _U),
    Kind.NOT_APPLIED: (_I, _I, _I),
    Kind.INTERRUPTED: (_I, _I, _U),
    Kind.UNRECORDED: (_I, _I, _U),
    Kind.OBSERVED: (_C, _C, _C),
    Kind.COMPLETED: (_C, _C, _C),
    Kind.PINNED: (_C, _C, _C),
    Kind.CONFIRMED: (_C, _C, _C),
    Kind.DENIED: (_I, _I, _I),
    Kind.INVALIDATED: (_I, _I, _I),
    Kind.KEPT: (_C, _C, _C),
    Kind.RERUN: (_I, _I, _I),
    Kind.APPROVED: (_C, _C, _C),
    Kind.REJECTED: (_C, _C, _C),
    Kind.SIGNALLED: (_C, _C, _C),
    Kind.DUPLICATE: (_C, _C, _U),
}

#: (effect, last decisive record) -> outcome. The only place where this is decided.
OUTCOMES: Final[Mapping[tuple[Effect, Kind | None], Outcome]] = MappingProxyType(
    {
        (effect, kind): row[column]
        for kind, row in _ROWS.items()
        for column, effect in enumerate((Effect.NONE, Effect.IDEMPOTENT, Effect.EXTERNAL))
    }
)


class RunStatus(StrEnum):
    """Where a run stands, as its last records and its lease tell."""

    NEW = "new"
    OPEN = "open"
    WAITING = "waiting"
    CRASHED = "crashed"
    CLOSED = "closed"
    FAILED = "failed"
    FINISHED = "finished"


#: (last record of the run by an executing owner, is the lease held) -> status.
#: A closed run in which something is unknown or waits, and a paused one that nobody executes, are
#: shown as waiting: see `fold.status_of`.
RUN_STATUS: Final[Mapping[tuple[Kind, bool], RunStatus]] = MappingProxyType(
    {
        (Kind.BORN, True): RunStatus.NEW,
        (Kind.BORN, False): RunStatus.CRASHED,
        (Kind.FORKED, True): RunStatus.NEW,
        (Kind.FORKED, False): RunStatus.NEW,
        (Kind.OPENED, True): RunStatus.OPEN,
        (Kind.OPENED, False): RunStatus.CRASHED,
        (Kind.CLOSED, True): RunStatus.CLOSED,
        (Kind.CLOSED, False): RunStatus.CLOSED,
        (Kind.FAILED, True): RunStatus.FAILED,
        (Kind.FAILED, False): RunStatus.FAILED,
        (Kind.FINISHED, True): RunStatus.FINISHED,
        (Kind.FINISHED, False): RunStatus.FINISHED,
    }
)
