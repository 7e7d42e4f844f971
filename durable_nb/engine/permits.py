"""What a run may do and spend: its scopes and its budget, asked before each intent.

Both are recorded at birth. A resume never widens them; only a recorded grant does. A resume that
says less than the birth did holds itself to that, for as long as it is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import standing
from durable_nb.model.control import BudgetExceeded, ScopeDenied
from durable_nb.model.errors import VerdictRefused
from durable_nb.model.facets import FacetSet
from durable_nb.model.fold import ACCOUNT, Fold
from durable_nb.model.outcomes import Effect, Kind, Outcome
from durable_nb.model.records import Record
from durable_nb.model.spending import Totals, amount_of
from durable_nb.model.state import OperationState

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.trajectory import Trajectory

#: The scope that a fork has to be granted before it has effects outside of its own.
OUTSIDE: Final = "external"
#: What a budget may limit.
LIMITS: Final = ("usd", "tokens", "calls", "seconds")

Budget = Mapping[str, float]


def scopes_of(given: object) -> tuple[str, ...]:
    """Take scopes as a person writes them: sorted, each once; a text alone is one scope.

    Raises
    ------
    TypeError
        One is no text, is empty, or holds what cannot be seen.
    """
    several = [given] if isinstance(given, str) else given
    if isinstance(several, Iterable):
        found = list(several)
        if all(isinstance(s, str) and s.strip() == s != "" and s.isprintable() for s in found):
            return tuple(sorted(set(found)))
    raise TypeError(f"scopes={given!r}: a scope is a text such as 'payments:write'")


def budget_of(given: object) -> dict[str, float]:
    """Take a budget as a person writes it.

    Raises
    ------
    TypeError, ValueError
        A name that is not in `LIMITS`, or an amount that is not a number above 0.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"budget={given!r}: it is a mapping, such as {{'usd': 5, 'calls': 50}}")
    unknown = [name for name in given if name not in LIMITS]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise TypeError(f"a budget has no {names}; it limits {', '.join(LIMITS)}")
    return {name: amount_of(name, given[name], zero=False) for name in LIMITS if name in given}


@dataclass(frozen=True, slots=True)
class Permits:
    """What this opening of a run asked for, and what it holds itself back from.

    Attributes
    ----------
    scopes : tuple of str or None
        As the program said them; `None` is "as recorded".
    budget : Mapping or None
        The same.
    withheld : frozenset of str
        Recorded scopes that this opening does without.
    caps : Mapping
        Amounts below the recorded ones that hold for this opening.
    """

    scopes: tuple[str, ...] | None = None
    budget: Budget | None = None
    withheld: frozenset[str] = frozenset()
    caps: Budget = field(default_factory=dict)

    @classmethod
    def of(cls, scopes: tuple[str, ...] | None, budget: Budget | None, fold: Fold) -> Permits:
        """Compare what a program says with what is on record.

        A program that says what it said at birth keeps what was granted since.
        """
        born = (fold.born.get("terms") or {}) if fold.born else {}
        recorded, known = set(fold.terms.get("scopes") or ()), fold.terms.get("budget") or {}
        withheld: set[str] = set()
        if scopes is not None and not set(born.get("scopes") or ()) <= set(scopes):
            withheld = recorded - set(scopes)
        first = born.get("budget") or {}
        caps = {
            name: amount
            for name, amount in (budget or {}).items()
            if amount != first.get(name) and amount < known.get(name, float("inf"))
        }
        return cls(scopes, budget, frozenset(withheld), caps)

    def notes(self, fold: Fold) -> list[str]:
        """Say, a line each, where the run does not get what the program asked for."""
        lines, recorded = [], fold.terms.get("scopes") or []
        more = [s for s in self.scopes or () if s not in recorded]
        if more:
            lines.append(
                f"its recorded scopes hold: {_listed(recorded)}. Not granted: {_listed(more)} "
                f"(run.grant widens them)"
            )
        if self.withheld:
            left = [s for s in recorded if s not in self.withheld]
            lines.append(
                f"for this opening its scopes are {_listed(left)}; recorded are {_listed(recorded)}"
            )
        known = fold.terms.get("budget") or {}
        larger = {n: v for n, v in (self.budget or {}).items() if v > known.get(n, float("inf"))}
        if larger:
            lines.append(
                f"its recorded budget holds: {_amounts(known)}. Not granted: {_amounts(larger)} "
                "(run.grant(budget=...) raises it)"
            )
        if self.caps:
            recorded_ = _amounts(known) if known else "none"
            lines.append(
                f"for this opening its budget is {_amounts({**known, **self.caps})}; "
                f"recorded is {recorded_}"
            )
        return lines

    def lifted(self, scopes: Iterable[str], budget: Budget) -> Permits:
        """Hold back no longer from what is granted while the run is open."""
        caps = {name: amount for name, amount in self.caps.items() if name not in budget}
        return replace(self, withheld=self.withheld - set(scopes), caps=caps)

    def scopes_now(self, fold: Fold) -> tuple[str, ...]:
        """Give the scopes that hold."""
        return tuple(s for s in fold.terms.get("scopes") or () if s not in self.withheld)

    def budget_now(self, fold: Fold) -> dict[str, float]:
        """Give the budget that holds; empty where nothing is limited."""
        recorded = fold.terms.get("budget")
        if not recorded and not self.caps:
            return {}
        found = {**(recorded or {}), **self.caps}
        return {name: found[name] for name in LIMITS if name in found}


