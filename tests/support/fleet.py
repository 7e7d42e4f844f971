"""A fleet in a folder: a database of its own, and workers that are real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from durable_nb.fleet.submitting import roster, row_of
from support.desk import Desk

#: Seconds of a lease: what is dead is noticed soon.
LEASE_S = 5
_WAIT_S = 240


@dataclass
class Hand:
    """A worker, and what it wrote."""

    process: subprocess.Popen[str]
    log: Path

    def kill(self) -> None:
        """Kill it, and not its kernels, which notice that by themselves."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def whole(self, number: int) -> None:
        """Send a signal to it and to all its kernels, each of which has a process group of its own."""
        below: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self.process.pid).children(recursive=True)
        for pid in (self.process.pid, *(process.pid for process in below)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def ended(self, timeout: float = 60) -> int:
        return self.process.wait(timeout)

    @property
    def said(self) -> str:
        return self.log.read_text()


@dataclass
class Yard(Desk):
    """A desk whose store is a database, with workers."""

    hands: list[Hand] = field(default_factory=list)

    def worker(self, *words: object, **more: str) -> Hand:
        """Start a worker, in a process group of its own."""
        log = self.folder / f"worker-{len(self.hands)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "durable_nb.cli", "worker", *map(str, words)],
                cwd=self.folder,
                env=self.environment | more,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.hands.append(Hand(process, log))
        return self.hands[-1]

    def submit(self, notebook: Path, *words: object, name: str = "r") -> None:
        """Give a run to the fleet."""
        code, out, err = self.do("submit", notebook.name, "--run", name, *words)
        assert code == 0, (out, err)

    def fleet(self) -> dict[str, dict[str, Any]]:
        """List the fleet, by run, as `durable-nb fleet --all --json` does."""
        return {row.name: row_of(row) for row in roster(self.store, every=True)}

    def until(
        self, is_so: Callable[[dict[str, dict[str, Any]]], bool], timeout: float = _WAIT_S
    ) -> dict[str, dict[str, Any]]:
        """Look at the fleet again and again."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.fleet()
            if is_so(found):
                return found
            logs = "\n".join(f"{hand.log.name}:\n{hand.said}" for hand in self.hands)
            assert time.monotonic() < deadline, f"{found}\n{logs}"
            time.sleep(0.3)

    def end(self) -> None:
        """Kill whatever is left."""
        for hand in self.hands:
            hand.whole(signal.SIGCONT)
            hand.whole(signal.SIGKILL)
            hand.process.wait()
