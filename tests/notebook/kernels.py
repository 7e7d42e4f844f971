"""Real kernels for tests: run cells one by one, see what each showed, kill and restart."""

from __future__ import annotations

import os
import queue
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

from durable_nb.fleet.sockets import private_sockets

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Shown:
    """What one execution showed."""

    status: str = ""
    text: str = ""
    error: str = ""
    traceback: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    order: list[str] = field(default_factory=list)

    @property
    def all(self) -> str:
        shown = [d.get("text/plain", "") for d in (*self.displays, *self.results)]
        return "\n".join([self.text, *shown, self.traceback])


class Kernel:
    """One kernel in a folder of its own store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._over = ExitStack()
        sockets = self._over.enter_context(private_sockets())
        self.manager = KernelManager(kernel_name="python3", **sockets)
        self.manager.kernel_spec.argv[0] = sys.executable
        paths = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {
            "PYTHONPATH": paths,
            "DURABLE_STORE": str(folder / "store"),
            "IPYTHONDIR": str(folder / "ipython"),
        }
        env.pop("PYTEST_CURRENT_TEST", None)
        self.manager.start_kernel(cwd=str(folder), env=env)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    def send(self, code: str, cell_id: str = "") -> str:
        content = {
            "code": code, "silent": False, "store_history": True,
            "user_expressions": {}, "allow_stdin": False, "stop_on_error": True,
        }  # fmt: skip
        metadata = {"cellId": cell_id} if cell_id else {}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(
        self, code: str, cell_id: str = "", *, check: bool = True, timeout: float = 60
    ) -> Shown:
        shown = self.wait(self.send(code, cell_id), timeout)
        if check:
            assert shown.status == "ok", shown
        return shown

    def wait(self, message: str, timeout: float = 60) -> Shown:
        shown, began = Shown(), time.monotonic()
        idle = False
        while not idle:
            left = timeout - (time.monotonic() - began)
            try:
                got = self.client.get_iopub_msg(timeout=max(0.05, min(left, 0.5)))
            except queue.Empty:
                if not self.manager.is_alive():
                    shown.status = "dead"
                    return shown
                if left <= 0:
                    raise TimeoutError(shown) from None
                continue
            if got["parent_header"].get("msg_id") == message:
                idle = self._take(shown, got)
        while True:
            reply = self.client.get_shell_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == message:
                shown.status = reply["content"]["status"]
                shown.seconds = time.monotonic() - began
                return shown

    @staticmethod
    def _take(shown: Shown, got: dict[str, Any]) -> bool:
        kind, content = got["header"]["msg_type"], got["content"]
        shown.order.append(kind)
        if kind == "stream":
            shown.text += content["text"]
        elif kind == "execute_result":
            shown.results.append(content["data"])
        elif kind == "display_data":
            shown.displays.append(content["data"])
        elif kind == "update_display_data":
            shown.updates.append(content["data"])
        elif kind == "error":
            shown.error = content["ename"]
            shown.traceback += "\n".join(content["traceback"])
        return kind == "status" and content["execution_state"] == "idle"

    def wait_for(self, name: str) -> None:
        """Wait until a cell has made a file."""
        wait_for(self.folder / name)

    def restart_run(self) -> None:
        """Close the run and open it again, as a new kernel would find it."""
        self.run("name = run.name; run.close(); run = dnb.open_run(name)")

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._stop()

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self._over.close()


@contextmanager
def kernel(folder: Path, *setup: str) -> Iterator[Kernel]:
    """Start a kernel, run some cells in it, and end it afterwards."""
    started = Kernel(folder)
    try:
        for code in setup:
            started.run(code)
        yield started
    finally:
        started.close()


def wait_for(path: Path, timeout: float = 30) -> None:
    """Wait until a file exists."""
    end = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def lines(path: Path) -> list[str]:
    """Give the lines of a ledger file; none if nothing was written yet."""
    return path.read_text().splitlines() if path.exists() else []


def plain(text: str) -> str:
    """Take terminal colours out."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


LOAD = "%load_ext durable_nb"
