"""A run is bound to its place: one that turns up in another is a copy, or was moved."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Adoption(StrEnum):
    """What a person says of a run that is found in another folder than it was executed in."""

    MOVED = "moved"  #: the old folder is gone: it is the same run
    ABANDONED = "abandoned"  #: it is a copy, and the other one is not executed any more
    FORK = "fork"  #: it is a copy, and both go on: what begins here gets new idempotency keys


def is_elsewhere(recorded: Sequence[int] | None, now: Sequence[int] | None) -> bool:
    """Tell whether a run's place is another one than the one on record.

    Parameters
    ----------
    recorded, now : sequence of int
        Device and inode; in a database, number and first moment in µs. `None` is not on record: a
        journal from before they were noted. Now it is `None` where they are not known.

    Returns
    -------
    bool
        By the second: some file systems number their device anew at each mount, and a copy gets
        an inode of its own; databases number their runs alike.
    """
    return recorded is not None and now is not None and recorded[1] != now[1]
