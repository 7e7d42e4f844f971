"""Artifacts on disk: nothing is dropped, unpickled, followed out of the folder or believed unchecked."""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
import threading
from pathlib import Path

import diskcache
import pytest

from durable_nb import values
from durable_nb.model.errors import NotTrusted

MEGABYTE = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def disk(folder: Path):
    opened = values.DiskArtifacts(folder)
    yield opened
    opened.close()


def value_file(folder: Path) -> Path:
    """Find the only value file."""
    (found,) = folder.rglob("*.val")
    return found


def change(folder: Path, statement: str, *bound: object) -> None:
    """Change the index behind diskcache's back."""
    connection = sqlite3.connect(folder / "cache.db")
    connection.execute(statement, bound)
    connection.commit()
    connection.close()


def test_bytes_come_back(folder, disk):
    """What was put is there, once, in a folder that only its user can read."""
    sha256 = disk.put(b"abc")
    assert disk.put(b"abc") == sha256
    assert disk.get(sha256) == b"abc"
    assert list(disk.keys()) == [sha256]
    assert disk.contains(sha256, 3)
    assert not disk.contains(sha256, 4)
    assert not disk.contains("0" * 64, 3)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert value_file(folder).stat().st_mode & 0o777 == 0o600
    assert values.DiskArtifacts(folder).warnings == []


@pytest.mark.parametrize("data", [b"", b"x", b"x" * MEGABYTE])
def test_any_size_is_a_file_of_its_own(disk, data):
    """Small and empty artifacts go the same way as large ones."""
    sha256 = disk.put(data)
    assert disk.get(sha256) == data
    assert disk.contains(sha256, len(data))


def test_only_bytes_are_taken(disk):
    """Text, bytearrays and objects are refused: they would be pickled or changed."""
    for data in ("text", bytearray(b"x"), 1, None, (b"x",)):
        with pytest.raises(TypeError, match="bytes"):
            disk.put(data)


@pytest.mark.slow
def test_case_58_nothing_is_dropped_under_a_limit_set_before(folder):
    """A folder with a limit of 10 MB keeps 40 MB, and says what it set right."""
    old = diskcache.Cache(str(folder), size_limit=10 * MEGABYTE)
    old.close()
    folder.chmod(0o700)
    disk = values.DiskArtifacts(folder)
    assert any("eviction_policy was 'least-recently-stored'" in text for text in disk.warnings)
    assert any("size_limit was 10485760" in text for text in disk.warnings)
    kept = [disk.put(bytes([n]) * MEGABYTE) for n in range(40)]
    assert all(disk.get(sha256) == bytes([n]) * MEGABYTE for n, sha256 in enumerate(kept))
    disk.close()
    again = values.DiskArtifacts(folder)
    assert again.warnings == []
    assert len(list(again.keys())) == 40


def test_settings_hold_on_every_connection(disk):
    """Every commit is fsynced, in whichever thread it is made."""
    found = []

    def look() -> None:
        found.extend(disk._cache._sql("PRAGMA synchronous").fetchall())
        disk.close()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    look()
    assert found == [(2,), (2,)]


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("where", ["value", "file", "key"])
def test_case_59_planted_pickle_is_never_run(folder, disk, tmp_path, where):
    """A pickle that somebody planted in the index is refused and not loaded."""
    mark = tmp_path / "ran"
    sha256 = disk.put(b"abc")
    bomb = pickle.dumps(Bomb(mark))
    if where == "value":
        change(folder, "UPDATE Cache SET mode = 4, value = ?, filename = NULL", bomb)
    elif where == "file":
        value_file(folder).write_bytes(bomb)
        change(folder, "UPDATE Cache SET mode = 4")
    else:
        change(folder, "UPDATE Cache SET raw = 0, key = ?", bomb)
    if where == "key":
        with pytest.raises(values.ArtifactMissing):
            disk.get(sha256)
        with pytest.raises(values.ArtifactStoreDamaged, match="planted"):
            disk.keys()
    else:
        with pytest.raises(values.ArtifactDamaged, match="no file of bytes"):
            disk.get(sha256)
    assert not disk.contains(sha256, 3)
    assert disk.put(b"abc") == sha256
    assert disk.get(sha256) == b"abc"
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../secret", "absolute", "aa/bb/../../../secret", "link"])
def test_case_59_planted_path_is_never_read_or_removed(folder, disk, tmp_path, name):
    """A file name that leads out of the folder is refused, also when its row is replaced."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"abc")
    sha256 = disk.put(b"abc")
    if name == "link":
        inside = value_file(folder)
        inside.unlink()
        inside.symlink_to(secret)
    else:
        planted = str(secret) if name == "absolute" else name
        change(folder, "UPDATE Cache SET filename = ?", planted)
    with pytest.raises(values.ArtifactDamaged):
        disk.get(sha256)
    assert disk.put(b"abc") == sha256
    assert disk.get(sha256) == b"abc"
    assert secret.read_bytes() == b"abc"


def test_folder_link_out_of_the_folder_is_refused(folder, disk, tmp_path):
    """A folder of value files that is a link to elsewhere is not followed."""
    sha256 = disk.put(b"abc")
    sub = value_file(folder).parent
    sub.rename(tmp_path / "elsewhere")
    sub.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(values.ArtifactDamaged, match="out of the folder"):
        disk.get(sha256)


def test_case_59_foreign_folders_are_refused(tmp_path, monkeypatch):
    """A folder that others can write to, or that is not this user's, is refused; nothing is read."""
    for mode in (0o777, 0o770):
        shared = tmp_path / f"shared{mode}"
        shared.mkdir()
        shared.chmod(mode)
        with pytest.raises(NotTrusted, match="write"):
            values.DiskArtifacts(shared)
        assert list(shared.iterdir()) == []
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    with pytest.raises(NotTrusted, match="no folder"):
        values.DiskArtifacts(tmp_path / "link")
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: own.stat().st_uid + 1)
    with pytest.raises(NotTrusted, match="belongs to user"):
        values.DiskArtifacts(own)


