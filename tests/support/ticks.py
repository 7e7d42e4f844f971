"""A clock that a test moves: the same numbers on each machine, however busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import durable_nb as dnb
from durable_nb.engine import store
from durable_nb.engine.trajectory import QUIET, Clock


class Ticks:
    """The monotonic clock of a run; it stands still unless `tick` moves it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.__name__ = "tick"

    def __call__(self, seconds: float) -> float:
        self.now += seconds
        return seconds

    def open(self, folder: Path, name: str = "r", **options: Any) -> dnb.Run:
        """Open a run that lives by this clock."""
        clock = Clock(monotonic=lambda: self.now)
        return store.open_run(name, store=folder, surroundings=QUIET, clock=clock, **options)


def ends(run: dnb.Run) -> dict[str, dict[str, Any]]:
    """Give the body of each operation's last record; "" is the run's."""
    return {record.op: dict(record.body) for record in run.committed()}
