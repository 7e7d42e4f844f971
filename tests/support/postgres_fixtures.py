"""Fixtures of the tests that need a server: it, databases in it, and runs that are given back."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest

from durable_nb.journal.postgres import Server, prepare
from support.journals import Owned, own
from support.postgres import Cluster, Proxy, session_name


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The server that all tests share."""
    made = Cluster(session_name())
    yield made
    made.end()


@pytest.fixture(scope="session")
def store(cluster: Cluster) -> str:
    """The address of a store that all tests share, each with runs of its own."""
    url = cluster.new_database()
    prepare(Server(url))
    return url


@pytest.fixture
def place(store: str) -> str:
    """A new run in it."""
    return f"{store} {uuid.uuid4().hex[:8]}"


@pytest.fixture
def opened() -> Iterator[Callable[..., Owned]]:
    """Own runs until the end of the test."""
    made: list[Owned] = []

    def begin(place: str, **options: object) -> Owned:
        made.append(own(place, **options))  # type: ignore[arg-type]
        return made[-1]

    yield begin
    for owned in made:
        with contextlib.suppress(BaseException):  # a test may have broken it on purpose
            owned.close()


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """What can cut the wire."""
    made = Proxy(cluster.socket)
    yield made
    made.end()
