"""The two roots of what can go wrong: errors, and signals that stop a cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from durable_nb.model import frames

#: Where an error keeps what is in doubt of the runs that were closed because of it.
_LEFT: Final = "_durable_nb_left"


class OperationLike(Protocol):
    """What an error needs to know of an operation."""

    @property
    def id(self) -> str:
        """Its identity."""
        ...


class DurableError(Exception):
    """Base of the errors of this package."""

    def _render_traceback_(self) -> list[str]:
        """Show a notebook the frames of the person, and none of ours but in `%xmode Verbose`."""
        return frames.render(self)


class DurableSignal(BaseException):
    """Base of the signals that stop a cell: a person, or time, has to decide first.

    A subclass gives `lines()`: what happened, what it means, and last what settles it.

    Attributes
    ----------
    place : Place or None
        Of the run that was closed, because the signal left its ``with`` block.
    """

    place: Any = None

    @property
    def folder(self) -> Path | None:
        """Where that run's files are; `None` where there are none, or it was not closed."""
        return None if self.place is None else self.place.folder

    def lines(self) -> list[str]:
        """Give the display, one clear line each."""
        return [str(a) for a in self.args]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _render_traceback_(self) -> list[str]:
        """Show these lines in a notebook instead of a traceback."""
        head, *rest = self.lines()
        return [f"{type(self).__name__}: {head}", *rest]


def names(operations: Sequence[OperationLike], limit: int = 3) -> str:
    """List operations by id, the first few of them."""
    shown = ", ".join(op.id for op in operations[:limit])
    more = len(operations) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def lone_signal(error: BaseException) -> DurableSignal | None:
    """Give the signal that an error is, or that a group of nothing but signals holds."""
    if isinstance(error, DurableSignal):
        return error
    if isinstance(error, BaseExceptionGroup):
        inner = [lone_signal(e) for e in error.exceptions]
        if all(s is not None for s in inner):
            return inner[0]
    return None


class _Left(tuple[DurableSignal, ...]):
    """What an error left, in the process in which it did: another one gets the error alone."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[_Left], tuple[()]]:
        return _Left, ()


def leave(error: BaseException, doubt: DurableSignal) -> None:
    """Note with an error that closed a run what is in doubt of it: nobody holds the run then."""
    # its class may be a frozen one
    error.__dict__[_LEFT] = _Left((*left_by(error), doubt))


def left_by(error: BaseException) -> tuple[DurableSignal, ...]:
    """Give what is in doubt of the runs that an error closed."""
    found: tuple[DurableSignal, ...] = error.__dict__.get(_LEFT, ())
    return found
