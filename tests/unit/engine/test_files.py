"""The facet of declared files."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.engine import files
from durable_nb.engine.files import FileUnreadable, file_part

_HOUR_NS = 3_600_000_000_000


def later() -> int:
    """An hour from now: what was written in this test is long done."""
    return time.time_ns() + _HOUR_NS


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Count how often bytes are read; begins with nothing remembered."""
    files._known.clear()
    seen: list[str] = []
    read = files._read

    def counting(file: object) -> tuple[str, int]:
        seen.append("read")
        return read(file)

    monkeypatch.setattr(files, "_read", counting)
    yield seen
    files._known.clear()


def test_a_file_is_its_bytes(tmp_path: Path) -> None:
    """The SHA-256 of the bytes; neither name, nor time, nor mode counts."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x" * 12_345)
    two.write_bytes(b"x" * 12_345)
    os.utime(two, (1, 1))
    two.chmod(0o600)
    part = file_part(one)
    assert part.digest == hashlib.sha256(b"x" * 12_345).hexdigest()
    assert part.shown == f"12,345 bytes, sha256 {part.digest[:12]}…"
    assert file_part(str(two)) == part
    two.write_bytes(b"x" * 12_344 + b"y")
    assert file_part(two).digest != part.digest


@pytest.mark.parametrize("name", ["nothing", "there/nothing", "file/below", "dangling"])
def test_what_is_not_there_is_missing(tmp_path: Path, name: str) -> None:
    """Also below a file, and where a link leads nowhere."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    part = file_part(tmp_path / name)
    assert (part.digest, part.shown) == ("missing", "missing")


def folder(root: Path, content: dict[str, str]) -> Path:
    for name, text in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_folder_is_its_names_and_contents(tmp_path: Path) -> None:
    """Where it lies and in which order it was written does not count; any name or byte does."""
    content = {"a": "1", "sub/b": "2", "sub/c": ""}
    first = file_part(folder(tmp_path / "one", content))
    assert first.shown.startswith("3 files, 2 bytes, sha256 ")
    assert file_part(folder(tmp_path / "deep/two", dict(reversed(content.items())))) == first
    others = [
        {"a": "2", "sub/b": "2", "sub/c": ""},
        {"a": "1", "sub/b": "2"},
        {"a": "1", "sub/b": "2", "sub/d": ""},
        {"a": "1", "sub/b": "", "sub/c": "2"},
        {"a": "1", "b": "2", "sub/c": ""},
    ]
    digests = {
        file_part(folder(tmp_path / f"other{n}", other)).digest for n, other in enumerate(others)
    }
    assert len({*digests, first.digest}) == 6
    (tmp_path / "one" / "empty").mkdir()
    assert file_part(tmp_path / "one").digest != first.digest


def test_an_empty_folder_is_no_missing_one_and_no_empty_file(tmp_path: Path) -> None:
    """Three different things."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    parts = [file_part(tmp_path / name) for name in ("folder", "file", "none")]
    assert len({part.digest for part in parts}) == 3
    assert parts[0].shown.startswith("0 files, 0 bytes")


def test_links_are_followed_and_loops_are_refused(tmp_path: Path) -> None:
    """A link to a file is the file; one that leads back is an error, not a hang."""
    folder(tmp_path / "data", {"a": "1"})
    (tmp_path / "link").symlink_to(tmp_path / "data" / "a")
    assert file_part(tmp_path / "link") == file_part(tmp_path / "data" / "a")
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "a").symlink_to(tmp_path / "data" / "a")
    assert file_part(tmp_path / "both") == file_part(tmp_path / "data")
    (tmp_path / "data" / "back").symlink_to(tmp_path)
    with pytest.raises(FileUnreadable, match="leads back") as refused:
        file_part(tmp_path / "data")
    assert "data/back" in refused.value.path
    (tmp_path / "self").symlink_to(tmp_path / "self")
    with pytest.raises(FileUnreadable, match="symbolic links"):
        file_part(tmp_path / "self")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Reading it would block for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileUnreadable, match="no regular file"):
        file_part(tmp_path / "pipe")


def test_what_may_not_be_read_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never "missing": the file is there, and may have changed."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    if os.getuid() == 0:  # root may read everything

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied", str(secret))

        monkeypatch.setattr(files.os, "open", refuse)
    else:
        secret.chmod(0)
    with pytest.raises(FileUnreadable) as refused:
        file_part(secret)
    assert str(secret) in str(refused.value)
    assert "Permission denied" in str(refused.value)
    assert "chmod" in str(refused.value)


def test_an_unchanged_file_is_read_once_a_process(tmp_path: Path, reads: list[str]) -> None:
    """Also by another path to it."""
    path = tmp_path / "large"
    path.write_bytes(b"x" * (3 << 20))
    (tmp_path / "link").symlink_to(path)
    first = file_part(path, clock=later)
    assert file_part(path, clock=later) == file_part(tmp_path / "link", clock=later) == first
    assert len(reads) == 1


def test_a_file_that_has_just_changed_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    """A second write may fall into the same tick of the clock, with the same size."""
    path = tmp_path / "file"
    path.write_text("1")
    now = path.stat().st_ctime_ns
    for _ in range(2):
        file_part(path, clock=lambda: now + 1_999_999_999)
    assert len(reads) == 2
    for _ in range(2):
        file_part(path, clock=lambda: now + 2_000_000_001)
    assert len(reads) == 3


def test_a_time_that_is_set_back_hides_no_change(tmp_path: Path, reads: list[str]) -> None:
    """Same size and same time of change, as `touch -r` and some editors leave behind."""
    path = tmp_path / "file"
    path.write_text("1")
    os.utime(path, (1, 1))
    first = file_part(path, clock=later)
    path.write_text("2")
    os.utime(path, (1, 1))
    assert file_part(path, clock=later).digest != first.digest
    other = tmp_path / "other"
    other.write_text("3")
    os.utime(other, (1, 1))
    other.replace(path)
    assert file_part(path, clock=later).digest == hashlib.sha256(b"3").hexdigest()
    assert len(reads) == 3


def test_a_file_that_somebody_keeps_writing_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one version and half of another is no content at all."""
    path = tmp_path / "log"
    path.write_text("1")
    read = files._read

    def growing(file: object) -> tuple[str, int]:
        found = read(file)
        with path.open("a") as more:
            more.write("1")
        return found

    monkeypatch.setattr(files, "_read", growing)
    with pytest.raises(FileUnreadable, match="writing"):
        file_part(path)


@pytest.mark.slow
def test_a_large_file_is_read_in_pieces(tmp_path: Path) -> None:
    """Memory does not grow with the file."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(300 << 20)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (250 << 20,) * 2);"
        "from durable_nb.engine.files import file_part; print(file_part(sys.argv[1]).shown)"
    )
    import sys

    import durable_nb

    root = str(Path(durable_nb.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("314,572,800 bytes")
    assert stat.S_ISREG(path.stat().st_mode)
