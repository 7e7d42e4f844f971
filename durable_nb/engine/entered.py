"""Entering and leaving an operation: ``with`` and ``async with``, around one core."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from durable_nb.engine.block import Block, Managed, held
from durable_nb.engine.context import Frame, set_frame
from durable_nb.engine.drive import Core, adrive, drive
from durable_nb.engine.meter import Timing
from durable_nb.engine.recovery import reach
from durable_nb.engine.scope import Origin, Scope
from durable_nb.model import identity
from durable_nb.model.errors import JournalUnwritable, RunClosed, RunHeld

if TYPE_CHECKING:
    from durable_nb.engine.operation import Operation
    from durable_nb.engine.run import Run

#: Errors that say nothing of the body: it could not begin, or its outcome not be recorded.
STOPS: Final = (JournalUnwritable, RunClosed, RunHeld)


class Stoppable:
    """What is done around entering, and leaving, an operation; see `Entered.stoppable`."""

    __slots__ = ("_entering", "_leaving", "_op", "_raised")

    def __init__(self, op: Entered, raised: BaseException | None, leaving: bool) -> None:
        self._op, self._raised, self._leaving = op, raised, leaving
        self._entering = raised is None and not op._left

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        raised = self._raised if error is None else error
        if raised is not None and (
            not isinstance(raised, Exception)
            or isinstance(raised, STOPS)
            or (self._entering and not self._op.has_failed)
        ):
            self._op.give_back()
        if self._leaving or raised is not None:
            self._op.time.count_out()


class Entered(Managed):
    """What every operation is: something to enter and to leave, in blocking code or in async code.

    Attributes
    ----------
    block : weakref of Block, or None
        The `with` around its body; `None` when it was entered by hand.
    has_failed : bool
        Whether it is a recorded failure that was replayed.
    """

    run: Run
    time: Timing
    block: weakref.ref[Block] | None
    has_failed: bool
    _parent: Scope
    _origin: Origin
    _around: Frame | None
    _left: bool
    #: Whether it is entered in async code, where what was recorded is waited for.
    _awaits: bool
    #: Whether it has recorded something that may not be on disk yet.
    _unproven: bool

    @property
    @abstractmethod
    def place(self) -> identity.Place:
        """Parent, name, key and occurrence."""

    @abstractmethod
    def _leave(self, raised: BaseException | None) -> Core[bool]:
        """Record what ended the body; tell whether the error is settled and goes no further."""

    @abstractmethod
    def _never_began(self, stop: BaseException) -> None:
        """Take an intent back: nothing has happened."""

    def __enter__(self) -> Self:
        self.block = self.block or self.entered_by()
        with self.stoppable():
            self.time.count_in()
            drive(reach(cast("Operation", self)))
        return self

    @held
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        with self.stoppable(error, leaving=True):
            return drive(self._leave(error))

    async def __aenter__(self) -> Self:
        self.block = self.block or self.entered_by()
        self._awaits = True
        with self.stoppable():
            self.time.count_in()
            await adrive(reach(cast("Operation", self)))
            if self._unproven:
                await self._be_proven()
        return self

    async def _be_proven(self) -> None:
        """Wait until the intent is on disk; nothing has happened if it cannot be."""
        self._unproven = False
        try:
            await self.run.durability.reached()
        except BaseException as stop:
            set_frame(self._around)
            self._never_began(stop)
            raise

    @held
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
        *,
        block: Block | None = None,
    ) -> bool:
        with self.stoppable(error, leaving=True):
            try:
                return await adrive(self._leave(error))
            finally:
                if self._unproven:
                    self._unproven = False
                    await self.run.durability.reached()

    def stoppable(self, raised: BaseException | None = None, *, leaving: bool = False) -> Stoppable:
        """Give the occurrence back where the call is stopped, so that the next one is this call.

        An error of the body, live or replayed, is an outcome that the program may handle and go
        on from. A signal, Ctrl-C, and what keeps the engine from beginning or recording are none.
        """
        return Stoppable(self, raised, leaving)

    def give_back(self) -> None:
        """Let the next call be this operation."""
        with self.run.lock:
            self._parent.give_back(self.place, self._origin)
