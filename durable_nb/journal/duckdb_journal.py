"""The journal of one run in one DuckDB file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from durable_nb.journal.duckdb_storage import DuckDBStorage
from durable_nb.journal.head import Head, Loss
from durable_nb.journal.landing import Landing
from durable_nb.journal.pins import Loaded
from durable_nb.journal.records_journal import RecordsJournal
from durable_nb.journal.tables import Found


class DuckDBJournal(RecordsJournal):
    """The journal of one run in a file; made by `open_journal`.

    Attributes
    ----------
    path : Path
        The database file.
    """

    def __init__(
        self,
        path: Path,
        found: Found,
        *,
        run: str,
        epoch: int | None,
        head: Head | None,
        existed: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self.path = path
        self._file = DuckDBStorage(path, run, Landing(found.con, *found.landed), head)
        super().__init__(
            self._file,
            found.last,
            run=run,
            epoch=epoch,
            clock=clock,
            digest=found.digest,
            loaded=Loaded(found.records, found.retired_seqs, found.unfolded),
        )
        self.lost = self._compared(head, found, existed=existed)

    def reconnect(self) -> None:
        """Go on over a new connection; the one before is closed."""
        self._file.reconnect()

    def _compared(self, head: Head | None, found: Found, *, existed: bool) -> Loss | None:
        """Compare the file with the head.

        The head was there before the file: one without a head, even an empty one, is in doubt.
        """
        if head is None:
            return None
        state = head.read()
        if state is None:
            return Loss(0, self._durable, "headless") if existed else None
        if state.seq > self._durable:
            return Loss(state.seq, self._durable, "missing")
        if state.digest != found.at_head:
            return Loss(state.seq, self._durable, "diverged")
        return None
