"""Verdicts from outside: given to the owner of a live run, else under a lease of our own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from durable_nb.engine import remote
from durable_nb.engine.published import row_of, view_of_row
from durable_nb.engine.views import OperationView
from durable_nb.faces import look, show
from durable_nb.faces.output import Face
from durable_nb.model.errors import DurableError, RunHeld


def give(
    face: Face, name: str, verb: str, op: str, arguments: Mapping[str, Any], seen: int | None = None
) -> None:
    """Give a verdict, and print what became of it.

    Parameters
    ----------
    name, verb, op, arguments
        The run, and what `durable_nb.engine.watched.Watched.ask` takes.
    seen : int, optional
        The operation's last record that the person saw.

    Raises
    ------
    DurableError
        Nothing was changed; if a live owner refused it, an `OwnerRefused` with its words.
    """
    show.settled(face, ask(face, name, verb, op, arguments, seen))


def dependants(face: Face, name: str, op: str) -> Mapping[str, Any]:
    """Tell what an invalidation would touch; changes nothing."""
    return ask(face, name, "dependants", op, {})


def ask(
    face: Face, name: str, verb: str, op: str, arguments: Mapping[str, Any], seen: int | None = None
) -> Mapping[str, Any]:
    """Do what a verb says, with a word while another process is asked."""
    run = look.watched(face, name)
    with face.working("asking the run's owner ..."):
        return run.ask(verb, op, arguments, seen=seen)


def compensate(face: Face, name: str, op: str, undo: Callable[..., Any], reason: str) -> None:
    """Take an effect back under a lease of our own, and print what became of it.

    Raises
    ------
    RunHeld
        A kernel has the run: the function is to be called there.
    DurableError, UnknownOutcome
        What was recorded tells whether the function was called.
    """
    run = look.watched(face, name)
    try:
        with run.held("operator") as held:
            with face.working("calling it ..."):
                view = held.compensate(op, reason, undo=undo)
                if inspect.isawaitable(view):
                    view = asyncio.run(_awaited(view))
            counts = dict(held.status_view().counts)
    except RunHeld as stop:
        stop.add_note(f"There, it is: run.compensate({op!r}, undo=...)")
        raise
    said = "its effect was taken back; the next kernel does it anew, under a new idempotency key"
    answer = {"run": run.name, "verdict": "compensated", "said": said, "counts": counts}
    show.settled(face, {**answer, "operation": row_of(view), "more": {}})


async def _awaited(awaitable: Awaitable[OperationView]) -> OperationView:
    return await awaitable


def check(face: Face, name: str) -> bool | None:
    """Have the owner of a live run ask its own reconcilers about what is unknown.

    Returns
    -------
    bool or None
        Whether a person is needed; `None` if no live owner answers.
    """
    if not remote.is_listening(look.watched(face, name).place):
        return None
    settled: list[OperationView] = []
    left: list[OperationView] = []
    for op in ask(face, name, "unknown", "", {})["more"]["unknown"]:
        try:
            answer = ask(face, name, "reconcile", str(op["id"]), {})
        except DurableError as refused:
            face.say(f"{op['id']}: {refused}")
            left.append(view_of_row(op))
            continue
        view = view_of_row(answer["operation"])
        (left if answer["verdict"] == "undecided" else settled).append(view)
        face.say(f"{op['id']}: {answer['said']}")
    return show.reconciled(face, name, settled, left)