def test_readable_folder_is_closed_to_others(tmp_path):
    """A folder that others could read is set to 0700, and it is said."""
    folder = tmp_path / "readable"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    disk = values.DiskArtifacts(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "read the folder" in disk.warnings[0]


def test_name_that_diskcache_would_expand_is_refused(tmp_path, monkeypatch):
    """diskcache expands variables in its folder's name, so such a name would lead elsewhere."""
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "elsewhere"))
    with pytest.raises(NotTrusted, match="variable"):
        values.DiskArtifacts(tmp_path / "$ELSEWHERE")
    assert list(tmp_path.iterdir()) == []


def test_planted_settings_are_not_acted_on(folder, disk):
    """A setting that diskcache does not have is refused before diskcache sees it."""
    disk.close()
    change(folder, "INSERT INTO Settings VALUES ('sqlite_temp_store_directory', '''/x''')")
    with pytest.raises(NotTrusted, match="sqlite_temp_store_directory"):
        values.DiskArtifacts(folder)


def test_damaged_index_is_said_so(folder, disk):
    """An index that is no database is reported, and left as it is."""
    disk.put(b"abc")
    disk.close()
    for rest in folder.glob("cache.db-*"):
        rest.unlink()
    (folder / "cache.db").write_bytes(b"x" * 5_000)
    with pytest.raises(values.ArtifactStoreDamaged, match="not a database"):
        values.DiskArtifacts(folder)
    assert (folder / "cache.db").read_bytes() == b"x" * 5_000


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "longer", "folder"])
def test_case_62_damaged_file_is_detected_and_mended_by_put(folder, disk, harm):
    """A value file that is not what was recorded is never returned; putting it again mends it."""
    data = b"abc" * 1_000
    sha256 = disk.put(data)
    path = value_file(folder)
    if harm == "folder":
        path.unlink()
        path.mkdir()
    else:
        wrong = {"cut": data[:-1], "changed": b"x" + data[1:], "empty": b"", "longer": data + b"x"}
        path.write_bytes(wrong[harm])
    with pytest.raises(values.ArtifactDamaged):
        disk.get(sha256)
    if harm != "changed":
        assert not disk.contains(sha256, len(data))
    assert disk.put(data) == sha256
    assert disk.get(sha256) == data


def test_case_62_missing_file_and_unknown_key_are_missing(folder, disk):
    """A file that is gone is said to be missing, with the first digits of its digest."""
    sha256 = disk.put(b"abc")
    value_file(folder).unlink()
    with pytest.raises(values.ArtifactMissing, match=sha256[:12]):
        disk.get(sha256)
    assert not disk.contains(sha256, 3)
    for key in ("0" * 64, "", "../x", "A" * 64):
        with pytest.raises(values.ArtifactMissing):
            disk.get(key)


def test_file_is_synced_before_its_row_is_written(disk, monkeypatch):
    """Each new file and each new folder is fsynced before the index names it."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    inserted: list[list[str]] = []
    insert = disk._cache._row_insert
    monkeypatch.setattr(
        disk._cache, "_row_insert", lambda *a: (inserted.append(list(synced)), insert(*a))
    )
    disk.put(b"abc")
    path = value_file(disk.folder)
    assert {str(path), str(path.parent), str(path.parent.parent)} <= set(inserted[0])
    assert str(disk.folder) in inserted[0]


def test_several_threads_put_and_get_the_same(disk):
    """Threads that put equal and different bytes at once all read back what they put."""
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for step in range(10):
                data = bytes([step]) * 50_000
                assert disk.get(disk.put(data)) == data
                own = bytes([n, step])
                assert disk.get(disk.put(own)) == own
        except BaseException as failure:
            failures.append(failure)
        finally:
            disk.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(disk.keys())) == 50


def test_a_failed_write_leaves_no_file(folder, disk, monkeypatch):
    """A full disk is an error, and no half file is left."""

    def fail(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        disk.put(b"abc")
    assert list(folder.rglob("*.val")) == []
    assert list(disk.keys()) == []


def test_values_go_to_disk_and_come_back(folder, disk):
    """A value with large parts survives a new process's view of the folder."""
    value = {"blob": b"x" * 100_000, "text": ["y" * 1_000] * 100}
    text = values.encode(value, disk)
    disk.close()
    again = values.DiskArtifacts(folder)
    assert values.decode(text, again) == value
    assert all(again.contains(*ref) for ref in values.text_refs(text))
    value_file_of_text = next(p for p in folder.rglob("*.val") if p.stat().st_size > 100_010)
    value_file_of_text.unlink()
    assert not all(again.contains(*ref) for ref in values.text_refs(text))
    with pytest.raises(values.ArtifactMissing):
        values.decode(text, again)
