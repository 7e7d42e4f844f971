"""What the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.child import Bench
from support.ledger import Ledger


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A place for one story, whose programs are killed."""
    return Bench(tmp_path)


@pytest.fixture
def ledger(bench: Bench) -> Ledger:
    """The outside truth of that story."""
    return Ledger(bench.ledger_file)
