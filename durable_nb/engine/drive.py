"""One synchronous core, two spellings: the core asks for what may wait, a driver does it.

The core is written as generators that yield `Ask` (call a user's function, which may be async),
`Sleep`, and `Until` (somebody else has to do something). `drive` answers in blocking code,
`adrive` in async code.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Call this function of the user's with one argument."""

    fn: Callable[[Any], Any]
    argument: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Look again after so many seconds; blocking code, which cannot wait, stops with a signal."""

    signal: Callable[[], BaseException]
    seconds: float


Request = Ask | Sleep | Until

#: A piece of the core: yields requests, is sent answers, returns `T`.
Core = Generator[Request, Any, T]


def drive(core: Core[T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Run a piece of the core in blocking code; what a function raises is raised in the core."""
    step: Callable[[Any], Request] = core.send
    answer: Any = None
    try:
        while True:
            request = step(answer)
            try:
                answer, step = _block(request, sleep), core.send
            except BaseException as problem:
                answer, step = problem, core.throw
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(core: Core[T]) -> T:
    """Run a piece of the core in async code; what a function raises is raised in the core."""
    step: Callable[[Any], Request] = core.send
    answer: Any = None
    try:
        while True:
            request = step(answer)
            try:
                answer, step = await _await(request), core.send
            except BaseException as problem:
                answer, step = problem, core.throw
    except StopIteration as end:
        result: T = end.value
        return result


def _block(request: Request, sleep: Callable[[float], None]) -> Any:
    if isinstance(request, Until):
        raise request.signal()
    if isinstance(request, Sleep):
        sleep(request.seconds)
        return None
    answer = request.fn(request.argument)
    if inspect.isawaitable(answer):
        _dismiss(answer)
        raise TypeError("it is async: await the step, or give a plain function")
    return answer


async def _await(request: Request) -> Any:
    if isinstance(request, Sleep | Until):
        await asyncio.sleep(request.seconds)
        return None
    answer = request.fn(request.argument)
    return await answer if inspect.isawaitable(answer) else answer


def _dismiss(awaitable: Any) -> None:
    """Close a coroutine that nobody will await, without a warning."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
