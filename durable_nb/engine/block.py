"""How long a `with` block lasts, told by what it holds: true however it ends, from any thread.

An interrupt may strike as `__exit__` is entered, before its first line, so that nothing of ours
runs as the block ends. But Python keeps the `__exit__` that it found until the block is over, and
lets go of it whatever ended it. So each `with` is given an `__exit__` of its own, and with it a
`Block` that nobody else holds: when the block is gone, so is the `with`. No traceback keeps it.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Block:
    """Lives as long as one `with`."""

    __slots__ = ("__weakref__",)


class Managed:
    """What a `with` may enter; its `__exit__` and `__aexit__` are marked `held`."""

    _offered: weakref.ref[Block] | None = None

    def entered_by(self) -> weakref.ref[Block] | None:
        """Give the `with` that is entering this; `None` when it is entered by hand.

        Python looks `__exit__` up just before it calls `__enter__`; one that was looked up at
        another time is gone by now.
        """
        offered = self._offered
        return None if offered is None or offered() is None else offered


class _Exit(functools.partial[Any]):
    """The `__exit__` of one `with`: a call in C, so that no frame of it holds the block."""

    block: Block


class _Held:
    """Gives each `with` that looks an `__exit__` up one of its own."""

    def __init__(self, leave: Callable[..., Any]) -> None:
        self._leave, self._is_async = leave, inspect.iscoroutinefunction(leave)

    def __get__(self, manager: Managed | None, owner: type) -> Callable[..., Any]:
        if manager is None:  # by hand: an ExitStack asks the class
            return self._leave
        block = Block()
        manager._offered = weakref.ref(block)
        if self._is_async:
            # the `with` lets go of it once the call has given a coroutine, which goes on, and has
            # the block among its arguments
            return functools.partial(self._leave, manager, block=block)
        leave = _Exit(self._leave, manager)
        leave.block = block
        return leave


def held(leave: F) -> F:
    """Mark the `__exit__` or `__aexit__` of a `Managed` class; the latter is handed its `block`."""
    return cast(F, _Held(leave))
