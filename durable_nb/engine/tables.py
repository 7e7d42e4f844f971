"""The tables that a run gives of itself, whoever reads its records: its owner, or from outside."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from durable_nb.engine import audit, facets, views

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

    @abstractmethod
    def audit_rows(self) -> list[dict[str, Any]]:
        """Give a row for each operation, with the columns of `audit`, in JSON's own types."""

    def audit(self) -> pd.DataFrame:
        """Give all that was ever recorded, a row for each operation: an audit trail.

        Returns
        -------
        DataFrame
            ``run, run_id, id, parent, name, key, effect, outcome, inputs, input_digests, result,
            error, model, prompt, facets, usd, tokens, attempts, verdicts, questions``. Inputs,
            model, prompt and facets are those that the last attempt began with; a result that is
            plain JSON is given whole. What looks like a secret is redacted.
        """
        return audit.frame_of_rows(self.audit_rows())

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
