"""The verbs that another process can ask of a run's owner: each does what its name says, and tells.

A panel's button and a line of the command line are these, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from durable_nb import values
from durable_nb.engine import settle
from durable_nb.engine.drive import drive
from durable_nb.engine.published import row_of
from durable_nb.engine.recovery import reconcile
from durable_nb.engine.settle import Cascade
from durable_nb.engine.timelines import timeline_data
from durable_nb.engine.views import OperationView, counts_of
from durable_nb.model.adoption import Adoption
from durable_nb.model.errors import StillRunning, VerdictRefused
from durable_nb.model.outcomes import Effect, Kind, Outcome

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

D = TypeVar("D")

#: What a person said of a run that was found in another folder -> what it is now.
_ADOPTED: Final[Mapping[Adoption, str]] = {
    Adoption.MOVED: "the same run, in its new folder",
    Adoption.ABANDONED: "the same run, in place of the other folder's",
    Adoption.FORK: "a run of its own, with new idempotency keys for what begins here",
}
#: Bytes of an audit trail, or of a timeline, that another process is given; `Inbox` reads no
#: longer answers.
AUDIT_LIMIT: Final = 15_000_000


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a verb.

    Attributes
    ----------
    verdict : str
        The word for it: ``confirmed`` and so on.
    said : str
        What that means, for a person.
    view : OperationView or None
        The operation as it stands now; `None` where the run itself was meant.
    more : Mapping
        What else the verb tells, in JSON's own types.
    """

    verdict: str
    said: str
    view: OperationView | None
    more: Mapping[str, Any] = field(default_factory=dict)


# -- the verbs ---------------------------------------------------------------------------------


def _confirm(run: Run, op: object, *, result: str | None = None, evidence: str = "") -> Done:
    value = None if result is None else values.read_literal(result)
    view = run.confirm(op, value, evidence=evidence)
    said = f"it happened; replay returns {view.result_preview or 'None'}"
    return Done("confirmed", said, view)


def _deny(run: Run, op: object, *, evidence: str = "") -> Done:
    view = run.deny(op, evidence=evidence)
    key = "" if view.keyed is False else ", under the same idempotency key"
    said = f"it did not happen; {_next(run)}{key}"
    return Done("denied", said, view)


def _invalidate(
    run: Run,
    op: object,
    *,
    reason: str,
    effect: str | None = None,
    shown: Mapping[str, list[str]] | None = None,
) -> Done:
    if effect is not None and effect not in settle.FATES:
        raise ValueError(f"effect is {' or '.join(settle.FATES)}, not {effect!r}")
    state, _ = settle.find(run, op)
    if shown is not None and shown != _touched(run.dependants(state.id)):
        why = "what depends on it has changed while you looked. Look again."
        raise VerdictRefused(state.id, "invalidate", why)
    cascade = run.invalidate(op, reason, effect=effect)
    said = f"its result no longer counts; invalidated with it: {len(cascade.below)}, "
    said += f"checked when reached: {len(cascade.suspect)}"
    return Done("invalidated", said, run.get(state.id), _touched(cascade))


def _dependants(run: Run, op: object) -> Done:
    cascade = run.dependants(op)
    views = [run.get(op), *map(run.get, cascade.below)]
    happened = [
        v.id for v in views if v.effect == Effect.EXTERNAL and v.outcome == Outcome.COMPLETED
    ]
    return Done("shown", str(cascade), views[0], {**_touched(cascade), "happened": happened})


def _unknown(run: Run, op: object) -> Done:
    rows = [row_of(view) for view in run.unknown()]
    return Done("shown", f"{len(rows)} unknown", None, {"unknown": rows})


def _history(run: Run, op: object) -> Done:
    records = run.records(op or None)
    rows = [{**record, "ts": record["ts"].isoformat()} for record in records]
    return Done("shown", f"{len(rows)} records", None, {"records": rows})


def _facets(run: Run, op: object) -> Done:
    rows = run.facet_rows(op or None)
    return Done("shown", f"{len(rows)} facets", None, {"facets": rows})


def _why(run: Run, op: object) -> Done:
    found = run.why(op)
    return Done("shown", found.said, run.get(op), {"why": found.as_dict()})


def _report(run: Run, op: object) -> Done:
    report = run.report()
    return Done("shown", f"{len(report.lines)} lines", None, {"report": report.as_dict()})


