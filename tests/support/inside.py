"""What a child program starts with: ``from support.inside import *``.

Nothing in here is a hook of the toolkit: crash points are the bodies of steps, and, where the
boundary lies within the toolkit, functions that are patched in the child alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import durable_nb as dnb
from durable_nb.journal.duckdb_journal import DuckDBJournal
from durable_nb.model.records import Draft, Record
from support.ledger import Ledger


class Given(str):
    """What the test gave: no plain data, so that no step's result depends on it."""

    __slots__ = ()


class GivenKeys(dict[str, str]):
    """The same, of the keys that a test plants."""


class GivenWords(list[Given]):
    """The same, of the words on the command line."""


#: As the test gave them on the command line.
store = Path(sys.argv[1])
ledger = Ledger(Path(sys.argv[2]))
more = GivenWords(map(Given, sys.argv[3:]))

# A test run in the background has SIGINT ignored, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def die() -> NoReturn:
    """End this process with SIGKILL, here and now."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returned")


def tell(**facts: Any) -> None:
    """Tell the test what this process saw."""
    print(json.dumps(facts), flush=True)


def outcomes(run: dnb.Run) -> dict[str, str]:
    """Give what the journal proves of each operation."""
    frame = run.operations()
    return dict(zip(frame["id"], frame["outcome"], strict=True))


def kinds(run: dnb.Run, op: str) -> list[str]:
    """Give the kinds of an operation's records, in order."""
    return list(run.history(op)["kind"])


def die_at(op: str, kind: str, when: str) -> None:
    """Die just before, or just after, the journal takes a record of this operation and kind.

    "After" is when whoever recorded it goes on: at once where it only rides with the next commit
    anyway, else (in async code) once the commit that it waits for is done.
    """
    append, flush = DuckDBJournal.append, DuckDBJournal.flush
    awaited: list[Draft] = []

    def watched(
        self: DuckDBJournal, drafts: Sequence[Draft], *, lazy: bool = False
    ) -> list[Record]:
        here = [d for d in drafts if d.op == op and d.kind == kind]
        if here and when == "before":
            die()
        records = append(self, drafts, lazy=lazy)
        if here and when == "after":
            if not lazy or (kind == "intended" and here[0].body["effect"] != "external"):
                die()
            awaited.extend(here)
        return records

    def flushed(self: DuckDBJournal) -> None:
        flush(self)
        if awaited:
            die()

    DuckDBJournal.append = watched  # type: ignore[method-assign]
    DuckDBJournal.flush = flushed  # type: ignore[method-assign]


def note_acknowledged(path: Path) -> None:
    """Write down each record that the journal has acknowledged, before the program goes on."""
    append, flush = DuckDBJournal.append, DuckDBJournal.flush
    waiting: list[Record] = []

    def note() -> None:
        lines = "".join(f"{r.seq}\t{r.op}\t{r.kind}\n" for r in waiting)
        waiting.clear()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, lines.encode())
        os.close(fd)

    def watched(
        self: DuckDBJournal, drafts: Sequence[Draft], *, lazy: bool = False
    ) -> list[Record]:
        records = append(self, drafts, lazy=lazy)
        waiting.extend(records)
        if not lazy:  # lazy ones are promised only once a commit took them along
            note()
        return records

    def flushed(self: DuckDBJournal) -> None:
        flush(self)
        note()

    DuckDBJournal.append = watched  # type: ignore[method-assign]
    DuckDBJournal.flush = flushed  # type: ignore[method-assign]


__all__ = [
    "Given",
    "GivenKeys",
    "Ledger",
    "Path",
    "asyncio",
    "die",
    "die_at",
    "dnb",
    "json",
    "kinds",
    "ledger",
    "more",
    "note_acknowledged",
    "os",
    "outcomes",
    "signal",
    "store",
    "sys",
    "tell",
    "threading",
    "time",
]
