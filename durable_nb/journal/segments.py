"""How a mirror lies on disk: a tail that is replaced, and sealed segments that never change.

The tail, `operations.parquet`, says which segments `operations-<n>.parquet` count; others do not,
so a writer that was killed between a segment and the tail leaves nothing that anybody reads. No
number is used again while a tail names it, so whoever has read a tail finds what it names, or
finds that there is a new tail.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_nb.journal import columns
from durable_nb.journal.errors import MirrorUnreadable
from durable_nb.model.pins import UpTo, is_retired, stretch_of

if TYPE_CHECKING:
    import pyarrow as pa

MIRROR_FILE: Final = "operations.parquet"
_SEGMENT: Final = re.compile(r"operations-([1-9][0-9]*)\.parquet")
#: Before each key of ours in a file's metadata.
_PREFIX: Final = "durable_nb."
#: The key under which a tail says what is sealed.
SEALED: Final = "sealed"
#: Grows when segments of before cannot be gone on from.
_LAYOUT: Final = 1
#: How often a reader looks again where the files that a tail named are gone.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a tail says of the segments that belong to it.

    Attributes
    ----------
    first : int
        The number of the first segment that counts.
    sizes : tuple of int
        Of that and the following ones, in bytes.
    own : int
        The first segment of the owner that wrote the tail: what earlier ones say of a row's
        ``source`` was true in their kernel.
    to : int
        The last record that was looked at: an operation without a later one is in a segment or in
        the tail.
    operations : int
        How many are on record, and not in the tail.
    replayed : str
        Which rows this owner took from the record, as `packed` writes them.
    layout : int
        Of the files.
    """

    first: int = 1
    sizes: tuple[int, ...] = ()
    own: int = 1
    to: int = 0
    operations: int = 0
    replayed: str = ""
    layout: int = _LAYOUT

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> Sealed:
        """Read it from the metadata of a tail; nothing is sealed where there is none."""
        try:
            found = json.loads(meta.get(SEALED) or "{}")
            return replace(cls(**found), sizes=tuple(map(int, found.get("sizes", ()))))
        except (TypeError, ValueError):
            return cls(layout=0)

    @property
    def next(self) -> int:
        """The number of the segment that comes after these."""
        return self.first + len(self.sizes)

    def to_json(self) -> str:
        """Write it for a tail."""
        return json.dumps(asdict(self))

    def fits(self, folder: Path) -> bool:
        """Whether the segments are there as they were written."""
        if self.layout != _LAYOUT:
            return False
        try:
            found = tuple(path_of(folder, self.first + n).stat().st_size for n in range(self.count))
        except FileNotFoundError:
            return False
        return found == self.sizes

    @property
    def count(self) -> int:
        """How many segments there are."""
        return len(self.sizes)


def path_of(folder: Path, number: int) -> Path:
    """Give the file of a segment."""
    return folder / f"operations-{number}.parquet"


def numbers_in(folder: Path) -> list[int]:
    """List the segments that lie in a folder, whether they count or not."""
    found = (_SEGMENT.fullmatch(path.name) for path in folder.glob("operations-*.parquet"))
    return sorted(int(match[1]) for match in found if match)


