"""The inbox: what other processes say to the owner of a run, and what the owner answers.

A message is a file, written aside and renamed, so that the owner reads a whole one or none. The
owner takes it by renaming it, so that its sender can withdraw it up to that moment, and never
after. What is taken and unanswered (its owner was killed) is given again to the next owner.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from durable_nb.journal.errors import BadMessage
from durable_nb.journal.folder import check_trusted

INBOX_FOLDER: Final = "inbox"
#: Largest message, and largest answer (which may list what an invalidation touches), in bytes.
MESSAGE_LIMIT: Final = 1 << 20
ANSWER_LIMIT: Final = 1 << 24
#: Seconds for which an answer is kept.
ANSWERS_KEPT_S: Final = 3600.0

#: Seconds between two looks into the inbox: an answer within 2 s is promised (DESIGN section 7).
LOOK_S: Final = 0.5

_POLL_S: Final = 0.02
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SENT, _TAKEN, _ANSWER, _BAD = ".json", ".taken", ".answer.json", ".bad"
_ASIDE: Final = ".part-"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that another process said.

    Attributes
    ----------
    id : str
        32 hexadecimal digits.
    verb : str
        What is asked for.
    op : str
        The operation: id, unique name or row number; "" for the run itself.
    seen : int or None
        The last record of the operation that the sender saw, for a compare-and-set.
    arguments : Mapping
        Of the verb; plain JSON.
    actor : str
        Who says it, for the history.
    ts : datetime
        When it was sent, UTC.
    """

    id: str
    verb: str
    op: str
    seen: int | None
    arguments: Mapping[str, Any]
    actor: str
    ts: datetime


