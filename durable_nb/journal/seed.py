"""What a new run is made of that begins with records of another one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.journal.rows import Row
from durable_nb.values.text import Readable

if TYPE_CHECKING:
    from durable_nb.journal.place import Store


@dataclass(frozen=True, slots=True)
class Seed:
    """The records and the large values of a run that is to be made, all at once.

    Attributes
    ----------
    rows : callable
        Gives the records; it is told the identity of the new place, `None` where that is not
        known before the run is there.
    named : collection of str
        The SHA-256 of the values that they name.
    artifacts : Readable
        Where these are. One that is lost there is left out, and told when it is asked for.
    store, run : Store, str
        What the run of these values is called, and where it is.
    taken : callable
        Gives the error where the new name is taken: nothing is ever replaced.
    """

    rows: Callable[[list[int] | None], Sequence[Row]]
    named: Collection[str]
    artifacts: Readable
    store: Store
    run: str
    taken: Callable[[], Exception]
