"""What the engine's tests share."""

import shutil
from pathlib import Path

import pytest
from support.child import Bench
from support.folders import KILLED_RUN

import durable_nb as dnb
from durable_nb.engine.context import OPEN


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
        OPEN._reached.clear()  # which another kernel would not know
        return dnb.run(name, store=tmp_path / "store", **options)

    yield open_
    for run in OPEN.all():
        run.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store whose one run was left in the middle of a charge."""
    bench = Bench(tmp_path_factory.mktemp("killed"))
    assert bench.run(KILLED_RUN).killed
    return bench.store


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    """Give the folder of a run whose kernel was killed, in a store of its own."""
    shutil.copytree(killed, tmp_path / "store")
    return tmp_path / "store" / "r"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Give the folder of a killed run where it was executed, so that a kernel may go on there."""
    bench = Bench(tmp_path)
    assert bench.run(KILLED_RUN).killed
    return bench.store / "r"
