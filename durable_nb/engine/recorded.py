"""What is on record of a run: all records, and the values that they name, whoever holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from durable_nb import values
from durable_nb.engine import views
from durable_nb.journal import Place
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Outcome
from durable_nb.model.records import RUN, Record
from durable_nb.model.state import OperationState
from durable_nb.values.text import Readable


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that is on record of a run at one moment.

    Attributes
    ----------
    name : str
        Of the run.
    place : Place
        Where it is.
    records : tuple of Record
        All of them, in order, also of what has been settled or taken back since.
    fold : Fold
        The same, folded.
    artifacts : Readable
        Large values.
    now : datetime
        The moment.
    live : frozenset of str
        What its owner is running.
    """

    name: str
    place: Place
    records: tuple[Record, ...]
    fold: Fold
    artifacts: Readable
    now: datetime
    live: frozenset[str] = frozenset()

    def outcome(self, state: OperationState) -> Outcome:
        """Give the outcome as it is shown: what is live is never called unknown."""
        outcome = state.outcome(self.now)
        live = state.id in self.live
        return Outcome.INCOMPLETE if live and outcome is Outcome.UNKNOWN else outcome

    def shown(self, state: OperationState) -> str:
        """Show a recorded result as one short line; a large one is not loaded for it."""
        return views.shown(state, self.artifacts)

    def declared(self) -> dict[tuple[str, str], str]:
        """Give the facets that were ever declared for the whole run: name and digest to value."""
        found = {}
        for record in self.records:
            terms: Mapping[str, Any] = record.body.get("terms") or {} if record.op == RUN else {}
            for name, row in (terms.get("facets") or {}).items():
                found[name, row[0]] = row[2]
        return found


def texts_of(body: Any) -> Iterator[str]:
    """Give all texts of a record's body, however deep."""
    stack = [body]
    while stack:
        found = stack.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, Mapping):
            stack.extend(found.values())
        elif isinstance(found, list | tuple):
            stack.extend(found)


def refs_of(records: Iterable[Record]) -> set[tuple[str, int]]:
    """Give SHA-256 and size of all large values that records name, wherever in their bodies."""
    texts = (text for record in records for text in texts_of(record.body))
    return {ref for text in texts for ref in values.text_refs(text)}
