"""Why an operation was reused, run again or stopped, and what had changed, by its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine.views import error_of, outcome_of
from durable_nb.model.outcomes import DECISIVE, Kind, Outcome
from durable_nb.model.waits import WAITS_FOR, decided

if TYPE_CHECKING:
    from durable_nb.engine.operated import Operated
    from durable_nb.model.records import Record
    from durable_nb.model.state import OperationState

#: What a verdict says of an operation that is done again, or is used as it is.
_SAID: Final[Mapping[Kind, str]] = {
    Kind.RERUN: "what it stood on has changed",
    Kind.INVALIDATED: "its result was taken back",
    Kind.DENIED: "it had not happened",
    Kind.KEPT: "its record was kept, although what it stands on has changed",
    Kind.CONFIRMED: "it was confirmed that it happened",
}
#: Verdicts that give an operation its outcome: its body, if it has one, did not.
_BY_A_PERSON: Final = frozenset({Kind.CONFIRMED, Kind.APPROVED, Kind.REJECTED})


@dataclass(frozen=True, slots=True)
class Why:
    """Why an operation stands as it does.

    Attributes
    ----------
    said : str
        In words: ``reused``, ``run again``, ``ran``, ``stopped`` and so on, and the reason.
    differences : tuple
        What had changed: facet, before, after.
    """

    said: str
    differences: tuple[tuple[str, str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Give it in JSON's own types."""
        return {"said": self.said, "differences": [list(row) for row in self.differences]}


def why(run: Operated, state: OperationState) -> Why:
    """Say why an operation was reused, run again or stopped.

    Parameters
    ----------
    run : Operated
        Held by this process.
    state : OperationState
        The operation.
    """
    asked = state.asked
    if asked is not None:
        cost = f" To do it again costs: {asked['cost']}." if asked.get("cost") else ""
        return Why(f"stopped: keep its record, or do it again?{cost}", _differences(asked))
    if state.is_pending and state.wait is not None:
        return Why(f"stopped: {WAITS_FOR[state.wait]}")
    outcome = outcome_of(run, state)
    if outcome == Outcome.UNKNOWN:
        return Why(
            f"stopped: attempt {state.attempt} began and left no outcome. It may have happened, "
            "so it is not repeated until somebody says what became of it"
        )
    records = [r for r in run.records_of(state) if r.kind in DECISIVE]
    last = max((n for n, r in enumerate(records) if r.kind is Kind.INTENDED), default=0)
    if run.is_live(state.id):
        return _begun(records[:last], "running")
    if outcome != Outcome.COMPLETED:
        return _begun(records, "not done")
    source, told = run.sources.get(state.id, ""), records[-1] if records else None
    if told is not None and told.kind in _BY_A_PERSON:
        return _judged("reused: " if source == "record" else "decided: ", told)
    if source == "ran":
        return _begun(records[:last], "ran")
    how = "reused" if source == "record" else "on record, and not reached in this kernel"
    if told is None or told.kind not in _SAID:
        stands = ": nothing that its record stands on has changed" if source == "record" else ""
        return Why(f"{how}{stands}")
    return _judged(f"{how}: ", told)


def _begun(before: Sequence[Record], how: str) -> Why:
    """Say why an attempt was made, or will be, from what was on record before it."""
    if not before:
        return Why(f"{how}: nothing was on record of it")
    last, again = before[-1], "to be run again" if how == "not done" else "run again"
    if last.kind in _SAID:
        return _judged(f"{again}: ", last)
    failed = error_of(last.body.get("error") or {})
    what = f"failed ({values.redact(failed)})" if failed else "left no outcome"
    return Why(f"{again}: the attempt before it {what}, and to repeat it does no harm")


def _judged(how: str, record: Record) -> Why:
    body = record.body
    if said := decided(record.kind, body):
        return Why(f"{how}{values.redact(said)}")
    reason = values.redact(str(body.get("reason") or body.get("evidence") or ""))
    who = f" ({body['actor']})" if body.get("actor") else ""
    said = f"{how}{_SAID[record.kind]}{who}{f': {reason}' if reason else ''}"
    return Why(said, _differences(body))


def _differences(body: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (str(facet), values.redact(str(before)), values.redact(str(after)))
        for facet, before, after, *_ in body.get("rows") or ()
    )
