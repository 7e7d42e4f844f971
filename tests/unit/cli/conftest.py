"""A store whose kernels were killed: built once, and copied for each test."""

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
    return store


@pytest.fixture
def store(killed_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a copy of the store whose kernels were killed, in a folder that is the current one."""
    for name in ("DURABLE_STORE", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(killed_store, tmp_path / ".durable")
    (tmp_path / "lookups.py").write_text(LOOKUPS)
    yield tmp_path / ".durable"
    sys.modules.pop("lookups", None)
