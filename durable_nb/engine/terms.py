"""The terms of a run: what holds for all of it, recorded at birth and restored on a resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from durable_nb import values
from durable_nb.engine import facets as facets_
from durable_nb.engine.change import Change, Policy, check_policy
from durable_nb.engine.permits import budget_of, scopes_of
from durable_nb.model.facets import FacetSet, Part
from durable_nb.model.fold import ACCOUNT, Fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a program says of a run as it opens it; `None` is "as it was recorded".

    Attributes
    ----------
    version : str or None
        Of the workflow.
    facets : Mapping or None
        What every result depends on, by name: model, prompt, tools.
    scopes : iterable of str or None
        What its steps may do at most.
    budget : Mapping or None
        ``usd``, ``tokens``, ``calls`` and ``seconds`` that it may spend in all.
    on_change : str, callable or None
        The policy of steps that name none of their own; it is not recorded.
    credentials : callable or None
        Called with the recorded scopes; gives what the run acts with.
    """

    version: str | None = None
    facets: Mapping[str, Any] | None = None
    scopes: Iterable[str] | None = None
    budget: Mapping[str, float] | None = None
    on_change: Policy | None = None
    credentials: Callable[[tuple[str, ...]], Any] | None = None

    def __post_init__(self) -> None:
        check_policy(self.on_change)
        if self.scopes is not None:
            object.__setattr__(self, "scopes", scopes_of(self.scopes))
        if self.budget is not None:
            object.__setattr__(self, "budget", budget_of(self.budget))
        if self.credentials is not None and not callable(self.credentials):
            raise TypeError("credentials= is a function of the scopes, never the secret itself")

    def changes(self, fold: Fold, artifacts: values.Artifacts) -> dict[str, Any]:
        """Give what is to be recorded of them; empty where nothing differs from the record.

        Scopes and budget are recorded at birth and by a grant, never by a resume.
        """
        body: dict[str, Any] = {}
        if not fold.born and self.scopes is not None:
            body["scopes"] = list(self.scopes)
        if not fold.born and self.budget:
            body["budget"] = dict(self.budget)
        if self.version is not None and self.version != fold.terms.get("version"):
            body["version"] = _version(self.version)
        if self.facets is not None:
            parts = facets_.declared(self.facets).parts
            rows = {
                name: [part.digest, part.shown, values.encode(facets_.plain(value), artifacts)]
                for (name, part), value in zip(parts.items(), self.facets.values(), strict=True)
            }
            if rows != fold.terms.get("facets", {}):
                body["facets"] = rows
        return body


def own_facets(fold: Fold, account: Part | None = None) -> FacetSet:
    """Give the facets that every operation of the run has; without an account, the recorded one."""
    version = fold.terms.get("version")
    said = {} if version is None else {"version": version}
    rows = fold.terms.get("facets") or {}
    parts = {name: Part(*row[:2]) for name, row in rows.items()}
    if account is None and fold.terms.get(ACCOUNT):
        account = Part(*fold.terms[ACCOUNT])
    whose = {} if account is None else {ACCOUNT: account}
    return FacetSet.of({**facets_.declared(said).parts, **parts, **whose})


def another(fold: Fold, account: Part | None) -> Change | None:
    """Give the change of account, if it is not the recorded one."""
    recorded = fold.terms.get(ACCOUNT)
    if account is None or not recorded or recorded[0] == account.digest:
        return None
    return Change(ACCOUNT, recorded[1], account.shown, recorded[0], account.digest)


def recorded_facets(fold: Fold, artifacts: values.Artifacts) -> dict[str, Any]:
    """Give the declared facets of the run, as they were recorded."""
    rows = fold.terms.get("facets") or {}
    return {name: values.decode(row[2], artifacts) for name, row in rows.items()}


def _version(version: object) -> str:
    if not isinstance(version, str) or not version.strip():
        raise TypeError(f"version={version!r}: it is a text, such as '2' or '2026-03'")
    return version
