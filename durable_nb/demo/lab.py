"""`durable-nb demo --lab`: the same notebook in JupyterLab, for a person to kill and settle."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from durable_nb.demo.model_server import SCRIPTED, missing_packages
from durable_nb.demo.problems import LabNotStarted, ModelMissing
from durable_nb.demo.servers import BY_HAND, FOLDER, Addresses, running
from durable_nb.demo.workplace import NOTEBOOK, find_notebook, termination_unwinds

WORK_FOLDER = "durable-demo"
LOG = "jupyterlab.log"  #: in that folder
STARTS_WITHIN_S = 120.0

ADVICE = """\
[bold]The notebook is open in JupyterLab:[/bold] [cyan]{url}[/cyan]

1. Run all cells (Run > Run All Cells). The servers are slow on purpose: a request takes 1 to 2 s.
2. While the loop works, kill the kernel: Kernel > Restart Kernel, or, the hard way, `kill -9` in
   another terminal. The first cell prints the kernel's process id.
3. Run all cells again. It goes on where it was. If a refund was under way, the shop is asked.
   If a mail was under way, the run stops, and the panel below the cell asks what happened.
4. Look for the truth in the shop's ledger: [cyan]{ledger}[/cyan]
5. Settle it in the panel: write what you saw, click "Confirm: it happened" or "Deny: it did not
   happen", and run all again. (Or in a new cell, as the last two lines of the stop say.)
The notebook's end says how to begin anew. JupyterLab writes to [cyan]{log}[/cyan]
Ctrl-C here ends JupyterLab and the servers."""


def run_lab(
    *,
    model: str = SCRIPTED,
    folder: str | Path = WORK_FOLDER,
    console: Console | None = None,
    arguments: Sequence[str] = (),
) -> int:
    """Open the agent's notebook in JupyterLab, with slow servers, and wait until it is closed.

    Parameters
    ----------
    model : {"scripted", "smollm2"}
        Who decides.
    folder : path
        Where to work; a notebook and a run that are there already are gone on with.
    console : rich.console.Console, optional
        Where the advice goes.
    arguments : sequence of str
        More arguments for JupyterLab, such as ``--no-browser``.

    Returns
    -------
    int
        JupyterLab's exit code.

    Raises
    ------
    LabNotStarted
        With the last lines of its log.
    """
    missing = missing_packages(model)
    if missing:
        raise ModelMissing(model, missing)
    if importlib.util.find_spec("jupyterlab") is None:
        raise ImportError("JupyterLab is missing: pip install 'durable_nb[demo]'")
    console = console or Console()
    work = Path(folder).resolve()
    work.mkdir(parents=True, exist_ok=True)
    notebook = work / NOTEBOOK
    if not notebook.exists():
        shutil.copyfile(find_notebook(), notebook)
    with termination_unwinds(), running(work / FOLDER, model=model, slow=BY_HAND) as at:
        environment = {**os.environ, **at.variables(), "DURABLE_STORE": str(work / ".durable")}
        # JupyterLab asks root to insist; it listens on loopback only, with a token
        root = ["--allow-root"] if os.geteuid() == 0 else []
        # its log would scroll the advice away, and its question at Ctrl-C would stand in the log
        command = [sys.executable, "-m", "jupyterlab", "-y", *root, *arguments, str(notebook)]
        (work / LOG).touch(mode=0o600)  # the token is in it
        with (work / LOG).open("w") as log:
            lab = subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=log)
        try:
            console.print("JupyterLab is starting ...")
            _advise(console, _await_url(lab, notebook), at)
            return _wait(lab)
        finally:
            if lab.poll() is None:
                lab.terminate()
                lab.wait()


def _await_url(lab: subprocess.Popen[bytes], notebook: Path) -> str:
    """Wait until JupyterLab serves, and give the address at which it shows the notebook."""
    from jupyter_core.paths import jupyter_runtime_dir

    note = Path(jupyter_runtime_dir()) / f"jpserver-{lab.pid}.json"
    deadline = time.monotonic() + STARTS_WITHIN_S
    while lab.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):  # it is not there yet, or half written
            facts = json.loads(note.read_text())
            path = quote(os.path.relpath(notebook, facts["root_dir"]))
            token = f"?token={facts['token']}" if facts["token"] else ""
            return f"{facts['url']}lab/tree/{path}{token}"
        time.sleep(0.1)
    log = notebook.parent / LOG
    raise LabNotStarted(str(log), "\n".join(log.read_text("utf-8", "replace").splitlines()[-5:]))


def _advise(console: Console, url: str, at: Addresses) -> None:
    """Say what to do; nothing comes after it that could scroll it away."""
    log = Path(str(at.ledger)).parents[1] / LOG
    advice = ADVICE.format(url=escape(url), ledger=escape(str(at.ledger)), log=escape(str(log)))
    console.print(Text.from_markup(advice), soft_wrap=True)


def _wait(lab: subprocess.Popen[bytes]) -> int:
    """Wait for JupyterLab, which handles Ctrl-C itself: it ends its kernels."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return lab.wait()
