"""Waits: operations that somebody, or time, decides; and which verdict fits which of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from durable_nb.model.outcomes import Kind
from durable_nb.model.verdicts import RECONCILER, Verdict


class Wait(StrEnum):
    """What an operation waits for; its value is the name in its identity."""

    APPROVAL = "approval"  #: a person says yes or no
    SIGNAL = "wait_for"  #: somebody sends a value
    TIMER = "sleep"  #: its time comes


#: What a wait is for, in a few words.
WAITS_FOR: Final[Mapping[Wait, str]] = MappingProxyType(
    {
        Wait.APPROVAL: "waits for approval",
        Wait.SIGNAL: "waits for a signal",
        Wait.TIMER: "waits until its time",
    }
)
#: What a person says to an approval, as it is told.
_DECIDED: Final[Mapping[Kind, str]] = MappingProxyType(
    {Kind.APPROVED: "approved", Kind.REJECTED: "rejected"}
)
#: Waits that a person ends, so that one is needed.
FOR_A_PERSON: Final = frozenset({Wait.APPROVAL, Wait.SIGNAL})

_STEP: Final = frozenset(
    {Verdict.CONFIRM, Verdict.DENY, Verdict.INVALIDATE, Verdict.KEEP, Verdict.RERUN}
)
#: Kind of operation -> the verdicts that fit it; `None` is a step.
_OF: Final[Mapping[Wait | None, frozenset[Verdict]]] = {
    None: _STEP,
    Wait.APPROVAL: frozenset({Verdict.APPROVE, Verdict.REJECT, Verdict.INVALIDATE}),
    Wait.SIGNAL: frozenset({Verdict.SIGNAL, Verdict.INVALIDATE}),
    Wait.TIMER: frozenset({Verdict.INVALIDATE}),
}
_WHY_NOT: Final[Mapping[Wait | None, str]] = {
    Wait.APPROVAL: "it is an approval; approve or reject it.",
    Wait.SIGNAL: "it waits for a signal; signal it.",
    Wait.TIMER: "it is a timer, which ends by itself.",
}
_NO_WAIT: Final[Mapping[Verdict, str]] = {
    Verdict.APPROVE: "it is no approval.",
    Verdict.REJECT: "it is no approval.",
    Verdict.SIGNAL: "it does not wait for a signal.",
}

#: (verdict, kind of operation) -> why it does not fit, or "" where it does.
FITS: Final[Mapping[tuple[Verdict, Wait | None], str]] = MappingProxyType(
    {
        (verdict, wait): "" if verdict in fitting else _WHY_NOT.get(wait) or _NO_WAIT[verdict]
        for wait, fitting in _OF.items()
        for verdict in Verdict
    }
)


def decided(kind: Kind | None, body: Mapping[str, Any]) -> str:
    """Say how an approval was decided, by whom and why; "" of any other record.

    Parameters
    ----------
    kind : Kind or None
        Of the record that decided it.
    body : Mapping
        Its body: ``actor`` and ``reason``.
    """
    if kind is None or kind not in _DECIDED:
        return ""
    why = f": {body['reason']}" if body.get("reason") else ""
    return f"{_DECIDED[kind]} by {body.get('actor') or 'somebody'}{why}"


def judged(kind: Kind | None, body: Mapping[str, Any]) -> str:
    """Say which verdict a result is from: as `decided`, or who confirmed it; "" if from none.

    Whoever confirmed is not named: what is shown for a row stays the same on every machine.
    """
    if kind is Kind.CONFIRMED:
        return f"confirmed by {'its reconciler' if body.get('actor') == RECONCILER else 'a person'}"
    return decided(kind, body)
