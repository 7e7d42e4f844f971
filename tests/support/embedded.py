"""Processes that use the embedded server, and what is there of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from support.child import PATIENCE, Child
from support.postgres import connected
from support.script import ROOT

USER = """
import os, sys, time
from pathlib import Path
if len(sys.argv) > 2:
    os.login_tty(int(sys.argv[2]))
from durable_nb.journal.postgres.embedded import embedded
address = embedded(Path(sys.argv[1]))
print(address, flush=True)
end = Path(sys.argv[0] + ".end")
while not end.exists():
    time.sleep(0.01)
"""

Users = Callable[[], Child]


def begin(folder: Path, store: Path, *words: object) -> Child:
    """Start a process that uses the server of a store."""
    number = len(list(folder.glob("user*.py")))
    program = folder / f"user{number}.py"
    program.write_text(USER)
    return Child(program, store, *words)


def end(child: Child) -> None:
    """Let a user end in order."""
    program = Path(psutil.Process(child.pid).cmdline()[1])
    Path(f"{program}.end").touch()
    child.wait().ok()


def until(what: Callable[[], object]) -> None:
    """Wait for something."""
    limit = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < limit, "what the test waited for never showed"
        time.sleep(0.01)


def server(store: Path) -> int | None:
    """Give the number of the server's process; `None` if it has stopped in order."""
    with contextlib.suppress(FileNotFoundError):
        return int((store / ".postgres" / "data" / "postmaster.pid").read_text().split("\n")[0])
    return None


def keepers(store: Path) -> list[int]:
    """Give the numbers of the keepers of a store."""
    users = str(store / ".postgres" / "users")
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if users in words and any(word.endswith("keeper.py") for word in words):
                found.append(process.pid)
    return found


def programs(home: Path) -> list[int]:
    """Give the numbers of the processes that make data there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(f"{home}/new-") for word in process.cmdline()):
                found.append(process.pid)
    return found


def alive(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until_stopped(store: Path) -> None:
    """Wait until neither server nor keeper is there."""
    until(lambda: not keepers(store))
    assert not alive(server(store))


def note(address: str, text: str) -> None:
    with connected(address.strip()) as con:
        con.execute("CREATE TABLE IF NOT EXISTS notes (note text)")
        con.execute("INSERT INTO notes VALUES (%s)", (text,))


def notes(address: str) -> list[str]:
    with connected(address.strip()) as con:
        return [text for (text,) in con.execute("SELECT note FROM notes").fetchall()]


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Give all that is in a folder."""
    found = {}
    for path in folder.rglob("*"):
        here = path.lstat()
        found[str(path)] = (
            here.st_mode,
            here.st_uid,
            path.read_bytes() if path.is_file() else b"",
        )
    return found


def shell(folder: Path, *words: object, code: int = 0, **named: str) -> str:
    """Run a command in a folder, as in a terminal there."""
    environment = {k: v for k, v in os.environ.items() if k != "DURABLE_STORE"}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), **named}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
