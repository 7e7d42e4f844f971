"""`durable-nb demo --lab`: the same notebook in JupyterLab, for a person to kill and settle."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from durable_nb.demo.model_server import SCRIPTED, missing_packages
from durable_nb.demo.problems import ModelMissing
from durable_nb.demo.servers import FOLDER, Slowness, running
from durable_nb.demo.workplace import NOTEBOOK, find_notebook, termination_unwinds

WORK_FOLDER = "durable-demo"
#: Slow enough for a hand to restart the kernel inside a request.
BY_HAND = Slowness(model_latency=1.0, shop_answer_delay=2.0)

ADVICE = """\
[bold]What to do in JupyterLab[/bold]
1. Run all cells (Run > Run All Cells). The servers are slow on purpose: a request takes 1 to 2 s.
2. While the loop works, kill the kernel: Kernel > Restart Kernel, or, the hard way, `kill -9` it in
   a terminal (a cell with `import os; os.getpid()` shows its process id).
3. Run all cells again. It goes on where it was. If a refund was under way, the shop is asked.
   If a mail was under way, the run stops, and its last two lines say how to settle it.
4. Look into the shop's ledger for the truth: [cyan]{ledger}[/cyan]
5. Settle it in a new cell, as the lines say (run.confirm(...) or run.deny(...)); run all again.
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
        advice = ADVICE.format(ledger=escape(str(at.ledger)))
        console.print(Text.from_markup(advice), soft_wrap=True)
        environment = {**os.environ, **at.variables(), "DURABLE_STORE": str(work / ".durable")}
        # JupyterLab asks root to insist; it listens on loopback only, with a token
        root = ["--allow-root"] if os.geteuid() == 0 else []
        command = [sys.executable, "-m", "jupyterlab", *root, *arguments, str(notebook)]
        lab = subprocess.Popen(command, cwd=work, env=environment)
        try:
            return _wait(lab)
        finally:
            if lab.poll() is None:
                lab.terminate()
                lab.wait()


def _wait(lab: subprocess.Popen[bytes]) -> int:
    """Wait for JupyterLab, which handles Ctrl-C itself: it asks, and then ends its kernels."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return lab.wait()
