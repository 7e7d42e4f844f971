"""Where a kernel is reached: over socket files of its own, and not over ports.

Jupyter looks for five free ports and lets go of them; the kernel takes them a second or two later,
as it comes up. What has been taken by then ends it: where six kernels at a time were starting, one
of 230 never came up, or answered to another's client. A file in a folder that only this user can
enter is taken by nobody else.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import zmq

#: What Jupyter makes of the connection file's name for the last of the five.
_LAST: Final = "kernel-ipc-5"


@contextlib.contextmanager
def private_sockets() -> Iterator[Mapping[str, str]]:
    """Give a kernel manager's arguments by which its kernel gets socket files, gone afterwards.

    They are none where no path is short enough (`zmq.IPC_PATH_MAX_LEN` bytes): then it gets ports.
    """
    # A kernel that is just being ended may still be at it; what it leaves is empty.
    with tempfile.TemporaryDirectory(prefix="durable-nb-", ignore_cleanup_errors=True) as at:
        if len(os.fsencode(Path(at) / _LAST)) > zmq.IPC_PATH_MAX_LEN:
            yield {}
        else:
            yield {"transport": "ipc", "connection_file": str(Path(at) / "kernel.json")}
