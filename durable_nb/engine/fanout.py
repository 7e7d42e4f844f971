"""`run.map`: many calls at once, results in the order of the items."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_nb.engine import calls, facets
from durable_nb.engine.context import Frame, frame_of
from durable_nb.engine.entered import STOPS
from durable_nb.engine.options import Options
from durable_nb.engine.proving import Proving
from durable_nb.engine.step import Step, _awaited, _blocking, is_async, refuse_timeout
from durable_nb.model.control import ApprovalPending, SignalPending, TimerPending
from durable_nb.model.errors import (
    DurableSignal,
    IncompatibleCheckpoint,
    ResultNotLoadable,
    UnknownOutcome,
)

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.run import Run

_Make = Callable[[], "Operation"]
_Stops = Callable[[BaseException], bool]

#: Signals that are about one item, so that independent ones begin all the same.
_OF_ONE: Final = (
    UnknownOutcome,
    IncompatibleCheckpoint,
    ResultNotLoadable,
    ApprovalPending,
    SignalPending,
    TimerPending,
)

#: Name of the threads that the engine starts: a run is not closed while one is at work.
_THREADS = "durable_nb_map"


def run_map(
    run: Run,
    fn: Callable[..., Any] | Step[..., Any],
    items: Iterable[Any],
    *,
    key: Callable[[Any], Any] | None,
    limit: int,
    independent: bool,
    options: Mapping[str, Any],
) -> Any:
    """Take every occurrence now, in order; then run the bodies, `limit` at once."""
    if limit < 1:
        raise ValueError(f"limit={limit}: at least one call has to run at a time")
    base, name = Options(), None
    if isinstance(fn, Step):
        base, name, fn = fn.settings, fn.step_name, fn.fn
    base = base.with_(options)
    refuse_timeout(fn, base)
    frame, work = frame_of(run), list(items)
    makers = [_take(run, frame, fn, item, key, name, base, independent) for item in work]
    jobs, stops = list(zip(makers, work, strict=True)), _stops_all if independent else _always
    if is_async(fn):
        return _gather(fn, jobs, limit, stops)
    few = base.rides and not run.budget
    return _threads(run, fn, jobs, limit, stops, few=few)


def _take(
    run: Run,
    frame: Frame,
    fn: Callable[..., Any],
    item: Any,
    key: Callable[[Any], Any] | None,
    name: str | None,
    base: Options,
    independent: bool,
) -> _Make:
    options = base if key is None else base.with_({"key": key(item)})
    inputs = calls.bind(fn, (item,), {})
    return run.operation(
        frame,
        calls.name_of(fn, name),
        options,
        inputs=inputs if options.inputs is None else dict(options.inputs),
        code=options.code or facets.of_code(fn, run.working),
        independent=independent,
    )


def _always(error: BaseException) -> bool:
    """Let any error of one item keep the others from beginning."""
    return True


def _stops_all(error: BaseException) -> bool:
    """Tell of an error of an independent item whether it is about more than that item."""
    if isinstance(error, STOPS):
        return True
    return not isinstance(error, (Exception, *_OF_ONE))


async def _gather(
    fn: Callable[..., Any], jobs: list[tuple[_Make, Any]], limit: int, stops: _Stops
) -> list[Any]:
    gate, stopped = asyncio.Semaphore(limit), False

    async def one(make: _Make, item: Any) -> Any:
        nonlocal stopped
        async with gate:
            if stopped:
                raise asyncio.CancelledError
            try:
                return await _awaited(make, fn, (item,), {})
            except BaseException as error:
                stopped = stopped or stops(error)
                raise

    tasks = [asyncio.ensure_future(one(make, item)) for make, item in jobs]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return _results([_Ended.of(t) for t in tasks], stops)


def _threads(
    run: Run,
    fn: Callable[..., Any],
    jobs: list[tuple[_Make, Any]],
    limit: int,
    stops: _Stops,
    *,
    few: bool,
) -> list[Any]:
    """Call blocking functions in threads; in few of them as long as that is quicker."""
    stopped, interrupted = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        if interrupted.wait(seconds):  # Ctrl-C: no further attempt
            raise asyncio.CancelledError

    ended, left = [_never_began()] * len(jobs), iter(enumerate(jobs))
    context, proving = contextvars.copy_context(), Proving(run, 2 * limit)

    def work() -> None:
        """Take one after the other of what is left: a future for each would cost as much again."""
        for place, (make, item) in left:
            if stopped.is_set():
                break
            lazily = proving.lazily
            call = functools.partial(_blocking, lazily=lazily)
            try:
                try:
                    given = context.copy().run(call, make, fn, (item,), {}, pause)
                finally:
                    proving.note(lazily)
                ended[place] = _Ended(None, given)
            except BaseException as error:
                ended[place] = _Ended(error)
                if stops(error):
                    stopped.set()
        proving.is_through()

    pool = ThreadPoolExecutor(limit, thread_name_prefix=_THREADS)
    run.pools.append(pool)
    try:
        most = min(limit, len(jobs))
        proving.attend(lambda: pool.submit(work), most, few=few, on_problem=stopped.set)
    except BaseException:
        # interrupted: what has not begun is dropped; what is in flight stays live and records
        stopped.set()
        interrupted.set()
        proving.give_up()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    run.pools.remove(pool)
    return _results(ended, stops)


class _Ended(NamedTuple):
    """One ended call: its error, or its value."""

    error: BaseException | None
    value: Any = None

    @classmethod
    def of(cls, task: asyncio.Future[Any]) -> _Ended:
        """Give how a task ended; a cancelled one never began."""
        if task.cancelled():
            return _never_began()
        error = task.exception()
        return cls(error, task.result() if error is None else None)


def _never_began() -> _Ended:
    return _Ended(asyncio.CancelledError())


def _results(ended: Sequence[_Ended], stops: _Stops) -> list[Any]:
    """Give the results, or raise what the person has to see first.

    That is the first error that stopped the others, in the order of the items; else all that is
    unknown, as one; else another signal, which no framework may swallow; else the first error.
    """
    errors = [e.error for e in ended if e.error is not None]
    if not errors:
        return [e.value for e in ended]
    begun = [e for e in errors if not isinstance(e, asyncio.CancelledError)]
    doubts = [e for e in begun if isinstance(e, UnknownOutcome)]
    signals = [e for e in begun if isinstance(e, DurableSignal)]
    if stopping := [e for e in begun if stops(e)]:
        raise stopping[0]
    if doubts:
        raise UnknownOutcome.together(doubts) from doubts[0].__cause__
    raise (signals or begun or errors)[0]


def await_threads(run: Run) -> None:
    """Wait for the threads that the engine started, so that their outcomes are recorded."""
    for pool in run.pools:
        pool.shutdown(wait=True)
    run.pools.clear()
