"""Child processes: plain Python programs that a test may interrupt and kill."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import durable_nb

_TESTS = Path(__file__).resolve().parents[1]
_PACKAGE = Path(durable_nb.__file__).resolve().parents[1]

#: Seconds after which a child counts as hung.
PATIENCE = 60.0


@dataclass(frozen=True)
class Ended:
    """How a child ended, and the facts that it told (`support.inside.tell`)."""

    code: int
    facts: dict[str, Any]
    out: str
    err: str

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL

    def ok(self) -> Ended:
        """Insist on an orderly end."""
        assert self.code == 0, f"child ended with {self.code}\n{self.out}\n{self.err}"
        return self


class Child:
    """A running program, in a process group of its own."""

    def __init__(self, program: Path, *args: object) -> None:
        path = os.pathsep.join([str(_PACKAGE), str(_TESTS)])
        env = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        env.pop("DURABLE_STORE", None)
        self._process = subprocess.Popen(
            [sys.executable, str(program), *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=program.parent,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def first_line(self) -> str:
        """Wait for the first line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def kill(self) -> Ended:
        """End the whole group with SIGKILL."""
        os.killpg(self.pid, signal.SIGKILL)
        return self.wait()

    def end_group(self) -> None:
        """End what is left of the group when the program itself has ended already."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def until_ended(self) -> None:
        """Wait for the end of the program itself, whatever it has started."""
        self._process.wait(timeout=PATIENCE)

    def interrupt(self) -> None:
        """Press Ctrl-C: SIGINT to the program alone."""
        os.kill(self.pid, signal.SIGINT)

    def until(self, what: Callable[[], bool]) -> Child:
        """Wait until something shows outside of the child."""
        limit = time.monotonic() + PATIENCE
        while not what():
            if self._process.poll() is not None:
                ended = self.wait()
                raise AssertionError(f"child ended early: {ended.code}\n{ended.out}\n{ended.err}")
            if time.monotonic() > limit:
                self.kill()
                raise AssertionError("what the test waited for never showed")
            time.sleep(0.005)
        return self

    def wait(self) -> Ended:
        """Wait for its end."""
        try:
            out, err = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            out, err = self._process.communicate()
            raise AssertionError(f"child hung\n{out}\n{err}") from None
        facts: dict[str, Any] = {}
        for line in out.splitlines():
            if line.startswith("{"):
                facts |= json.loads(line)
        return Ended(self._process.returncode, facts, out, err)


@dataclass
class Bench:
    """A place for one story: a store, a ledger, and programs that use both."""

    folder: Path

    @property
    def store(self) -> Path:
        """The folder of run folders."""
        return self.folder / "store"

    @property
    def ledger_file(self) -> Path:
        """Where effects show."""
        return self.folder / "effect.log"

    def start(self, source: str, *args: object) -> Child:
        """Start a program, given as text; it finds store and ledger in `support.inside`.

        The same text is the same file, so that a resume runs the very same code.
        """
        program = self.folder / "program.py"
        text = "from support.inside import *\n" + textwrap.dedent(source)
        if not program.exists() or program.read_text() != text:
            program.write_text(text)
        return Child(program, self.store, self.ledger_file, *args)

    def run(self, source: str, *args: object) -> Ended:
        """Run a program to its end."""
        return self.start(source, *args).wait()
