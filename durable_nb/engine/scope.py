"""Scopes: who may take which occurrence of a name, and which failures were seen.

A scope is what identities are counted in: the root of a run, a branch, or one attempt of an
operation that opens children.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from durable_nb.engine.calls import refuse_secret
from durable_nb.engine.meter import Outside
from durable_nb.model.errors import DuplicateStep
from durable_nb.model.identity import Place, identity
from durable_nb.model.outcomes import Effect

Owner = asyncio.Task[Any] | threading.Thread

_running_loop: Final = asyncio._get_running_loop


def current_owner() -> Owner:
    """Give the running task, else the running thread."""
    loop = _running_loop()  # which raises nothing where none runs: that takes longer than all else
    task = None if loop is None else asyncio.current_task(loop)
    return threading.current_thread() if task is None else task


#: The tasks and threads that a call comes from, the outermost first.
Lineage = tuple[weakref.ref[Owner], ...]


def extend(lineage: Lineage) -> Lineage:
    """Give the lineage of the running code: a task inherits its maker's, and adds itself."""
    owner = current_owner()
    for ref in lineage:
        if ref() is owner:
            return lineage
    return (*lineage, weakref.ref(owner))


def _concurrent(holder: Owner | None, owner: Owner) -> bool:
    """Tell whether two owners may be at work at the same time."""
    if holder is owner or not _alive(holder):
        return False
    # a task that runs in the thread is not beside it
    return holder is not threading.current_thread()


def _alive(owner: Owner | None) -> bool:
    if isinstance(owner, asyncio.Task):
        return not owner.done()
    return owner is not None and owner.is_alive()


@dataclass(frozen=True, slots=True)
class Origin:
    """Who is calling at the root of a run: one execution of one cell (in a script: one block).

    Attributes
    ----------
    cell : str
        The front end's cell id, else a digest of the cell's source.
    execution : int
        Grows with each execution; executing a cell again replays it.
    has_id : bool
        Whether `cell` is an id, which survives an edit of the cell.
    script : bool
        Whether no cell is calling, but a `with` block of a script.
    """

    cell: str
    execution: int
    has_id: bool = True
    script: bool = False


_blocks: Final = itertools.count(1)


def new_block() -> Origin:
    """Give the origin of a new `with` block of a script."""
    number = next(_blocks)
    return Origin(f"block {number}", number, script=True)


@dataclass(slots=True)
class _Claim:
    origin: Origin
    owner: weakref.ref[Owner]
    count: int = 0
    free: list[int] = field(default_factory=list)
    loop: bool = False


@dataclass(frozen=True, slots=True)
class _Failure:
    op: str
    origin: Origin
    lineage: Lineage


