"""What a person does with a fleet, from a shell."""

from __future__ import annotations

import pytest
from support.fleet import Yard

pytestmark = pytest.mark.slow


def _are(state: str):
    return lambda rows: all(row["state"] == state for row in rows.values())


def test_a_notebook_that_is_submitted_is_executed_by_a_worker(yard: Yard, happen: str):
    """Whichever: it has the notebook as it was, and its parameters."""
    path = yard.notebook(happen, "happen(x)", parameters="x = 1")
    yard.submit(path, "-p", "x=7", name="a")
    path.unlink()
    assert yard.fleet()["a"]["state"] == "queued"
    yard.worker("--slots", 2)
    yard.until(_are("finished"))
    assert yard.effects() == ["7"]
