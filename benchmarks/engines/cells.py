"""The notebook side: an IPython shell in this process, without a front end."""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

from benchmarks.engines.files import duckdb_writer
from benchmarks.engines.program import PAYLOAD, main

#: Imports that are timed, in an interpreter each, after one that compiles.
_IMPORTS: Final = 7


def imports(folder: Path, number: int) -> Mapping[str, Any]:
    """Import the package after IPython and duckdb, as installed: its modules are compiled."""
    code = (
        "import time, IPython, duckdb; began = time.perf_counter(); import durable_nb; "
        "print(time.perf_counter() - began)"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    command = [sys.executable, "-c", code]
    taken = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
        for _ in range(1 + _IMPORTS)
    ]
    return {"s": statistics.median(taken[1:])}


def _shell(folder: Path) -> Any:
    os.chdir(folder)
    os.environ["DURABLE_STORE"] = str(folder / "store")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.instance()


def _run(shell: Any, source: str) -> float:
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        result = shell.run_cell(source)
    taken = time.perf_counter() - began
    result.raise_error()
    return taken


def loads(folder: Path, number: int) -> Mapping[str, Any]:
    """Load the extension."""
    return {"s": _run(_shell(folder), "%load_ext durable_nb")}


def empty(folder: Path, number: int) -> Mapping[str, Any]:
    """Execute empty cells, durable and plain, and commit to a bare file, in turn."""
    shell, commit = _shell(folder), duckdb_writer(folder)
    _run(shell, "%load_ext durable_nb\n%durable run bench")
    plain, durable, bare = [], [], []
    for n in range(number):
        durable.append(_run(shell, f"%%durable c{n} --effect none\npass"))
        plain.append(_run(shell, f"pass  # {n}"))
        began = time.perf_counter()
        commit(n)
        bare.append(time.perf_counter() - began)
    _run(shell, "run.close()")
    extra = statistics.median(durable) - statistics.median(plain)
    return {"extra_us": extra * 1e6, "commit_us": statistics.median(bare) * 1e6}


def frame(folder: Path, number: int) -> Mapping[str, Any]:
    """Save a frame of so many megabytes, and restore it in another opening of the run."""
    shell = _shell(folder)
    _run(shell, "import numpy as np, pandas as pd\n%load_ext durable_nb\n%durable run bench")
    rows = number * 1_000_000 // 80
    cell = (
        "%%durable data --effect none\n"
        f"df = pd.DataFrame(np.random.default_rng(7).normal(size=({rows}, 10)), "
        "columns=list('abcdefghij'))"
    )
    save = _run(shell, cell)
    _run(shell, "run.close()\ndel df")
    _run(shell, "%durable run bench")
    restore = _run(shell, cell)
    _run(shell, f"assert len(df) == {rows}\nrun.close()")
    return {"save_s": save, "restore_s": restore}


def mirrored(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal steps; how many a second, and what all other threads take of that time."""
    import durable_nb as dnb

    def act(n: int) -> Any:
        return PAYLOAD

    with contextlib.redirect_stderr(io.StringIO()):
        run = dnb.open_run("bench", store=folder)
    step = dnb.step(effect="none")(act)
    began, aside = time.perf_counter(), time.process_time() - time.thread_time()
    for n in range(number):
        step(n)
    taken = time.perf_counter() - began
    aside = time.process_time() - time.thread_time() - aside
    run.close()
    return {"steps_s": number / taken, "aside": aside / taken}


def unmirrored(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal steps without mirror and heartbeat."""
    from durable_nb.journal import Lease

    with mock.patch.object(Lease, "start_heartbeat"):
        return mirrored(folder, number)


if __name__ == "__main__":
    main(
        {
            "imports": imports,
            "loads": loads,
            "empty": empty,
            "frame": frame,
            "mirrored": mirrored,
            "unmirrored": unmirrored,
        }
    )
