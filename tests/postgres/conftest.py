"""A real server for every test in here."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.embedded import Users, begin, until_stopped
from support.keeping import key_of
from support.postgres_fixtures import cluster, opened, place, proxy, store

from durable_nb.journal.postgres import PostgresArtifacts, PostgresInbox, Server

__all__ = ["cluster", "inbox", "keep", "key", "opened", "place", "proxy", "store"]


@pytest.fixture
def key(place: str) -> int:
    """The number of a new run."""
    url, _, run = place.partition(" ")
    return key_of(url, run)


@pytest.fixture
def keep(store: str, key: int) -> Iterator[Callable[..., PostgresArtifacts]]:
    """Open artifacts of the run until the end of the test."""
    with contextlib.ExitStack() as opened:
        yield lambda url=store, **options: opened.enter_context(
            contextlib.closing(PostgresArtifacts(Server(url), key, **options))
        )


@pytest.fixture
def inbox(store: str, key: int) -> Iterator[Callable[..., PostgresInbox]]:
    """Open inboxes of the run until the end of the test."""
    with contextlib.ExitStack() as opened:
        yield lambda url=store, **options: opened.enter_context(
            contextlib.closing(PostgresInbox(Server(url), key, **options))
        )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path that others can pass through; in the end no server is in it."""
    made = Path(tempfile.mkdtemp(prefix="dnb-e-"))
    made.chmod(0o755)
    yield made
    for home in made.rglob(".postgres"):
        until_stopped(home.parent)
    shutil.rmtree(made)


@pytest.fixture
def embedded_store(folder: Path) -> Path:
    return folder / ".durable"


@pytest.fixture
def user(embedded_store: Path, tmp_path: Path) -> Iterator[Users]:
    """Start processes that use the server, until the end of the test."""
    with contextlib.ExitStack() as started:
        yield lambda *words: started.enter_context(begin(tmp_path, embedded_store, *words))
