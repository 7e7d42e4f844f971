"""Change: what a recorded result depended on against what holds now, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb.engine.retired import after
from durable_nb.model.facets import ANY, INPUT, FacetSet, Part, is_source
from durable_nb.model.fold import ACCOUNT, Fold
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.state import OperationState

#: Redoing a pure step and what follows is done without asking below this (DESIGN section 5).
CHEAP_S: Final = 5.0

_GONE: Final = Part("", "not there")


@dataclass(frozen=True, slots=True)
class Change:
    """One facet that differs.

    Attributes
    ----------
    facet : str
        ``code``, ``helper NAME``, ``input NAME``, ``model`` and so on.
    before, after : str
        What was recorded and what holds now, as short text.
    old, new : str
        The same as digests; empty where it was not there.
    """

    facet: str
    before: str
    after: str
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        if self.facet == "code":
            return "code of the step"
        if is_source(self.facet):
            how = {"": "is new"}.get(self.old) or {"": "is gone"}.get(self.new, "changed")
            return f"{self.facet} {how}"
        if self.before == self.after:  # as far as a preview goes
            return f"{self.facet}: {self.before}, which differs inside"
        return f"{self.facet}: {self.before} -> {self.after}"

    def row(self) -> list[str]:
        """Give it as a record carries it."""
        return [self.facet, self.before, self.after, self.old, self.new]


def compare(
    basis: Mapping[str, Any],
    now: Mapping[str, Any],
    known: Mapping[str, FacetSet],
    present: FacetSet,
    *,
    inputs_only: bool = False,
) -> list[Change]:
    """List what differs between what a result stands on and what holds now.

    Parameters
    ----------
    basis, now : Mapping
        ``inputs`` (name to digest), ``shown`` (name to preview) and ``facets``, a digest.
    known : Mapping of str to FacetSet
        The recorded sets of facets by digest.
    present : FacetSet
        The one that holds now.
    inputs_only : bool
        A result that came from a verdict does not depend on the code.
    """
    changes = [
        Change(facet, before.shown, after.shown, before.digest, after.digest)
        for facet, before, after in _pairs(_inputs(basis), _inputs(now))
    ]
    recorded = basis.get("facets")
    if inputs_only or not recorded or not present.parts or recorded == present.digest:
        return changes
    old = known.get(recorded, FacetSet())
    changes += [
        Change(facet, before.shown, after.shown, before.digest, after.digest)
        for facet, before, after in _pairs(old.parts, present.parts)
        if facet != ACCOUNT or before.digest  # what came before any account was known needs none
    ]
    return changes


def _inputs(facets: Mapping[str, Any]) -> dict[str, Part]:
    shown = facets.get("shown") or {}
    inputs = facets.get("inputs") or {}
    return {f"{INPUT}{n}": Part(digest, shown.get(n, "?")) for n, digest in inputs.items()}


def _pairs(
    before: Mapping[str, Part], after: Mapping[str, Part]
) -> Iterable[tuple[str, Part, Part]]:
    """Pair the parts of two sets that differ."""
    for facet in [*before, *(f for f in after if f not in before)]:
        old, new = before.get(facet, _GONE), after.get(facet, _GONE)
        if old.digest != new.digest and ANY not in (old.digest, new.digest):
            yield facet, old, new


@dataclass(frozen=True, slots=True)
class Cost:
    """What running an operation again would redo."""

    operations: int
    seconds: float
    usd: float
    effects: int

    @classmethod
    def of(cls, fold: Fold, state: OperationState) -> Cost:
        """Total an operation and all that began after it; of a loop's turns, at most so much."""
        later = (s for s in fold.operations.values() if s.first_seq >= state.first_seq)
        tail = [s for s in later if s.undoes is None]
        gone = after(fold, state.first_seq)
        spent = [c.totals.as_dict() for c in gone]
        return cls(
            len(tail) + sum(c.operations for c in gone),
            sum(s.duration_s or 0.0 for s in tail) + sum(float(t["seconds"] or 0) for t in spent),
            sum(s.usd or 0.0 for s in tail) + sum(float(t["usd"] or 0) for t in spent),
            sum(c.count(Outcome.COMPLETED, but=Effect.NONE) for c in gone)
            + sum(
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


Policy = str | Callable[..., Any]
_POLICIES: Final = ("rerun", "keep", "ask")


def check_policy(given: Any) -> Policy | None:
    """Refuse what is no policy; `None` is the default rule."""
    if given is None or callable(given) or given in _POLICIES:
        policy: Policy | None = given
        return policy
    raise TypeError(f"on_change={given!r}: it is 'rerun', 'keep', 'ask' or a function")


def policy_for(
    on_change: Policy | None,
    state: OperationState,
    changes: Iterable[Change],
    fold: Fold,
    cost: Callable[[], Cost],
) -> Policy:
    """Give what to do about a change.

    What a person has decided about the same change before holds for what follows as well, except
    that an effect is done again only where its own question was answered so. Then the step's own
    policy counts; then what is pure and cheap is run again, and all else is asked about.
    """
    changes = list(changes)
    decided = {fold.decided.get((c.facet, c.old, c.new)) for c in changes}
    if decided == {Kind.KEPT}:
        return "keep"
    if decided <= {Kind.KEPT, Kind.RERUN} and state.effect is Effect.NONE:
        return "rerun"
    if any(c.facet == ACCOUNT for c in changes):
        return "ask"
    if on_change is not None:
        return on_change
    return "rerun" if state.effect is Effect.NONE and cost().cheap else "ask"
