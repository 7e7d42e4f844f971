"""Each rule of a journal, in both of its storages."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from support.child import Child
from support.keeping import artifacts_of, inbox_of
from support.places import KINDS, give_database
from support.postgres import Cluster
from support.postgres_fixtures import cluster, opened, place, store

from durable_nb.journal.database import connect
from durable_nb.journal.place import RunArtifacts, RunInbox
from durable_nb.journal.postgres.sessions import looks

__all__ = ["cluster", "kept", "opened", "place", "remove", "start", "store"]

#: What every child program begins with; the place of the run is its first argument.
PRELUDE = """
import os, signal, sys, threading, time
from support.journals import draft, numbers, own
place = sys.argv[1]

def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture(params=["duckdb", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a new run."""
    if request.param == "duckdb":
        return str(tmp_path / "run")
    found: str = request.getfixturevalue("place")
    return found


@pytest.fixture(params=KINDS)
def kind(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Name a kind of store, of which there is a new one for the test."""
    name: str = request.param
    if name == "postgres":
        monkeypatch.setenv("XDG_CACHE_HOME", "")  # put back after the test
        made: Cluster = request.getfixturevalue("cluster")
        give_database(tmp_path, made.new_database())
    yield name
    for look in looks():
        look.close()


@pytest.fixture
def start(kept: str, tmp_path: Path) -> Callable[..., Child]:
    """Start a child program on the run."""

    def begin(code: str, *args: object) -> Child:
        program = tmp_path / "program.py"
        program.write_text(PRELUDE + textwrap.dedent(code))
        return Child(program, kept, *args)

    return begin


@pytest.fixture
def remove(kept: str) -> Callable[[int], None]:
    """Take a record out of the run, which nobody has open, behind everybody's back."""

    def harm(seq: int) -> None:
        url, _, run = kept.partition(" ")
        if not run:
            con = connect(Path(kept) / "journal.duckdb")
            con.execute("DELETE FROM j.main.records WHERE seq = ?", [seq])
            con.execute("CHECKPOINT j")
            con.close()
            return
        with psycopg.connect(url) as found:
            found.execute(
                "DELETE FROM durable_nb.records r USING durable_nb.runs n "
                "WHERE r.run = n.run AND n.name = %s AND r.seq = %s",
                (run, seq),
            )

    return harm


@pytest.fixture
def artifacts(kept: str) -> Iterator[Callable[[], RunArtifacts]]:
    """Open what keeps the run's large values, until the end of the test."""
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(contextlib.closing(artifacts_of(kept)))


@pytest.fixture
def inbox(kept: str) -> Iterator[Callable[..., RunInbox]]:
    """Open the run's inbox, until the end of the test."""
    with contextlib.ExitStack() as opened:
        yield lambda *given: opened.enter_context(contextlib.closing(inbox_of(kept, *given)))