def _timeline(run: Run, op: object) -> Done:
    found = timeline_data(run)
    document = _within_limit(found.as_dict(), "the timeline", "run.timeline()")
    return Done("shown", f"{len(found.bars)} bars", None, {"timeline": document})


def _keep(run: Run, op: object, *, reason: str = "") -> Done:
    return Done("kept", "its recorded result is used", run.keep(op, reason=reason))


def _rerun(run: Run, op: object, *, reason: str = "") -> Done:
    view = run.rerun(op, reason=reason)
    return Done("rerun", f"{_next(run)}, under a new idempotency key", view)


def _approve(run: Run, op: object, *, reason: str = "") -> Done:
    return Done("approved", _goes_on(run), run.approve(op, reason=reason))


def _reject(run: Run, op: object, *, reason: str = "") -> Done:
    said = "the program gets an ApprovalRejected, here and on each resume"
    return Done("rejected", said, run.reject(op, reason=reason))


def _signal(run: Run, op: object, *, name: str | None = None, value: str | None = None) -> Done:
    view = run.signal(op or name, None if value is None else values.read_literal(value))
    if view is None:
        said = f"nothing waits for signal {name!r} yet; the first that does gets it"
        return Done("held", said, None)
    return Done("signalled", f"it gets {view.result_preview or 'None'}; {_goes_on(run)}", view)


def _goes_on(run: Run) -> str:
    """Say who goes on with what has waited."""
    if run.role == "runner":
        return "what awaits it goes on, and a cell that it stopped goes on when it is run again"
    return "the next kernel goes on"


def _accept(run: Run, op: object, *, reason: str) -> Done:
    run.accept(reason)
    return Done("accepted", "the loss is accepted; the run goes on", None)


def _adopt(run: Run, op: object, *, how: str, reason: str = "") -> Done:
    run.adopt(how, reason)
    return Done("adopted", f"it is {_ADOPTED[Adoption(how)]}; its notebook goes on with it", None)


def _grant(
    run: Run,
    op: object,
    *,
    scopes: str | None = None,
    budget: str | None = None,
    by: str = "",
    reason: str = "",
) -> Done:
    several = [] if scopes is None else values.read_literal(scopes)
    amounts = None if budget is None else values.read_literal(budget)
    run.grant(*several, budget=amounts, by=by, reason=reason)
    said = f"it goes on with scopes {', '.join(run.scopes) or 'none'}"
    line = run.status_view().budget
    more = {"scopes": list(run.scopes), "budget": run.budget, "spent": run.spent()}
    return Done("granted", f"{said}; {line}" if line else said, None, more)


def _audit(run: Run, op: object) -> Done:
    rows = _within_limit(run.audit_rows(), "the audit trail", "run.audit()")
    return Done("shown", f"{len(rows)} operations", None, {"audit": rows})


def _within_limit(document: D, what: str, there: str) -> D:
    """Refuse to hand on what is larger than another process reads."""
    size = len(json.dumps(document))
    if size > AUDIT_LIMIT:
        raise ValueError(
            f"{what} has {size:,} bytes, and its owner hands on {AUDIT_LIMIT:,} at most. "
            f"Write it there ({there}), or close the run there first."
        )
    return document


def _fork(run: Run, op: object, *, name: str, store: str | None = None, reason: str = "") -> Done:
    """Make a new run from this one, of which nothing changes."""
    forked = run.fork(name, op or None, store=store, reason=reason)
    return Done("forked", f"{name} is a fork of it", None, {"fork": forked.as_dict()})


def _pause(run: Run, op: object, *, reason: str = "") -> Done:
    run.pause(reason)
    return Done("paused", "what is in flight finishes, and nothing new begins in it", None)


def _unpause(run: Run, op: object, *, reason: str = "") -> Done:
    run.unpause(reason)
    return Done("unpaused", "it goes on when its cell is run again", None)


