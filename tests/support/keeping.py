"""What a run keeps beside its records, of both kinds behind one spelling; see `support.journals`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from durable_nb.journal import Inbox, OwnerInfo
from durable_nb.journal.folder_artifacts import FolderArtifacts
from durable_nb.journal.place import RunArtifacts, RunInbox


def key_of(url: str, run: str) -> int:
    """Give the number of a run, which is made if it is not there."""
    from durable_nb.journal.postgres import PostgresLease, Server

    with PostgresLease.acquire(Server(url), run=run, who=OwnerInfo.here()) as lease:
        return lease.key


def artifacts_of(place: str, **options: Any) -> RunArtifacts:
    """Give what keeps the large values of a run."""
    url, _, run = place.partition(" ")
    if not run:
        return FolderArtifacts(Path(place) / "artifacts")
    from durable_nb.journal.postgres import PostgresArtifacts, Server

    return PostgresArtifacts(Server(url), key_of(url, run), **options)


def inbox_of(place: str, clock: Callable[[], datetime] | None = None, **options: Any) -> RunInbox:
    """Give the inbox of a run."""
    url, _, run = place.partition(" ")
    given = () if clock is None else (clock,)
    if not run:
        Path(place).mkdir(exist_ok=True)
        return Inbox(Path(place), *given)
    from durable_nb.journal.postgres import PostgresInbox, Server

    return PostgresInbox(Server(url), key_of(url, run), *given, **options)
