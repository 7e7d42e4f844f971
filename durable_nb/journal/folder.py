"""Folders: names of runs, stores that can be trusted, and file systems that keep what they got."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Final

from durable_nb.model.errors import BadName, NotTrusted

#: Environment variable that names the store.
STORE_VARIABLE: Final = "DURABLE_STORE"
STORE_FOLDER: Final = ".durable"
JOURNAL_FILE: Final = "journal.duckdb"
HEAD_FILE: Final = "head"
#: Longest name of a run, in bytes of UTF-8: file systems take 255, and suffixes must fit.
NAME_LIMIT: Final = 100
_RESERVED: Final = frozenset({"lost+found"})
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# fmt: off
#: File systems over a network: locks and fsync are not to be relied on.
_NETWORK: Final = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "gpfs",
        "beegfs", "afs", "ncpfs", "orangefs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph",
        "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys", "fuse.drive",
        "fuse.blobfuse", "fuse.blobfuse2", "fuse.juicefs",
    }
)
# fmt: on
#: File systems that end with the machine or the container.
_EPHEMERAL: Final = frozenset({"tmpfs", "ramfs", "overlay", "aufs", "fuse.fuse-overlayfs"})

_LOCK_PROBE: Final = """
import fcntl, sys
with open(sys.argv[1], "rb+") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(7)
"""
_LOCK_SEEN: Final = 7


def check_name(name: str) -> str:
    """Give the name back if it can be a run's.

    Raises
    ------
    BadName
        Naming what is wrong with it. A run's name is a folder's name, as it stands.
    """
    why = _name_fault(name)
    if why:
        raise BadName("run", name, why)
    return name


def _name_fault(name: str) -> str:
    """Say what is wrong with a name; empty if nothing is."""
    if not name or name != name.strip():
        return "It is empty, or has white space at an end."
    if "/" in name or "\\" in name:
        return "It has a slash or backslash in it, and it names one folder."
    if any(unicodedata.category(c) in _UNPRINTABLE for c in name):
        return "It has a control, invisible or invalid character in it."
    if name[0] in ".-":
        return "It begins with a dot (hidden) or a dash (an option to every command)."
    size = len(name.encode())
    if size > NAME_LIMIT:
        return f"It has {size} bytes in UTF-8, and the limit is {NAME_LIMIT}."
    if name in _RESERVED:
        return "That name is reserved."
    return ""


def default_store(cwd: Path) -> Path:
    """Give the store: `DURABLE_STORE`, else the nearest `.durable` upwards, else one in `cwd`."""
    named = os.environ.get(STORE_VARIABLE)
    return Path(named).expanduser() if named else nearest_store(cwd)


def nearest_store(cwd: Path) -> Path:
    """Give the nearest `.durable` upwards, else one in `cwd`."""
    cwd = cwd.absolute()
    for folder in (cwd, *cwd.parents):
        if (folder / STORE_FOLDER).is_dir():
            return folder / STORE_FOLDER
    return cwd / STORE_FOLDER


def prepare_store(store: Path) -> Path:
    """Make the store if it is missing: mode 0700, ignored by git. Any number at once may.

    Raises
    ------
    NotTrusted
        If it is there and others can write to it.
    """
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_trusted(store)
    _write_once(store / ".gitignore", b"*\n")
    return store


def prepare_run(store: Path, name: str) -> Path:
    """Make the folder of a run in a prepared store if it is missing."""
    folder = run_folder(store, name)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        check_trusted(folder)
    return folder


def run_folder(store: Path, name: str) -> Path:
    """Give the folder of a run, which need not exist."""
    return store / check_name(name)


def run_names(store: Path) -> list[str]:
    """List the runs of a store, by name; what was set aside is none."""
    try:
        with os.scandir(store) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not _name_fault(entry.name)
                and entry.is_dir(follow_symlinks=False)
                and os.path.exists(os.path.join(entry.path, JOURNAL_FILE))
            )
    except FileNotFoundError:
        return []


def folder_id(folder: Path) -> list[int]:
    """Give what tells a folder from its copy: device and inode."""
    found = os.stat(folder)
    return [found.st_dev, found.st_ino]


def set_aside(folder: Path) -> Path:
    """Rename the folder of a run, under its lease, so that the name is free; nothing is deleted."""
    number = 1
    while True:
        target = folder.with_name(f".{folder.name}.old-{number}")
        if not os.path.lexists(target):
            os.rename(folder, target)
            return target
        number += 1


def check_trusted(path: Path) -> None:
    """Refuse a folder that somebody else could have written to.

    Raises
    ------
    NotTrusted
        If it is a symbolic link, belongs to another user (as root too), or is writable for its
        group or everybody; with the command that mends it.
    """
    found = os.lstat(path)
    quoted = shlex.quote(str(path))
    if stat.S_ISLNK(found.st_mode):
        raise NotTrusted(
            str(path),
            "It is a symbolic link, which can be pointed elsewhere.",
            "Put the folder itself there, or name the real store with store=.",
        )
    if found.st_uid != os.getuid():
        raise NotTrusted(
            str(path),
            f"It belongs to user id {found.st_uid}, and this process runs as {os.getuid()}.",
            f"If its content is yours: sudo chown -R {os.getuid()} {quoted}",
        )
    if found.st_mode & 0o022:
        raise NotTrusted(
            str(path),
            f"Others can write to it (mode {stat.S_IMODE(found.st_mode):04o}).",
            f"If nobody did: chmod -R go-w {quoted}",
        )


def filesystem_warnings(
    path: Path, *, allow_network_fs: bool = False, mounts: Path = Path("/proc/self/mounts")
) -> list[str]:
    """Say what may become of a store where it lies.

    Parameters
    ----------
    path : Path
        The store; it need not exist.
    allow_network_fs : bool
        Take a network file system if a lock and an fsync work there now.
    mounts : Path
        The table of mounts; where there is none (macOS), nothing is known and nothing said.

    Returns
    -------
    list of str
        One line each, for people.

    Raises
    ------
    NotTrusted
        If it is a network file system that was not allowed, or locks do not work there.
    """
    kind, point = _filesystem(path, mounts)
    if kind in _NETWORK:
        if not allow_network_fs:
            raise NotTrusted(
                str(path),
                f"It lies on a network file system ({kind} at {point}), where a lock can be lost "
                "or held by nobody, and two kernels could own one run.",
                "Put the store on a local disk, or use PostgreSQL for several machines. To take "
                "the risk: allow_network_fs=True.",
            )
        _probe_locks(path, kind)
        return [f"{path} lies on {kind}: locks worked just now; use it from one machine only."]
    if kind in _EPHEMERAL:
        text = (
            f"{path} lies on {kind} (at {point}): this folder dies with the machine or container. "
            "Put the store on a disk that stays, or copy it away before."
        )
        return [text]
    return []


def _filesystem(path: Path, mounts: Path) -> tuple[str, str]:
    """Give the type and the mount point of the file system of a path."""
    try:
        table = mounts.read_text("utf-8", "surrogateescape")
    except OSError:
        return "", ""
    real = os.path.realpath(path)
    kind, best = "", ""
    for line in table.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = _unescape(parts[1])
        inside = point in ("/", real) or real.startswith(point + "/")
        if inside and len(point) >= len(best):  # the last of equal ones lies on top
            kind, best = parts[2], point
    return kind, best


def _unescape(text: str) -> str:
    """Undo the octal escapes of the table of mounts."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _probe_locks(path: Path, kind: str) -> None:
    """Check that another process sees our lock and that fsync works.

    Another process, because NFS turns flock into a lock that one process cannot see of itself.
    """
    nearest = next(p for p in (path, *path.absolute().parents) if p.is_dir())
    with tempfile.NamedTemporaryFile(prefix=".probe-", dir=nearest) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fsync(file.fileno())
        command = [sys.executable, "-I", "-c", _LOCK_PROBE, file.name]
        try:
            code = subprocess.run(command, timeout=20, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code != _LOCK_SEEN:
        raise NotTrusted(
            str(path),
            f"Locks do not work on this file system ({kind}).",
            "Put the store on a local disk.",
        )


def _write_once(path: Path, data: bytes) -> None:
    """Create a file unless it is there."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with os.fdopen(fd, "wb") as file:
        file.write(data)
