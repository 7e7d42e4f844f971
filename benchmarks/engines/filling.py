"""A long run in seconds: the records of one call, written again for each of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import durable_nb as dnb
from durable_nb.journal import Head, open_journal
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.model.identity import idempotency_key
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

#: Calls whose records are written at once.
_PART = 5_000


def fill(run: dnb.Run, step: Callable[[int], Any], number: int) -> None:
    """Journal the calls ``step(0)`` to ``step(number - 1)``, of which only the first is made.

    The records are those that the others would have left: identities, digests of what each was
    called with, keys, and results that differ in their id. The run is closed for that: open it
    again.

    Parameters
    ----------
    run : Run
        A new one, just opened.
    step : callable
        A step whose one parameter is called ``n``, with `PAYLOAD` as its result.
    number : int
        How many calls.
    """
    step(0)
    run.make_durable()
    intent, result = (r for r in run.committed() if r.op)
    run.close()
    head = Head(run.folder / HEAD_FILE)
    journal = open_journal(run.folder / JOURNAL_FILE, run=run.name, head=head)
    name, text = intent.op.partition("#")[0], str(result.body["result"])
    for start in range(1, number, _PART):
        drafts = []
        for n in range(start, min(start + _PART, number)):
            op = f"{name}#{n + 1}"
            key = idempotency_key(run.id, op, 0)
            said = {"inputs": run.digests({"n": n}, op), "shown": {"n": str(n)}}
            drafts.append(Draft(op, Kind.INTENDED, {**intent.body, **said, "idempotency_key": key}))
            own = text.replace("re_1NmwGpLkdIwHu7ix", f"re_{n:017x}")
            drafts.append(Draft(op, Kind.COMPLETED, {**result.body, "result": own}))
        journal.append(drafts)
    journal.close()
    head.close()
