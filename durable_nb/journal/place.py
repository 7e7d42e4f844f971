"""Where runs are kept: what the engine asks of it, whatever it is made of.

A `Store` has all runs of one place, and a `Place` is one run's. Folders are one kind of both; what
is by nature about files asks for the folder with `folder_of`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

from durable_nb.journal import folder as folders
from durable_nb.journal.errors import FoldersOnly
from durable_nb.journal.folder_place import FolderStore
from durable_nb.values.text import Artifacts

if TYPE_CHECKING:
    from durable_nb.journal.folder_artifacts import Checked
    from durable_nb.journal.glance import Glance
    from durable_nb.journal.inbox import Message
    from durable_nb.journal.owner import Holder, OwnerInfo
    from durable_nb.journal.protocol import Journal
    from durable_nb.journal.seed import Seed
    from durable_nb.model.records import Record

#: How a store in a database is written.
_DATABASES: Final = ("postgresql://", "postgres://")
#: How the server that comes with an extra is named; a folder of that name is `./embedded`.
EMBEDDED: Final = "embedded"


class Store(Protocol):
    """All runs of one place; two that are equal are the same, and have the same hash."""

    @property
    def shown(self) -> str:
        """As a person writes it, for messages; never with a password."""
        ...

    @property
    def address(self) -> str:
        """What `store_of` makes the same store of in a child process: never to be shown."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder of run folders; `None` of a database."""
        ...

    def names(self) -> list[str]:
        """List the runs, by name."""
        ...

    def overview(self) -> dict[str, Glance]:
        """Tell of all runs, in order of their names, who holds them and whose mirror lags.

        It is as asking `probe` and `lags` of each, where a database is asked only once.
        """
        ...

    def place(self, name: str) -> Place:
        """Give the place of a run, which need not exist; raises `BadName`."""
        ...

    def prepare(self) -> None:
        """Make it if it is missing; raises `NotTrusted` if others can write to it."""
        ...

    def warnings(self, *, allow_network_fs: bool = False) -> list[str]:
        """Say what may become of runs here, a line each; raises `NotTrusted`."""
        ...

    def views(self) -> Path:
        """Give a folder of this user's in which the mirrors are, each in one of its run's name.

        A database brings its copies there first. Only `journal.mirror` reads them.
        """
        ...

    def claimed(self, name: str) -> AbstractContextManager[None]:
        """Be the only supervisor of a run; raises `RunHeld` if there is another one."""
        ...

    def plant(self, name: str, seed: Seed) -> None:
        """Make a run of records of another one; in the middle of that there is nothing of it.

        Parameters
        ----------
        name : str
            Of the new run. Where it is taken, `Seed.taken` is raised, and nothing was made.
        seed : Seed
            What it begins with.
        """
        ...


