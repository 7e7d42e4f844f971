"""Runs that are kept in folders, one each, on a disk of this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_nb import values
from durable_nb.journal import claim, mirror, owner
from durable_nb.journal import folder as folders
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.folder_artifacts import FolderArtifacts
from durable_nb.journal.glance import Glance
from durable_nb.journal.head import Head
from durable_nb.journal.inbox import Inbox
from durable_nb.journal.interrupts import deferred_interrupts
from durable_nb.journal.lease import Lease
from durable_nb.journal.looking import kept_out
from durable_nb.journal.mirror import MIRROR_FILE
from durable_nb.journal.opening import open_journal
from durable_nb.journal.owner import Holder, OwnerInfo
from durable_nb.journal.tables import read_closed
from durable_nb.journal.transplant import built_aside, end_of_rows, plant
from durable_nb.model.errors import JournalDamaged
from durable_nb.model.records import Record

if TYPE_CHECKING:
    from durable_nb.journal.protocol import Journal
    from durable_nb.journal.seed import Seed

ARTIFACTS_FOLDER: Final = "artifacts"


@dataclass(frozen=True, slots=True)
class FolderStore:
    """A folder of run folders.

    Attributes
    ----------
    root : Path
        The folder; it need not exist.
    """

    root: Path

    @property
    def shown(self) -> str:
        """As a person writes it."""
        return str(self.root)

    @property
    def address(self) -> str:
        """What another process finds it by."""
        return str(self.root)

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.root

    def names(self) -> list[str]:
        """List the runs, by name."""
        return folders.run_names(self.root)

    def overview(self) -> dict[str, Glance]:
        """Tell of all runs, by name, who holds them and whose mirror lags."""
        places = {name: self.place(name) for name in self.names()}
        return {name: Glance(place.probe(), place.lags()) for name, place in places.items()}

    def place(self, name: str) -> FolderPlace:
        """Give the place of a run, which need not exist."""
        return FolderPlace(folders.run_folder(self.root, name))

    def prepare(self) -> None:
        """Make the folder if it is missing."""
        folders.prepare_store(self.root)

    def warnings(self, *, allow_network_fs: bool = False) -> list[str]:
        """Say what may become of runs here."""
        return folders.filesystem_warnings(self.root, allow_network_fs=allow_network_fs)

    def views(self) -> Path:
        """Give the folder in which the mirrors are, each in one of its run's name."""
        return self.root

    def claimed(self, name: str) -> AbstractContextManager[None]:
        """Be the only supervisor of a run."""
        return claim.claimed(self.root, name)

    def plant(self, name: str, seed: Seed) -> None:
        """Make a run of records of another one: its folder gets its name when it is whole."""
        target = folders.run_folder(self.root, name)

        def refuse_taken() -> None:
            if os.path.lexists(target):
                raise seed.taken()

        with built_aside(target, ".fork-", refuse_taken) as part:
            rows = seed.rows(folders.folder_id(part))
            _copy_artifacts(seed, part / ARTIFACTS_FOLDER)
            with deferred_interrupts():
                plant(part / JOURNAL_FILE, part / HEAD_FILE, rows, end_of_rows(rows), name)


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """The folder of one run.

    Attributes
    ----------
    folder : Path
        It need not exist.
    """

    folder: Path

    @property
    def name(self) -> str:
        """Of the run."""
        return self.folder.name

    @property
    def store(self) -> FolderStore:
        """Where it is one of many."""
        return FolderStore(self.folder.parent)

    @property
    def shown(self) -> str:
        """Where the run is, for messages."""
        return str(self.folder)

    @property
    def identity(self) -> list[int]:
        """Tell the folder from its copy: device and inode."""
        return folders.folder_id(self.folder)

    @property
    def view(self) -> Path:
        """The folder of the mirror's files."""
        return self.folder

    def exists(self) -> bool:
        """Whether there is a journal."""
        return (self.folder / JOURNAL_FILE).exists()

    def check_trusted(self) -> None:
        """Refuse what somebody else could have written to."""
        folders.check_trusted(self.folder)

    def probe(self) -> Holder | None:
        """Tell who holds the run."""
        return owner.probe(self.folder)

    def standing(self, mirrored: str | None) -> str:
        """Tell where the run stands."""
        return mirror.standing(self.probe(), mirrored)

    def stamp(self, *, held: bool) -> object:
        """Give something that is equal as long as nothing new can be seen."""
        file = MIRROR_FILE if held else HEAD_FILE
        try:
            written = (self.folder / file).stat().st_mtime_ns
        except FileNotFoundError:
            written = 0
        return (file, written)

    def acquire(self, who: OwnerInfo) -> FolderLease:
        """Take the lease."""
        return FolderLease(self, who)

    def artifacts(self) -> FolderArtifacts:
        """Give what keeps large values; it is to be closed."""
        return FolderArtifacts(self.folder / ARTIFACTS_FOLDER)

    def closed_reader(self) -> ClosedFile:
        """Give what reads records of the present journal once it was closed."""
        return ClosedFile(self.folder / JOURNAL_FILE, self.name)

    def inbox(self, clock: Callable[[], datetime] | None = None) -> Inbox:
        """Give where others leave what they have to say."""
        return Inbox(self.folder) if clock is None else Inbox(self.folder, clock)

    def fetch(self) -> None:
        """Do nothing: the mirror's files are here."""

    def published(self) -> None:
        """Do nothing: everybody reads the files that were written."""

    def lags(self) -> bool:
        """Whether something was recorded after the mirror was published."""
        return mirror.lags(self.folder)

    def last_seq(self) -> int | None:
        """Give the last record that was acknowledged."""
        state = Head.look(self.folder / HEAD_FILE)
        return None if state is None else state.seq


