"""The tables that a run gives of itself, whoever reads its records: its owner, or from outside."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from durable_nb.engine import facets, views

if TYPE_CHECKING:
    import pandas as pd


class Tables:
    """History and facets as DataFrames, from the mappings that a subclass finds."""

    @abstractmethod
    def records(self, op: object = None) -> list[dict[str, Any]]:
        """Give the records of an operation, or of the whole run, with the columns of `history`."""

    @abstractmethod
    def facet_rows(self, op: object = None) -> list[dict[str, Any]]:
        """Give what results depend on, with the columns of `facets_of`."""

    def history(self, op: object = None) -> pd.DataFrame:
        """Give the records of one operation (or of the whole run), in order.

        Returns
        -------
        DataFrame
            ``seq, op, kind, ts, epoch, actor, attempt, detail``.
        """
        return views.frame_of(views.RECORD_COLUMNS, self.records(op))

    def facets_of(self, op: object = None) -> pd.DataFrame:
        """Give what recorded results depend on, a row for each facet.

        Parameters
        ----------
        op
            As for `confirm`; without one, all operations.

        Returns
        -------
        DataFrame
            ``op, facet, shown, digest, watched``; what is not watched is reached by the code, and
            nobody compares it: clients, installed packages, values without a digest.
        """
        return views.frame_of(facets.COLUMNS, self.facet_rows(op))
