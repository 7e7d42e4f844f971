"""Short scripts in a process of their own, standing in for a kernel."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import durable_nb

ROOT = Path(durable_nb.__file__).parents[1]


def kernel(source: str, stdin: str = "", **env: str) -> str:
    """Run a script in a process of its own, standing in for a kernel."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        input=stdin,
        text=True,
        capture_output=True,
        env={"PYTHONPATH": str(ROOT), **env},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
