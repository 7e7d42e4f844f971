"""The timeline of a run that this process holds, as data; `durable_nb.engine.picture` draws it.

It is small, and comes with the package: a thread that answers for the run imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_nb.model.timeline import Timeline, timeline_of

if TYPE_CHECKING:
    from durable_nb.engine.operated import Operated


def timeline_data(run: Operated) -> Timeline:
    """Give what ran when, from all records."""
    records = run.committed()
    with run.lock:
        executing = run.is_open and run.role == "runner"
        live = frozenset(op for op in list(run.live) if run.is_live(op))
    now = run.clock.now()
    return timeline_of(run.name, records, now=now, executing=executing, live=live)
