"""What every keeper of large values promises."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from support.child import Child

from durable_nb.journal.place import RunArtifacts
from durable_nb.values import ArtifactDamaged, ArtifactMissing

Open = Callable[[], RunArtifacts]


@pytest.fixture
def damage(kept: str) -> Callable[[], None]:
    """Change the last byte of the one value that is kept, behind everybody's back."""
    url, _, run = kept.partition(" ")

    def harm() -> None:
        if not run:
            (file,) = Path(kept).rglob("*.val")
            file.write_bytes(file.read_bytes()[:-1] + b"?")
            return
        with psycopg.connect(url) as found:
            found.execute(
                "UPDATE durable_nb.artifact_parts p "
                "SET data = set_byte(p.data, octet_length(p.data) - 1, 63) "
                "FROM durable_nb.runs n WHERE p.run = n.run AND n.name = %s",
                (run,),
            )

    return harm


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 100_000], ids=len)
def test_bytes_come_back_by_their_digest(artifacts: Open, data: bytes):
    """Any bytes, for whoever opens the run next; equal ones are one artifact."""
    first = artifacts()
    sha256 = first.put(data)
    assert sha256 == hashlib.sha256(data).hexdigest() == first.put(data)
    assert artifacts().get(sha256) == data
    assert artifacts().check([(sha256, len(data))], mend=False).missing == frozenset()


@pytest.mark.parametrize("name", ["0" * 64, "", "x", "../../etc/passwd", "A" * 64, "\0", "\ud800"])
def test_what_is_not_there_is_missing(artifacts: Open, name: str):
    """Whatever a changed record names, it is no way to anything else."""
    kept = artifacts()
    kept.put(b"there")
    with pytest.raises(ArtifactMissing):
        kept.get(name)
    assert kept.check([(name, 5)], mend=True).missing == {(name, 5)}


def test_a_check_tells_size_by_size_what_is_missing(artifacts: Open):
    """No size that a record may name makes it fail."""
    kept = artifacts()
    refs = [(kept.put(bytes([n]) * n), n) for n in range(5)]
    wrong = [(refs[0][0], size) for size in (1, -1, 2**63, 2**70)]
    found = kept.check([*refs, *wrong], mend=False)
    assert (found.missing, found.told, found.problem) == (frozenset(wrong), [], None)
    assert kept.check([], mend=True).missing == frozenset()


def test_only_bytes_are_kept(artifacts: Open):
    """Nothing that would come back as something else."""
    for other in ("text", bytearray(b"x"), None):
        with pytest.raises(TypeError, match="artifacts are bytes"):
            artifacts().put(other)  # type: ignore[arg-type]


def test_damage_is_told_and_mended_by_the_same_bytes(artifacts: Open, damage: Callable[[], None]):
    """Changed bytes are never given out; whoever has the right ones may put them again."""
    kept = artifacts()
    sha256 = kept.put(b"precious")
    damage()
    with pytest.raises(ArtifactDamaged, match="another digest"):
        kept.get(sha256)
    assert kept.check([(sha256, 8)], mend=False).missing == frozenset(), "it is unread"
    assert kept.put(b"precious") == sha256
    assert kept.get(sha256) == b"precious"


def test_threads_put_and_get_at_once(artifacts: Open):
    """The same and different ones, over one object."""
    kept, failed = artifacts(), list[BaseException]()

    def work(n: int) -> None:
        try:
            for m in range(10):
                data = b"%d" % (m if n % 2 else n * 100 + m) * 1000
                assert kept.get(kept.put(data)) == data
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []


def test_closing_twice_is_harmless(artifacts: Open):
    """Also where nothing was ever opened."""
    kept, unused = artifacts(), artifacts()
    kept.put(b"x")
    for one in (kept, unused) * 2:
        one.close()


@pytest.mark.slow
def test_what_was_put_outlives_a_killed_process(artifacts: Open, start: Callable[..., Child]):
    """It is on disk once `put` returns."""
    child = start(
        """
        from support.keeping import artifacts_of
        sha256 = artifacts_of(place).put(b"x" * 9_000_000)
        say(sha256)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    sha256 = child.first_line().strip()
    assert child.wait().killed
    assert artifacts().get(sha256) == b"x" * 9_000_000
