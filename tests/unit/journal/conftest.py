"""Children that do real things: they are killed, forked and interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import durable_nb.model
from durable_nb.journal import DuckDBJournal, Head, open_journal
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

_ROOT = Path(durable_nb.model.__file__).parents[2]

#: What every child program begins with; `folder` is its first argument.
PRELUDE = """
import os, signal, sys, threading, time
from pathlib import Path
from durable_nb.journal import Head, Lease, OwnerInfo, deferred_interrupts, open_journal
from durable_nb.model.errors import *
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

folder = Path(sys.argv[1])

def draft(n, **more):
    return Draft(f"s#{n}", Kind.COMPLETED, {"n": n, **more})

def opened(**options):
    return open_journal(folder / "journal.duckdb", run="r", head=Head(folder / "head"), **options)

def say(*words):
    print(*words, flush=True)
"""


@dataclass
class Child:
    """A running child program."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self, timeout: float = 60) -> str:
        """Wait for its end and give what else it said; it must have succeeded."""
        out, err = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, f"exit {self.process.returncode}: {out}{err}"
        return out

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=20)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Start a child program on the test's folder."""
    children: list[subprocess.Popen[str]] = []

    def begin(code: str, *args: str, before: tuple[str, ...] = ()) -> Child:
        program = PRELUDE + textwrap.dedent(code)
        process = subprocess.Popen(
            [*before, sys.executable, "-c", program, str(tmp_path), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        children.append(process)
        return Child(process)

    yield begin
    for process in children:
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):  # its pipes were read to the end
            process.communicate()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., DuckDBJournal]]:
    """Open the journal of the test's folder, or of another."""
    made: list[tuple[DuckDBJournal, Head]] = []

    def begin(folder: Path = tmp_path, **options: object) -> DuckDBJournal:
        head = Head(folder / "head")
        journal = open_journal(folder / "journal.duckdb", run="r", head=head, **options)  # type: ignore[arg-type]
        made.append((journal, head))
        return journal

    yield begin
    for journal, head in made:
        with contextlib.suppress(Exception):  # a test may have broken it on purpose
            journal.close()
        head.close()


def draft(n: int, **more: object) -> Draft:
    """Make a small record that tells which it is."""
    return Draft(f"s#{n}", Kind.COMPLETED, {"n": n, **more})


@pytest.fixture(name="draft")
def _draft() -> Callable[..., Draft]:
    return draft
