"""Verdicts from outside: given to the owner of a live run, else under a lease of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from durable_nb.engine import remote
from durable_nb.engine.inbox import perform
from durable_nb.faces import look, show
from durable_nb.faces.output import Face
from durable_nb.model.errors import DurableError

#: Seconds for which a reconciler's answer is awaited: it asks somebody outside.
CHECK_S: Final = 30.0


class OwnerRefused(DurableError):
    """The owner of a live run answered with an error, or took a message and answered nothing."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message


def give(
    face: Face, name: str, verb: str, op: str, arguments: Mapping[str, Any], seen: int | None = None
) -> None:
    """Give a verdict, and print what became of it.

    Parameters
    ----------
    name, verb, op, arguments
        The run, and what `durable_nb.engine.inbox.perform` takes.
    seen : int, optional
        The operation's last record that the person saw.

    Raises
    ------
    DurableError
        Nothing was changed; if a live owner refused it, an `OwnerRefused` with its words.
    """
    answer = ask_owner(face, name, verb, op, arguments, seen)
    if answer is None:
        with look.operating(face, name) as run:
            ref: object = op if seen is None else replace(run.get(op), last_seq=seen)
            answer = perform(run, verb, ref, arguments)
    show.settled(face, answer)


def dependants(face: Face, name: str, op: str) -> Mapping[str, Any]:
    """Tell what an invalidation would touch; changes nothing."""
    answer = ask_owner(face, name, "dependants", op, {})
    if answer is None:
        with look.reading(face, name) as run:
            answer = perform(run, "dependants", op, {})
    return answer


def check(face: Face, name: str) -> bool | None:
    """Have the owner of a live run ask its own reconcilers about what is unknown.

    Returns
    -------
    bool or None
        Whether a person is needed; `None` if no live owner answers.
    """
    found = ask_owner(face, name, "unknown", "", {})
    if found is None:
        return None
    settled: list[Mapping[str, Any]] = []
    left: list[Mapping[str, Any]] = []
    for op in found["more"]["unknown"]:
        try:
            answer = ask_owner(face, name, "reconcile", str(op["id"]), {}, timeout_s=CHECK_S)
        except OwnerRefused as refused:
            face.say(f"{op['id']}: {refused}")
            left.append(op)
            continue
        if answer is None:
            return None
        (left if answer["verdict"] == "undecided" else settled).append(answer["operation"])
        face.say(f"{op['id']}: {answer['said']}")
    return show.checked(face, name, settled, left)


def ask_owner(
    face: Face,
    name: str,
    verb: str,
    op: str,
    arguments: Mapping[str, Any],
    seen: int | None = None,
    timeout_s: float = 3.0,
) -> Mapping[str, Any] | None:
    """Ask the owner of a live run; `None` if there is none, or nothing came of it.

    Raises
    ------
    OwnerRefused
        Its answer is an error, or may still come.
    """
    folder = look.find(face, name)
    if not remote.is_listening(folder):
        return None
    with face.working("asking the run's owner ..."):
        answer = remote.settle_live(folder, verb, op, arguments, seen, timeout_s)
    if answer["ok"]:
        return answer
    if answer.get("withdrawn"):
        face.say(str(answer["message"]))
        return None
    raise OwnerRefused(str(answer["error"]), str(answer["message"]))
