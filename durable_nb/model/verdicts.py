"""Verdicts, and the one table that says which fits what."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from durable_nb.model.outcomes import Kind, Outcome

#: The actor of a verdict that a step's own look-up gave.
RECONCILER: Final = "reconciler"


class Verdict(StrEnum):
    """A settlement that a person, or a reconciler, records."""

    CONFIRM = "confirm"
    DENY = "deny"
    INVALIDATE = "invalidate"
    KEEP = "keep"
    RERUN = "rerun"
    APPROVE = "approve"
    REJECT = "reject"
    SIGNAL = "signal"


#: The record that each verdict becomes.
RECORDED_AS: Final[Mapping[Verdict, Kind]] = MappingProxyType(
    {
        Verdict.CONFIRM: Kind.CONFIRMED,
        Verdict.DENY: Kind.DENIED,
        Verdict.INVALIDATE: Kind.INVALIDATED,
        Verdict.KEEP: Kind.KEPT,
        Verdict.RERUN: Kind.RERUN,
        Verdict.APPROVE: Kind.APPROVED,
        Verdict.REJECT: Kind.REJECTED,
        Verdict.SIGNAL: Kind.SIGNALLED,
    }
)

_DONE = "its result is on record; invalidate it if that is wrong."
_SAFE = "nothing outside is in doubt, so there is nothing to settle; run its cell again."
_OPEN = "it has no recorded result yet."
_DOUBT = "it is unknown; confirm or deny it first."

#: (verdict, outcome) -> why it does not fit, or "" where it does.
VERDICTS: Final[Mapping[tuple[Verdict, Outcome], str]] = MappingProxyType(
    {
        (Verdict.CONFIRM, Outcome.UNKNOWN): "",
        (Verdict.CONFIRM, Outcome.INCOMPLETE): "",
        (Verdict.CONFIRM, Outcome.COMPLETED): _DONE,
        (Verdict.DENY, Outcome.UNKNOWN): "",
        (Verdict.DENY, Outcome.INCOMPLETE): _SAFE,
        (Verdict.DENY, Outcome.COMPLETED): _DONE,
        (Verdict.INVALIDATE, Outcome.UNKNOWN): _DOUBT,
        (Verdict.INVALIDATE, Outcome.INCOMPLETE): _OPEN,
        (Verdict.INVALIDATE, Outcome.COMPLETED): "",
        (Verdict.KEEP, Outcome.UNKNOWN): _DOUBT,
        (Verdict.KEEP, Outcome.INCOMPLETE): _OPEN,
        (Verdict.KEEP, Outcome.COMPLETED): "",
        (Verdict.RERUN, Outcome.UNKNOWN): _DOUBT,
        (Verdict.RERUN, Outcome.INCOMPLETE): "",
        (Verdict.RERUN, Outcome.COMPLETED): "",
        # which of these fit a step, an approval or a signal, `model.waits.FITS` says
        (Verdict.APPROVE, Outcome.UNKNOWN): _DOUBT,
        (Verdict.APPROVE, Outcome.INCOMPLETE): "",
        (Verdict.APPROVE, Outcome.COMPLETED): _DONE,
        (Verdict.REJECT, Outcome.UNKNOWN): _DOUBT,
        (Verdict.REJECT, Outcome.INCOMPLETE): "",
        (Verdict.REJECT, Outcome.COMPLETED): _DONE,
        (Verdict.SIGNAL, Outcome.UNKNOWN): _DOUBT,
        (Verdict.SIGNAL, Outcome.INCOMPLETE): "",
        (Verdict.SIGNAL, Outcome.COMPLETED): _DONE,
    }
)

#: Verdicts after which an operation is done again.
REDOES: Final = frozenset({Verdict.INVALIDATE, Verdict.RERUN})

#: Verdict records: a second verdict of the same question finds it settled by the first.
SETTLED: Final[Mapping[Kind, frozenset[Verdict]]] = MappingProxyType(
    {
        Kind.CONFIRMED: frozenset({Verdict.CONFIRM, Verdict.DENY}),
        Kind.DENIED: frozenset({Verdict.CONFIRM, Verdict.DENY}),
        Kind.INVALIDATED: frozenset({Verdict.INVALIDATE}),
        Kind.KEPT: frozenset({Verdict.KEEP}),
        Kind.RERUN: frozenset({Verdict.RERUN, Verdict.KEEP}),
        Kind.APPROVED: frozenset({Verdict.APPROVE, Verdict.REJECT}),
        Kind.REJECTED: frozenset({Verdict.APPROVE, Verdict.REJECT}),
        Kind.SIGNALLED: frozenset({Verdict.SIGNAL}),
    }
)

#: Verdicts on what waits: a second one is told so, also by who has seen the first.
DECIDES_ONCE: Final = frozenset({Verdict.APPROVE, Verdict.REJECT, Verdict.SIGNAL})


def is_settled(
    verdict: Verdict, kind: Kind | None, seen: int | None, last_seq: int, *, asked: bool
) -> bool:
    """Tell whether somebody else answered first.

    Parameters
    ----------
    verdict, kind
        The verdict that comes now, and the last decisive record of the operation.
    seen : int or None
        The last record that the operator looked at; `None` if they named the operation only.
    last_seq : int
        The operation's last record.
    asked : bool
        Whether a change has raised a new question since.
    """
    if kind is None or kind not in SETTLED or asked:
        return False
    if seen is None or verdict in DECIDES_ONCE:
        return verdict in SETTLED[kind] or seen not in {None, last_seq}
    return seen != last_seq
