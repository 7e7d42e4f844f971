"""What a journal asks of what keeps its rows: the seam between one journal and its storages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from durable_nb.journal.rows import RawRow, Row


class Foreign(Exception):
    """Where a batch belongs stand rows that its owner does not count: nothing more is written."""


class Storage(Protocol):
    """Keeps the rows of one run; the journal sees to it that one thread at a time calls it.

    Attributes
    ----------
    failures : tuple of exception types
        A commit that raised one of these failed, or only its answer is lost; any other was
        interrupted. What became of it is told by `landed`.
    damage : tuple of exception types
        What reading raises where rows cannot be read as they are.
    advice, repair : str
        What to do about a failure, and about damage.
    """

    failures: tuple[type[Exception], ...]
    damage: tuple[type[Exception], ...]
    advice: str
    repair: str

    @property
    def trouble(self) -> str:
        """The last failure that cost no record."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it is time to gather, whoever waits."""
        ...

    def commit(self, rows: Sequence[Row], before: bytes) -> None:
        """Make rows durable in one transaction; `before` is the running digest before them.

        Raises
        ------
        StaleOwner
            If another owner has the run now: none of them is written, now or later.
        """
        ...

    def landed(self, rows: Sequence[Row], before: bytes, error: BaseException) -> bool:
        """Tell whether a batch whose commit raised this is on record.

        Raises one of `failures` if that cannot be told now, `Foreign` if others are there.
        """
        ...

    def is_longer(self, seq: int) -> bool:
        """Tell whether rows after this one are known to be on record."""
        ...

    def acknowledge(self, seq: int, digest: bytes) -> None:
        """Note how far the journal has come, before a caller hears of it."""
        ...

    def is_due(self, seq: int) -> bool:
        """Whether gathering now would make the next opening quicker."""
        ...

    def gather(self, seq: int) -> None:
        """Bring what is on record into its final place; a failure costs nothing."""
        ...

    def all_rows(self) -> list[Row]:
        """Read all rows, in order, and check the chain."""
        ...

    def between(self, first: int, last: int) -> Sequence[RawRow]:
        """Read neighbours, in order."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
