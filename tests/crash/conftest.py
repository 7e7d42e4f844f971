"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Bench
from support.harmed import WORK, Harmed
from support.ledger import Ledger

import durable_nb as dnb


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A place for one story, whose programs are killed."""
    return Bench(tmp_path)


@pytest.fixture
def ledger(bench: Bench) -> Ledger:
    """The outside truth of that story."""
    return Ledger(bench.ledger_file)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Harmed:
    """Two runs that went through, and were killed before they closed."""
    bench = Bench(tmp_path_factory.mktemp("killed"))
    for name in ("mine", "other"):
        assert bench.run(WORK, name, "die").killed
    return Harmed(bench, Ledger(bench.ledger_file))


@pytest.fixture
def harmed(killed: Harmed, tmp_path: Path) -> Iterator[Harmed]:
    """A copy to harm; afterwards the other run of the store goes on as if nothing were."""
    story = killed.copied(tmp_path)
    yield story
    seen = story.bench.run(WORK, "other", "resume").ok().facts
    assert (seen["last"], seen["size"]) == (["other", "last"], 500_000)
    assert "problem" not in seen
    assert story.ledger.count("other big") == story.ledger.count("other last") == 1
    assert "other" in set(dnb.runs(store=story.bench.store)["name"])
