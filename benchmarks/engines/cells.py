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
from typing import Any
from unittest import mock

from benchmarks.engines.program import main


def imports(folder: Path, number: int) -> Mapping[str, Any]:
    """Import the package after IPython and duckdb, in a new interpreter."""
    code = (
        "import time, IPython, duckdb; began = time.perf_counter(); import durable_nb; "
        "print(time.perf_counter() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {"s": float(done.stdout)}


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
    """Execute empty cells, durable and plain in turn."""
    shell = _shell(folder)
    _run(shell, "%load_ext durable_nb\n%durable run bench")
    plain, durable = [], []
    for n in range(number):
        durable.append(_run(shell, f"%%durable c{n} --effect none\npass"))
        plain.append(_run(shell, f"pass  # {n}"))
    _run(shell, "run.close()")
    return {"extra_us": (statistics.median(durable) - statistics.median(plain)) * 1e6}


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


def _rate(folder: Path, number: int) -> Mapping[str, Any]:
    import durable_nb as dnb

    def act(n: int) -> int:
        return n

    with contextlib.redirect_stderr(io.StringIO()):
        run = dnb.open_run("bench", store=folder)
    step = dnb.step(effect="none")(act)
    began = time.perf_counter()
    for n in range(number):
        step(n)
    taken = time.perf_counter() - began
    run.close()
    return {"steps_s": number / taken}


def unmirrored(folder: Path, number: int) -> Mapping[str, Any]:
    """Journal steps without mirror and heartbeat."""
    from durable_nb.journal import Lease

    with mock.patch.object(Lease, "start_heartbeat"):
        return _rate(folder, number)


if __name__ == "__main__":
    main(
        {
            "imports": imports,
            "loads": loads,
            "empty": empty,
            "frame": frame,
            "mirrored": _rate,
            "unmirrored": unmirrored,
        }
    )
