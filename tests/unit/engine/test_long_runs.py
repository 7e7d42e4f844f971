"""A long run is opened without a state for each operation; whatever is asked of it is the same."""

from __future__ import annotations

import os
from itertools import batched

import pytest
from support.child import Bench

import durable_nb as dnb
from durable_nb.engine.context import OPEN
from durable_nb.journal.loading import FEW
from durable_nb.model.errors import JournalDamaged
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

#: Operations of the run: with two records each, more than an opening folds at once.
MANY = FEW // 2 + 500


@dnb.step(effect="none")
def act(n):
    """Give something of its own."""
    return {"n": n}
