"""What the engine's tests share."""

from pathlib import Path

import pytest

import durable_nb as dnb


class Effects:
    """The outside world: a file that grows by one line an effect."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.__name__ = "effects"

    def __call__(self, text: object = "x") -> int:
        with self.path.open("a") as out:
            out.write(f"{text}\n")
        return self.count

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def count(self) -> int:
        return len(self.lines)


@pytest.fixture
def effects(tmp_path):
    """A ledger of effects, outside of the store."""
    return Effects(tmp_path / "effect.log")


@pytest.fixture
def open_run(tmp_path):
    """Open a run of a private store; each call stands for another kernel."""

    def open_(name="r", **options):
        return dnb.run(name, store=tmp_path / "store", **options)

    yield open_
    from durable_nb.engine.context import OPEN

    for run in OPEN.all():
        run.close()
