"""What a notebook needs of the machine that executes it: on record as it is submitted."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from durable_nb.engine import packages
from durable_nb.engine.files import MISSING, FileUnreadable, file_part
from durable_nb.fleet.differences import in_kernel
from durable_nb.fleet.errors import NotebookUnusable
from durable_nb.fleet.notebooks import Submitted

#: What every notebook of ours needs.
_OURS: Final = "durable_nb"
_ASK: Final = (
    "import json, sys; from durable_nb.engine.packages import providing; "
    "print(json.dumps(providing(sys.argv[1:])))"
)


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be there, just so.

    Attributes
    ----------
    packages : Mapping of str to str
        Name to version of what the notebook imports, and of Python.
    files : Mapping of str to str
        Path, relative to where the kernel works, to the digest of what it holds.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Give it as a row keeps it."""
        return {"packages": dict(self.packages), "files": dict(self.files)}


def needs_of(submitted: Submitted, files: Iterable[str | Path], *, packages: bool) -> Needs:
    """Look at what a notebook needs, where it is submitted.

    Parameters
    ----------
    submitted : Submitted
        The notebook.
    files : iterable of path
        That it reads, relative to where the kernel works.
    packages : bool
        Whether the versions of what it imports have to be the same.

    Raises
    ------
    NotebookUnusable
        One of the files is not there; or its kernel cannot say what is installed.
    """
    found = {}
    for path in map(str, files):
        digest = _digest(submitted.works_in / path)
        if digest == MISSING:
            advice = f"Paths are relative to {submitted.works_in}."
            raise NotebookUnusable(submitted.path, f"it needs {path}, which is not there", advice)
        found[path] = digest
    return Needs(_providing(submitted) if packages else {}, found)


def lacking(needs: Mapping[str, Any], submitted: Submitted) -> list[str]:
    """List what is not here as it was where the notebook was submitted, a line each."""
    found = []
    if needs["packages"]:
        here = _providing(submitted)
        differing = packages.differences(
            needs["packages"], {name: here[name] for name in needs["packages"] if name in here}
        )
        found += [f"packages differ: {packages.in_a_line(differing)}"] if differing else []
    for path, digest in needs["files"].items():
        now = _digest(submitted.works_in / path)
        if now != digest:
            found.append(f"file {path} {'is not there' if now == MISSING else 'differs'}")
    return found


def _providing(submitted: Submitted) -> dict[str, str]:
    """Give the versions of what a notebook imports, in the interpreter of its kernel."""
    modules = sorted({_OURS, *_imported(submitted)})
    return in_kernel(submitted, _ASK, modules, lambda: packages.providing(modules))


def _imported(submitted: Submitted) -> set[str]:
    """Name the modules that the code cells import; lines that are no Python are passed over."""
    found: set[str] = set()
    for cell in submitted.notebook.cells:
        if cell.cell_type != "code":
            continue
        lines = cell.source.splitlines()
        lines = ["pass" if line.lstrip()[:1] in {"%", "!", "?"} else line for line in lines]
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


def _digest(path: Path) -> str:
    try:
        return file_part(path).digest
    except FileUnreadable as problem:
        raise NotebookUnusable(str(path), f"it cannot be read ({problem.why})", "") from problem
