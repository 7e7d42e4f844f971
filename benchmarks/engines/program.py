"""What every engine's program shares: the payload, the clock, and how it is called."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

#: What a step gives: a nested result of about 500 bytes of JSON, as most tools give it.
PAYLOAD: Final[Any] = {
    "id": "re_1NmwGpLkdIwHu7ix",
    "ok": True,
    "items": [{"sku": f"A-{n:04}", "n": n, "price": n * 1.25, "tags": ["new"]} for n in range(5)],
    "customer": {"name": "Zoe Miller", "mail": "zoe@example.org", "note": None},
    "total": 118.75,
    "next": {"cursor": "eyJpZCI6IDEyM30", "more": False},
}

#: The environment variable in which a program finds the address of its database, if it has one.
STORE: Final = "BENCHMARK_STORE"

#: A task: given a folder of its own and the number of steps, what it measured.
Task = Callable[[Path, int], Mapping[str, Any]]


def main(tasks: Mapping[str, Task]) -> None:
    """Do one task, and print what it measured as the last line of stdout."""
    task, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(dict(tasks[task](folder, number))), flush=True)


def store_in(folder: Path) -> str | Path:
    """Give where to keep things: the database of this program, else its folder."""
    return os.environ.get(STORE) or folder


def die() -> None:
    """End this process as an out-of-memory kill would."""
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def peak_mb() -> float:
    """Give the most memory that this process has held, in megabytes (10**6 bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6