@dataclass(slots=True)
class Scope:
    """One place where operations are counted.

    Attributes
    ----------
    id : str
        Identity of the operation or branch it belongs to; "" at the root.
    effect : Effect
        Of the operation it belongs to: only `none` may open children.
    advice : str
        What to change when a child is refused here.
    began : float or None
        When the body that it belongs to began, by the monotonic clock; `None` where nobody asks.
    outside : Outside or None
        How long that body was outside of what is called here; `None` before the first call.
    within : Scope or None
        The scope that a branch is part of.
    branch : str
        The innermost independent branch around it; "" where there is none. Those further out need
        not be kept: an identity holds the identities of all that it is below of.
    """

    id: str = ""
    effect: Effect = Effect.NONE
    advice: str = ""
    began: float | None = None
    outside: Outside | None = None
    within: Scope | None = None
    branch: str = ""
    _claims: dict[tuple[str, str | None], _Claim] = field(default_factory=dict)
    _failures: dict[str, _Failure] = field(default_factory=dict)

    def take(
        self,
        name: str,
        key: str | None,
        origin: Origin,
        *,
        single: bool = False,
        counted: bool = False,
        loop: bool = False,
        open_ended: Callable[[str], bool],
    ) -> str:
        """Take the next occurrence of a name.

        Parameters
        ----------
        name, key
            As the user gave them.
        origin : Origin
            Who is calling; at the root, a name belongs to one cell.
        single : bool
            The name stands for one operation: executing its cell again replays it.
        counted : bool
            The key is what the operation is about, so that it may come more than once.
        loop : bool
            It stands for a pinned loop, which gives the occurrences of it itself.
        open_ended : callable
            Tells of an identity whether nothing of it is completed or in doubt, so that another
            cell may take it over (its cell was edited, in a front end without cell ids).

        Returns
        -------
        str
            The identity.

        Raises
        ------
        DuplicateStep
            Another cell, another living task, or an equal key has it.
        """
        if key is not None:
            refuse_secret("its key", key)
        slot, owner = (name, key), current_owner()
        claim = self._claims.get(slot)
        if claim is not None and not self._continues(claim, origin):
            first = identity(self.id, name, key, 1)
            known = not single or (claim.origin.has_id and origin.has_id)
            if known and claim.origin.cell != origin.cell and not open_ended(first):
                raise DuplicateStep(first, "another cell of this kernel has called it")
            claim = None
        if claim is None:
            self._claims[slot] = _Claim(origin, weakref.ref(owner), 1, loop=loop)
            return identity(self.id, name, key, 1)
        why, holder = "", claim.owner()
        if holder is not owner and _concurrent(holder, owner):
            why = "another task or thread, which still runs, has it"
        elif claim.free:
            claim.owner = weakref.ref(owner)
            return identity(self.id, name, key, heappop(claim.free))
        elif loop or claim.loop:
            why = "a pinned loop has this name in this pass"
        elif (key is not None and not counted) or single:
            why = "two calls in one pass give the same key"
        if why:
            raise DuplicateStep(identity(self.id, name, key, 1), why)
        if holder is not owner:
            claim.owner = weakref.ref(owner)
        claim.origin = origin
        claim.count += 1
        return identity(self.id, name, key, claim.count)

    def give_back(self, place: Place, origin: Origin) -> None:
        """Take an occurrence back: its call was stopped, so that the next one is the same call.

        Else a program that has seen to the stop and calls again would do something new, and the
        next kernel would do the first once more.
        """
        claim = self._claims.get((place.name, place.key))
        if claim is not None and self._continues(claim, origin) and place.n not in claim.free:
            heappush(claim.free, place.n)

    def _continues(self, claim: _Claim, origin: Origin) -> bool:
        """Tell whether this call goes on counting where `claim` stands."""
        # inside an operation there is one pass: its attempt
        return bool(self.id) or claim.origin is origin or claim.origin == origin

    def called(self, origin: Origin) -> set[str]:
        """Give the names that have been called here in this pass."""
        return {n for (n, _), claim in self._claims.items() if self._continues(claim, origin)}

    @property
    def is_timed(self) -> bool:
        """Whether anybody asks how long code is outside of what is called here."""
        return self.began is not None or self.within is not None

    def enter(self, now: float) -> None:
        """Note that a call here is being reached, run or replayed."""
        if self.within is not None:
            self.within.enter(now)
        elif self.began is not None:
            self.outside = self.outside or Outside(self.began)
            self.outside.enter(now)

    def leave(self, now: float) -> None:
        """Note that it is over."""
        if self.within is not None:
            self.within.leave(now)
        elif self.outside is not None:
            self.outside.leave(now)

    def failed(self, op: str, origin: Origin, lineage: Lineage) -> None:
        """Remember a failure that nobody has seen yet."""
        self._failures[op] = _Failure(op, origin, lineage)

    def retried(self, op: str) -> None:
        """Forget a failure: the operation is tried again."""
        self._failures.pop(op, None)

    def observe(self, origin: Origin) -> list[str]:
        """Give (once) the failures that the caller must have seen, since it goes on.

        It saw those of calls that it made itself, and those of the tasks that it started. At the
        root, only those of the same cell execution: an error that ended a
        cell was seen by a person, and the next Run All tries it again.
        """
        if not self._failures:
            return []
        owner = current_owner()
        seen = [
            f.op
            for f in self._failures.values()
            if (self.id or f.origin == origin) and any(ref() is owner for ref in f.lineage)
        ]
        for op in seen:
            del self._failures[op]
        return seen
