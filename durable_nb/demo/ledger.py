"""The shop's ledger: what really happened, one JSON line for each effect.

The shop writes it; the demo reads and counts it. The toolkit never touches it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any


class What(StrEnum):
    """The two things that the shop does to the world."""

    REFUND = "refund"
    MAIL = "mail"


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect that was applied."""

    id: str
    what: What
    at: str  #: UTC, ISO
    body: dict[str, Any]
    key: str | None = None  #: the idempotency key that came with it

    @property
    def same(self) -> str:
        """What two entries share when one of them is a duplicate.

        An order is refunded once and a customer is answered once, whatever amount or text a
        second one carries.
        """
        return str(self.body["order" if self.what is What.REFUND else "to"])


@dataclass(frozen=True, slots=True)
class Count:
    """How often effects of one kind were applied."""

    applied: int
    duplicates: int


def append(path: Path, entry: Entry) -> None:
    """Write one line; it is on disk when this returns."""
    line = {"id": entry.id, "what": entry.what, "at": entry.at, **entry.body, "key": entry.key}
    data = (json.dumps(line, ensure_ascii=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Entry]:
    """Read all whole lines; a ledger that does not exist yet is empty."""
    if not path.exists():
        return []
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    return [_entry(json.loads(line)) for line in whole if line]


def _entry(line: dict[str, Any]) -> Entry:
    body = {name: line[name] for name in line if name not in ("id", "what", "at", "key")}
    return Entry(line["id"], What(line["what"]), line["at"], body, line["key"])


def count(entries: Iterable[Entry], what: What) -> Count:
    """Count effects of one kind; each repetition of the same effect is one duplicate."""
    times = Counter(entry.same for entry in entries if entry.what is what)
    return Count(times.total(), times.total() - len(times))


def now() -> str:
    """Give the time for a new entry."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
