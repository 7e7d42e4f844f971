"""What a listing asks of every run."""

from __future__ import annotations

from typing import NamedTuple

from durable_nb.journal.owner import Holder


class Glance(NamedTuple):
    """Who holds a run, and whether something was recorded after its mirror was published."""

    holder: Holder | None
    lags: bool
