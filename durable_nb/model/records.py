"""Records: the immutable rows of a journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from durable_nb.model.outcomes import Kind

#: Version of the tables and of the record bodies that this code writes; a journal with a larger
#: one is refused. 2: a commit lands in a table of its own.
SCHEMA_VERSION: Final = 2

#: The `op` of a record that speaks of the run itself.
RUN: Final = ""


class Draft(NamedTuple):
    """A record before the journal gives it its place.

    `body` is JSON-safe plain data. A user's value is carried as the text that `values.encode`
    gave, under a key of its own, so that its depth never meets the JSON of the body.
    """

    op: str
    kind: Kind
    body: Mapping[str, Any]


class Record(NamedTuple):
    """One transition of one operation (or, with `op == ""`, of the run).

    A named tuple, and no dataclass: a long run is loaded in less time.

    Attributes
    ----------
    seq : int
        Place in the journal, from 1, without gaps. Order is by `seq`, never by clock.
    op : str
        Identity of the operation.
    kind : Kind
        What happened.
    ts : datetime
        Wall clock, aware, UTC. For people; never for order.
    epoch : int
        Fencing token of the owner that wrote it.
    body : Mapping
        JSON-safe details.
    """

    seq: int
    op: str
    kind: Kind
    ts: datetime
    epoch: int
    body: Mapping[str, Any]
