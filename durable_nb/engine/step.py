"""Spellings of a step: call form, `with` form and decorator, blocking and async."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from durable_nb.engine import bodies, calls, facets
from durable_nb.engine.block import Block, Managed, held
from durable_nb.engine.called import MISSING, Call
from durable_nb.engine.context import Frame, current_frame, frame_of
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.shielded import Cut, run_shielded
from durable_nb.model.errors import DurableError, NoActiveRun, NotApplied
from durable_nb.model.outcomes import Outcome

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

P = ParamSpec("P")
R = TypeVar("R")


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives an awaitable."""
    return calls.form(fn).is_async


def invoke(
    frame: Frame,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    name: str | None,
    options: Options,
) -> Any:
    """Journal one call: the occurrence is taken now, also when the body is awaited later."""
    inputs = calls.bind(fn, args, kwargs)
    refuse_timeout(fn, options)
    call = frame.run.operation(
        frame,
        calls.name_of(fn, name),
        options,
        inputs=inputs if options.inputs is None else dict(options.inputs),
        code=options.code or facets.of_code(fn, frame.run.working),
    )
    spelled = _awaited if is_async(fn) else _blocking
    return spelled(call, fn, args, kwargs)


def refuse_timeout(fn: Callable[..., Any], options: Options) -> None:
    """Refuse a time-out that nothing can keep, before the call takes its place."""
    if options.timeout is not None and not is_async(fn):
        raise TypeError("timeout= needs an async step: nothing can stop a blocking body safely")


def _takes_key(fn: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Tell whether a function has a parameter for the key, and was not given another one."""
    return calls.form(fn).takes_key and calls.KEY_PARAMETER not in kwargs


def _with_key(kwargs: dict[str, Any], op: Operation) -> dict[str, Any]:
    """Hand the idempotency key to a function that takes it."""
    return {**kwargs, calls.KEY_PARAMETER: op.idempotency_key} if op.keyed else kwargs


def _on_record(make: Callable[[], Operation]) -> Any:
    """Give the recorded result of a call, where it takes no operation to; else `MISSING`."""
    return make.recorded() if isinstance(make, Call) else MISSING


def _blocking(
    make: Callable[[], Operation],
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    pause: Callable[[float], None] = time.sleep,
    *,
    once: bool = False,
    lazily: bool = False,
) -> Any:
    """Give the recorded result of a call, or run its body: once, or as often as it may be tried.

    If its outcome is recorded lazily, whoever calls this makes it durable.
    """
    found = _on_record(make)
    if found is not MISSING:
        return found
    op = make()
    op.keyed, op.ends_lazily = _takes_key(fn, kwargs), lazily
    if op.options.retries and not once:
        import tenacity  # which brings tornado: only where it is asked for

        for attempt in tenacity.Retrying(sleep=pause, **_retry_rules(op)):
            with attempt:
                return _blocking(make, fn, args, kwargs, once=True, lazily=lazily)
        raise AssertionError("tenacity reraises")  # pragma: no cover
    with op:
        if op.needed:
            op.result = fn(*args, **_with_key(kwargs, op))
    return op.result


async def _awaited(
    make: Callable[[], Operation],
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    once: bool = False,
) -> Any:
    """Do the same in async code; one coroutine, since a thousand of them wait at a time."""
    found = _on_record(make)
    if found is not MISSING:
        return found
    op = make()
    op.keyed = _takes_key(fn, kwargs)
    if op.options.retries and not once:
        import tenacity  # as above

        async for attempt in tenacity.AsyncRetrying(**_retry_rules(op)):
            with attempt:
                return await _awaited(make, fn, args, kwargs, once=True)
        raise AssertionError("tenacity reraises")  # pragma: no cover
    del make  # what is in flight is looked through for garbage again and again
    cancelled: BaseException | None = None
    try:
        async with op:
            if op.needed:
                op.result, cancelled = await run_shielded(op.run, _body(op, fn, args, kwargs))
    except Cut as cut:
        raise cut.cancelled from cut.error
    if cancelled is not None:
        raise cancelled
    return op.result


def _body(
    op: Operation, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    body = fn(*args, **_with_key(kwargs, op))
    return body if op.options.timeout is None else asyncio.wait_for(body, op.options.timeout)


def _retry_rules(op: Operation) -> dict[str, Any]:
    """Try again only after a failure that left nothing in doubt, with growing pauses."""
    import tenacity  # as above

    return {
        "stop": tenacity.stop_after_attempt(op.options.retries + 1),
        "wait": tenacity.wait_random_exponential(multiplier=0.2, max=30),
        "retry": tenacity.retry_if_exception(
            lambda error: (
                isinstance(error, Exception)
                and (isinstance(error, NotApplied) or not isinstance(error, DurableError))
                and op.outcome is Outcome.INCOMPLETE
            )
        ),
        "reraise": True,
    }


class Step(Generic[P, R]):
    """A function whose calls are journalled; made by `durable_nb.step`.

    Attributes
    ----------
    fn : callable
        The bare function: calling it journals nothing.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        options: Options,
        name: str | None = None,
        run: Run | None = None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.settings, self.step_name, self._run = options, name, run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Journal one call in the active run."""
        result: R = self.call_in(self._frame(), *args, **kwargs)
        return result

    def call_in(self, frame: Frame, *args: Any, **kwargs: Any) -> Any:
        """Journal one call in a given frame."""
        return invoke(frame, self.fn, args, kwargs, name=self.step_name, options=self.settings)

    def options(self, *, name: str | None = None, **options: Any) -> Step[P, R]:
        """Give the same step with other options.

        Parameters
        ----------
        name : str, optional
            Another step name.
        **options
            Step options, such as ``key=``.

        Returns
        -------
        Step
            To be called at once, or kept.
        """
        return Step(self.fn, self.settings.with_(options), name or self.step_name, self._run)

    def _frame(self) -> Frame:
        if self._run is not None:
            return frame_of(self._run)
        frame = current_frame()
        if frame is None:
            where = "" if current_is_main() else "a thread that was not handed the run"
            raise NoActiveRun(calls.name_of(self.fn, self.step_name), where)
        return frame

    def __get__(self, instance: object, owner: type | None = None) -> Step[..., R]:
        """Bind a method."""
        if instance is None:
            return self
        return Step(self.fn.__get__(instance, owner), self.settings, self.step_name, self._run)

    def __repr__(self) -> str:
        return f"<step {calls.name_of(self.fn, self.step_name)} effect={self.settings.effect}>"


def current_is_main() -> bool:
    """Tell whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


class WithForm(Managed):
    """What is entered with `with` or `async with`, and is an operation from there to its end."""

    #: How many frames above `_enter` the `with` stands.
    _above = 2

    def __init__(self, run: Run, name: str | None, options: Options) -> None:
        self._run, self._name, self._options = run, name, options
        self._op: Operation | None = None

    def _enter(self) -> Operation:
        if self._name is None:
            raise TypeError('the `with` form needs a name: run.step("name")')
        for option in ("retries", "timeout"):
            if getattr(self._options, option):
                raise TypeError(
                    f"{option}= needs a function: Python enters the body of a `with` once, and "
                    f"nothing can enter it again or stop it. Nothing was begun. Put the work into "
                    f'a function: run.step("{self._name}", {option}=...).call(fn, ...)'
                )
        make = self._run.operation(
            frame_of(self._run),
            calls.check_step_name(self._name),
            self._options,
            inputs=dict(self._options.inputs or {}),
            code=self._options.code or bodies.of_caller(self._above, self._run.working),
        )
        self._op = make()
        self._op.block = self.entered_by()
        return self._op

    def _leave(self, error: BaseException | None) -> Operation:
        """Give the operation that is being left, with its result where that is made here."""
        assert self._op is not None
        return self._op

    @held
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        return self._leave(error).__exit__(kind, error, tb)

    @held
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
        *,
        block: Block | None = None,
    ) -> bool:
        return await self._leave(error).__aexit__(kind, error, tb)


