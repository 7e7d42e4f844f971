"""What is shown of a run that goes on, kept from one look to the next: only what changed is new."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from durable_nb.engine import views as making
from durable_nb.engine.retired import NOTHING, Retired
from durable_nb.engine.tree import Path, StatusRow, add_paths, row_of

if TYPE_CHECKING:
    from durable_nb.engine.operated import Operated
    from durable_nb.engine.views import OperationView, StatusView


class Kept:
    """The views and rows of one run, each with what it was made from.

    A state is never changed, so that the same object says the same; the few operations that may
    show otherwise without a record (`Trajectory.restless`) are made anew each time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget(None)

    def status(self, run: Operated) -> StatusView:
        """Show a run that this process holds, as `views.status_view` does."""
        with self._lock:
            if self._run is not run:
                self._forget(run)
            return making.status_view(run, self)

    def _forget(self, run: Operated | None) -> None:
        self._run = run
        self._keys: list[str] = []
        self._order: list[str] = []
        self._made: dict[str, tuple[Any, str, OperationView]] = {}
        self._retired = NOTHING
        self._paths: dict[str, Path] = {}
        self._listed: list[StatusRow] = []

    # -- what `views.status_view` asks -------------------------------------------------------

    def views(self, run: Operated) -> list[OperationView]:
        """Give the view of each operation, by first record."""
        with run.lock:
            operations, sources = run.fold.operations, run.sources
            known, restless = operations.known(), run.restless()
            found = []
            for op in self._ordered(list(known), run):
                state, source = known[op], sources.get(op, "")
                before = self._made.get(op)
                if before and before[0] is state and before[1] == source and op not in restless:
                    found.append(before[2])
                    continue
                folded = operations.state_at(op, state) if isinstance(state, int) else state
                view = making.view_of(run, folded)
                if before is not None and before[2] == view:
                    view = before[2]  # restless, and as it was
                self._made[op] = (state, source, view)
                found.append(view)
        return found

    def _ordered(self, keys: list[str], run: Operated) -> list[str]:
        """Order operations by first record; most often, none or a few have come at the end."""
        first_seq, n = run.fold.operations.first_seq, len(self._keys)
        grown = keys[:n] == self._keys
        new = sorted(keys[n:], key=first_seq) if grown else []
        if new and self._order and first_seq(new[0]) < first_seq(self._order[-1]):
            grown = False
        if not grown:  # numbers of others may have changed with it
            self._forget(run)
            new = sorted(keys, key=first_seq)
        self._keys = keys
        self._order += new
        return self._order

    def tree(self, views: Sequence[OperationView], retired: Retired) -> list[StatusRow]:
        """Give the rows in the order of the tree."""
        if retired != self._retired:
            self._retired, self._paths, self._listed = retired, {}, []
        paths = self._paths
        new = [v for v in views if v.id not in paths]
        if new:
            add_paths(paths, new)
            known = {row.view.id: row for row in self._listed if row.view is not None}
            order = sorted(views, key=lambda v: paths[v.id])
            self._listed = [
                row if (row := known.get(v.id)) and row.view is v else row_of(v, paths, retired)
                for v in order
            ]
            return list(self._listed)
        now = {v.id: v for v in views}
        for n, row in enumerate(self._listed):
            assert row.view is not None
            view = now[row.view.id]
            if view is not row.view:
                self._listed[n] = row_of(view, paths, retired)
        return list(self._listed)
