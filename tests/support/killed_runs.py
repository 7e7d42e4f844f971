"""Makes runs that a supervisor has begun and whose process was killed: a program of its own.

A kernel costs some seconds, and thirty of them a minute and a half. So each run is begun in a fork
of one process: a real IPython shell with the extension, which is told by the same plan what it is
for as a kernel would be, executes the notebook's cells, and is ended by SIGKILL in one of them.

    python -m support.killed_runs NOTEBOOK STORE RUN=JSON…
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import durable_nb  # noqa: F401 - once, and not in each fork
from durable_nb.engine.supervised import PLAN, Plan
from durable_nb.fleet.notebooks import Submitted, submit
from durable_nb.notebook import extension  # noqa: F401


def begin(name: str, submitted: Submitted, store: Path) -> NoReturn:
    """Execute a notebook until a cell of it kills this process."""
    plan = store / f".plan-{name}"
    Plan(name, submitted.as_json()).save(plan)
    os.environ |= {PLAN: str(plan), "DURABLE_STORE": str(store)}
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    sys.modules["__main__"] = shell.user_module
    for cell in submitted.notebook.cells:
        if cell.cell_type == "code" and not shell.run_cell(cell.source).success:
            os._exit(1)
    os._exit(0)


def main(notebook: str, store: str, *runs: str) -> None:
    """Begin all of them, one after the other."""
    folder = Path(store)
    folder.mkdir(exist_ok=True)
    os.chdir(Path(notebook).parent)
    for text in runs:
        name, _, said = text.partition("=")
        parameters: dict[str, Any] = json.loads(said)
        submitted = submit(Path(notebook), parameters)
        pid = os.fork()
        if pid == 0:
            begin(name, submitted, folder)
        _, ended = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(ended), f"{name} ended with {ended}"
        assert os.WTERMSIG(ended) == signal.SIGKILL, f"{name} ended with {ended}"


if __name__ == "__main__":
    main(*sys.argv[1:])
