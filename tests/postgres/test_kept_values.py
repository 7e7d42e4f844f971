"""Artifacts over connections that race and are lost, in parts that are damaged."""

from __future__ import annotations

import contextlib
import os
import threading
import time

import pytest
from support.postgres import connected

from durable_nb.journal.postgres import (
    PostgresArtifacts,
    Server,
    StoreRefused,
    StoreUnreachable,
)
from durable_nb.journal.postgres.artifacts import PART
from durable_nb.values import ArtifactDamaged


def by_proxy(proxy, store: str) -> str:
    return proxy.url(store.partition("@/")[2].partition("?")[0])


def test_a_large_artifact_is_kept_in_parts(store, key, keep):
    """30 MB go over the wire in pieces, and are not sent again when they are there."""
    data = os.urandom(1 << 20) * 30
    artifacts = keep()
    sha256 = artifacts.put(data)
    with connected(store) as con:
        query = (
            "SELECT part, octet_length(data), xmin::text FROM durable_nb.artifact_parts "
            "WHERE run = %s ORDER BY part"
        )
        before = con.execute(query, [key]).fetchall()
        assert [size for _, size, _ in before] == [PART, PART, PART, len(data) - 3 * PART]
        assert artifacts.put(data) == sha256
        assert con.execute(query, [key]).fetchall() == before
    assert keep().get(sha256) == data
    assert keep().check([(sha256, len(data))], mend=False).missing == frozenset()


def test_a_damaged_part_is_told_and_mended(store, key, keep, monkeypatch):
    """Whatever was changed: it is never given out, and the same bytes put again are whole."""
    monkeypatch.setattr("durable_nb.journal.postgres.artifacts.PART", 10_000)
    artifacts, data = keep(), b"\0" * 10_000 + b"the end"
    sha256 = artifacts.put(data)
    for harm, says, whole in (
        ("UPDATE artifact_parts SET data = '\\x00' WHERE part = 1 AND", "digest", False),
        ("UPDATE artifact_parts SET data = set_byte(data, 2, 1) WHERE", "digest", True),
        ("DELETE FROM artifact_parts WHERE part = 1 AND", "part 2 of 2 is", False),
        ("DELETE FROM artifact_parts WHERE part = 0 AND", "part 1 of 2 is", False),
        ("UPDATE artifacts SET parts = 3 WHERE", "part 3 of 3 is missing", False),
        ("UPDATE artifacts SET parts = 1 WHERE", "digest", False),
        ("UPDATE artifacts SET parts = 0 WHERE", "digest", False),
        ("UPDATE artifacts SET parts = -5 WHERE", "digest", False),
        ("UPDATE artifacts SET size = 5 WHERE", "", False),
    ):
        with connected(store, options="-c search_path=durable_nb") as con:
            con.execute(f"{harm} run = %s", [key])
        if says:
            with pytest.raises(ArtifactDamaged, match=says):
                artifacts.get(sha256)
        found = artifacts.check([(sha256, len(data))], mend=True)
        assert (found.missing == frozenset()) == whole, harm
        assert artifacts.put(data) == sha256
        assert artifacts.get(sha256) == data
        assert artifacts.check([(sha256, len(data))], mend=False).missing == frozenset()


@pytest.mark.parametrize("cut", ["request", "answer"])
def test_an_artifact_is_put_whole_over_a_connection_that_is_lost(store, key, keep, proxy, cut):
    """In the middle of its transaction or before the answer: it is done again, nothing is doubled."""
    artifacts = keep(by_proxy(proxy, store))
    artifacts.put(b"first")
    if cut == "request":
        proxy.cut_request = True
    else:
        proxy.cut_answer = 0  # of the part: `INSERT 0 1`
    data = b"-" * PART + b"x-marks"
    sha256 = artifacts.put(data)
    assert (proxy.cut_request, proxy.cut_answer) == (False, None)
    assert keep().get(sha256) == data
    with connected(store) as con:
        count = "SELECT count(*) FROM durable_nb.artifact_parts WHERE run = %s"
        assert con.execute(count, [key]).fetchone() == (3,)


def test_an_interrupted_put_leaves_nothing(store, key, keep, proxy):
    """Of its transaction nothing stays, and no lock either: the next one need not wait."""
    artifacts = keep(by_proxy(proxy, store), patience_s=0)
    artifacts.put(b"first")
    proxy.cut_request = proxy.closed = True
    data = b"-" * PART + b"x-marks"
    with pytest.raises(StoreUnreachable):
        artifacts.put(data)
    with connected(store) as con:
        count = "SELECT count(*) FROM durable_nb.artifacts WHERE run = %s"
        assert con.execute(count, [key]).fetchone() == (1,)
    begun = time.monotonic()
    assert keep().get(keep().put(data)) == data
    assert time.monotonic() - begun < 5


def test_two_processes_that_put_the_same_wait_for_each_other(keep):
    """Both have it afterwards; neither fails."""
    data, ready, failed = os.urandom(PART + 5), threading.Barrier(4), list[BaseException]()

    def put() -> None:
        artifacts = keep()
        try:
            ready.wait()
            assert artifacts.get(artifacts.put(data)) == data
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []


def test_a_refusal_names_the_store_and_no_password(store, key, keep):
    """A run that is not there has no artifacts; the object is as good as before."""
    with contextlib.closing(PostgresArtifacts(Server(store), 2**40)) as nobodys:
        for _ in range(2):
            with pytest.raises(StoreRefused, match=r"postgresql://.*foreign key"):
                nobodys.put(b"x")
        assert nobodys.check([("0" * 64, 1)], mend=False).missing == {("0" * 64, 1)}


def test_a_forked_child_reads_over_a_connection_of_its_own(keep):
    """Its parent's stays as it is."""
    artifacts = keep()
    sha256 = artifacts.put(b"shared")
    child = os.fork()
    if child == 0:
        os._exit(0 if artifacts.get(sha256) == b"shared" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert artifacts.get(sha256) == b"shared"
