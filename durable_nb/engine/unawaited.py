"""Waits that async code has called and not awaited: nobody was asked, so nothing may follow.

An awaitable is true, whatever it will say, and a call without `await` is easily written. So until
it is awaited, no effect of the same task begins, and nothing at all once it was dropped.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.engine.scope import Origin, Owner, current_owner
from durable_nb.model.control import NotAwaited
from durable_nb.model.outcomes import Effect

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation


@dataclass(slots=True)
class Unawaited:
    """A wait that was called, and is not awaited yet.

    Attributes
    ----------
    op : str
        Its identity.
    origin : Origin
        The cell execution that called it.
    owner : weakref
        The task that called it.
    dropped : bool
        Whether nothing holds it any more, so that nothing can await it.
    """

    op: str
    origin: Origin
    owner: weakref.ref[Owner]
    dropped: bool = False

    def stops(self, op: Operation) -> bool:
        """Tell whether an operation that comes now would go past it."""
        now = op.run.origin()
        same = now == self.origin
        if self.dropped:
            return True
        # another task of the same cell may well work beside it; a later cell goes past it
        return op.options.effect is not Effect.NONE and (
            not same or self.owner() is current_owner()
        )


def check(op: Operation) -> None:
    """Refuse an operation that goes past a wait which nobody awaits.

    Executing the cell again that forgot the `await` begins anew.

    Raises
    ------
    NotAwaited
        Nothing was begun.
    """
    run = op.run
    if not run.unawaited:
        return
    now = run.origin()
    for wait in list(run.unawaited):
        again = now.cell == wait.origin.cell and now.execution != wait.origin.execution
        if wait.op == op.id or again:
            run.unawaited.remove(wait)
        elif wait.stops(op):
            raise NotAwaited(run.name, op.id, wait.op)
