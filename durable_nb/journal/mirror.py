"""The mirror: a read-only Parquet copy of a run's operations, for other processes to read.

A view and never evidence: it is not fsynced, and whoever needs the truth takes the lease.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import duckdb

from durable_nb.journal import columns, segments
from durable_nb.journal.columns import OPERATION_COLUMNS, RUN_COLUMNS, prepare
from durable_nb.journal.errors import MirrorSkipped, MirrorUnreadable
from durable_nb.journal.folder import HEAD_FILE, check_name
from durable_nb.journal.owner import Holder, Life, Role, probe
from durable_nb.journal.segments import MIRROR_FILE, SEALED, Sealed
from durable_nb.journal.sql import queries
from durable_nb.model.errors import BadName
from durable_nb.model.outcomes import RUN_STATUS, Kind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from durable_nb.journal.glance import Glance
    from durable_nb.journal.place import Place

__all__ = [
    "MIRROR_FILE",
    "OPERATION_COLUMNS",
    "RUN_COLUMNS",
    "Mirror",
    "known_until",
    "lags",
    "prepare",
    "query",
    "standing",
]

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "memory_limit": "512MB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


class Mirror:
    """The mirror of one run.

    Parameters
    ----------
    folder : Path
        The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MIRROR_FILE

    def publish(
        self,
        rows: pa.Table | Sequence[Mapping[str, Any]],
        meta: Mapping[str, str],
        sealed: Sealed | None = None,
    ) -> None:
        """Replace the tail in one step, so that a reader sees the old mirror or the new one.

        Parameters
        ----------
        rows : pyarrow.Table or sequence of mappings
            Operations, with the columns of `OPERATION_COLUMNS`; missing ones are null.
        meta : mapping of str to str
            What the run says of itself, with the keys of `RUN_COLUMNS`; others are kept as well.
        sealed : Sealed, optional
            The segments that belong to it; none by default.
        """
        table = columns.table_of_mappings(rows) if isinstance(rows, Sequence) else rows
        said = {SEALED: sealed.to_json()} if sealed else {}
        segments.write(self.path, table, {**meta, **said})

    def seal(self, number: int, table: pa.Table, meta: Mapping[str, str]) -> int:
        """Write a segment, which nobody reads before a tail names it; give its size in bytes."""
        return segments.write(segments.path_of(self.folder, number), table, meta)

    def tidy(self, sealed: Sealed) -> None:
        """Remove the segments that do not count any more."""
        for number in segments.numbers_in(self.folder):
            if not sealed.first <= number < sealed.next:
                segments.path_of(self.folder, number).unlink(missing_ok=True)

    @staticmethod
    def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Give the operations, a mapping each, and what the run says of itself.

        A segment that cannot be read is left out, and a `MirrorSkipped` warning names it.

        Raises
        ------
        MirrorUnreadable
            If there is no mirror, or its tail is damaged.
        """
        whole = segments.read_all(folder)
        _name(whole.bad)
        return whole.table.to_pylist(), whole.meta

    @staticmethod
    def tail(folder: Path) -> tuple[set[str], dict[str, str]]:
        """Give the identities that are in no segment yet, and what the run says of itself.

        Raises
        ------
        MirrorUnreadable
            If there is no mirror, or its tail is damaged.
        """
        table, meta = segments.read(folder / MIRROR_FILE)
        return set(table["id"].to_pylist()), meta

    @staticmethod
    def damage(folder: Path) -> list[MirrorUnreadable]:
        """List what of a mirror that is there cannot be read."""
        try:
            return list(segments.read_all(folder).bad)
        except MirrorUnreadable as error:
            return [error]


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def query(
    store: Path,
    sql: str,
    place_of: Callable[[str], Place] | None = None,
    known: Mapping[str, Glance] = _NOTHING,
) -> pd.DataFrame:
    """Answer a question over the views `runs` and `operations` of a whole store.

    The query reaches these two and nothing else. A mirror that cannot be read is left out, and a
    `MirrorSkipped` warning names it.

    Parameters
    ----------
    store : Path
        The folder of run folders.
    sql : str
        In DuckDB's dialect.
    place_of : callable, optional
        Gives the place of the run of that name, where that is not the folder of its mirror.
    known : Mapping
        Run to what is known of it: its place is not asked.
    """
    import pyarrow as pa

    tables, runs = [columns.schema().empty_table()], []
    for folder in _mirrored(store):
        try:
            table, meta, bad = segments.read_all(folder)
        except MirrorUnreadable as error:
            _name([error])
            continue
        _name(bad)
        tables.append(table)
        place = None if place_of is None else place_of(folder.name)
        if folder.name in known:
            holder = known[folder.name].holder
        else:
            holder = probe(folder) if place is None else place.probe()
        where = str(folder) if place is None else place.shown
        runs.append({**meta, "status": standing(holder, meta.get("status")), "folder": where})
    statements = queries("mirror")
    casts = ", ".join(
        f'TRY_CAST("{column}" AS {kind}) AS "{column}"' for column, kind in RUN_COLUMNS.items()
    )
    con = duckdb.connect(":memory:", config=_CONFIG)
    try:
        con.execute(statements["extensions"])
        con.register("raw_operations", pa.concat_tables(tables))
        con.execute(statements["load_operations"])
        con.unregister("raw_operations")
        raw = {column: [run.get(column) or None for run in runs] for column in RUN_COLUMNS}
        con.register("raw_runs", pa.table(raw, schema=columns.texts(raw)))
        con.execute(statements["load_runs"].format(columns=casts))
        con.unregister("raw_runs")
        con.execute(statements["lock_down"])
        return con.execute(sql).df()
    finally:
        con.close()


def standing(holder: Holder | None, mirrored: str | None) -> str:
    """Tell where a run stands: its owner's process knows better than a mirror that lags.

    Parameters
    ----------
    holder : Holder or None
        Who has it.
    mirrored : str or None
        What the mirror says.
    """
    if holder is None or holder.life is Life.ELSEWHERE or holder.info.role != Role.RUNNER:
        return mirrored or "unknown"
    return str(RUN_STATUS[Kind.OPENED, holder.live])


def lags(folder: Path) -> bool:
    """Whether something was recorded after the mirror was published.

    The head is written before each acknowledgement, and the mirror after the last of them; the
    journal's own file says less, since closing it moves the write-ahead file into it.
    """
    try:
        published = (folder / MIRROR_FILE).stat().st_mtime_ns
        return (folder / HEAD_FILE).stat().st_mtime_ns > published
    except FileNotFoundError:
        return True


def known_until(folder: Path, epoch: int, last_seq: int | None, now: datetime) -> datetime | None:
    """Give the moment up to which what a mirror calls live is known to be at work.

    Where something was recorded after it was published, what it shows may be over by now.

    Parameters
    ----------
    folder : Path
        Of the run.
    epoch : int
        Of the owner that lives. `None` is given if the mirror is an earlier one's.
    last_seq : int or None
        The last record, as far as that is known.
    now : datetime
        The time that it is.
    """
    try:
        published = datetime.fromtimestamp((folder / MIRROR_FILE).stat().st_mtime, UTC)
        _, meta = Mirror.tail(folder)
    except (FileNotFoundError, MirrorUnreadable):
        return None
    if meta.get("epoch") != str(epoch):
        return None
    return now if last_seq is not None and last_seq <= Sealed.of(meta).to else published


def _name(bad: Sequence[MirrorUnreadable]) -> None:
    """Warn of what was left out."""
    for error in bad:
        warnings.warn(MirrorSkipped(f"{error.path} was left out: {error.cause}"), stacklevel=3)


def _mirrored(store: Path) -> list[Path]:
    """List the runs of a store that have a mirror; what was set aside or is a link is none."""
    found = []
    for path in sorted(store.glob(f"*/{MIRROR_FILE}")):
        try:
            check_name(path.parent.name)
        except BadName:
            continue
        if not path.parent.is_symlink() and not path.is_symlink():
            found.append(path.parent)
    return found
