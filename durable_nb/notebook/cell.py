"""The durable cell: one operation of the run around the body of a notebook cell."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final

from durable_nb import values
from durable_nb.engine import validation
from durable_nb.engine.block import Block, Managed, held
from durable_nb.engine.calls import check_step_name
from durable_nb.engine.context import frame_of
from durable_nb.engine.operation import Operation
from durable_nb.engine.options import Options
from durable_nb.engine.reach import reach_of_source
from durable_nb.engine.run import Run
from durable_nb.engine.usage import OUTSIDE_S, seconds_text
from durable_nb.model.errors import (
    DurableError,
    DurableSignal,
    NotApplied,
    NotRecordable,
    ResultLost,
    ResultNotLoadable,
    UnknownOutcome,
)
from durable_nb.model.facets import FacetSet, Part
from durable_nb.model.outcomes import Effect
from durable_nb.notebook import names, outputs, summary, tracebacks
from durable_nb.notebook.errors import NamesNotRecordable, SharedWithEarlierCell
from durable_nb.notebook.interrupt import CancelOnInterrupt
from durable_nb.notebook.options import CellOptions
from durable_nb.notebook.source import CELL, Facts

#: How many names the line that marks a replay lists.
_LISTED: Final = 6


class Cell(Managed):
    """One operation around the body of a cell: ``with cell: if cell.needed: <body>``.

    Attributes
    ----------
    container : bool
        The cell names the run, a step or the toolkit: its effect is none, its steps are journalled.
    """

    def __init__(self, shell: Any, run: Run, options: CellOptions, facts: Facts) -> None:
        self._shell, self._run, self._options, self._facts = shell, run, options, facts
        self._namespace: dict[str, Any] = shell.user_ns
        self._capture = outputs.Capture(shell)
        self._interrupt = CancelOnInterrupt()
        self._before: names.Before | None = None
        self._left: names.Left | None = None
        self._outputs: list[dict[str, Any]] = []
        self._waiting = False
        self.container = facts.source.is_container(self._namespace)
        self._checks = {name: self._namespace[fn] for name, fn in options.validate}
        self._op = self._operation()

    def _operation(self) -> Operation:
        """Take the operation; container or opaque is decided here, before any intent."""
        options = self._options
        effect = options.effect or (Effect.NONE if self.container else Effect.EXTERNAL)
        given = Options().with_(
            {
                "effect": effect,
                # entering a container again is harmless: its steps are looked at one by one
                "on_change": options.on_change or ("rerun" if self.container else None),
                "record": lambda _: self._gather(),
                "single": True,
                "preview": lambda _: self._summary(),
            }
        )
        make = self._run.operation(
            frame_of(self._run),
            check_step_name(options.name),
            given,
            inputs={name: self._namespace[name] for name in options.inputs},
            code=self._code,
        )
        return make()

    def _code(self) -> FacetSet:
        """Give the cell's own code and line, and what it reaches in the notebook."""
        found = reach_of_source(
            self._facts.source.own,
            self._namespace,
            inputs=self._options.inputs,
            working=self._run.working,
        )
        schema = validation.schema_of(self._checks or None)
        line = self._options.shape()
        parts = {**found.parts, "line": Part(line, line), **schema.parts}
        return FacetSet.of(parts, found.unwatched)

    # -- what the wrapped body uses ------------------------------------------------------

    @property
    def needed(self) -> bool:
        """Whether the body has to run; then the cell's own name is taken away from it."""
        needed = not self._waiting and self._op.needed
        if needed:
            self._namespace.pop(CELL, None)
        return needed

    def restore(self) -> None:
        """Bring back what the cell left behind, and show what it showed."""
        __tracebackhide__ = True
        try:
            if self._waiting:  # for classes that the lines before this one have defined by now
                self._op.__enter__()
            needed = self._op.needed
            assert not needed
            self._restore(self._op.result)
        except DurableError as problem:
            raise tracebacks.briefly(problem) from None

    def _restore(self, result: Any) -> None:
        if not names.is_record(result):
            self._mark("settled by a verdict", self._bind_verdict(result), [])
            return
        back = names.put_back(self._namespace, result)
        how = f"attempt {self._run.get(self._op.id).attempt}"
        self._mark(how, back, result["unwatched"])
        if outputs.show(result["outputs"], self._shell, self._place):
            print(
                "its HTML and other rich output is shown as text: this user did not record it "
                "here, and it could run code"
            )

    @property
    def _place(self) -> str:
        """Name where its outputs are signed for: they are trusted nowhere else."""
        return f"{self._run.id}/{self._op.id}"

    def _bind_verdict(self, result: Any) -> list[str]:
        """Bind what a person confirmed: a dict of names, or the one value of `--out`."""
        wanted = self._options.outputs or ()
        if isinstance(result, dict) and result and all(map(_is_name, result)):
            self._namespace.update(result)
            return sorted(result)
        if len(wanted) == 1 and result is not None:
            self._namespace[wanted[0]] = result
            return list(wanted)
        return []

    def _mark(self, how: str, back: list[str], unwatched: list[str]) -> None:
        line = f"↺ {self._options.name} · from record ({how})"
        if back:
            more = f" and {len(back) - _LISTED} more" if len(back) > _LISTED else ""
            line += f" · {', '.join(back[:_LISTED])}{more}"
        if unwatched:
            line += f" · not watched: {', '.join(unwatched[:_LISTED])}"
        print(line)

    # -- the context manager, in both spellings -------------------------------------------

    def __enter__(self) -> Cell:
        __tracebackhide__ = True
        self._op.block = self.entered_by()
        try:
            self._op.__enter__()
        except ResultNotLoadable as stop:
            self._wait_for(stop)
        except DurableError as problem:
            raise tracebacks.briefly(problem) from None
        self._begin()
        return self

    @held
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        __tracebackhide__ = True
        error = self._end(error)
        if self._never_entered():
            return False
        try:
            return self._op.__exit__(kind, error, tb)
        except (DurableError, UnknownOutcome) as problem:
            raise self._explained(problem, error, tb) from problem.__cause__
        finally:
            self._say_if_outside()

    async def __aenter__(self) -> Cell:
        __tracebackhide__ = True
        self._op.block = self.entered_by()
        try:
            await self._op.__aenter__()
        except ResultNotLoadable as stop:
            self._wait_for(stop)
        except DurableError as problem:
            raise tracebacks.briefly(problem) from None
        self._begin()
        self._interrupt.install()
        return self

    @held
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
        *,
        block: Block | None = None,
    ) -> bool:
        __tracebackhide__ = True
        try:
            if self.container:
                await self._run.settle()
        except asyncio.CancelledError as again:  # Ctrl-C, while a step of the cell still ran
            kind, error, tb = type(again), again, again.__traceback__
        finally:
            self._interrupt.remove()
        error = self._end(error)
        if self._never_entered():
            return False
        stopped = self._interrupt.fired and isinstance(error, asyncio.CancelledError)
        try:
            settled = await self._op.__aexit__(kind, error, tb)
        except asyncio.CancelledError:  # Ctrl-C once more, while this was recorded: it is by now
            if not stopped:
                raise
            settled = False
        except (DurableError, UnknownOutcome) as problem:
            raise self._explained(problem, error, tb) from problem.__cause__
        finally:
            self._say_if_outside()
        if stopped:
            raise self._interrupted(tb) from None
        return settled

    def _wait_for(self, stop: ResultNotLoadable) -> None:
        """Wait for a class that this very cell may define; for nothing else."""
        if not isinstance(stop.__cause__, values.WaitingForClass):
            raise stop
        self._waiting = True

    def _never_entered(self) -> bool:
        """Tell whether the record still waits for a class, so that there is nothing to leave."""
        return self._waiting and not self._op.source

    def _begin(self) -> None:
        if self._waiting or self._op.source == "record":
            return
        try:
            self._before = names.look(self._namespace, self._facts)
            self._capture.start()
            self._op.time.begin_here()
        except BaseException:  # an interrupt, most likely: the body has not begun
            nothing = NotApplied("the cell was stopped before its body began")
            self._op.__exit__(NotApplied, nothing, None)
            raise

    def _end(self, error: BaseException | None) -> BaseException | None:
        """Stop noting; a body that ran to its end gets a result."""
        self._namespace.pop(CELL, None)
        if self._before is not None:
            self._outputs = self._capture.stop()
            if error is None:
                self._op.result = None  # what is recorded, `_gather` makes of the namespace
        return error

    def _gather(self) -> dict[str, Any]:
        """Collect what the cell left behind, as the one value to record."""
        assert self._before is not None
        self._left = names.difference(
            self._options.name, self._before, self._namespace, self._facts, self._options.outputs
        )
        if self._checks:
            bound = {n: self._namespace[n] for n in self._checks if n in self._namespace}
            validation.check(self._checks, bound)
        lost = sorted(set(self._left.changed) & set(self._left.dropped))
        if lost:
            self._run.say(
                f"{self._options.name}: changed {', '.join(lost)} in place, which --out does not "
                "keep: after a restart it is as it was before this cell"
            )
        if not self._left.searched:
            self._run.say(
                f"{self._options.name}: the notebook holds too many objects to look for those that "
                "this cell shares with earlier ones: after a restart they may be two"
            )
        shown = outputs.signed(self._outputs, self._place)
        return self._left.record(self._facts, shown, self._before.unwatched)

    def _summary(self) -> str:
        """Say in one line what `_gather` collected, for who looks at the run."""
        assert self._before is not None
        assert self._left is not None
        defines = self._facts.defines
        return summary.of(self._before, self._left, self._namespace, defines, self._outputs)

    # -- what goes wrong ----------------------------------------------------------------

    def _explained(
        self,
        problem: DurableError | UnknownOutcome,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> BaseException:
        """Name what could not be recorded; show the traceback of the cell above a doubt."""
        if isinstance(problem, ResultLost):
            problem = self._name_lost(problem)
        if isinstance(problem, DurableError):
            return tracebacks.briefly(problem)
        if error is not None and not isinstance(error, DurableSignal):
            own = tracebacks.of_cell(self._shell, error, tb)
            tracebacks.show_as(problem, [*own, "", *problem._render_traceback_()])
        return problem

    def _interrupted(self, tb: TracebackType | None) -> KeyboardInterrupt:
        """Show a cancellation by Ctrl-C as what it is, where it came."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # the cell goes on, to report it
        stop = KeyboardInterrupt()
        tracebacks.show_as(stop, tracebacks.of_cell(self._shell, stop, tb))
        return stop

    def _name_lost(self, lost: ResultLost) -> ResultLost:
        """List all names that cannot be recorded, and those that can, instead of the first."""
        cause = lost.__cause__
        if isinstance(cause, NamesNotRecordable | SharedWithEarlierCell) or self._left is None:
            return lost
        if not isinstance(cause, NotRecordable):
            return lost
        found = names.classify(self._options.name, self._left.names)
        if found is None:
            return lost
        named = ResultLost(lost.op, str(found), lost.unknown)
        named.__cause__ = found
        return named

    def _say_if_outside(self) -> None:
        """Point out code outside of steps that took long."""
        seconds = self._op.time.outside_s
        if self.container and seconds is not None and seconds >= OUTSIDE_S:
            self._run.say(
                f"code outside of its steps took {seconds_text(seconds)}; it runs again on each "
                "resume until this cell is completed: put it into a step"
            )


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and key.isidentifier()
