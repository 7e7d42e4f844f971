"""The same program under other hash seeds: what depends on the order of a set shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import durable_nb

_ROOT = Path(durable_nb.__file__).resolve().parents[1]


def printed_under_seeds(program: str) -> set[str]:
    """Run a program in processes with hash seeds of their own; give all that they print."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "77")
    }
