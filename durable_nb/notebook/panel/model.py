"""What the panel shows of a run, as plain data that JSON can carry; needs no front end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from durable_nb.engine.usage import outside_text
from durable_nb.engine.views import HERE, OperationView, StatusRow, StatusView
from durable_nb.engine.watched import Watched
from durable_nb.model.outcomes import Outcome
from durable_nb.model.verdicts import DECIDES_ONCE, VERDICTS, Verdict
from durable_nb.model.waits import FITS, WAITS_FOR, Wait

#: Where an operation's result came from, in words; "" is not reached by the run's kernel yet.
SOURCES: Final[Mapping[str, str]] = {"ran": "ran now", "record": "from record"}

#: The action that is no verdict: ask the step's reconciler.
CHECK: Final = "check"

#: How much of one input, error or detail is sent to the front end, in characters.
LIMIT: Final = 2000


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


def rows_of(status: StatusView) -> list[dict[str, Any]]:
    """Give the rows of the panel's table, in the order of the operation tree.

    Parameters
    ----------
    status : StatusView
        Of the run, wherever it was read.

    Returns
    -------
    list of dict
        Strings, numbers, lists and `None` only.
    """
    idle = "not reached" if status.held_by else "on record"
    return [_row(row, status.checkable, idle) for row in status.rows]


def _row(row: StatusRow, checkable: frozenset[str], idle: str) -> dict[str, Any]:
    shown = {
        "depth": row.depth,
        "label": plain(row.label),
        "outcome": row.outcome,
        "sign": row.sign,
    }
    view = row.view
    if view is None:  # expected, and not begun
        return {**shown, "id": None, "actions": [], "note": row.note}
    return {
        **shown,
        "id": plain(view.id),
        "name": plain(view.name),
        "key": None if view.key is None else plain(view.key),
        "seq": view.last_seq,
        "live": view.live,
        "waits": view.wait if view.waits else "",
        "effect": view.effect,
        "attempt": view.attempt,
        "source": SOURCES.get(view.source, idle),
        "started": _time(view.started),
        "ended": _time(view.ended),
        "duration": _duration(view.duration_s),
        "inputs": [[plain(name), _short(text)] for name, text in view.inputs.items()],
        "result": _short(view.result_preview),
        "error": _short(view.error),
        "changes": [_short(change) for change in view.changes],
        "idempotency_key": view.idempotency_key,
        "spent": _spent(view),
        "outside": outside_text(view.outside_s),
        "note": _note(view),
        "actions": allowed(view, can_check=view.name in checkable),
    }


def _note(view: OperationView) -> str:
    """Say what no other column does."""
    if view.outcome == Outcome.UNKNOWN:
        return "it may have happened"
    if view.waits:
        return WAITS_FOR[Wait(view.wait)]
    if view.changes:
        return "changed: keep or rerun?"
    return _short(view.error, 80) or outside_text(view.outside_s)


def header_of(status: StatusView, now: datetime) -> dict[str, Any]:
    """Give what stands above the table.

    Parameters
    ----------
    status : StatusView
        Of the run, wherever it was read.
    now : datetime
        UTC.

    Returns
    -------
    dict
        ``run, status, counts, spending, elapsed_s, ticking, notes, loss``.
    """
    until = now if status.held_by else (status.updated or now)
    elapsed = (until - status.born).total_seconds() if status.born else 0.0
    return {
        "run": plain(status.run),
        "status": status.status,
        "counts": dict(status.counts),
        "spending": spending(status),
        "elapsed_s": max(0.0, elapsed),
        "ticking": bool(status.held_by),
        "notes": [plain(note) for note in (status.headline, _holder(status)) if note],
        "loss": f"records of this run are lost: {_short(status.doubt)}" if status.doubt else "",
    }


def _holder(status: StatusView) -> str:
    """Say who executes the run, where that is not the kernel that shows it."""
    if not status.held_by:
        return "nobody executes this run now; a verdict is recorded all the same"
    if status.held_by == HERE:
        return ""
    return f"executed by {status.held_by}; a verdict given here is applied there"


def spending(status: StatusView) -> str:
    """Say what a run has cost so far; "at least" where an attempt's price is not known."""
    if status.usd is None:
        return ""
    return f"{'at least ' if status.at_least else ''}${status.usd:.2f}"


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
            "at": _time(record["ts"]),
            "epoch": int(record["epoch"]),
            "actor": plain(str(record["actor"] or "")),
            "detail": _short(str(record["detail"] or "")),
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
    told = run.ask("dependants", op)["more"]
    names = {"below": "below", "later": "suspect", "happened": "happened"}
    return {shown: [plain(op) for op in told[name]] for shown, name in names.items()}


def _time(moment: datetime | None) -> str:
    """Give a time as the front end parses it, in UTC."""
    if moment is None:
        return ""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _spent(view: OperationView) -> str:
    parts = [] if view.usd is None else [f"${view.usd:.4f}"]
    if view.tokens is not None:
        parts.append(f"{view.tokens:,} tokens")
    return ", ".join(parts)


def plain(text: str) -> str:
    """Give a text that can be sent: lone surrogates, which UTF-8 has no bytes for, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def resolve(status: StatusView, shown: str) -> str:
    """Give the id of the operation that the front end knows by this one."""
    known = [view.id for view in status.views]
    if shown in known:
        return shown
    return next((op for op in known if plain(op) == shown), shown)


def _short(text: str, limit: int = LIMIT) -> str:
    """Cut a text, and make it one that can be sent."""
    safe = plain(text)
    return safe if len(safe) <= limit else f"{safe[:limit]}… ({len(safe):,} characters)"
