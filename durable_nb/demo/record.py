"""What the run's journal says: read as any operator can, and nothing is recorded by reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from durable_nb.demo.ledger import Entry
from durable_nb.demo.result import Settled
from durable_nb.engine.run import Run
from durable_nb.engine.store import open_run
from durable_nb.engine.views import OperationView
from durable_nb.model.verdicts import RECONCILER

VERDICTS: Final = frozenset({"confirmed", "denied"})


@dataclass(frozen=True, slots=True)
class Reading:
    """A run's operations, what the model decided, and who settled what was unknown."""

    operations: tuple[OperationView, ...]
    decisions: Mapping[str, Mapping[str, Any]]  #: by order
    settled_by: Mapping[str, str]  #: operation id to ``"reconciler"`` or ``"person"``

    @property
    def settled(self) -> Settled:
        """Count the verdicts."""
        by = list(self.settled_by.values())
        return Settled(by.count(RECONCILER), by.count("person"))


@contextmanager
def _reader(name: str, store: Path) -> Iterator[Run]:
    run = open_run(name, store=store, must_exist=True, role="reader")
    try:
        yield run
    finally:
        run.close()


def read(name: str, store: Path) -> Reading:
    """Read a run that nobody holds."""
    with _reader(name, store) as run:
        operations = tuple(run.get(id_) for id_ in run.operations()["id"])
        decisions = {str(op.key): op.result for op in operations if op.name == "decide"}
        history = run.history()
    verdicts = history[history["kind"].isin(VERDICTS)]
    settled_by = {
        op: RECONCILER if actor == RECONCILER else "person"
        for op, actor in zip(verdicts["op"], verdicts["actor"], strict=True)
    }
    return Reading(operations, decisions, settled_by)


def unknown(name: str, store: Path) -> list[OperationView]:
    """List what only evidence can settle."""
    with _reader(name, store) as run:
        return run.unknown()


def verdict(
    name: str, store: Path, operation: OperationView, found: Sequence[Entry]
) -> tuple[str, ...]:
    """Give the CLI's arguments by which a person reports what the shop's ledger holds.

    Parameters
    ----------
    found
        The ledger's entries for this operation: none means that it did not happen.
    """
    if not found:
        evidence = "no such entry in the ledger"
        return ("deny", name, operation.id, "--evidence", evidence, "--store", str(store))
    entry = found[0]
    result = json.dumps({"id": entry.id, "to": entry.body["to"]})
    evidence = f"ledger entry {entry.id}, applied at {entry.at}"
    return ("confirm", name, operation.id, result, "--evidence", evidence, "--store", str(store))