#: Of an opening that asks for nothing.
AS_RECORDED: Final = Permits()


# -- the gate ----------------------------------------------------------------------------------


def check(op: Operation) -> None:
    """Refuse an operation before its intent, if the run may not do it or cannot afford it.

    Raises
    ------
    ScopeDenied, BudgetExceeded, IncompatibleCheckpoint
        Nothing was begun.
    """
    run = op.run
    check_scopes(op)
    _same_account(run)
    budget = run.budget
    if not budget or op.id in run.fold.containers:
        return  # it was begun, and what it costs are its children, which are asked for themselves
    spent = _spent_with(op)
    over = [name for name, amount in budget.items() if spent.reaches(name, amount)]
    if over:
        state = run.fold.operations.get(op.id)
        views = () if state is None else (run.view(state),)
        told = described(budget, spent)
        raise BudgetExceeded(run.name, op.id, over, told, views)


def check_scopes(op: Operation) -> None:
    """Refuse an operation that needs more than the run is granted.

    Raises
    ------
    ScopeDenied
        Nothing was begun.
    """
    run = op.run
    needed = set(op.options.requires)
    if run.fold.forked and op.options.effect is not Effect.NONE:
        needed.add(OUTSIDE)
    if not needed:
        return
    missing = sorted(needed - set(run.scopes))
    if missing:
        state = run.fold.operations.get(op.id)
        views = () if state is None else (run.view(state),)
        raise ScopeDenied(run.name, op.id, missing, _why_denied(run, missing), views)


def check_compensation(op: Operation) -> None:
    """Refuse to take back from a fork what its original stands on, until that is granted.

    Raises
    ------
    ScopeDenied
        Nothing was begun.
    """
    if op.run.fold.forked:
        check_scopes(op)


def _why_denied(run: Trajectory, missing: Iterable[str]) -> str:
    recorded = run.fold.terms.get("scopes")
    if run.fold.forked and OUTSIDE in missing and OUTSIDE not in run.permits.withheld:
        whose = f"this run is a fork of {run.fold.forked['of']!r}"
        return f"{whose}: effects outside need a grant of their own"
    if recorded is None:
        return "the run was born without scopes (a new one gets them by scopes=[...])"
    if any(s in run.permits.withheld for s in missing):
        return f"this opening holds itself to {_listed(run.scopes)}"
    return f"its scopes are {_listed(recorded)}"


def _spent_with(op: Operation) -> Totals:
    """Give what is spent as this operation begins.

    What it is in is no call of its own, and what was let through in other threads is one already.
    """
    run = op.run
    spent = run.fold.spent_above(op.id)
    for other in {*run.live} - {op.id} - run.fold.containers.keys():
        state = run.fold.operations.get(other)
        if run.is_live(other) and not (state and state.bill.under_way):
            spent = spent._replace(calls=spent.calls + 1)
    return spent


