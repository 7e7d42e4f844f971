"""A store whose kernels were killed: built once, lent to each test, and restored after it.

It is lent and not copied, because a run knows its own folder from a copy, and asks.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Child
from support.terminal import KILLED, LOOKUPS


@pytest.fixture(scope="session")
def killed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    program = folder / "program.py"
    program.write_text(KILLED)
    store = folder / ".durable"
    for name, where in {
        "refund-17": "mail",
        "refund-18": "charge",
        "refund-19": "charge",
        "refund-20": "mail",
    }.items():
        assert Child(program, store, name, where).wait().killed
    (store / "refund-20" / "journal.duckdb.wal").unlink()
    shutil.copytree(store, folder / "as-killed")
    return store


def restore(store: Path, copy: Path) -> None:
    """Make the store as it was again, in the same folders."""
    for there in store.iterdir():
        known = (copy / there.name).is_dir()
        for file in [*there.iterdir()] if known else [there]:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    shutil.copytree(copy, store, dirs_exist_ok=True)


@pytest.fixture
def store(killed_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend the store whose kernels were killed, in a folder that is the current one."""
    for name in ("DURABLE_STORE", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.chdir(tmp_path)
    store = tmp_path / ".durable"
    killed_store.rename(store)
    (tmp_path / "lookups.py").write_text(LOOKUPS)
    yield store
    restore(store, killed_store.parent / "as-killed")
    store.rename(killed_store)
    sys.modules.pop("lookups", None)
