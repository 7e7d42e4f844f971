from __future__ import annotations

import os
import stat
import subprocess

import pytest

from durable_nb.journal import folder as folders
from durable_nb.model.errors import BadName, NotTrusted


@pytest.mark.parametrize(
    "name", ["refund-17", "a", "日本", "with space", "x" * 100, "é" * 50, "a.b", "#1", "50%"]
)
def test_ordinary_names_are_names(name):
    """A run's name is its folder's name, as it stands."""
    assert folders.check_name(name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "empty"),
        (" a", "white space"),
        ("a\n", "white space"),
        ("a/b", "slash"),
        ("..\\b", "slash"),
        ("a\x00b", "control"),
        ("a\x1bb", "control"),
        ("a\u202eb", "invisible"),
        ("a\ud800", "invalid"),
        (".", "dot"),
        ("..", "dot"),
        (".hidden", "dot"),
        ("-rf", "dash"),
        ("x" * 300, "300 bytes in UTF-8, and the limit is 100"),
        ("é" * 51, "102 bytes"),
        ("lost+found", "reserved"),
    ],
)
def test_bad_names_are_refused_with_the_reason(name, says):
    """Nothing is created for a name that would leave the store, hide, or not fit."""
    with pytest.raises(BadName, match=says):
        folders.check_name(name)


def test_the_store_is_private_and_ignored_by_git(tmp_path):
    """Mode 0700 whatever the umask, `.gitignore` with `*`, and any number of times."""
    before = os.umask(0)
    try:
        store = folders.prepare_store(tmp_path / "deep" / ".durable")
        run = folders.prepare_run(store, "r")
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert (store / ".gitignore").read_text() == "*\n"
    (store / ".gitignore").write_text("mine")
    folders.prepare_store(store)
    folders.prepare_run(store, "r")
    assert (store / ".gitignore").read_text() == "mine"


@pytest.mark.parametrize("mode", [0o770, 0o722, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, mode):
    """With the command that mends it, which does mend it."""
    store = tmp_path / "it's a store"
    store.mkdir()
    store.chmod(mode)
    with pytest.raises(NotTrusted, match="chmod -R go-w") as refused:
        folders.prepare_store(store)
    command = refused.value.advice.partition(": ")[2]
    subprocess.run(command, shell=True, check=True)
    folders.prepare_store(store)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_somebody_elses_folder_is_refused_as_root_too(tmp_path):
    """Being able to read it does not make it ours."""
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    os.chown(store, 12345, 12345)
    with pytest.raises(NotTrusted, match="user id 12345"):
        folders.prepare_store(store)


def test_a_run_that_is_a_link_is_refused(tmp_path):
    """A link planted in the store leads nowhere."""
    store = folders.prepare_store(tmp_path / "store")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (store / "r").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotTrusted, match="symbolic link"):
        folders.prepare_run(store, "r")
    assert folders.run_names(store) == []


def test_the_store_is_named_found_upwards_or_here(tmp_path, monkeypatch):
    """DURABLE_STORE, else the nearest .durable upwards, else one in the working directory."""
    monkeypatch.delenv(folders.STORE_VARIABLE, raising=False)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert folders.default_store(deep) == deep / ".durable"
    (tmp_path / "a" / ".durable").mkdir()
    assert folders.default_store(deep) == tmp_path / "a" / ".durable"
    monkeypatch.setenv(folders.STORE_VARIABLE, str(tmp_path / "named"))
    assert folders.default_store(deep) == tmp_path / "named"
    monkeypatch.setenv(folders.STORE_VARIABLE, "~/named")
    assert folders.default_store(deep).is_absolute()


def _mounts(tmp_path, *lines):
    path = tmp_path / "mounts"
    path.write_text("".join(f"{line} rw 0 0\n" for line in ("/dev/sda / ext4", *lines)))
    return path


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_case_51_60_a_network_file_system_is_refused(tmp_path, kind):
    """Unless it is allowed, and then only because locks and fsync work there now."""
    mounts = _mounts(tmp_path, f"server:/x {tmp_path} {kind}")
    with pytest.raises(NotTrusted, match=f"network file system \\({kind}"):
        folders.filesystem_warnings(tmp_path / "store", mounts=mounts)
    (line,) = folders.filesystem_warnings(tmp_path / "store", allow_network_fs=True, mounts=mounts)
    assert "one machine only" in line


def test_a_network_file_system_without_locks_is_refused_although_allowed(tmp_path, monkeypatch):
    """The probe is live: another process has to see the lock."""
    mounts = _mounts(tmp_path, f"server:/x {tmp_path} nfs")
    monkeypatch.setattr(folders.fcntl, "flock", lambda *_: None)
    with pytest.raises(NotTrusted, match="Locks do not work"):
        folders.filesystem_warnings(tmp_path, allow_network_fs=True, mounts=mounts)


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_case_21_a_folder_that_dies_with_the_machine_is_warned_about(tmp_path, kind):
    """Ephemeral storage is taken, with a line that says so."""
    mounts = _mounts(tmp_path, f"none {tmp_path} {kind}")
    (line,) = folders.filesystem_warnings(tmp_path / "store", mounts=mounts)
    assert "dies with the machine" in line


def test_the_innermost_mount_counts(tmp_path):
    """By the longest mount point, with its escapes undone; a lasting disk says nothing."""
    inner = tmp_path / "with space"
    inner.mkdir()
    escaped = str(inner).replace(" ", "\\040")
    mounts = _mounts(tmp_path, f"a {tmp_path} tmpfs", f"b {escaped} ext4", f"c {tmp_path}/w nfs")
    assert folders.filesystem_warnings(inner / "store", mounts=mounts) == []
    assert folders.filesystem_warnings(tmp_path / "wide", mounts=mounts)
    assert folders.filesystem_warnings(inner, mounts=tmp_path / "no such table") == []


def test_a_run_is_set_aside_whole_and_is_no_run_any_more(tmp_path):
    """fresh=True renames; nothing is deleted, and what was set aside is not listed."""
    store = folders.prepare_store(tmp_path / "store")
    for n in (1, 2):
        run = folders.prepare_run(store, "r")
        (run / folders.JOURNAL_FILE).write_text(str(n))
        assert folders.run_names(store) == ["r"]
        aside = folders.set_aside(run)
        assert aside.name == f".r.old-{n}"
        assert (aside / folders.JOURNAL_FILE).read_text() == str(n)
        assert folders.run_names(store) == []


def test_a_store_that_is_not_there_has_no_runs(tmp_path):
    """Listing creates nothing; folders without a journal are no runs."""
    assert folders.run_names(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
    (tmp_path / "other").mkdir()
    assert folders.run_names(tmp_path) == []
