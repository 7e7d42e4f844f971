"""Papermill's notebook: what is executed of it, and how it is kept in step with that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbformat import NotebookNode
from nbformat.v4 import new_output

from durable_nb.fleet.errors import NotFinished
from durable_nb.fleet.notebooks import Submitted, snapshot

#: An exit that papermill takes for a good one.
_QUIET_EXITS: Final = frozenset({"", "0"})


def submitted_by(
    nb: NotebookNode, kernel: str, input_path: object, output: str | None, base: Path
) -> Submitted:
    """Take the notebook as it is executed; nothing in it differs from one try to the next.

    Parameters
    ----------
    nb : NotebookNode
        As papermill has prepared it.
    kernel : str
        Name of the kernel spec.
    input_path : object
        Where it comes from: a path or URL, else something else.
    output : str or None
        What names the run; `None` or "" if it was given a name.
    base : Path
        What paths are relative to.

    Raises
    ------
    NotebookUnusable
        Its kernel is not installed, or a parameter looks like a secret. Nothing was begun.
    """
    kept = deepcopy(nb)
    about = kept.metadata.pop("papermill", {})
    for number, cell in enumerate(kept.cells):
        cell.metadata.pop("papermill", None)
        cell["id"] = f"cell-{number}"  # papermill gives random ones to what has none
    return snapshot(
        kept,
        Submitted(
            _path_of(input_path, base),
            "",
            _as_json(about.get("parameters") or {}),
            kernel,
            folder=str(Path.cwd()),
            output=_absolute(output, base) if output else "",
        ),
    )


def _as_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Give parameters as a record keeps them; what JSON has no word for is text."""
    found: dict[str, Any] = json.loads(json.dumps(parameters, default=str), parse_constant=str)
    return found


def _path_of(found: object, base: Path) -> str:
    """Say where a notebook comes from: one that is no local file counts as in this folder."""
    if not isinstance(found, str) or found in {"", "-"}:
        return str(Path.cwd() / "notebook.ipynb")
    if "://" in found:
        return str(Path.cwd() / found.rpartition("/")[2])
    return str((base / found).resolve())


def _absolute(path: str, base: Path) -> str:
    return path if "://" in path else str((base / path).resolve())


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who gets what cells show, beside the notebook."""

    is_logged: bool
    stdout: Any
    stderr: Any
    log: Any

    def hear(self, output: NotebookNode) -> None:
        """Pass an output on, as papermill's own engine does."""
        if output.output_type == "stream":
            text = "".join(output.text)
            is_error = output.name == "stderr"
            if self.is_logged:
                (self.log.warning if is_error else self.log.info)(text)
            file = self.stderr if is_error else self.stdout
            if file:
                file.write(text)
                file.flush()
        elif self.is_logged and "text/plain" in output.get("data", ()):
            self.log.info("".join(output.data["text/plain"]))


class Copy:
    """Papermill's notebook, kept in step with the one that a kernel executes.

    A kernel that replaces another one begins at the top, and so does the copy.
    """

    def __init__(
        self, notebook: NotebookNode, make: Callable[[], Any], listeners: Listeners
    ) -> None:
        self._notebook, self._make, self._listeners = notebook, make, listeners
        self._manager: Any = None
        self._source: NotebookNode | None = None
        self._at = -1  # the cell that began last
        self._is_open = False

    def begins(self, source: NotebookNode, index: int) -> None:
        """Take note that a cell begins, and that the one before is done."""
        if source is self._source:
            self._complete()
        else:
            self._begin_pass()
        self._source, self._at, self._is_open = source, index, True
        self._manager.cell_start(self._notebook.cells[index], index)

    def shows(self, source: NotebookNode, index: int, output: NotebookNode | None) -> None:
        """Take over what a cell shows."""
        if index >= len(self._notebook.cells):
            return
        self._take(source, index)
        self._manager.autosave_cell()
        if output is not None:
            self._listeners.hear(output)

    def fail(self, problem: NotFinished | None) -> bool:
        """Show a problem in the cell that it stands at; `False` where no cell has begun."""
        index = self._place(problem)
        if index is None:
            return False
        self._complete()
        cell = self._notebook.cells[index]
        if problem is not None:
            _show(cell, problem)
        self._manager.cell_exception(cell, cell_index=index)
        return True

    def end(self) -> None:
        """Write the notebook a last time, if anything was executed."""
        if self._manager is None:
            return
        self._complete()
        if self._source is not None:
            for name in ("language_info", "widgets"):
                if name in self._source.metadata:
                    self._notebook.metadata[name] = self._source.metadata[name]
        self._manager.cleanup_pbar()
        self._manager.notebook_complete()

    def _begin_pass(self) -> None:
        first = self._manager is None
        if first:
            self._manager = self._make()
        started = self._manager.start_time
        self._manager.notebook_start()
        if not first:  # the time is that of all kernels
            self._manager.start_time = started
            self._notebook.metadata.papermill["start_time"] = started.isoformat()
            if self._manager.pbar:
                self._manager.pbar.reset()

    def _complete(self) -> None:
        if not self._is_open or self._source is None:
            return
        self._is_open = False
        self._take(self._source, self._at)
        self._manager.cell_complete(self._notebook.cells[self._at], cell_index=self._at)

    def _take(self, source: NotebookNode, index: int) -> None:
        cell, found = self._notebook.cells[index], source.cells[index]
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = found.outputs, found.execution_count

    def _place(self, problem: NotFinished | None) -> int | None:
        """Give the code cell where a problem is shown: a stop is before the cell that is next."""
        if self._at < 0:
            return None
        code = [n for n, cell in enumerate(self._notebook.cells) if cell.cell_type == "code"]
        if problem is not None and problem.end == "broken off" and not self._has_error():
            later = [n for n in code if n > self._at]
            if later:
                return later[0]
        return max((n for n in code if n <= self._at), default=None)

    def _has_error(self) -> bool:
        return bool(_errors(self._notebook.cells[self._at]))


def _errors(cell: NotebookNode) -> list[NotebookNode]:
    """Give the errors of a cell that papermill takes for such."""
    return [
        output
        for output in cell.get("outputs", ())
        if output.output_type == "error"
        and not (output.ename == "SystemExit" and output.evalue in _QUIET_EXITS)
    ]


def _show(cell: NotebookNode, problem: NotFinished) -> None:
    """Put a problem into a cell, so that it stands in the notebook and in papermill's error."""
    told = str(problem).splitlines()
    found = _errors(cell)
    if found:
        found[0].traceback = [*found[0].traceback, "", *told]
        return
    cell.outputs = [
        *cell.get("outputs", ()),
        new_output(  # type: ignore[no-untyped-call]
            "error", ename=type(problem).__name__, evalue=problem.end, traceback=told
        ),
    ]
