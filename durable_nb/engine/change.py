"""Change: what a recorded result depended on against what holds now, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb.model.fold import Fold, OperationState
from durable_nb.model.outcomes import Effect, Kind

#: Redoing a pure step and what follows is done without asking below this (DESIGN section 5).
CHEAP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """One facet that differs.

    Attributes
    ----------
    facet : str
        ``code``, or ``input NAME``.
    before, after : str
        What was recorded and what holds now, as short text.
    """

    facet: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.facet == "code":
            return "code of the step"
        return f"{self.facet}: {self.before} -> {self.after}"


def compare(
    basis: Mapping[str, Any], now: Mapping[str, Any], *, inputs_only: bool = False
) -> list[Change]:
    """List what differs between two sets of facets.

    Parameters
    ----------
    basis, now : Mapping
        ``inputs`` (name to digest), ``shown`` (name to preview) and ``code``.
    inputs_only : bool
        A result that came from a verdict does not depend on the code.
    """
    changes = []
    before, after = basis.get("inputs") or {}, now.get("inputs") or {}
    shown, showing = basis.get("shown") or {}, now.get("shown") or {}
    for name in [*before, *(n for n in after if n not in before)]:
        if before.get(name) != after.get(name):
            old = shown.get(name, "?") if name in before else "not there"
            new = showing.get(name, "?") if name in after else "not there"
            changes.append(Change(f"input {name}", old, new))
    old_code, new_code = basis.get("code"), now.get("code")
    if not inputs_only and old_code and new_code and old_code != new_code:
        changes.append(Change("code", old_code, new_code))
    return changes


@dataclass(frozen=True, slots=True)
class Cost:
    """What running an operation again would redo."""

    operations: int
    seconds: float
    usd: float
    effects: int

    @classmethod
    def of(cls, fold: Fold, state: OperationState) -> Cost:
        """Total an operation and all that began after it."""
        tail = [s for s in fold.operations.values() if s.first_seq >= state.first_seq]
        return cls(
            len(tail),
            sum(s.duration_s or 0.0 for s in tail),
            sum(s.usd or 0.0 for s in tail),
            sum(
                1
                for s in tail
                if s.first_seq > state.first_seq
                and s.effect is not Effect.NONE
                and s.result is not None
            ),
        )

    @property
    def cheap(self) -> bool:
        """Whether nobody needs to be asked."""
        return self.usd == 0 and self.seconds < CHEAP_S and not self.effects

    def __str__(self) -> str:
        what = "1 operation" if self.operations == 1 else f"up to {self.operations} operations"
        money = f", ${self.usd:.2f}" if self.usd else ""
        effects = f", {self.effects} completed effects after it" if self.effects else ""
        return f"{what}{money}{effects}"


def policy_for(
    on_change: str | Callable[..., Any] | None, effect: Effect, cost: Cost
) -> str | Callable[..., Any]:
    """Give the policy: the step's own, else rerun what is pure and cheap, and ask for the rest."""
    if on_change is not None:
        return on_change
    return "rerun" if effect is Effect.NONE and cost.cheap else "ask"


def inputs_only(state: OperationState) -> bool:
    """Tell whether the result came from a verdict, so that the code does not count."""
    return state.kind is Kind.CONFIRMED
