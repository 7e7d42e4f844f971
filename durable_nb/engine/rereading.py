"""Reading records again that an opening has left out, while the run is held here and after it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_nb.engine.context import OPEN
from durable_nb.journal.looking import kept_out
from durable_nb.journal.tables import read_closed
from durable_nb.model.errors import JournalDamaged, RunClosed
from durable_nb.model.records import Record
from durable_nb.model.unfolded import Read

if TYPE_CHECKING:
    from durable_nb.journal.duckdb_journal import DuckDBJournal


def reader(journal: DuckDBJournal) -> Read:
    """Give what reads records of a journal, also once it was closed and nobody else has the run."""
    path, file = journal.path, os.stat(journal.path).st_ino

    def read(first: int, last: int) -> Sequence[Record]:
        try:
            return journal.read(first, last)
        except RunClosed:
            pass
        if not path.exists() or os.stat(path).st_ino != file:
            found = f"its file is not at {path} any more, and was read only in part."
            raise JournalDamaged(journal.run, found, "Open the run again, where it is now.")
        held = OPEN.at(path.parent)
        if held is not None:
            return held.read_again(first, last)
        with kept_out(path.parent, journal.run):
            return read_closed(path, first, last)

    return read
