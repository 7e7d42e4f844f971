"""Runs that are kept in PostgreSQL: for more than one machine."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_nb.journal import folder as folders
from durable_nb.journal.glance import Glance
from durable_nb.journal.mirror import standing
from durable_nb.journal.owner import Holder, OwnerInfo
from durable_nb.journal.postgres import mirrors
from durable_nb.journal.postgres.artifacts import PostgresArtifacts
from durable_nb.journal.postgres.claim import claimed
from durable_nb.journal.postgres.inbox import PostgresInbox
from durable_nb.journal.postgres.lease import PostgresLease, overview, probe
from durable_nb.journal.postgres.opening import open_postgres_journal
from durable_nb.journal.postgres.planting import plant
from durable_nb.journal.postgres.schema import prepare
from durable_nb.journal.postgres.server import Server
from durable_nb.journal.postgres.sessions import Look, look_at
from durable_nb.journal.rows import records_of
from durable_nb.model.errors import JournalDamaged, RunMissing
from durable_nb.model.records import Record

if TYPE_CHECKING:
    from durable_nb.journal.protocol import Journal
    from durable_nb.journal.seed import Seed


class _Standing(NamedTuple):
    """How far a run is, and its mirror."""

    key: int
    born: int
    epoch: int
    held: bool
    seq: int
    mirrored: int | None
    published: datetime | None


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """A database in which runs are kept; equal if it is the same place, whatever the password.

    Attributes
    ----------
    url : str
        ``postgresql://user@host/database``; never shown.
    shown : str
        The same without a password.
    """

    url: str = field(repr=False, compare=False)
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what is no address; raises `StoreUnreachable`."""
        object.__setattr__(self, "shown", self.server.place)

    @property
    def server(self) -> Server:
        """How it is reached."""
        return Server(self.url)

    @property
    def address(self) -> str:
        """What another process finds it by; never to be shown."""
        return self.url

    @property
    def folder(self) -> None:
        """There is none."""
        return None

    @property
    def look(self) -> Look:
        """The session by which this process looks at it."""
        return look_at(self.server)

    @property
    def copies(self) -> Path:
        """Where this user's copies of the mirrors are."""
        return mirrors.copies_of(self.shown)

    def names(self) -> list[str]:
        """List the runs, by name."""
        return [name for (name,) in self.look.ask("runs")]

    def overview(self) -> dict[str, Glance]:
        """Tell of all runs, by name, who holds them and whose mirror lags: in one question."""
        return overview(self.server)

    def place(self, name: str) -> PostgresPlace:
        """Give the place of a run, which need not exist."""
        return PostgresPlace(self, folders.check_name(name))

    def prepare(self) -> None:
        """Bring the tables to this version, once a process."""
        with _preparing:
            if self.shown not in _prepared:
                prepare(self.server)
                _prepared.add(self.shown)

    def warnings(self, *, allow_network_fs: bool = False) -> list[str]:
        """Say nothing: a database is looked after by whoever keeps it."""
        return []

    def views(self) -> Path:
        """Bring all mirrors here, and give the folder in which they are."""
        mirrors.bring_all(self.look, self.copies)
        return self.copies

    def claimed(self, name: str) -> AbstractContextManager[None]:
        """Be the only supervisor of a run, on whatever machine."""
        return claimed(self.server, name)

    def plant(self, name: str, seed: Seed) -> None:
        """Make a run of records of another one, in one transaction."""
        source = self.place(seed.run).key() if seed.store == self else None
        plant(self.server, folders.check_name(name), seed, source)


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """One run in a database.

    Attributes
    ----------
    store : PostgresStore
        Where it is one of many.
    name : str
        Of the run.
    """

    store: PostgresStore
    name: str

    @property
    def folder(self) -> None:
        """There is none."""
        return None

    @property
    def identity(self) -> list[int] | None:
        """Tell the run from what was imported: its number, and its first moment in µs."""
        found = self._standing()
        return None if found is None else [found.key, found.born]

    @property
    def shown(self) -> str:
        """Where the run is, for messages."""
        return f"{self.name} in {self.store.shown}"

    @property
    def view(self) -> Path:
        """The folder of the mirror's files: an owner's own, or that of all readers."""
        held = self._held()
        return self.store.copies / self.name if held is None else held.folder

    def exists(self) -> bool:
        """Whether anything is on record."""
        found = self._standing()
        return found is not None and found.seq > 0

    def check_trusted(self) -> None:
        """Trust the database: who may write to it is its own affair."""

    def probe(self) -> Holder | None:
        """Tell who holds the run."""
        return probe(self.store.server, self.name)

    def standing(self, mirrored: str | None) -> str:
        """Tell where the run stands."""
        return standing(self.probe(), mirrored)

    def stamp(self, *, held: bool) -> object:
        """Give something that is equal as long as nothing new can be seen."""
        found = self._standing()
        if found is None:
            return None
        return (found.key, found.published) if held else (found.key, found.epoch, found.seq)

    def acquire(self, who: OwnerInfo) -> HeldRow:
        """Take the lease."""
        return HeldRow(self, who)

    def artifacts(self) -> PostgresArtifacts:
        """Give what keeps large values; it is to be closed."""
        return PostgresArtifacts(self.store.server, self._key())

    def inbox(self, clock: Callable[[], datetime] | None = None) -> PostgresInbox:
        """Give where others leave what they have to say."""
        server, key = self.store.server, self._key()
        return PostgresInbox(server, key) if clock is None else PostgresInbox(server, key, clock)

    def closed_reader(self) -> ClosedRows:
        """Give what reads records of the present journal once it was closed."""
        return ClosedRows(self, self._key())

    def fetch(self) -> None:
        """Bring the mirror as it was published last; an owner goes on from it, once."""
        look, copies, held = self.store.look, self.store.copies, self._held()
        if held is None:
            mirrors.bring(look, copies, self.name)
        elif not held.seeded:
            mirrors.seed(look, copies, self.name, held.folder)
            held.seeded = True

    def published(self) -> None:
        """Let others have what this owner has written."""
        held = self._held()
        if held is not None:
            held.seeded = True
            mirrors.hand_over(self.store.look, held.key, held.epoch, held.folder)

    def lags(self) -> bool:
        """Whether something was recorded after the mirror was published."""
        found = self._standing()
        return found is None or found.mirrored is None or found.seq > found.mirrored

    def last_seq(self) -> int | None:
        """Give the last record that was acknowledged."""
        found = self._standing()
        return None if found is None else found.seq

    def key(self) -> int | None:
        """Give the number of the run; `None` if there is none."""
        found = self._standing()
        return None if found is None else found.key

    def _key(self) -> int:
        """Give the number of the run, which has to be there."""
        found = self.key()
        if found is None:
            raise RunMissing(self.name, self.store.shown, self.store.names())
        return found

    def _standing(self) -> _Standing | None:
        rows = self.store.look.ask("standing", {"name": self.name})
        return _Standing(*rows[0]) if rows else None

    def _held(self) -> _Held | None:
        """Give what this process has of the run while it holds it."""
        held = _holding.get(self)
        return held if held is not None and held.pid == os.getpid() else None


