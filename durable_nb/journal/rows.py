"""How a record becomes a row, and the running digest over rows."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft, Record

#: The running digest before the first record.
START: Final = bytes(16)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUMBERS: Final = struct.Struct("<qqqII")
_ESCAPED: Final = re.compile(r"[\\\x00\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\u([0-9a-f]{4})")
_KINDS: Final = {kind.value: kind for kind in Kind}
_KIND_BYTES: Final = {name: name.encode() for name in _KINDS}
_PINNED: Final = Kind.PINNED
_CHUNK: Final = 5000
#: What each digest begins as: a copy takes two thirds of what a new one does.
_BLAKE2B: Final = hashlib.blake2b(digest_size=len(START))
#: What the constructor of a NamedTuple calls: to call it here halves its time.
_new: Final[Callable[..., Record]] = tuple.__new__
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
#: The same as `json`, in a third of its time, where these take it.
_encode_fast: Final = msgspec.json.Encoder().encode
_decode_fast: Final = msgspec.json.Decoder().decode


class Row(NamedTuple):
    """One row of the table `records`, exactly as it is bound."""

    seq: int
    op: str
    kind: str
    ts: int
    epoch: int
    body: bytes


#: A row as it is read, before it gets names: a long journal has many.
RawRow = tuple[int, str, str, int, int, bytes]


class BadRow(ValueError):
    """A row that this code cannot have written."""


def pack_op(op: str) -> str:
    r"""Escape what DuckDB refuses or cuts: lone surrogates and NUL, as `\uXXXX`; and `\`."""
    if op.isprintable() and op.isascii() and "\\" not in op:
        return op
    return _ESCAPED.sub(lambda m: f"\\u{ord(m[0]):04x}", op)


def unpack_op(text: str) -> str:
    """Undo `pack_op`."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text) if "\\" in text else text


def pack_body(draft: Draft) -> bytes:
    """Give compact JSON in ASCII: valid UTF-8 even where a text holds a lone surrogate."""
    body = draft.body if type(draft.body) is dict else dict(draft.body)
    try:
        raw = _encode_fast(body)
        if raw.isascii() and _decode_fast(raw) == body:  # it makes null of NaN, text of a date
            return raw
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError):
        pass
    return _encode(body).encode("ascii")


def micros(moment: datetime) -> int:
    """Give microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(ts: int) -> datetime:
    """Undo `micros`."""
    return _EPOCH + timedelta(0, 0, ts)  # `microseconds=` takes twice as long


def chain(previous: bytes, row: RawRow) -> bytes:
    """Give the running digest after this row."""
    return chain_all(previous, (row,))


def chain_all(previous: bytes, rows: Iterable[RawRow]) -> bytes:
    """Give the running digest after these rows, of which nothing is made."""
    pack, begin, join, kinds = _NUMBERS.pack, _BLAKE2B.copy, b"".join, _KIND_BYTES
    for seq, op_text, kind_text, ts, epoch, body in rows:
        op = op_text.encode()
        kind = kinds.get(kind_text) or kind_text.encode()
        hashed = begin()
        hashed.update(join((previous, pack(seq, ts, epoch, len(op), len(kind)), op, kind, body)))
        previous = hashed.digest()
    return previous


def records_of(rows: Sequence[RawRow]) -> list[Record]:
    """Decode rows; raises `BadRow` naming the first that is not ours."""
    records: list[Record] = []
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        for (seq, op, said, ts, epoch, _), body in zip(part, _bodies(part), strict=True):
            kind = _KINDS.get(said)
            if kind is None:
                raise BadRow(f"record {seq} has the unknown kind {said!r}.")
            name = unpack_op(op) if "\\" in op else op
            records.append(_new(Record, (seq, name, kind, moment_of(ts), epoch, body)))
    return records


def answers(rows: Sequence[Row], drafts: Sequence[Draft], now: datetime) -> list[Record]:
    """Give the records that rows are, of which the drafts are at hand: nothing is parsed."""
    when = now.astimezone(UTC)
    return [
        _new(Record, (row[0], op, kind, when, row[4], body))
        if kind is not _PINNED  # whose body has more than was asked for
        else records_of([row])[0]
        for row, (op, kind, body) in zip(rows, drafts, strict=True)
    ]


def _bodies(rows: Sequence[RawRow]) -> list[dict[str, Any]]:
    """Parse many bodies in one call: a quarter of the time of one call each."""
    try:
        bodies = _decode_fast(b"[" + b",".join([row[5] for row in rows]) + b"]")
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # a lone surrogate, or damage
        bodies = []
    if len(bodies) == len(rows) and all(type(body) is dict for body in bodies):
        return bodies  # type: ignore[no-any-return]
    return [_body(Row(*row)) for row in rows]


def _body(row: Row) -> dict[str, Any]:
    """Parse one body, naming the record if it is damaged."""
    try:
        body = json.loads(row.body)
    except (ValueError, RecursionError) as error:  # planted: ours is nested a few levels deep
        raise BadRow(f"the body of record {row.seq} is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise BadRow(f"the body of record {row.seq} is not an object.")
    return body


def check_chain(rows: Sequence[Row]) -> None:
    """Check that seq runs 1..n without gaps and that no epoch falls; raises `BadRow`."""
    for place, row in enumerate(rows, start=1):
        if row.seq != place:
            raise BadRow(f"record {place} is missing or doubled (found {row.seq} in its place).")
    check_epochs(rows)


def check_epochs(rows: Iterable[RawRow]) -> None:
    """Check that no epoch falls; raises `BadRow`."""
    rows = list(rows)
    epochs = [row[4] for row in rows]
    if epochs == sorted(epochs):  # a sixth of the time of looking at one after the other
        return
    before = 0
    for seq, _, _, _, epoch, _ in rows:
        if epoch < before:
            raise BadRow(f"record {seq} has epoch {epoch} after epoch {before}.")
        before = epoch
