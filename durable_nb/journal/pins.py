"""Reading a journal without what its pins have retired.

A pin's record carries the running digest before it, so that what follows the last pin is compared
with the head although nothing before it is read. What lies before it is counted only; `verify`
reads it. Where anything does not agree, the whole is read instead, which tells what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from durable_nb.journal.head import HeadState
from durable_nb.journal.rows import START, Row, chain, check_epochs
from durable_nb.journal.sql import queries
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Record
from durable_nb.model.unfolded import Unfolded

#: The key of a pin's body under which the journal keeps the running digest before it.
CHAIN: Final = "chain"
_PINNED: Final = str(Kind.PINNED)
_DIGITS: Final = "0123456789"
#: Loops up to which a condition for each is quicker than a join.
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a resume has to know.

    Attributes
    ----------
    records : list of Record
        In order; those of operations that a pin has retired may be missing.
    retired_seqs : sequence of int
        The first record of each operation that is missing.
    unfolded : Unfolded or None
        The operations whose records were left out, because they can be read later.
    """

    records: list[Record]
    retired_seqs: Sequence[int] = ()
    unfolded: Unfolded | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The rows that no pin has retired, and where the running digest over the last ones begins."""

    rows: list[Row]
    begin: HeadState
    retired_seqs: Sequence[int]

    def agrees(self, state: HeadState | None) -> bool:
        """Tell whether these are the records that the head knows."""
        if state is None or state.seq < self.begin.seq:
            return False
        digest, last = self.begin.digest, self.begin.seq
        for row in self.rows:
            if row.seq > self.begin.seq:
                if last == state.seq:
                    break
                digest, last = chain(digest, row), row.seq
        return last == state.seq and digest == state.digest


def seal(shares: Sequence[list[Row]], digest: bytes, pending: Sequence[Row]) -> None:
    """Give each pin among the rows to be written the running digest before it, in place."""
    if not any(row[2] == _PINNED for share in shares for row in share):
        return
    for row in pending:
        digest = chain(digest, row)
    for share in shares:
        for place, row in enumerate(share):
            if row.kind == _PINNED:
                comma = "" if row.body == b"{}" else ","
                # at the end: of two keys of one name, as in a copied body, the last counts
                body = row.body[:-1] + f'{comma}"{CHAIN}":"{digest.hex()}"}}'.encode("ascii")
                share[place] = row._replace(body=body)
            digest = chain(digest, share[place])


def unsealed(record: Record) -> Mapping[str, Any]:
    """Give the body of a record without what `seal` has put into it."""
    if record.kind is not Kind.PINNED:
        return record.body
    return {name: said for name, said in record.body.items() if name != CHAIN}


def read_part(con: duckdb.DuckDBPyConnection) -> Part | None:
    """Read what no pin has retired; `None` where there is no pin, or something is not in order."""
    sql = queries("journal")
    pins = _outermost(_last_pins(con))
    if not pins:
        return None
    count, first, last = con.execute(sql["extent"]).fetchone() or (0, 0, 0)
    if first != 1 or last != count:
        return None
    retired, given = _retired(pins)
    pin = max(seq for _, seq in pins)
    before = con.execute(sql["unretired"].format(retired=retired), {**given, "pin": pin})
    seqs = [seq for (seq,) in before.fetchall()]
    found = con.execute(sql["records_at"], {"seqs": seqs}).fetchall() if seqs else []
    found += con.execute(sql["tail"], {"seq": pin - 1}).fetchall()
    rows = sorted(Row(*row) for row in found)
    check_epochs(rows)
    begin = _begin(rows, pin)
    if begin is None:
        return None
    began = con.execute(sql["retired_seqs"].format(retired=retired), given).fetchnumpy()
    first_seqs: Any = began["first"]  # an array: ten times as fast as a row for each
    return Part(rows, begin, first_seqs.tolist())


def _last_pins(con: duckdb.DuckDBPyConnection) -> list[tuple[str, int]]:
    """Give what the stretches of each loop begin with, and the last pin: the latest first."""
    sql, found = queries("journal"), dict[str, int]()
    for _ in range(_FEW):
        names = {f"p{n}": stretches for n, stretches in enumerate(found)}
        known = " OR ".join(f"starts_with(op, ${name})" for name in names) or "false"
        op, seq = con.execute(sql["last_pin"].format(known=known), names).fetchone() or (None, 0)
        if op is None:
            return list(found.items())
        found[op.rstrip(_DIGITS)] = seq
    return con.execute(sql["last_pins"]).fetchall()


def _retired(pins: Sequence[tuple[str, int]]) -> tuple[str, dict[str, Any]]:
    """Give the condition on a row that a pin has retired it, and its parameters."""
    if len(pins) > _FEW:
        given = {"stretches": [s for s, _ in pins], "seqs": [seq for _, seq in pins]}
        table = "unnest($stretches::VARCHAR[]) AS stretches, unnest($seqs::BIGINT[]) AS pinned"
        found = f"FROM (SELECT {table}) WHERE seq < pinned AND starts_with(op, stretches)"
        return f"EXISTS ({found})", given
    few: dict[str, Any] = {}
    for n, (stretches, seq) in enumerate(pins):
        few |= {f"p{n}": stretches, f"s{n}": seq}
    ors = (f"(seq < $s{n} AND starts_with(op, $p{n}))" for n in range(len(pins)))
    return " OR ".join(ors), few


def _begin(rows: Sequence[Row], pin: int) -> HeadState | None:
    """Read the running digest before a pin; `None` if it does not say, or one after is missing."""
    after = [row for row in rows if row.seq >= pin]
    if [row.seq for row in after] != list(range(pin, pin + len(after))) or not after:
        return None
    try:
        digest = bytes.fromhex(json.loads(after[0].body)[CHAIN])
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return HeadState(pin - 1, digest) if len(digest) == len(START) else None


def _outermost(found: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Leave the pins out that a later pin has retired: those of loops within its stretches."""
    last = dict(found)
    kept = []
    for stretches, seq in found:
        above = (stretches[:end] for end, c in enumerate(stretches) if c == "/")
        if all(last.get(one.rstrip(_DIGITS), 0) < seq for one in above):
            kept.append((stretches, seq))
    return kept