class HeldRow:
    """The lease of a run in a database."""

    #: The id is in the first record. Where a folder's records are lost its `head` still has it; of
    #: a database nothing is lost that would leave something behind.
    run_id: Final = ""

    def __init__(self, place: PostgresPlace, who: OwnerInfo, aside: str = "") -> None:
        self._place, self._who, self.aside = place, who, aside
        self._lease = lease = PostgresLease.acquire(place.store.server, run=place.name, who=who)
        try:
            folder = mirrors.owned(place.store.copies, lease.key, lease.epoch)
        except BaseException:
            lease.release()
            raise
        self._mine = _Held(lease.key, lease.epoch, folder, os.getpid())
        _holding[place] = self._mine

    def set_aside(self) -> HeldRow:
        """Give the run another name, if anything is on record."""
        if not self._place.exists():
            return self
        given = {"run": self._lease.key, "epoch": self._lease.epoch}
        try:
            self._place.store.look.ask("set_aside", given)
        finally:
            self.release()
        return HeldRow(self._place, self._who, f".{self._place.name}.old-{given['run']}")

    def keep_run_id(self, run_id: str) -> None:
        """Keep nothing: see `run_id`."""

    def open_journal(self, clock: Callable[[], datetime], *, whole: bool) -> Journal:
        """Open the journal."""
        return open_postgres_journal(self._lease, clock=clock, whole=whole)

    def update(self, *, epoch: int) -> None:
        """Do nothing new: the lease gave the epoch, and has told it."""
        self._lease.update(epoch=epoch)

    def start_heartbeat(self, on_beat: Callable[[], Any], every: float) -> None:
        """Begin to tell others that this owner lives."""
        self._lease.start_heartbeat(None, on_beat, every)

    def release(self) -> None:
        """Let go of the run; twice is harmless."""
        self._lease.release()
        if self._mine.pid == os.getpid() and _holding.get(self._place) is self._mine:
            del _holding[self._place]
            shutil.rmtree(self._mine.folder, ignore_errors=True)


class ClosedRows:
    """Records of a journal that was closed, as long as its run has the name."""

    def __init__(self, place: PostgresPlace, key: int) -> None:
        self._place, self._key = place, key

    def check(self) -> None:
        """Refuse another run in its place."""
        if self._place.key() != self._key:
            found = "its records have another name now, and were read only in part."
            raise JournalDamaged(self._place.name, found, "Open the run again.")

    def read(self, first: int, last: int) -> Sequence[Record]:
        """Read records; they never change, whoever has the run."""
        given = {"run": self._key, "first": first, "last": last}
        return records_of(self._place.store.look.ask("rows_between", given))


@dataclass(slots=True)
class _Held:
    """What this process has of a run while it holds it: `folder` is where it writes the mirror."""

    key: int
    epoch: int
    folder: Path
    pid: int
    seeded: bool = False


_holding: dict[PostgresPlace, _Held] = {}
_prepared: set[str] = set()
_preparing = threading.Lock()