class Place(Protocol):
    """One run's place; two that are equal are the same, and have the same hash."""

    @property
    def name(self) -> str:
        """Of the run."""
        ...

    @property
    def store(self) -> Store:
        """Where it is one of many."""
        ...

    @property
    def folder(self) -> Path | None:
        """The run's folder; `None` in a database."""
        ...

    @property
    def shown(self) -> str:
        """Where the run is, for messages; never with a password."""
        ...

    @property
    def identity(self) -> list[int] | None:
        """What tells that a run was copied or moved; `None` where that is not known."""
        ...

    def exists(self) -> bool:
        """Whether there is a journal."""
        ...

    def check_trusted(self) -> None:
        """Refuse what somebody else could have written to; raises `NotTrusted`."""
        ...

    # -- who holds it --------------------------------------------------------------------------

    def probe(self) -> Holder | None:
        """Tell who holds the run, and lock nothing; `None` if nobody does."""
        ...

    def standing(self, mirrored: str | None) -> str:
        """Tell where the run stands: its owner knows better than a mirror that lags.

        Parameters
        ----------
        mirrored : str or None
            What the mirror says.
        """
        ...

    def stamp(self, *, held: bool) -> object:
        """Give something that is equal as long as nothing new can be seen.

        Parameters
        ----------
        held : bool
            Whether somebody holds the run, so that only its mirror can be seen.
        """
        ...

    def acquire(self, who: OwnerInfo) -> HeldLease:
        """Take the lease, of a run that is made if it is missing.

        Parameters
        ----------
        who : OwnerInfo
            This owner.

        Raises
        ------
        RunHeld
            Somebody else has it; nothing was changed.
        JournalUnwritable, NotTrusted
        """
        ...

    # -- what is kept --------------------------------------------------------------------------

    def artifacts(self) -> RunArtifacts:
        """Give what keeps large values; it is to be closed."""
        ...

    def inbox(self, clock: Callable[[], datetime] | None = None) -> RunInbox:
        """Give where others leave what they have to say to the run's owner."""
        ...

    def closed_reader(self) -> ClosedJournal:
        """Give what reads records of the present journal once it was closed."""
        ...

    # -- the mirror ----------------------------------------------------------------------------

    @property
    def view(self) -> Path:
        """The folder of the mirror's files; `fetch` before they are read."""
        ...

    def fetch(self) -> None:
        """Bring the mirror as it was published last; its files have the times of that."""
        ...

    def published(self) -> None:
        """Let others have the mirror's files that were written."""
        ...

    def lags(self) -> bool:
        """Whether something was recorded after the mirror was published."""
        ...

    def last_seq(self) -> int | None:
        """Give the last record that was acknowledged; `None` where that is not known."""
        ...


class HeldLease(Protocol):
    """The right to append to a run, held by this process until it lets go."""

    @property
    def run_id(self) -> str:
        """The id that is known outside of the records, once the journal is open; or ""."""
        ...

    @property
    def aside(self) -> str:
        """Under which name the run is kept that was set aside for this one; "" if none was."""
        ...

    def set_aside(self) -> HeldLease:
        """Keep what is there, whole, under another name; give the lease of a run without records.

        This one is let go of, also if that fails; its journal was closed, if it was open.

        Raises
        ------
        RunHeld
            Somebody was faster, and has begun anew.
        JournalUnwritable
        """
        ...

    def keep_run_id(self, run_id: str) -> None:
        """Keep the run's id where it outlives the loss of all records."""
        ...

    def open_journal(self, clock: Callable[[], datetime], *, whole: bool) -> Journal:
        """Open the journal, checked and, where it is damaged, recovered; or make it. Once.

        Parameters
        ----------
        clock : callable
            Gives the aware time of a record.
        whole : bool
            Read every record; otherwise what pins have retired is left out.

        Raises
        ------
        JournalTooNew, JournalDamaged, RunHeld
        """
        ...

    def update(self, *, epoch: int) -> None:
        """Tell others under which epoch the run is held."""
        ...

    def start_heartbeat(self, on_beat: Callable[[], Any], every: float) -> None:
        """Begin to tell others that this owner lives, from a thread that raises to nobody.

        Parameters
        ----------
        on_beat : callable
            Called with each beat.
        every : float
            Seconds.
        """
        ...

    def release(self) -> None:
        """Let go of the run, after its journal was closed; twice is harmless."""
        ...


class ClosedJournal(Protocol):
    """Records of a journal that was closed."""

    def check(self) -> None:
        """Refuse another journal in its place; raises `JournalDamaged`."""
        ...

    def read(self, first: int, last: int) -> Sequence[Record]:
        """Read records while nobody has the run; raises `RunHeld`."""
        ...


class RunArtifacts(Artifacts, Protocol):
    """Where the large values of one run are."""

    @property
    def trouble(self) -> str:
        """What is in the way at this moment, such as a database that is waited for; or ""."""
        ...

    def check(self, refs: Collection[tuple[str, int]], *, mend: bool) -> Checked:
        """Check that values are there in their full size, unread.

        Parameters
        ----------
        refs : collection of (str, int)
            SHA-256 and size in bytes.
        mend : bool
            Find those again whose index is lost.
        """
        ...

    def sizes(self) -> dict[str, int]:
        """Give SHA-256 to bytes of all that are there."""
        ...

    def remove(self, sha256s: Collection[str], epoch: int) -> bool:
        """Remove what no record names; the caller owns the run.

        Parameters
        ----------
        sha256s : collection of str
            What to remove.
        epoch : int
            Under which the caller owns the run.

        Returns
        -------
        bool
            `False` if it has been succeeded since: then nothing more was removed.
        """
        ...

    def close(self) -> None:
        """Let go of what was opened; twice is harmless."""
        ...


