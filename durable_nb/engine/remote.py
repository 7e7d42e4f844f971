"""Settling a run that another process holds: the message is sent, and its answer awaited."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.engine import settle
from durable_nb.journal import Place
from durable_nb.journal.owner import Life, Role

if TYPE_CHECKING:
    from durable_nb.journal.place import RunInbox

#: The error of an answer that never came.
UNANSWERED: Final = "Unanswered"

#: Arguments that are a person's words, and no values.
_WORDS: Final = ("evidence", "reason")


def is_listening(place: Place) -> bool:
    """Tell whether a live runner, in another process, holds the run.

    Parameters
    ----------
    place : Place
        The run's.
    """
    holder = place.probe()
    return (
        holder is not None
        and holder.life is Life.LIVE
        and holder.info.role == Role.RUNNER
        and not holder.is_here
    )


def settle_live(
    place: Place,
    verb: str,
    op: str,
    arguments: Mapping[str, Any],
    seen: int | None = None,
    timeout_s: float = 3.0,
) -> dict[str, Any]:
    """Ask the owner of a run to do something, and wait for its answer.

    Parameters
    ----------
    place : Place
        The run's.
    verb : str
        One of `durable_nb.engine.verbs.VERBS`.
    op : str
        Id, unique name or row number of an operation; "" for the run itself.
    arguments : Mapping
        Texts, as a person gives them.
    seen : int, optional
        The last record of the operation that this person saw (``last_seq``).
    timeout_s : float
        Seconds; the owner promises an answer within 2.

    Returns
    -------
    dict
        The owner's answer (`durable_nb.engine.inbox.apply`). Unanswered, it is ``ok`` False,
        ``error`` `UNANSWERED`, and ``withdrawn``: whether it is certain that nothing will come
        of it.

    Raises
    ------
    BadMessage, NotTrusted
        Nothing was sent.
    """
    said = {  # a message lies beside the run's records until its owner takes it
        name: values.redact(text) if name in _WORDS else text for name, text in arguments.items()
    }
    body = {"op": op, "seen": seen, "arguments": said, "actor": settle.actor()}
    with closing(place.inbox()) as inbox:
        return _ask(inbox, verb, body, timeout_s)


def _ask(inbox: RunInbox, verb: str, body: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Send it, and give the answer; what is unanswered is withdrawn."""
    message = inbox.send(verb, body)
    try:
        answer = inbox.answer_to(message, timeout_s)
    except BaseException:
        inbox.withdraw(message)
        raise
    if answer is not None:
        return answer
    if inbox.withdraw(message):
        text = (
            f"the run's owner did not answer within {timeout_s:g} s: something in it may hold up "
            "all its threads. The message was withdrawn; nothing was changed."
        )
        return {"ok": False, "error": UNANSWERED, "message": text, "withdrawn": True}
    # It was taken before it could be withdrawn: the answer may be there by now.
    answer = inbox.answer_to(message, 0.5)
    if answer is not None:
        return answer
    text = (
        f"the run's owner took the message and has not answered within {timeout_s:g} s. What "
        "becomes of it will be in the run's history: look there before you ask again."
    )
    return {"ok": False, "error": UNANSWERED, "message": text, "withdrawn": False}
