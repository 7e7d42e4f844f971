"""What the engine asks of a journal, whatever keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from durable_nb.journal.damage import Recovery
from durable_nb.journal.head import Loss
from durable_nb.journal.pins import Loaded
from durable_nb.model.records import Draft, Record


class Journal(Protocol):
    """The append-only, ordered records of one run."""

    @property
    def run(self) -> str:
        """Name of the run, for messages."""
        ...

    @property
    def epoch(self) -> int:
        """Fencing token under which this owner writes."""
        ...

    @property
    def last_seq(self) -> int:
        """The last place that was given out; lazy records count."""
        ...

    @property
    def durable_seq(self) -> int:
        """The last record that is on disk."""
        ...

    @property
    def trouble(self) -> str:
        """What is in the way at this moment, such as a database that is waited for; or ""."""
        ...

    @property
    def lost(self) -> Loss | None:
        """What was acknowledged and is not there any more."""
        ...

    @property
    def recovered(self) -> Recovery | None:
        """What was found damaged and brought back as it was opened."""
        ...

    def load(self) -> list[Record]:
        """Give every record, checked and in order."""
        ...

    def resume(self) -> Loaded:
        """Give what a resume has to know: what pins have retired may be left out."""
        ...

    def read(self, first: int, last: int) -> Sequence[Record]:
        """Read neighbours again: those on disk from `first` to `last`, in order."""
        ...

    def append(self, drafts: Sequence[Draft], *, lazy: bool = False) -> list[Record]:
        """Add records in one transaction; unless lazy, they are durable once it returns."""
        ...

    def flush(self) -> None:
        """Make every lazy record durable."""
        ...

    def tidy(self) -> None:
        """Do what makes the next opening quick, if it is time for that."""
        ...

    def close(self) -> None:
        """Flush and let go of the store."""
        ...