class RunInbox(Protocol):
    """What other processes say to a run's owner; see `durable_nb.journal.inbox.Inbox`."""

    look_s: float
    refused: list[str]

    def send(self, verb: str, body: Mapping[str, Any]) -> str:
        """Leave a message for the owner; give its id."""
        ...

    def answer_to(self, message_id: str, timeout_s: float) -> dict[str, Any] | None:
        """Wait for the owner's answer; `None` if none came in time."""
        ...

    def withdraw(self, message_id: str) -> bool:
        """Take a message back; `False` if the owner has taken or answered it."""
        ...

    def pending(self) -> list[Message]:
        """Give the messages that wait, in order of arrival."""
        ...

    def take(self, message_id: str) -> bool:
        """Take a message, so that it can no longer be withdrawn; `False` if it was."""
        ...

    def put_back(self, message_id: str) -> None:
        """Leave a taken message for the next owner."""
        ...

    def answer(self, message_id: str, document: Mapping[str, Any]) -> None:
        """Answer a message, and remove it."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message, where one can be told of; `True` as soon as one may be there.

        For one thread of the owner's.
        """
        ...

    def wake(self) -> None:
        """End what waits in `wait`, or the next such wait at once."""
        ...

    def close(self) -> None:
        """Let go of what was opened; a late answer may still be given. Twice is harmless."""
        ...


#: A store, or how a person names one.
StoreLike: TypeAlias = "str | os.PathLike[str] | Store"


def is_database(text: object) -> TypeGuard[str]:
    """Tell whether a store is written as a database's address or name, and is no path."""
    return isinstance(text, str) and (text.startswith(_DATABASES) or text == EMBEDDED)


def store_of(store: StoreLike | None = None) -> Store:
    """Give the store that somebody named.

    Parameters
    ----------
    store : str, path or Store, optional
        As given, else `DURABLE_STORE`, else the nearest `.durable` upwards, else one in the
        current folder. "embedded" is a PostgreSQL server in the last of these that is a folder;
        it runs from then on, as long as this process does.

    Raises
    ------
    StoreUnreachable
        It begins as a database's address, and is none.
    ExtraMissing, EmbeddedMissing
        It is one, and the extra is not installed; an `ImportError`.
    EmbeddedFailed
        It is "embedded", and the server cannot run.
    """
    if store is None:
        named = os.environ.get(folders.STORE_VARIABLE)
        if not is_database(named):
            return FolderStore(folders.default_store(Path.cwd()))
        store = named
    if is_database(store):
        from durable_nb.journal.postgres.place import PostgresStore  # it brings the extra

        return PostgresStore(_embedded() if store == EMBEDDED else store)
    if isinstance(store, str | os.PathLike):
        return FolderStore(Path(store).expanduser().resolve())
    return store


def _embedded() -> str:
    """Run the server of the folder that would be the store, and give its address."""
    from durable_nb.journal.postgres.embedded import embedded

    named, here = os.environ.get(folders.STORE_VARIABLE), Path.cwd()
    return embedded(
        folders.nearest_store(here) if is_database(named) else folders.default_store(here)
    )


def folder_of(place: Place | Store, verb: str) -> Path:
    """Give the folder for something that is by nature about files.

    Parameters
    ----------
    place : Place or Store
        A run's, or that of all runs.
    verb : str
        What is to be done, for the message.

    Raises
    ------
    FoldersOnly
        It is a database. Nothing was changed.
    """
    if place.folder is None:
        raise FoldersOnly(verb, place.shown)
    return place.folder
