"""A process with little memory: a control group of the system, else a limit of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True)
class Little:
    """Where there is little memory.

    Attributes
    ----------
    group : Path or None
        The control group; `None` where none can be made here.
    """

    group: Path | None

    @property
    def how(self) -> str:
        """Say what ends a process that wants more."""
        return "the system's out-of-memory killer" if self.group else "a limit of its addresses"

    @property
    def source(self) -> str:
        """Give the lines that define ``eat()``, which ends its process there."""
        if self.group:
            return (
                "def eat():\n"
                f"    open({str(self.group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
                "    return [bytearray(b'x') * (8 << 20) for _ in range(40)]\n"
            )
        return (  # memory that is refused, and used all the same, as C code does that forgets to look
            "def eat():\n    import ctypes, resource\n"
            "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
            f"    resource.setrlimit(resource.RLIMIT_AS, (used + {_LIMIT},) * 2)\n"
            "    c = ctypes.CDLL(None)\n    c.malloc.restype = ctypes.c_void_p\n"
            "    return ctypes.memset(c.malloc(320 << 20), 1, 320 << 20)\n"
        )

    @property
    def signal(self) -> int:
        """What the kernel ends with."""
        return signal.SIGKILL if self.group else signal.SIGSEGV

    def kills(self) -> int | None:
        """Count the processes that the system has killed there; `None` where it does not count."""
        if self.group is None:
            return None
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                lines = (self.group / name).read_text().splitlines()
                return next(int(n.split()[1]) for n in lines if n.startswith("oom_kill "))
        return None


@contextlib.contextmanager
def little_memory() -> Iterator[Little]:
    """Make a place with 64 MB of memory."""
    group = _made()
    try:
        yield Little(group)
    finally:
        if group is not None:
            with contextlib.suppress(OSError):
                group.rmdir()


def _made() -> Path | None:
    """Make a control group, of whichever version the system has; `None` where that is refused."""
    name = f"durable-nb-test-{os.getpid()}"
    for root, limit, with_swap in (
        (_ROOT / "memory", "memory.limit_in_bytes", {"memory.memsw.limit_in_bytes": _LIMIT}),
        (_ROOT, "memory.max", {"memory.swap.max": 0}),
    ):
        group = root / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(_LIMIT))
            for file, most in with_swap.items():
                if (group / file).exists():
                    (group / file).write_text(str(most))
            if os.access(group / "cgroup.procs", os.W_OK):
                return group
        except OSError:
            pass
        group.rmdir()
    return None
