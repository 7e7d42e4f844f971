"""The kinds of stores that a test can be held against, by name.

`unseen` is one whose folder nobody is told: what the engine does there it would do in a database.
Its mirrors are copies in another folder, which have to be fetched and handed back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from durable_nb.journal import (
    FolderPlace,
    FolderStore,
    HeldLease,
    Holder,
    OwnerInfo,
    Store,
    store_of,
)
from durable_nb.journal.glance import Glance
from durable_nb.journal.place import ClosedJournal, RunArtifacts, RunInbox
from durable_nb.journal.seed import Seed
from durable_nb.journal.segments import MIRROR_FILE

_MIRROR = "operations*.parquet"

KINDS = ("folder", "unseen", "postgres")

#: In a folder: the address of the database that stands for the store in it.
_URL = "url"


def store_in(kind: str, folder: Path, machine: str = "this") -> Store:
    """Make a store of a kind, as a machine has it; what is kept is below the folder."""
    if kind == "postgres":
        os.environ["XDG_CACHE_HOME"] = str(folder / "copies" / machine)
        return store_of((folder / _URL).read_text())
    inner = FolderStore(folder / "store")
    return inner if kind == "folder" else UnseenStore(inner, folder / "copies" / machine)


def give_database(folder: Path, url: str) -> None:
    """Say which database stands for the stores in a folder."""
    (folder / _URL).write_text(url)


@dataclass(frozen=True)
class UnseenStore:
    """A store of folders that says it is none."""

    inner: FolderStore
    copies: Path

    folder = None
    shown = "unseen://store"

    @property
    def address(self) -> str:
        raise AssertionError("no other process is told of it")

    def names(self) -> list[str]:
        return self.inner.names()

    def overview(self) -> dict[str, Glance]:
        places = {name: self.place(name) for name in self.names()}
        return {name: Glance(place.probe(), place.lags()) for name, place in places.items()}

    def place(self, name: str) -> UnseenPlace:
        return UnseenPlace(self, self.inner.place(name))

    def prepare(self) -> None:
        self.inner.prepare()

    def warnings(self, *, allow_network_fs: bool = False) -> list[str]:
        return self.inner.warnings(allow_network_fs=allow_network_fs)

    def views(self) -> Path:
        for name in self.names():
            self.place(name).fetch()
        return self.copies

    def claimed(self, name: str) -> AbstractContextManager[None]:
        return self.inner.claimed(name)

    def plant(self, name: str, seed: Seed) -> None:
        self.inner.plant(name, seed)


@dataclass(frozen=True)
class UnseenPlace:
    """A run in it."""

    store: UnseenStore
    inner: FolderPlace

    folder = None
    identity = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def shown(self) -> str:
        return f"{self.name} in {self.store.shown}"

    @property
    def view(self) -> Path:
        return self.store.copies / self.name

    def exists(self) -> bool:
        return self.inner.exists()

    def check_trusted(self) -> None:
        self.inner.check_trusted()

    def probe(self) -> Holder | None:
        return self.inner.probe()

    def standing(self, mirrored: str | None) -> str:
        return self.inner.standing(mirrored)

    def stamp(self, *, held: bool) -> object:
        return self.inner.stamp(held=held)

    def acquire(self, who: OwnerInfo) -> HeldLease:
        return self.inner.acquire(who)

    def artifacts(self) -> RunArtifacts:
        return self.inner.artifacts()

    def inbox(self, clock: Callable[[], datetime] | None = None) -> RunInbox:
        return self.inner.inbox(clock)

    def closed_reader(self) -> ClosedJournal:
        return self.inner.closed_reader()

    def fetch(self) -> None:
        _mirrored(self.inner.folder, self.view)

    def published(self) -> None:
        _mirrored(self.view, self.inner.folder)

    def lags(self) -> bool:
        return self.inner.lags()


def _mirrored(source: Path, target: Path) -> None:
    """Make the mirror in the target that of the source; the tail comes last."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = sorted(source.glob(_MIRROR), key=lambda file: file.name == MIRROR_FILE)
    for file in files:
        part = target / f".part-{file.name}"
        shutil.copy2(file, part)
        part.replace(target / file.name)
    for file in target.glob(_MIRROR):
        if not (source / file.name).exists():
            file.unlink()
