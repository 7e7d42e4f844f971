"""A folder with notebooks, and a command line in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

REPOSITORY = Path(__file__).resolve().parents[2]
OPEN = "%load_ext durable_nb\n%durable run job"


@dataclass
class Desk:
    """A folder with notebooks, and a command line in it."""

    folder: Path
    store: str = ""

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {
            "PYTHONPATH": paths,
            "DURABLE_STORE": self.store or str(self.folder / "store"),
            "IPYTHONDIR": str(self.folder / "ipython"),
        }
        env.pop("PYTEST_CURRENT_TEST", None)
        return env

    def notebook(self, *cells: str, parameters: str = "", name: str = "job") -> Path:
        """Write a notebook of these cells, after one that opens a run."""
        made = nbformat.v4.new_notebook()
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
        if parameters:
            cell = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
            made.cells.append(cell)
        made.cells += [nbformat.v4.new_code_cell(source) for source in (OPEN, *cells)]
        path = self.folder / f"{name}.ipynb"
        nbformat.write(made, path)
        return path

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Start a command; who starts it waits for it."""
        return subprocess.Popen(
            [sys.executable, "-m", "durable_nb.cli", *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def do(self, *words: object, timeout: float = 120) -> tuple[int, str, str]:
        """Do a command; give its exit code and what it said."""
        child = self.start(*words)
        out, err = child.communicate(timeout=timeout)
        return child.returncode, out, err

    def run(self, notebook: Path, *words: object, name: str = "r") -> tuple[int, dict[str, Any]]:
        """Execute a notebook; give the exit code and the document."""
        code, out, err = self.do("run", notebook.name, "--run", name, "--json", *words)
        assert out, err
        return code, json.loads(out)

    def cells(self, name: str = "job.r") -> list[Any]:
        """Give the cells of an executed notebook."""
        found: list[Any] = nbformat.read(self.folder / f"{name}.ipynb", as_version=4).cells
        return found

    def effects(self) -> list[str]:
        """Give what really happened, a line each."""
        path = self.folder / "effects"
        return path.read_text().split() if path.exists() else []


#: In a cell: an effect outside of the run.
HAPPEN = (
    "def happen(what):\n    with open('effects', 'a') as file:\n        file.write(f'{what}\\n')"
)