class Spelled(WithForm):
    """`run.step(...)`: a context manager, a decorator, and something with `.call`."""

    def call(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Journal one call of a function; all further arguments go to it."""
        return invoke(frame_of(self._run), fn, args, kwargs, name=self._name, options=self._options)

    def __call__(self, fn: Callable[P, R]) -> Step[P, R]:
        """Decorate a function for this run."""
        return Step(fn, self._options, self._name, self._run)

    def __enter__(self) -> Operation:
        return self._enter().__enter__()

    async def __aenter__(self) -> Operation:
        return await self._enter().__aenter__()


def step(fn: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any) -> Any:
    """Make a function a step: its calls are journalled in the active run.

    Parameters
    ----------
    fn : callable, optional
        The function, when the decorator is used without parentheses.
    name : str, optional
        The step's name; default: the function's.
    **options
        Step options: ``effect``, ``key``, ``inputs``, ``reconcile``, ``settle_after``,
        ``not_applied``, ``key_ttl``, ``compensate``, ``validate``, ``record``, ``requires``,
        ``uses``, ``produces``, ``retries``, ``timeout``, ``on_change``, ``facets``. See
        `durable_nb.engine.options.Options`.

    Returns
    -------
    Step
        Callable like the function; ``.options(key=...)`` gives it with options, ``.fn`` is the
        bare function.

    Raises
    ------
    NoActiveRun
        When the step is called and no run is open.
    """
    settings = Options().with_(options)
    if fn is not None:
        return Step(fn, settings, name)
    return lambda function: Step(function, settings, name)
