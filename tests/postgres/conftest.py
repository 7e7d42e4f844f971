"""A real server for every test in here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
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
