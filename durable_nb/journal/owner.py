"""Who holds a run: `owner.json`, and whether that process still lives.

The file explains the lock and is never the lock: the system drops the lock with its holder, the
file stays behind and tells who it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

OWNER_FILE: Final = "owner.json"
LOCK_FILE: Final = "owner.lock"


class Role(StrEnum):
    """What an owner took the lease for."""

    RUNNER = "runner"  #: to execute operations
    OPERATOR = "operator"  #: to settle or look


def boot_id() -> str:
    """Give an id of this boot of this machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Give the fields of /proc/<pid>/stat after the command; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Give the clock ticks since boot at which a process began, which tells reused pids apart."""
    found = _stat(pid)
    return int(found[19]) if len(found) > 19 else None


def parent_of(pid: int) -> int | None:
    """Give the parent of a process."""
    found = _stat(pid)
    return int(found[1]) if len(found) > 1 else None


def is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie: a zombie's locks are gone already."""
    if os.path.isdir("/proc/self"):
        found = _stat(pid)
        return bool(found) and found[0] not in ("Z", "X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True, slots=True)
class OwnerInfo:
    """What `owner.json` says; times are ISO texts in UTC."""

    pid: int = field(default_factory=os.getpid)
    kernel: str = ""
    notebook: str = ""
    role: str = Role.RUNNER.value
    epoch: int = 0
    host: str = field(default_factory=platform.node)
    boot: str = field(default_factory=boot_id)
    started: int | None = None  #: of the process, in clock ticks since boot
    python: str = field(default_factory=lambda: os.path.basename(sys.executable))
    opened: str = ""
    heartbeat: str = ""
    released: str = ""

    @classmethod
    def here(cls, *, kernel: str = "", notebook: str = "", role: str = Role.RUNNER) -> OwnerInfo:
        """Describe this process."""
        return cls(
            kernel=kernel, notebook=notebook, role=str(role), started=start_time(os.getpid())
        )

    def save(self, folder: Path) -> None:
        """Write `owner.json` in one step, readable by this user only."""
        text = json.dumps(asdict(self), indent=1)
        fd, name = tempfile.mkstemp(prefix=".owner-", dir=folder)  # mode 0600
        try:
            with os.fdopen(fd, "w", encoding="ascii") as file:
                file.write(text)
            os.replace(name, folder / OWNER_FILE)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    @classmethod
    def load(cls, folder: Path) -> OwnerInfo | None:
        """Read `owner.json`; None if it is missing or not ours: it is never evidence."""
        try:
            return cls.of(json.loads((folder / OWNER_FILE).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None

    @classmethod
    def of(cls, data: Any) -> OwnerInfo | None:
        """Make it of what was read somewhere; None if that is not ours."""
        known = {f.name: f.type for f in fields(cls)}
        if not isinstance(data, dict) or type(data.get("pid")) is not int:
            return None
        return cls(**{k: v for k, v in data.items() if k in known and _fits(k, v)})


def _fits(name: str, value: Any) -> bool:
    """Whether a value from the file has the type of its field."""
    if name in ("pid", "epoch"):
        return type(value) is int
    if name == "started":
        return value is None or type(value) is int
    return isinstance(value, str)


class Life(StrEnum):
    """What is known of the process on record, without touching the lock."""

    LIVE = "live"
    CRASHED = "crashed"  #: it ended without releasing
    ELSEWHERE = "elsewhere"  #: another machine: only its heartbeat tells


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner on record and whether it lives."""

    info: OwnerInfo
    life: Life

    @property
    def live(self) -> bool:
        """Whether the process is there; false if that cannot be told from here."""
        return self.life is Life.LIVE

    @property
    def is_here(self) -> bool:
        """Whether it is this very process."""
        return self.info.pid == os.getpid() and self.info.host == platform.node()

    def heartbeat_age(self, now: datetime | None = None) -> float | None:
        """Give the seconds since the last heartbeat; None if none is on record."""
        return age(self.info.heartbeat, now)

    @property
    def who(self) -> str:
        """Who it is, in few words, and without what changes by the second."""
        info = self.info
        where = f"notebook {info.notebook}" if info.notebook else f"kernel {info.kernel}"
        told = f", {where}" if info.notebook or info.kernel else ""
        return f"process {info.pid} on {info.host}{told}"

    def __str__(self) -> str:
        return describe(self.info)


def probe(folder: Path) -> Holder | None:
    """Tell who holds a run, from `owner.json` alone; None if nobody does.

    It never locks: probing with LOCK_SH made the opening of others fail.
    """
    info = OwnerInfo.load(folder)
    if info is None or info.released:
        return None
    return Holder(info, life_of(info))


def life_of(info: OwnerInfo) -> Life:
    """Tell whether the process on record lives: same boot, same pid, same start time."""
    if info.host != platform.node():
        return Life.ELSEWHERE
    if info.boot != boot_id() or not is_alive(info.pid):
        return Life.CRASHED
    same = info.started is None or info.started == start_time(info.pid)
    return Life.LIVE if same else Life.CRASHED


def age(moment: str, now: datetime | None = None) -> float | None:
    """Give the seconds since an ISO text; None if it is none."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return None
    if then.tzinfo is None:
        return None
    return max(0.0, ((now or datetime.now(UTC)) - then).total_seconds())


def describe(info: OwnerInfo) -> str:
    """Say who an owner is, for messages."""
    parts = [f"process {info.pid} ({info.python}) on {info.host}"]
    if info.kernel:
        parts.append(f"kernel {info.kernel}")
    if info.notebook:
        parts.append(f"notebook {info.notebook}")
    if info.role == Role.OPERATOR:
        parts.append("as operator")
    if info.opened:
        parts.append(f"since {info.opened}")
    beat = age(info.heartbeat)
    if beat is not None:
        parts.append(f"last heartbeat {beat:.0f} s ago")
    return ", ".join(parts)


def only_look(run: str) -> str:
    """Say how a run that somebody else holds can be watched."""
    return f"To only look: durable_nb.watch({run!r}), or %durable panel {run} in a notebook."


def processes_with(path: Path) -> list[int]:
    """Give the pids that have a file open; empty where the system does not tell."""
    try:
        wanted = os.stat(path)
    except OSError:
        return []
    return [
        pid
        for pid in _pids()
        if any(
            (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
            for found in _open_files(pid)
        )
    ]


def _pids() -> Iterator[int]:
    """Give the processes of this machine."""
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def _open_files(pid: int) -> Iterator[os.stat_result]:
    """Give what a process has open, as far as this user may see it."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # closed meanwhile
                yield os.stat(entry.path)
