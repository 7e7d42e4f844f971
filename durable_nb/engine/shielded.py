"""Async bodies run behind a shield: cancelling their caller does not cut an effect in two."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.engine.run import Run


async def run_shielded(run: Run, coroutine: Any) -> tuple[Any, BaseException | None]:
    """Await a body in a task of its own, so that cancelling the caller does not cut an effect.

    Returns
    -------
    (value, cancelled)
        What the body returned, and the `CancelledError` that the caller still has to raise once
        the outcome is recorded.
    """
    task = asyncio.ensure_future(coroutine)
    run.bodies.add(task)
    loop = task.get_loop()
    cancelled: BaseException | None = None
    # `asyncio.wait` does the same, and takes four times as long
    waiting: list[asyncio.Future[None]] = []
    task.add_done_callback(partial(_over, run, waiting))
    with run.interrupt_bodies if run.in_script else nullcontext():
        while not task.done():
            waiting[:] = [loop.create_future()]
            try:
                await waiting[0]
            except asyncio.CancelledError as stop:
                cancelled = stop
                if run.interrupted:
                    task.cancel()
    if task.cancelled() and cancelled is not None:
        raise cancelled
    try:
        return task.result(), cancelled
    except Exception as error:
        if cancelled is not None:
            raise Cut(error, cancelled) from error
        raise


def _over(run: Run, waiting: list[asyncio.Future[None]], body: asyncio.Future[Any]) -> None:
    """Forget a body that is over, and wake who waits for it."""
    run.bodies.discard(body)
    for one in waiting:
        if not one.done():
            one.set_result(None)


class Cut(BaseException):
    """The body failed while its caller was being cancelled: record the one, raise the other."""

    def __init__(self, error: Exception, cancelled: BaseException) -> None:
        super().__init__(error, cancelled)
        self.error, self.cancelled = error, cancelled
