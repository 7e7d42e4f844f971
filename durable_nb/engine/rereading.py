"""Reading records again that an opening has left out, while the run is held here and after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_nb.engine.context import OPEN
from durable_nb.model.errors import RunClosed
from durable_nb.model.records import Record
from durable_nb.model.unfolded import Read

if TYPE_CHECKING:
    from durable_nb.journal import Journal, Place


def reader(journal: Journal, place: Place) -> Read:
    """Give what reads records of a journal, also once it was closed and nobody else has the run."""
    closed = place.closed_reader()

    def read(first: int, last: int) -> Sequence[Record]:
        try:
            return journal.read(first, last)
        except RunClosed:
            pass
        closed.check()
        held = OPEN.at(place)
        if held is not None:
            return held.read_again(first, last)
        return closed.read(first, last)

    return read
