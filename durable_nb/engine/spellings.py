"""What a program calls on a run: steps in all their spellings, branches, loops and stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from durable_nb.engine import calls, fanout
from durable_nb.engine.compensation import compensate
from durable_nb.engine.context import Frame, current_context, frame_of, set_frame
from durable_nb.engine.options import Options
from durable_nb.engine.pinned import Loop, pinned
from durable_nb.engine.scope import Scope
from durable_nb.engine.stage import Stage, make_stage
from durable_nb.engine.step import Spelled, Step, invoke
from durable_nb.engine.waits import Waits

if TYPE_CHECKING:
    from durable_nb.engine.run import Run

P = ParamSpec("P")
R = TypeVar("R")


class Spellings(Waits):
    """How a program says what it does; each way makes operations of the same kind."""

    @property
    def _run(self) -> Run:
        return cast("Run", self)

    def call(self, fn: Callable[..., R] | Step[..., R], /, *args: Any, **kwargs: Any) -> R:
        """Journal one call: all arguments go to the function.

        Parameters
        ----------
        fn : callable
            A plain or async function, or a decorated step with its options.
        *args, **kwargs
            For the function. Options go elsewhere: ``run.step(**options).call(fn, ...)``.

        Returns
        -------
        Any
            The recorded result; for an async function something to await.
        """
        frame = frame_of(self._run)
        if isinstance(fn, Step):
            result: R = fn.call_in(frame, *args, **kwargs)
            return result
        spelled: R = invoke(frame, fn, args, kwargs, name=None, options=Options())
        return spelled

    def step(self, name: str | Callable[..., Any] | None = None, **options: Any) -> Any:
        """Name a step and its options; then use it as context manager, decorator or ``.call``.

        Parameters
        ----------
        name : str, optional
            Needed for the ``with`` form; else the function's own name.
        **options
            Step options, see `durable_nb.step`.
        """
        if callable(name):
            return Spelled(self._run, None, Options().with_(options))(name)
        return Spelled(self._run, name, Options().with_(options))

    def map(
        self,
        fn: Callable[..., Any] | Step[..., Any],
        items: Iterable[Any],
        *,
        key: Callable[[Any], Any] | None = None,
        limit: int = 8,
        independent: bool = False,
        **options: Any,
    ) -> Any:
        """Journal one call for each item, several at once.

        Parameters
        ----------
        fn : callable
            Called with one item; an async one makes the whole awaitable.
        items : iterable
            What to call it with.
        key : callable, optional
            Gives each item's key; without it, items are told apart by their order.
        limit : int
            How many run at once.
        independent : bool
            Whether each call is a branch of its own: an error, a doubt, a question or a wait of
            one item does not keep the others from being called, now or on a resume.
        **options
            Step options.

        Returns
        -------
        list
            Results in the order of the items. The first error is raised once those in flight
            have ended; with `independent`, once all have been called, and all that is unknown
            then is one `UnknownOutcome`.
        """
        return fanout.run_map(
            self._run, fn, items, key=key, limit=limit, independent=independent, options=options
        )

    def stage(
        self, name: str, *, outputs: Iterable[str], validate: Any = None, **options: Any
    ) -> Stage:
        """Open a container that is completed only once it has produced all of its outputs.

        Parameters
        ----------
        name : str
            The stage's name.
        outputs : iterable of str
            What it has to produce, each with ``stage[name] = value``.
        validate : Mapping, callable or class, optional
            What each output has to pass, by name; or one for the dict of all.
        **options
            Step options, see `durable_nb.step`. The effect is ``none``, so that it may open steps.

        Returns
        -------
        Stage
            For ``with`` or ``async with``. Left with an output missing or refused, it is not
            completed, and says which; ``stage.result`` is the dict of all.
        """
        return make_stage(self._run, name, outputs, validate, options)

    @contextmanager
    def branch(self, name: str, *, key: object = None, independent: bool = False) -> Iterator[None]:
        """Open a scope of its own, so that concurrent loops count apart.

        Parameters
        ----------
        name : str
            Part of the identity of every operation in it.
        key : str or int, optional
            Tells branches of one name apart.
        independent : bool
            Whether what is unknown or undecided in it stops new operations in it alone, and not
            in the whole run. Catch `UnknownOutcome` around it to go on with the next one.
        """
        run = self._run
        frame = frame_of(run)
        options = Options().with_({"key": key} if key is not None else {})
        self.check_owner()
        with self.lock:
            taken = frame.scope.take(
                calls.check_step_name(name),
                options.key,
                run.origin(),
                open_ended=run.nothing_in,
            )
        inner = Scope(
            taken,
            frame.scope.effect,
            branch=taken if independent else frame.scope.branch,
            within=frame.scope,
        )
        before = current_context()
        set_frame(Frame(run, inner, frame.operation, frame.lineage, frame))
        try:
            yield
        finally:
            set_frame(before)

    def pinned(self, name: str, default: Any = None, *, key: object = None) -> Loop:
        """Open a long loop that resumes from its last pin, however many turns lie before it.

        What is called in it counts anew after each pin, and a pin retires it: no later resume
        loads it. ``with run.pinned(...) as loop:`` is the clear form, because it says where the
        loop ends. Without ``with``, the loop ends with the cell (in a script: with the run).

        Parameters
        ----------
        name : str
            The loop's name: part of the identity of every operation in it.
        default : Any
            Its state before the first pin. It is not recorded and not compared.
        key : str or int, optional
            Tells loops of one name apart.

        Returns
        -------
        Loop
            ``loop.state``, ``loop.pin(state)`` and ``loop.turn``. Where its cell is executed again,
            it begins at the last pin.

        Raises
        ------
        DuplicateStep
            Another loop or step of this pass has that name (and key) here.
        ResultNotLoadable
            The state of the last pin cannot be loaded.
        """
        return pinned(self._run, name, default, key)

    def compensate(
        self, op: object, reason: str = "", *, undo: Callable[..., Any] | None = None
    ) -> Any:
        """Take the effect of a completed operation back, and invalidate it.

        What takes it back is an operation of its own: external, with its own idempotency key, run
        once whatever happens, unknown if it is interrupted. Once it is completed or confirmed, the
        operation that it took back is invalidated with it, and done again when it is reached.

        Parameters
        ----------
        op
            A view, an id, a unique name, or the row number that `show` prints.
        reason : str
            Kept in the history.
        undo : callable, optional
            ``undo(op)`` takes the effect back; it is given the `OperationView`, with its result,
            and its own ``idempotency_key`` if it has a parameter of that name. Default: the
            step's ``compensate=``, where the step was reached in this kernel.

        Returns
        -------
        OperationView
            Of the operation, invalidated; for an async `undo` something to await.

        Raises
        ------
        VerdictRefused
            There is nothing to take back, or nobody said how. Nothing was changed.
        UnknownOutcome
            The effect may or may not have been taken back: settle that operation.
        """
        return compensate(self._run, op, reason, undo)
