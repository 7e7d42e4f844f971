"""What stands above the table: how far the run is, what it has cost and saved, what it is at."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Any, Final

from durable_nb.engine.questions import asked_of
from durable_nb.engine.usage import seconds_text, usd_text
from durable_nb.engine.views import HERE, OperationView, StatusView
from durable_nb.model.outcomes import Outcome
from durable_nb.notebook.panel.texts import moment, plain, short, spent

#: Previous kernels that are named, the last ones.
_KERNELS: Final = 10
#: What to do after the last verdict, and in a new kernel.
_GO_ON: Final = "nothing is in doubt: run all cells to go on"
#: Of what a person is asked, so much is said above the table.
_ASKS: Final = 3


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
        ``run, state, asks, next, counts, running, spending, budget, saved, progress, current,
        kernels, checkable, elapsed_s, ticking, here, notes, loss, paused``.
    """
    until = now if status.held_by else (status.updated or now)
    elapsed = (until - status.born).total_seconds() if status.born else 0.0
    return {
        "run": plain(status.run),
        "state": state(status),
        "asks": asks(status),
        "next": next_of(status),
        "counts": dict(status.counts),
        "running": sum(row.view is not None and row.view.live for row in status.rows),
        "spending": spending(status),
        "budget": plain(status.budget),
        "saved": saved(status),
        "progress": progress(status),
        "current": current(status, now),
        "kernels": kernels(status),
        "checkable": sorted(map(plain, status.checkable)),
        "elapsed_s": max(0.0, elapsed),
        "ticking": bool(status.held_by),
        "here": status.held_by == HERE,
        "notes": [plain(note) for note in _notes(status) if note],
        "loss": f"records of this run are lost: {short(status.doubt)}" if status.doubt else "",
        "paused": short(status.paused),
    }


def _notes(status: StatusView) -> tuple[str, ...]:
    paused = f"{status.paused}: nothing new begins in it" if status.paused else ""
    return (status.headline, _holder(status), paused)


def next_of(status: StatusView) -> str:
    """Say what to do where nothing waits for a person, and the program has not gone on yet."""
    views = status.views
    if not views or status.held_by != HERE or status.questions or any(v.live for v in views):
        return ""
    last = max(views, key=lambda view: view.last_seq)  # of a verdict, too
    came = last.source == "record" or (last.source == "ran" and not last.decided)
    return "" if came and last.outcome == Outcome.COMPLETED else _GO_ON


def _holder(status: StatusView) -> str:
    """Say who executes the run, where that is not the kernel that shows it."""
    if not status.held_by:
        return "nobody executes this run now; a verdict is recorded all the same"
    if status.held_by == HERE:
        return ""
    return f"executed by {status.held_by}; a verdict given here is applied there"


def state(status: StatusView) -> str:
    """Say in a word or two how the run stands now, for whoever has to do something about it."""
    if status.paused:
        return "paused"
    if status.held_by and any(row.view is not None and row.view.live for row in status.rows):
        return "running"
    return "waits for you" if status.questions else status.status


def asks(status: StatusView) -> list[list[str]]:
    """Give what a person is asked: operation and question, each once, the first ones."""
    found = {
        view.id: asked_of(view.id, view.outcome, view.wait if view.waits else "")
        for view in (question.view for question in status.questions)
        if view is not None and (view.waits or view.changes or view.outcome == Outcome.UNKNOWN)
    }
    return [[plain(op), plain(said)] for op, said in islice(found.items(), _ASKS)]


def spending(status: StatusView) -> str:
    """Say what a run has cost so far; "at least" where an attempt's price is not known."""
    said = spent(status.usd, status.tokens, digits=2)
    return f"at least {said}" if said and status.at_least else said


def saved(status: StatusView) -> str:
    """Say what was not done again because it was on record; "" where nothing was.

    What is below a replayed operation was not reached, and took no time of its own.
    """
    seconds, count, above = 0.0, 0, ""
    money: float | None = None
    for row in status.rows:
        view = row.view
        if view is None or view.source != "record" or (above and view.id.startswith(above)):
            continue
        above, count = f"{view.id}/", count + 1
        seconds += view.duration_s or 0.0
        money = money if view.usd is None else (money or 0.0) + view.usd
    if not count:
        return ""
    what = seconds_text(seconds) + ("" if money is None else f" and {usd_text(money)}")
    return f"{what} saved by {count:,} replay{'' if count == 1 else 's'}"


def progress(status: StatusView) -> str:
    """Say how much is done; of how many, only where they were announced: a loop may go on."""
    done, total = status.counts["completed"], sum(status.counts.values())
    waiting = len(status.expected)
    if waiting:
        return f"{done:,} of {total:,} done, {waiting:,} of them expected and not begun"
    return f"{done:,} done so far" if total else ""


def current(status: StatusView, now: datetime) -> dict[str, Any] | None:
    """Give the operation that is under way: the last that began, with how long one took before.

    Returns
    -------
    dict or None
        ``id``, ``elapsed_s``, ``estimate_s`` (of the last operation of that name that has ended;
        `None` where there is none), and ``beside``: how many others are under way.
    """
    views = status.views
    live = [view for view in views if view.live and view.started is not None]
    if not live:
        return None
    inner = max(live, key=lambda view: (view.started, view.row))
    assert inner.started is not None
    around = sum(inner.id.startswith(f"{view.id}/") for view in live)
    return {
        "id": plain(inner.id),
        "elapsed_s": max(0.0, (now - inner.started).total_seconds()),
        "estimate_s": _last_duration(inner, views),
        "beside": len(live) - 1 - around,
    }


def _last_duration(inner: OperationView, views: tuple[OperationView, ...]) -> float | None:
    ended = [
        view
        for view in views
        if view.name == inner.name and view.duration_s is not None and view.ended and not view.live
    ]
    return max(ended, key=lambda view: (view.ended, view.row)).duration_s if ended else None


def kernels(status: StatusView) -> list[dict[str, Any]]:
    """List the kernels before the last one that executed the run, the first one on top."""
    before = status.kernels[:-1][-_KERNELS:]
    return [
        {
            "at": moment(opening.ts),
            "how": "closed the run" if opening.closed else "ended without closing the run",
        }
        for opening in before
    ]