def _reconcile(run: Run, op: object) -> Done:
    """Ask the reconciler of one operation now, and do not wait until "not found" counts."""
    with run.lock:
        state, _ = settle.find(run, op)
        view = run.view(state)
        options = run.reconcilers.get(state.place.name)
    if view.live:
        raise StillRunning(view.id, [view])
    if view.outcome != Outcome.UNKNOWN:
        raise VerdictRefused(view.id, "check", f"it is {view.outcome}, so there is no doubt.")
    if options is None or options.reconcile is None:
        why = f"no reconciler of {view.name!r} is known in this kernel: its step was not reached."
        raise VerdictRefused(view.id, "check", why)
    why = "its reconciler could not tell"
    try:
        settled = drive(reconcile(run, options, state), sleep=_never)
    except _WouldWait as wait:
        settled = False
        why = (
            f"its reconciler found nothing, which counts in {wait.seconds:.0f} s: it may still be "
            "under way. Ask again then"
        )
    view = run.get(view.id)
    if settled:
        return Done("settled", f"its reconciler says so: it is {view.outcome} now", view)
    # as mappings: a DataFrame is an import of pandas, in a thread that Ctrl-C must not meet at it
    records = run.records(view.id)
    reasons = [r["detail"] for r in records if r["kind"] == str(Kind.UNDECIDED)]
    told = f" ({reasons[-1]})" if reasons else ""
    return Done("undecided", f"still unknown: {why}{told}", view)


class _WouldWait(Exception):
    """The reconciler's answer counts only later."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def _never(seconds: float) -> None:
    raise _WouldWait(seconds)


def _next(run: Run) -> str:
    """Say who does it: a runner is asked while it lives."""
    if run.role == "runner":
        return "it is done when its step is called again"
    return "the next kernel does it"


def _touched(cascade: Cascade) -> dict[str, list[str]]:
    return {"below": list(cascade.below), "suspect": list(cascade.suspect)}


#: Verb -> what does it: a run, the operation, and the verb's own arguments by name.
VERBS: Final[Mapping[str, Callable[..., Done]]] = MappingProxyType(
    {
        "confirm": _confirm,
        "deny": _deny,
        "invalidate": _invalidate,
        "keep": _keep,
        "rerun": _rerun,
        "reconcile": _reconcile,
        "approve": _approve,
        "reject": _reject,
        "signal": _signal,
        "accept": _accept,
        "adopt": _adopt,
        "grant": _grant,
        "pause": _pause,
        "unpause": _unpause,
        "dependants": _dependants,
        "unknown": _unknown,
        "history": _history,
        "facets": _facets,
        "why": _why,
        "report": _report,
        "timeline": _timeline,
        "fork": _fork,
        "audit": _audit,
    }
)
#: Verbs that give no verdict.
ASKING: Final = frozenset(
    {
        "audit",
        "dependants",
        "facets",
        "fork",
        "history",
        "reconcile",
        "report",
        "timeline",
        "unknown",
        "why",
    }
)
#: Verbs about the run itself.
WHOLE: Final = frozenset(
    {
        "accept",
        "adopt",
        "facets",
        "grant",
        "history",
        "pause",
        "report",
        "signal",
        "timeline",
        "unknown",
        "unpause",
    }
)
#: Verbs that may take long: not under the run's lock, nor in the inbox's thread.
TAKES_LONG: Final = frozenset({"audit", "fork", "reconcile", "report", "timeline"})


def perform(run: Run, verb: str, op: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a verb says, and tell what became of it.

    Parameters
    ----------
    run : Run
        Held by this process.
    verb : str
        One of `VERBS`.
    op
        As `run.confirm` takes it.
    arguments : Mapping
        Texts, as a person gives them: ``result`` is JSON or a Python literal.

    Returns
    -------
    dict
        ``run, verdict, said, operation, more, counts``, in JSON's own types.

    Raises
    ------
    DurableError, TypeError, ValueError
        Nothing was changed.
    """
    act = VERBS.get(verb)
    if act is None:
        raise ValueError(f"there is no verb {verb!r}; verbs are {', '.join(VERBS)}")
    for name, value in arguments.items():
        if not isinstance(value, str | None) and name != "shown":
            raise TypeError(f"{name} is a text, not a {type(value).__name__}")
    return document(run, act(run, op, **arguments))


def document(run: Run, done: Done) -> dict[str, Any]:
    """Tell what became of a verb, as `perform` does."""
    return {
        "run": run.name,
        "verdict": done.verdict,
        "said": done.said,
        "operation": None if done.view is None else row_of(done.view),
        "more": dict(done.more),
        "counts": counts_of(run),
    }
