"""The inbox of a run in PostgreSQL: a message is a row, and whoever waits is told by the server.

Taking and withdrawing are one guarded statement each, so that of two that race only one has it.
See `durable_nb.journal.inbox` for what a message is.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from durable_nb.journal.inbox import (
    ANSWER_LIMIT,
    ANSWERS_KEPT_S,
    MESSAGE_LIMIT,
    Message,
    check_id,
    compose,
    document,
    parse,
)
from durable_nb.journal.postgres.listening import Listener
from durable_nb.journal.postgres.patience import Patient
from durable_nb.journal.postgres.server import Server

#: Seconds between two looks for an answer of which nobody has told.
_POLL_S: Final = 0.5
#: Seconds between two looks of an owner. It is told of a message; this is for one whose telling was
#: lost, within the 2 s that are promised. A thousand idle owners ask the server 700 times a second.
_LOOK_S: Final = 1.5
#: Seconds to go on trying to reach the server: a person waits.
_PATIENCE_S: Final = 10.0
#: What is notified of a message; of an answer it is the message's id.
_SENT: Final = ""


def _now() -> datetime:
    return datetime.now(UTC)


class PostgresInbox:
    """The inbox of one run, on a connection of its own; one object for one owner or sender.

    Parameters
    ----------
    server : Server
        A store that was prepared.
    key : int
        The number of the run in it.
    clock : callable
        Gives the aware time of a message. It arrives by the server's clock.
    patience_s : float
        Seconds to go on trying once the server is gone.

    Attributes
    ----------
    look_s : float
        Seconds between two looks of an owner whom nobody has told of a message.
    refused : list of str
        What `pending` found that is no message, and set aside; never executed.
    """

    look_s = _LOOK_S

    def __init__(
        self,
        server: Server,
        key: int,
        clock: Callable[[], datetime] = _now,
        *,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.refused: list[str] = []
        self._key, self._clock = key, clock
        self._channel = f"durable_nb_{key}"
        self._taker = secrets.token_hex(8)
        self._insisting = Patient(server, f"inbox of run {key}", patience_s)
        self._listener = Listener(self._insisting, self._channel, _SENT)

    # -- the sender's side -------------------------------------------------------------------

    def send(self, verb: str, body: Mapping[str, Any]) -> str:
        """Leave a message for the owner, and have the owner told; give its id.

        Raises
        ------
        BadMessage
            It is too large or not plain JSON; nothing was sent.
        StoreUnreachable, StoreRefused
        """
        message_id, data = compose(verb, body, self._clock())
        self._run("send_message", id=message_id, body=data, channel=self._channel)
        return message_id

    def answer_to(self, message_id: str, timeout_s: float) -> dict[str, Any] | None:
        """Wait for the owner's answer; `None` if none came in time."""
        check_id(message_id)
        limit = time.monotonic() + timeout_s
        try:
            while True:
                found = self._run("answer_of", id=message_id, limit=ANSWER_LIMIT)
                if found:
                    return _answer(*found[0])
                left = limit - time.monotonic()
                if left <= 0:
                    return None
                self._listener.until(message_id, min(left, _POLL_S))
        finally:
            self._listener.forget(message_id)

    def withdraw(self, message_id: str) -> bool:
        """Take a message back; `False` if the owner has taken or answered it."""
        given = {"id": check_id(message_id), "run": self._key}
        tries = 0

        def withdrawn() -> bool:
            nonlocal tries
            tries += 1
            row = self._insisting.session.run("withdraw_message", given).fetchone()
            assert row is not None
            gone, was_there = row
            # sent again, because the answer was lost: it was this that has removed it
            return bool(gone or (tries > 1 and not was_there))

        return self._insisting(withdrawn)

    # -- the owner's side --------------------------------------------------------------------

    def pending(self) -> list[Message]:
        """Give the messages that wait, in order of arrival; what is none is set aside and named.

        Old answers are removed on the way.
        """
        found = []
        for message_id, size, body in self._run(
            "pending_messages", kept_s=ANSWERS_KEPT_S, limit=MESSAGE_LIMIT
        ):
            try:
                if body is None:
                    raise ValueError(f"it has {size:,} bytes, above {MESSAGE_LIMIT:,}")
                found.append(parse(check_id(message_id), bytes(body)))
            except (ValueError, RecursionError) as error:
                self.refused.append(f"message {message_id!r}: {error}")
                self._run("refuse_message", id=message_id)
        return found

    def take(self, message_id: str) -> bool:
        """Take a message, so that it can no longer be withdrawn; `False` if it was."""
        return self._did("take_message", message_id)

    def put_back(self, message_id: str) -> None:
        """Leave a taken message for the next owner; its sender may withdraw it again."""
        self._did("put_message_back", message_id)

    def answer(self, message_id: str, document: Mapping[str, Any]) -> None:
        """Answer a message, in its place, and have its sender told.

        Nothing is answered that another owner has taken meanwhile: its answer is the one.
        """
        data = json.dumps(document).encode("ascii")
        given = {"id": check_id(message_id), "answer": data, "channel": self._channel}
        self._run("answer_message", taker=self._taker, **given)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message; `True` as soon as one was sent, or may have been."""
        return self._listener.until(_SENT, timeout_s)

    def wake(self) -> None:
        """End what waits in `wait`, or the next such wait at once."""
        self._listener.wake()

    def close(self) -> None:
        """Let go of the connection; a late answer opens one for itself. Twice is harmless."""
        self._insisting.close()
        self._listener.close()

    def _did(self, name: str, message_id: str) -> bool:
        """Change a message, as this owner; tell whether it was changed."""
        given = {"run": self._key, "id": check_id(message_id), "taker": self._taker}
        return self._insisting(lambda: self._insisting.session.run(name, given).rowcount) == 1

    def _run(self, name: str, **given: Any) -> list[Any]:
        """Send a statement about this run, and give the rows that it gives."""
        given["run"] = self._key

        def rows() -> list[Any]:
            cursor = self._insisting.session.run(name, given, binary=True)
            return cursor.fetchall() if cursor.description else []

        return self._insisting(rows)


def _answer(size: int, data: bytes | None) -> dict[str, Any]:
    """Read an answer."""
    if data is None:
        raise ValueError(f"it has {size:,} bytes, above {ANSWER_LIMIT:,}")
    return document(bytes(data))
