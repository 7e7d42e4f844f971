"""What the panel shows of one operation, as plain data that JSON can carry; needs no front end."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from durable_nb.engine.usage import outside_text
from durable_nb.engine.views import OperationView, StatusView
from durable_nb.engine.watched import Watched
from durable_nb.model.outcomes import Outcome
from durable_nb.model.verdicts import DECIDES_ONCE, VERDICTS, Verdict
from durable_nb.model.waits import FITS, Wait
from durable_nb.notebook.panel.texts import moment, note, plain, short, source, spent

#: The action that is no verdict: ask the step's reconciler.
CHECK: Final = "check"

#: Details that are at hand in the front end without asking for them, also while a cell blocks the
#: kernel: so many operations that wait for a person, so many that began last, so many characters.
_OPEN: Final = 20
_LATEST: Final = 20
_SIZE: Final = 50_000


def allowed(view: OperationView, *, can_check: bool = False) -> list[str]:
    """List the actions that the verdict table allows for an operation.

    Parameters
    ----------
    view : OperationView
        The operation as it stands.
    can_check : bool
        Whether this kernel knows a reconciler for it.

    Returns
    -------
    list of str
        Values of `Verdict`, and ``"check"``; none while the operation is live. Keep and rerun
        answer a question, so they are offered only where a change waits for a decision; approve,
        reject and signal only where the program waits for them.
    """
    if view.live:
        return []
    outcome, wait = Outcome(view.outcome), Wait(view.wait) if view.wait else None
    fitting = [v for v in Verdict if not (FITS[v, wait] or VERDICTS[v, outcome])]
    found = [str(v) for v in fitting if _asked(v, view)]
    if can_check and outcome is Outcome.UNKNOWN:
        found.append(CHECK)
    return found


def _asked(verdict: Verdict, view: OperationView) -> bool:
    if verdict in {Verdict.KEEP, Verdict.RERUN}:
        return bool(view.changes)
    return view.waits or verdict not in DECIDES_ONCE


def detail_of(
    view: OperationView,
    checkable: frozenset[str] = frozenset(),
    like: OperationView | None = None,
) -> dict[str, Any]:
    """Give all that is shown of one operation, once it is chosen.

    Parameters
    ----------
    view : OperationView
        The operation as it stands.
    checkable : frozenset of str
        Names of the steps whose reconciler the owner's kernel knows.
    like : OperationView, optional
        Another one of that name, whose result shows what one looks like.

    Returns
    -------
    dict
        Strings, numbers, lists and `None` only.
    """
    return {
        "id": plain(view.id),
        "name": plain(view.name),
        "key": None if view.key is None else plain(view.key),
        "outcome": view.outcome,
        "effect": view.effect,
        "source": source(view),
        "seq": view.last_seq,
        "live": view.live,
        "waits": view.wait if view.waits else "",
        "started": moment(view.started),
        "ended": moment(view.ended),
        "inputs": [[plain(name), short(text)] for name, text in view.inputs.items()],
        "result": short(view.result_preview),
        "error": short(view.error),
        "changes": [short(change) for change in view.changes],
        "idempotency_key": view.idempotency_key,
        "keyed": view.keyed,
        "spent": spent(view.usd, view.tokens),
        "outside": outside_text(view.outside_s),
        "note": note(view),
        "actions": allowed(view, can_check=view.name in checkable),
        "like": [] if like is None else [plain(like.id), short(like.result_preview, 200)],
    }


def detailed(status: StatusView, views: Iterable[OperationView]) -> Iterator[dict[str, Any]]:
    """Give all that is shown of some operations of a run, with what others have returned."""
    views = list(views)
    names = {view.name for view in views if view.outcome != Outcome.COMPLETED}
    like: dict[str, OperationView] = {}  # the last of each name that has a result
    for row in status.rows if names else ():
        view = row.view
        if view is not None and view.name in names and view.outcome == Outcome.COMPLETED:
            like[view.name] = view
    for view in views:
        other = None if view.outcome == Outcome.COMPLETED else like.get(view.name)
        yield detail_of(view, status.checkable, other)


def details_of(status: StatusView) -> dict[str, dict[str, Any]]:
    """Give the details that the front end has without asking: of what is open, and of the latest.

    Parameters
    ----------
    status : StatusView
        Of the run, wherever it was read.
    """
    found: dict[str, dict[str, Any]] = {}
    left = _SIZE
    for detail in detailed(status, _at_hand(status)):
        left -= 0 if detail["id"] in found else len(json.dumps(detail))
        if left < 0 and found:
            break
        found[detail["id"]] = detail
    return found


def _at_hand(status: StatusView) -> Iterator[OperationView]:
    open_ = {q.view.id: q.view for q in status.questions if q.view is not None}
    yield from list(open_.values())[:_OPEN]
    yield from heapq.nlargest(_LATEST, status.views, key=lambda view: view.row)


def view_of(status: StatusView, op: str) -> OperationView | None:
    """Find an operation by its identity."""
    return next((view for view in status.views if view.id == op), None)


def why_of(run: Watched, op: str) -> dict[str, Any]:
    """Give why an operation was reused, run again or stopped.

    Parameters
    ----------
    run : Watched
        Whoever holds it.
    op : str
        The operation's id.

    Returns
    -------
    dict
        ``said``, and ``differences``: facet, before, after.
    """
    found = run.why(op)
    rows = [[short(text) for text in row] for row in found.differences]
    return {"said": short(found.said), "differences": rows}


def history_of(run: Watched, op: str) -> list[dict[str, Any]]:
    """Give the records of one operation, in order, as text.

    Parameters
    ----------
    run : Watched
        Whoever holds it.
    op : str
        The operation's id.

    Returns
    -------
    list of dict
        ``seq, kind, at, epoch, actor, detail``.
    """
    return [
        {
            "seq": int(record["seq"]),
            "kind": str(record["kind"]),
            "at": moment(record["ts"]),
            "epoch": int(record["epoch"]),
            "actor": plain(str(record["actor"] or "")),
            "detail": short(str(record["detail"] or "")),
        }
        for record in run.records(op)
    ]


def cascade_of(run: Watched, op: str) -> dict[str, Any]:
    """Give what an invalidation would touch, and whether it has to say what becomes of effects.

    Parameters
    ----------
    run : Watched
        Whoever holds it.
    op : str
        The operation's id.

    Returns
    -------
    dict
        ``below`` and ``later``: ids; ``happened``: the completed external operations among the
        operation and those below it.
    """
    told: Mapping[str, Any] = run.ask("dependants", op)["more"]
    names = {"below": "below", "later": "suspect", "happened": "happened"}
    return {shown: [plain(op) for op in told[name]] for shown, name in names.items()}
