"""Starting and finding the shop and the model server, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from durable_nb.demo.client import healthy
from durable_nb.demo.model_server import SCRIPTED
from durable_nb.model.errors import DurableError
from durable_nb.notebook.origin import ipython_origin

SHOP_VARIABLE = "DURABLE_DEMO_SHOP"
MODEL_VARIABLE = "DURABLE_DEMO_MODEL"
FOLDER = "refund-shop"  #: where servers that a notebook started keep their ledger and address
IDLE_EXIT_S = 1800.0  #: servers that a notebook started end after half an hour without a request


class ServerNotStarted(DurableError):
    """A server of the demo did not come up."""

    def __init__(self, command: Sequence[str], said: str) -> None:
        super().__init__(tuple(command), said)
        self.command, self.said = tuple(command), said

    def __str__(self) -> str:
        return (
            f"the demo's server did not start: {' '.join(self.command)}\n{self.said.strip()}\n"
            "Nothing was refunded or mailed. Run that line by hand to see why."
        )


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the two servers are."""

    shop: str
    model: str
    ledger: str | None = None  #: the shop's ledger file, if it is known here
    pids: tuple[int, ...] = ()  #: set if a notebook started them

    def variables(self) -> dict[str, str]:
        """Give the environment variables that lead a notebook to these servers."""
        return {SHOP_VARIABLE: self.shop, MODEL_VARIABLE: self.model}


@dataclass(frozen=True, slots=True)
class Slowness:
    """How slow the servers are to be, in seconds; zero is as fast as they can."""

    model_latency: float = 0.0
    shop_answer_delay: float = 0.0


#: Slow enough for a hand to kill the kernel inside a request.
BY_HAND = Slowness(model_latency=1.0, shop_answer_delay=2.0)


def _commands(ledger: Path, model: str, slow: Slowness, ending: Sequence[str]) -> list[list[str]]:
    """Give the command lines of the shop and of the model server."""
    python = [sys.executable, "-m"]
    shop = ["durable_nb.demo.shop", "--ledger", str(ledger)]
    shop += ["--answer-delay", str(slow.shop_answer_delay)]
    models = ["durable_nb.demo.model_server", "--model", model]
    models += ["--latency", str(slow.model_latency)]
    return [[*python, *shop, *ending], [*python, *models, *ending]]


def _await_ready(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """Read the line that a server prints when it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        ready: dict[str, Any] = json.loads(line)
    except ValueError as error:
        process.wait()
        raise ServerNotStarted(process.args, log.read_text() or line) from error  # type: ignore[arg-type]
    return ready


@contextlib.contextmanager
def running(
    folder: Path, *, model: str = SCRIPTED, slow: Slowness | None = None
) -> Iterator[Addresses]:
    """Run both servers for the length of a `with` block.

    They end when the block does, and also when this process dies: they hold the far end of a pipe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ledger, log = folder / "ledger.jsonl", folder / "servers.log"
    ending = ["--stop-with-stdin", "--stop-with-folder", str(folder)]
    commands = _commands(ledger, model, slow or Slowness(), ending)
    with contextlib.ExitStack() as stack, log.open("a") as errors:
        processes = []
        for command in commands:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends them in order
            )
            stack.callback(_end, process)
            processes.append(process)
        shop, models = (_await_ready(process, log) for process in processes)
        yield Addresses(shop["url"], models["url"], str(ledger))


def _end(process: subprocess.Popen[str]) -> None:
    """End one server, the hard way if it does not go."""
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def ensure(*, model: str = SCRIPTED, slow: Slowness | None = None) -> Addresses:
    """Give the servers that a notebook should use; start them if there are none.

    Servers named by the environment are used as they are. Otherwise servers are started that live
    on when the kernel dies, and that the next kernel finds again by a file beside the run's store.

    Parameters
    ----------
    model : {"scripted", "smollm2"}
        Who decides.
    slow : Slowness, optional
        Of servers that are started. By default they are slow enough for a hand where a front end
        shows the cell to a person, and as fast as they can in nbval, papermill and scripts.

    Returns
    -------
    Addresses
        Of servers that answer now.
    """
    named = os.environ.get(SHOP_VARIABLE), os.environ.get(MODEL_VARIABLE)
    if named[0] and named[1]:
        return Addresses(named[0], named[1])
    folder = _folder()
    found = _read_addresses(folder)
    if found is not None and healthy(found.shop) and healthy(found.model):
        return found
    stop(folder)
    return _start_detached(folder, model, slow or (BY_HAND if _is_looked_at() else Slowness()))


def _is_looked_at() -> bool:
    """Tell whether a person looks: only front ends give their cells an id."""
    origin = ipython_origin()
    return origin is not None and origin.has_id


def stop(folder: Path | None = None) -> None:
    """End the servers that `ensure` started; their ledger stays."""
    folder = folder or _folder()
    found = _read_addresses(folder)
    if found is None:
        return
    for url, pid in zip((found.shop, found.model), found.pids, strict=True):
        if healthy(url):  # else the number may belong to somebody else by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (healthy(found.shop) or healthy(found.model)):
        time.sleep(0.05)
    (folder / "servers.json").unlink(missing_ok=True)


def _folder() -> Path:
    """Give the folder for servers and ledger: beside the store, so that each store has its own."""
    store = os.environ.get("DURABLE_STORE")
    home = Path(store).resolve().parent if store and "://" not in store else Path.cwd()
    return home / FOLDER


def _read_addresses(folder: Path) -> Addresses | None:
    try:
        facts = json.loads((folder / "servers.json").read_text())
        return Addresses(facts["shop"], facts["model"], facts["ledger"], tuple(facts["pids"]))
    except (OSError, ValueError, KeyError):
        return None


def _start_detached(folder: Path, model: str, slow: Slowness) -> Addresses:
    """Start servers that outlive this process, and note where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    ledger, log = folder / "ledger.jsonl", folder / "servers.log"
    ending = ["--idle-exit", str(IDLE_EXIT_S), "--stop-with-folder", str(folder)]
    facts = []
    with log.open("a") as errors:
        for command in _commands(ledger, model, slow, ending):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            facts.append(_await_ready(process, log))
    shop, models = facts
    found = Addresses(shop["url"], models["url"], str(ledger), (shop["pid"], models["pid"]))
    draft = folder / "servers.json.new"
    draft.write_text(json.dumps(asdict(found)))
    draft.replace(folder / "servers.json")
    return found