class FolderLease:
    """The lease of a run in a folder, and the head, which goes with it."""

    def __init__(self, place: FolderPlace, who: OwnerInfo, aside: str = "") -> None:
        self._place, self._who, self.aside = place, who, aside
        folders.prepare_run(place.folder.parent, place.name)
        self._lease = Lease.acquire(place.folder, run=place.name, who=who)
        self._head: Head | None = None

    @property
    def run_id(self) -> str:
        """The id that the head keeps: it outlives the loss of all records."""
        return "" if self._head is None else self._head.run_id

    def set_aside(self) -> FolderLease:
        """Rename the folder, if there is a journal in it."""
        if not self._place.exists():
            return self
        try:
            aside = folders.set_aside(self._place.folder).name
        finally:
            self.release()
        return FolderLease(self._place, self._who, aside)

    def keep_run_id(self, run_id: str) -> None:
        """Keep the run's id outside of its records; it is written with the next of them."""
        if self._head is not None:
            self._head.run_id = run_id

    def open_journal(self, clock: Callable[[], datetime], *, whole: bool) -> Journal:
        """Open the journal, or make it."""
        folder = self._place.folder
        self._head = Head(folder / HEAD_FILE)
        return open_journal(
            folder / JOURNAL_FILE,
            run=self._place.name,
            head=self._head,
            clock=clock,
            whole=whole,
        )

    def update(self, *, epoch: int) -> None:
        """Tell others under which epoch the run is held."""
        self._lease.update(epoch=epoch)

    def start_heartbeat(self, on_beat: Callable[[], Any], every: float) -> None:
        """Begin to tell others that this owner lives."""
        self._lease.start_heartbeat(self._head, on_beat, every)

    def release(self) -> None:
        """Let go of the run; twice is harmless."""
        if self._head is not None:
            self._head.close()
        self._lease.release()


def _copy_artifacts(seed: Seed, folder: Path) -> None:
    """Copy the large values that the records name; one that is lost stays so, as it is told."""
    if not seed.named:
        return
    artifacts = values.DiskArtifacts(folder)
    try:
        for sha256 in sorted(seed.named):
            with contextlib.suppress(values.ArtifactMissing, values.ArtifactDamaged):
                artifacts.put(seed.artifacts.get(sha256))
    finally:
        artifacts.close()


class ClosedFile:
    """Records of a journal that was closed, as long as its file is where it was."""

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run, self._file = path, run, os.stat(path).st_ino

    def check(self) -> None:
        """Refuse another file in its place."""
        if not self._path.exists() or os.stat(self._path).st_ino != self._file:
            found = f"its file is not at {self._path} any more, and was read only in part."
            raise JournalDamaged(self._run, found, "Open the run again, where it is now.")

    def read(self, first: int, last: int) -> Sequence[Record]:
        """Read records while nobody has the run."""
        with kept_out(self._path.parent, self._run):
            return read_closed(self._path, first, last)