def _same_account(run: Trajectory) -> None:
    """Ask before anything begins under another account than what is on record."""
    change = run.other_account
    if change is None or (change.facet, change.old, change.new) in run.fold.decided:
        return
    state = _stands_on(run)
    basis, definition = state.basis, []
    old = run.fold.known.get(str(basis.get("facets")))
    if old is not None and ACCOUNT in old.parts:
        parts = {**old.parts, ACCOUNT: run.own_facets.parts[ACCOUNT]}
        new = FacetSet.of(parts, old.unwatched)
        basis, definition = {**basis, "facets": new.digest}, run.definition(new)
    standing.ask(run, state, [change], basis, definition)


def _stands_on(run: Trajectory) -> OperationState:
    """Find what to ask about: what was completed last, under the account if there is such."""
    now, states = run.clock.now(), run.states()
    done = [s for s in states if s.outcome(now) is Outcome.COMPLETED]
    stale = [s for s in done if s.id in run.stale]
    return (stale or done or states)[-1]


# -- grants ------------------------------------------------------------------------------------


def grant_of(run: Trajectory, scopes: tuple[str, ...], budget: Budget | None) -> dict[str, Any]:
    """Give what a grant records; it only widens.

    Raises
    ------
    TypeError
        Nothing is granted, or it is spelled wrongly.
    VerdictRefused
        The run has that much, or no such limit. Nothing was changed.
    """
    several, amounts = scopes_of(scopes), budget_of({} if budget is None else budget)
    if not several and not amounts:
        raise TypeError("a grant names scopes, or budget={...}, or both; nothing was granted")
    known, whose = run.fold.terms.get("budget") or {}, f"a budget to run {run.name!r}"
    for name, amount in amounts.items():
        if name not in known and name not in run.permits.caps:
            raise VerdictRefused(whose, "grant", f"nothing limits its {name}.")
        if amount <= known.get(name, 0):
            why = f"it has {_limit(name, known[name])}, and a grant only raises it."
            raise VerdictRefused(whose, "grant", why)
    held = run.permits.scopes_now(run.fold)
    if not amounts and set(several) <= set(held):
        why = f"it has {_listed(several)} already."
        raise VerdictRefused(f"scopes to run {run.name!r}", "grant", why)
    body: dict[str, Any] = {"scopes": list(several)} if several else {}
    return body | ({"budget": amounts} if amounts else {})


def told_of(record: Record) -> str:
    """Say in words what a grant adds, what an attempt reserves, or whose account it is."""
    body, parts = record.body, []
    if record.kind is Kind.GRANTED:
        parts = [*(body.get("scopes") or ())]
        parts += [f"budget {_amounts(body['budget'])}"] if body.get("budget") else []
        parts += [f"by {body['by']}"] if body.get("by") != body.get("actor") else []
    elif record.kind is Kind.RESERVED:
        parts = [_amounts(body)]
    elif record.kind is Kind.FORKED:
        parts = [f"of {body['of']}", *([f"at {body['at']}"] if body["at"] else [])]
    elif record.kind is Kind.IDENTIFIED:
        parts = [f"account {body['terms'][ACCOUNT][1]}"]
    return ", ".join(parts)


# -- words -------------------------------------------------------------------------------------


def described(budget: Budget, spent: Totals) -> str:
    """Say what was spent of what."""
    amounts = spent.as_dict()
    parts = []
    for name, limit in budget.items():
        amount = amounts[name]
        so_far = "?" if amount is None else _number(name, amount)
        parts.append(f"{'$' if name == 'usd' else ''}{so_far} of {_limit(name, limit)}")
    return f"{'at least ' if amounts['at_least'] else ''}{', '.join(parts)}"


def line_of(run: Trajectory) -> str:
    """Give the line of a status about the budget; "" where there is none."""
    budget = run.budget
    return f"budget: {described(budget, run.fold.spending)} so far" if budget else ""


def _limit(name: str, amount: float) -> str:
    unit = {"usd": "", "seconds": " s"}.get(name, f" {name}")
    return f"{'$' if name == 'usd' else ''}{_number(name, amount)}{unit}"


def _number(name: str, amount: float) -> str:
    if name == "usd":
        cents = amount >= 1 or round(amount, 2) == amount
        return f"{amount:.2f}" if cents else f"{amount:.6f}".rstrip("0")
    return f"{amount:,.1f}" if amount % 1 else f"{amount:,.0f}"


def _amounts(budget: Budget) -> str:
    return ", ".join(_limit(name, budget[name]) for name in LIMITS if name in budget)


def _listed(scopes: Iterable[str]) -> str:
    return values.redact(", ".join(scopes)) or "none"
