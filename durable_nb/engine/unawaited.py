"""Waits that async code has called and not awaited: nobody was asked, so nothing may follow.

An awaitable is true, whatever it will say, and a call without `await` is easily written. So until
it is awaited, no effect of the same task begins, and nothing at all once it was dropped.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine.drive import Core, adrive
from durable_nb.engine.scope import Origin, Owner, current_owner
from durable_nb.model.control import NotAwaited
from durable_nb.model.outcomes import Effect

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation


_ASYNC: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
#: Code that runs as part of the code around it.
_INNER: Final = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>"})


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


def is_async(frame: FrameType | None) -> bool:
    """Tell whether the code that calls can await what it is given."""
    while frame is not None:
        if frame.f_code.co_flags & _ASYNC:
            return True
        if frame.f_code.co_name not in _INNER:
            return False
        frame = frame.f_back
    return False


class Awaitable(Coroutine[Any, Any, Any]):
    """A wait that was called in async code; it asks once it is awaited, and must be."""

    def __init__(self, op: Operation, core: Callable[[], Core[None]]) -> None:
        self._op, self._core = op, core
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._noted = Unawaited(op.id, op.run.origin(), weakref.ref(current_owner()))
        op.run.unawaited.append(self._noted)

    def _begun(self) -> Coroutine[Any, Any, Any]:
        if self._coroutine is None:
            self._coroutine = self._wait()
            self._let_go()
        return self._coroutine

    async def _wait(self) -> Any:
        with self._op.stoppable():
            await adrive(self._core())
        return self._op.result

    def _let_go(self) -> None:
        noted = self._op.run.unawaited
        noted[:] = [other for other in noted if other is not self._noted]

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._begun().__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a task does it."""
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise in what waits; a task that is cancelled before it began never asks."""
        if self._coroutine is None:
            self._op.give_back()  # the one that it was is the next one
        return self._begun().throw(*error)

    def close(self) -> None:
        """End it; nothing is recorded by that."""
        if self._coroutine is not None:
            self._coroutine.close()

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self._op.id} was not awaited, so nobody has decided yet: write `await` before it"
        )

    def __repr__(self) -> str:
        return f"<{self._op.id}: not asked before it is awaited>"

    def __del__(self) -> None:
        noted = getattr(self, "_noted", None)
        if noted is None or self._coroutine is not None:
            return
        noted.dropped = True
        if self._op.run.is_open:
            self._op.run.say(
                f"{noted.op} was called in async code and not awaited, so nobody was asked: "
                "nothing new begins before its cell is mended. Write `await` before the call."
            )