class Inbox:
    """The inbox of one run.

    Parameters
    ----------
    folder : Path
        The run's folder.
    clock : callable
        Gives the aware time of a message.

    Attributes
    ----------
    look_s : float
        Seconds between two looks of an owner: a folder does not tell when a message came.
    refused : list of str
        What `pending` found that is no message, and set aside; never executed.
    """

    look_s = LOOK_S

    def __init__(self, folder: Path, clock: Callable[[], datetime] = _now) -> None:
        self.folder = folder / INBOX_FOLDER
        self.refused: list[str] = []
        self._clock = clock
        self._woken = threading.Event()

    # -- the sender's side -------------------------------------------------------------------

    def send(self, verb: str, body: Mapping[str, Any]) -> str:
        """Leave a message for the owner.

        Parameters
        ----------
        verb : str
            What is asked for.
        body : Mapping
            ``op``, ``seen``, ``arguments`` and ``actor``; each may be missing.

        Returns
        -------
        str
            The message's id.

        Raises
        ------
        BadMessage
            It is too large or not plain JSON; nothing was sent.
        NotTrusted
            Somebody else could have written to the inbox.
        """
        message_id, data = compose(verb, body, self._clock())
        self.folder.mkdir(mode=0o700, exist_ok=True)
        check_trusted(self.folder)
        self._write(message_id + _SENT, data)
        return message_id

    def answer_to(self, message_id: str, timeout_s: float) -> dict[str, Any] | None:
        """Wait for the owner's answer; `None` if none came in time."""
        path = self._path(message_id, _ANSWER)
        limit = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(FileNotFoundError):
                return document(_read(path, ANSWER_LIMIT))
            if time.monotonic() >= limit:
                return None
            time.sleep(_POLL_S)

    def withdraw(self, message_id: str) -> bool:
        """Take a message back; `False` if the owner has taken or answered it."""
        try:
            self._path(message_id, _SENT).unlink()
        except FileNotFoundError:
            return False
        return True

    # -- the owner's side --------------------------------------------------------------------

    def pending(self) -> list[Message]:
        """Give the messages that wait, in order of arrival; what is none is set aside and named.

        Old answers are removed on the way.
        """
        if not os.path.lexists(self.folder):
            return []
        check_trusted(self.folder)
        found = []
        for name in os.listdir(self.folder):
            if name.endswith(_BAD):
                continue
            if name.startswith(_ASIDE) or name.endswith(_ANSWER):
                self._forget(name)
                continue
            try:
                message, arrived = self._load(name)
            except FileNotFoundError:  # withdrawn meanwhile
                continue
            except (OSError, ValueError, RecursionError) as error:
                self._set_aside(name, error)
                continue
            found.append((arrived, message.id, message))
        return [message for *_, message in sorted(found, key=lambda f: f[:2])]

    def seen(self) -> tuple[int, list[tuple[str, str]]]:
        """Count the messages that wait, and name what is none; this changes nothing."""
        if not os.path.lexists(self.folder):
            return 0, []
        check_trusted(self.folder)
        waiting, bad = 0, list[tuple[str, str]]()
        for name in sorted(os.listdir(self.folder)):
            if name.startswith(_ASIDE) or name.endswith(_ANSWER):
                continue
            try:
                self._load(name)
                waiting += 1
            except (OSError, ValueError, RecursionError) as error:
                bad.append((name, str(error)))
        return waiting, bad

    def take(self, message_id: str) -> bool:
        """Take a message, so that it can no longer be withdrawn; `False` if it was."""
        try:
            os.rename(self._path(message_id, _SENT), self._path(message_id, _TAKEN))
        except FileNotFoundError:
            return self._path(message_id, _TAKEN).exists()  # by an owner that is gone
        return True

    def put_back(self, message_id: str) -> None:
        """Leave a taken message for the next owner; its sender may withdraw it again."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._path(message_id, _TAKEN), self._path(message_id, _SENT))

    def answer(self, message_id: str, document: Mapping[str, Any]) -> None:
        """Answer a message, and remove it: in this order, so that none is lost."""
        self._path(message_id, _ANSWER)
        self._write(message_id + _ANSWER, json.dumps(document).encode("ascii"))
        for ending in (_SENT, _TAKEN):
            self._path(message_id, ending).unlink(missing_ok=True)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is time to look again, or `wake`; a folder does not tell when one came."""
        self._woken.wait(timeout_s)
        self._woken.clear()
        return False

    def wake(self) -> None:
        """End what waits in `wait`, or the next such wait at once."""
        self._woken.set()

    def close(self) -> None:
        """Let go of nothing: files are opened one by one."""

    # -- files -------------------------------------------------------------------------------

    def _path(self, message_id: str, ending: str) -> Path:
        """Name a file of a message; an id is hexadecimal, so it names nothing elsewhere."""
        return self.folder / (check_id(message_id) + ending)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file in one step, readable by this user only."""
        fd, part = tempfile.mkstemp(prefix=_ASIDE, dir=self.folder)  # mode 0600
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.folder / name)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _load(self, name: str) -> tuple[Message, int]:
        """Read one message, and when it arrived."""
        message_id, dot, ending = name.partition(".")
        if not _ID.fullmatch(message_id) or dot + ending not in (_SENT, _TAKEN):
            raise ValueError("its name is not that of a message")
        path = self.folder / name
        arrived = path.lstat().st_mtime_ns
        return parse(message_id, _read(path, MESSAGE_LIMIT)), arrived

    def _set_aside(self, name: str, error: Exception) -> None:
        """Rename what is no message, and name it; a link is renamed, not what it points to."""
        self.refused.append(f"{INBOX_FOLDER}/{name!r}: {error}")
        with contextlib.suppress(OSError):
            os.rename(self.folder / name, self.folder / (name[:200] + _BAD))

    def _forget(self, name: str) -> None:
        """Remove an answer that nobody waits for any more, or what a killed writer left."""
        path = self.folder / name
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > ANSWERS_KEPT_S:
                path.unlink()


def _read(path: Path, limit: int) -> bytes:
    """Read a plain file of this user's; neither a link nor a pipe, and not above the limit."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise ValueError("it is not a plain file of this user's")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def compose(verb: str, body: Mapping[str, Any], ts: datetime) -> tuple[str, bytes]:
    """Make a message of what somebody says: its id and its text; raises `BadMessage`."""
    message = Message(
        id=f"{time.time_ns():016x}{secrets.token_hex(8)}",
        verb=verb,
        op=str(body.get("op", "")),
        seen=body.get("seen"),
        arguments=dict(body.get("arguments") or {}),
        actor=str(body.get("actor") or "operator"),
        ts=ts,
    )
    try:
        data = json.dumps({**asdict(message), "ts": message.ts.isoformat()}).encode("ascii")
        parse(message.id, data)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(verb, str(error)) from error
    if len(data) > MESSAGE_LIMIT:
        raise BadMessage(verb, f"it has {len(data):,} bytes, and the limit is {MESSAGE_LIMIT:,}")
    return message.id, data


def check_id(message_id: str) -> str:
    """Refuse what is no id of a message; raises `ValueError`."""
    if not isinstance(message_id, str) or not _ID.fullmatch(message_id):
        raise ValueError(f"{message_id!r} is no id of a message: 32 hexadecimal digits")
    return message_id


def document(data: bytes) -> dict[str, Any]:
    """Read a JSON object; raises `ValueError`."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"it is a JSON {type(found).__name__}, no object")
    return found


def parse(message_id: str, data: bytes) -> Message:
    """Read a message, and check each of its fields; raises `ValueError`."""
    found = document(data)
    seen, ts = found.get("seen"), datetime.fromisoformat(str(found.get("ts")))
    wrong = [
        name
        for name, kind in (("verb", str), ("op", str), ("actor", str), ("arguments", dict))
        if not isinstance(found.get(name), kind)
    ]
    wrong += [n for n in ("verb", "actor") if n not in wrong and not found[n].isprintable()]
    if found.get("id") != message_id:
        wrong.append("id")
    if seen is not None and type(seen) is not int:
        wrong.append("seen")
    if ts.tzinfo is None:
        wrong.append("ts")
    if wrong:
        raise ValueError(f"it lacks a proper {', '.join(wrong)}")
    return Message(
        message_id, found["verb"], found["op"], seen, found["arguments"], found["actor"], ts
    )