def write(path: Path, table: pa.Table, meta: Mapping[str, str]) -> int:
    """Put a file in its place in one step; give its size.

    A reader sees the old one or the new one. It is not fsynced: a mirror is no evidence.
    """
    import pyarrow.parquet as pq

    keys = {f"{_PREFIX}{key}": columns.printable(value) for key, value in meta.items()}
    fd, part = tempfile.mkstemp(prefix=".operations-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            pq.write_table(table.replace_schema_metadata(keys), file)
            size = file.tell()
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    return size


def read(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """Read one file whole.

    The bytes are taken in one go: readers that open a path several times (DuckDB's, and Arrow's
    `read_table`) meet two versions when the owner publishes in between.

    Raises
    ------
    MirrorUnreadable
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
        found = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise MirrorUnreadable(str(path), str(error)) from error
    meta = {k.removeprefix(_PREFIX): v for k, v in found.items() if k.startswith(_PREFIX)}
    return columns.conform(table), meta


class Whole(NamedTuple):
    """A mirror as it was at one publication.

    Attributes
    ----------
    table : pyarrow.Table
        A row an operation.
    meta : dict
        What the run says of itself.
    bad : tuple of MirrorUnreadable
        The segments that had to be left out.
    """

    table: pa.Table
    meta: dict[str, str]
    bad: tuple[MirrorUnreadable, ...]


def read_all(folder: Path) -> Whole:
    """Read the tail and the segments that it names; each operation as it was published last.

    Raises
    ------
    MirrorUnreadable
        If there is no tail, or it is damaged.
    """
    for _ in range(_TRIES):
        tail, meta = read(folder / MIRROR_FILE)
        sealed = Sealed.of(meta)
        tables, bad = [], []
        for number in range(sealed.first, sealed.next):
            try:
                tables.append((number, _segment(folder, number, meta)))
            except MirrorUnreadable as error:
                bad.append(error)
        if not any(isinstance(e.__cause__, FileNotFoundError) for e in bad):
            break
        if read(folder / MIRROR_FILE)[1].get(SEALED) == meta.get(SEALED):
            break  # no new owner has begun anew meanwhile: it is missing
    return Whole(_merged(tail, tables, meta, sealed), meta, tuple(bad))


def _segment(folder: Path, number: int, meta: Mapping[str, str]) -> pa.Table:
    path = path_of(folder, number)
    table, own = read(path)
    if own.get("run_id") != meta.get("run_id"):
        raise MirrorUnreadable(str(path), "it is of another run")
    return table


def _merged(
    tail: pa.Table, segments: Sequence[tuple[int, pa.Table]], meta: Mapping[str, str], own: Sealed
) -> pa.Table:
    """Take of each operation what was written last, without what pins have retired."""
    if not segments and not own.replayed:
        return tail
    import pyarrow as pa

    tables = [table for _, table in segments] + [tail]
    whole = pa.concat_tables(tables)
    earlier = sum(len(table) for number, table in segments if number < own.own)
    gone = _retired(meta)
    ids, seen, kept = whole["id"].to_pylist(), set(), []
    for n in range(len(ids) - 1, -1, -1):
        if ids[n] not in seen:
            seen.add(ids[n])
            if not is_retired(ids[n], gone):
                kept.append(n)
    kept.reverse()
    found = columns.chosen(whole, kept)
    replayed = unpacked(own.replayed)
    if not replayed and not earlier:
        return found
    rows, sources = found["row"].to_pylist(), found["source"].to_pylist()
    told = [
        "record" if _has(replayed, row) else "" if at < earlier else source
        for at, row, source in zip(kept, rows, sources, strict=True)
    ]
    return columns.with_texts(found, "source", told)


def _retired(meta: Mapping[str, str]) -> dict[str, UpTo]:
    """Give the stretch of each loop that its last pin completed."""
    said: Any = json.loads(meta.get("retired") or "{}")
    return {loop: UpTo(n) for loop, n in map(stretch_of, said.get("before") or ())}


# -- a set of row numbers ------------------------------------------------------------------------


def packed(rows: bytes | bytearray) -> str:
    """Write a set of row numbers, a bit each, as text; what lies together takes next to nothing."""
    return base64.b85encode(zlib.compress(rows, 1)).decode() if any(rows) else ""


def unpacked(text: str) -> bytes:
    """Read what `packed` wrote."""
    return zlib.decompress(base64.b85decode(text)) if text else b""


def _has(rows: bytes, row: int | None) -> bool:
    return row is not None and row >> 3 < len(rows) and bool(rows[row >> 3] >> (row & 7) & 1)


def segments_of(folder: Path, sealed: Sealed) -> Iterator[Path]:
    """Give the files of the segments that count."""
    return (path_of(folder, sealed.first + n) for n in range(sealed.count))
