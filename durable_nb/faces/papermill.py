"""Papermill's engine `durable`: ``papermill --engine durable in.ipynb out.ipynb``.

Every papermill of an installation imports this module as it starts, whichever engine is asked
for, while papermill itself is only half imported: so what it needs is imported on first use.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine import store as stores
from durable_nb.faces.settling import lines_for
from durable_nb.journal import folder as folders

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from durable_nb.fleet.errors import NotFinished
    from durable_nb.fleet.kernels import Stop
    from durable_nb.fleet.notebooks import Submitted
    from durable_nb.fleet.supervisor import Report

#: The variable that names the run.
RUN_VARIABLE: Final = "DURABLE_RUN"
#: An exit that papermill takes for a good one.
_QUIET_EXITS: Final = frozenset({"", "0"})
_AGAIN: Final = "give the same command again: what is recorded is not done again."
_BY_END: Final = {
    "person needed": f"Settle it, then {_AGAIN}",
    "failed": f"Mend it, then {_AGAIN}",
    "broken off": f"To go on, {_AGAIN}",
}


class DurableEngine:
    """Executes a notebook as a run, in as many kernels as it takes.

    Its base is not papermill's `Engine`, which starts by emptying the output: here that waits
    until it is certain that something is executed.
    """

    @classmethod
    def nb_kernel_name(cls, nb: NotebookNode, name: str | None = None) -> str:
        """Give the name of the kernel, as papermill finds it."""
        from papermill.utils import nb_kernel_name

        return str(nb_kernel_name(nb, name))

    @classmethod
    def nb_language(cls, nb: NotebookNode, language: str | None = None) -> str:
        """Give the language, as papermill finds it."""
        from papermill.utils import nb_language

        return str(nb_language(nb, language))

    @classmethod
    def execute_notebook(
        cls,
        nb: NotebookNode,
        kernel_name: str,
        output_path: str | None = None,
        progress_bar: bool | dict[str, Any] = True,
        log_output: bool = False,
        autosave_cell_every: int = 30,
        *,
        input_path: object = None,
        stdout_file: Any = None,
        stderr_file: Any = None,
        start_timeout: float = 60,
        execution_timeout: float | None = None,
        run: str | None = None,
        store: str | os.PathLike[str] | None = None,
        restarts: int = 5,
    ) -> NotebookNode:
        """Execute a notebook that papermill has given its parameters.

        Parameters
        ----------
        nb, kernel_name, output_path, progress_bar, log_output, autosave_cell_every, input_path
            As papermill has them.
        stdout_file, stderr_file : file
            Get what cells print.
        start_timeout : float
            Seconds for a kernel to start.
        execution_timeout : float or None
            Seconds for a cell; then it is interrupted, as by Ctrl-C.
        run : str or None
            Name of the run; default `DURABLE_RUN`, else the stem of the output's path.
        store : path or None
            Folder of run folders; default `DURABLE_STORE`, else the nearest `.durable` upwards.
        restarts : int
            How many dead kernels are replaced.

        Returns
        -------
        NotebookNode
            With its outputs. Where the run is not finished, the cell that it stands at has an
            error that says why, and what to do: papermill then ends with that.

        Raises
        ------
        RunHeld, RunTaken, NotebookUnusable, BadName
            Nothing was begun, and the output is as it was.
        NotFinished
            A person is needed before anything can be executed; the output is as it was.
        """
        from papermill.engines import NotebookExecutionManager
        from papermill.log import logger
        from papermill.utils import chdir

        from durable_nb.fleet.errors import RunTaken
        from durable_nb.fleet.kernels import Follow, Limits, Stop
        from durable_nb.fleet.supervisor import Supervisor

        output = nb.metadata.papermill.get("output_path")
        given = run or os.environ.get(RUN_VARIABLE)
        base = _started_in()
        with chdir(str(base)):
            named = store or os.environ.get(folders.STORE_VARIABLE) or None
            root = stores.store_folder(named).absolute()
        submitted = _submitted(nb, kernel_name, input_path, "" if given else output, base)
        name = given or _name_from(output, submitted.path)
        folders.check_name(name)

        def manager() -> Any:
            return NotebookExecutionManager(
                nb, output_path, log_output, progress_bar, autosave_cell_every
            )

        copy = _Copy(nb, manager, _Listeners(log_output, stdout_file, stderr_file, logger))
        stop = Stop()
        supervisor = Supervisor(
            name,
            submitted,
            root,
            None,
            restarts,
            tell=lambda line: logger.warning(f"{name}: {line}"),
            stop=stop,
            follow=Follow(copy.begins, copy.shows),
            limits=Limits(start_timeout, execution_timeout or None),
            again=True,
        )
        with contextlib.ExitStack() as at_last:
            at_last.enter_context(_stopped_by_signals(stop, logger))
            at_last.callback(copy.end)
            try:
                report = supervisor.supervise()
            except RunTaken as taken:
                taken.add_note(f"The run is named by {RUN_VARIABLE}, else by the output's path.")
                raise
            except BaseException:
                copy.fail(None)
                raise
            problem = _problem(_Place(root, store is not None), report, execution_timeout)
            if problem and not copy.fail(problem):
                raise problem
        return nb


@dataclass(slots=True)
class _Place:
    """The store, for the lines that settle something."""

    store: Path | None
    store_named: bool


@dataclass(frozen=True, slots=True)
class _Listeners:
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


class _Copy:
    """Papermill's notebook, kept in step with the one that a kernel executes.

    A kernel that replaces another one begins at the top, and so does the copy.
    """

    def __init__(self, notebook: NotebookNode, manager: Any, listeners: _Listeners) -> None:
        self._notebook, self._make, self._listeners = notebook, manager, listeners
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


def _submitted(
    nb: NotebookNode, kernel: str, input_path: object, output: str | None, base: Path
) -> Submitted:
    """Take the notebook as it is executed; nothing in it differs from one try to the next."""
    from durable_nb.fleet.notebooks import Submitted, snapshot

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


def _name_from(output: object, path: str) -> str:
    """Name a run by where papermill writes."""
    from durable_nb.fleet.errors import NotebookUnusable

    if not isinstance(output, str) or output in {"", "-"}:
        raise NotebookUnusable(
            path, "its run has no name", f"Give an output path, or a name in {RUN_VARIABLE}."
        )
    return Path(output).stem


def _started_in() -> Path:
    """Give the folder that paths are relative to, which `--cwd` is not."""
    from papermill.iorw import papermill_io

    handler = papermill_io.get_handler("local")
    found = handler.cwd(None)
    handler.cwd(found)
    return Path(found or Path.cwd())


def _problem(place: _Place, report: Report, timeout: float | None) -> NotFinished | None:
    """Say why a run is not finished, and what to do; `None` if it is."""
    from durable_nb.fleet.errors import NotFinished
    from durable_nb.fleet.supervisor import End

    if report.end is End.FINISHED:
        return None
    lines = [report.why] if report.why else []
    if timeout:
        lines.append(f"A cell is interrupted after {timeout} s (the execution time-out).")
    for line in lines_for(place, report.run, report.questions):
        lines += [f"  {line.question}", f"    {line.line}"]
    return NotFinished(report.run, str(report.end), (*lines, _BY_END[report.end]))


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
    from nbformat.v4 import new_output

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


@contextlib.contextmanager
def _stopped_by_signals(stop: Stop, logger: Any) -> Iterator[None]:
    """Stop at the next boundary when first told to, and interrupt the cell the second time."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def told(_number: int, _frame: object) -> None:
        if stop.wanted.is_set():
            stop.at_once.set()
        stop.wanted.set()
        logger.warning("stopping before the next operation; once more interrupts the cell at work")

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
