"""Papermill's engine `durable`: ``papermill --engine durable in.ipynb out.ipynb``.

Every papermill of an installation imports this module as it starts, whichever engine is asked
for, while papermill itself is only half imported: so what it needs is imported on first use.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_nb.faces.settling import lines_for
from durable_nb.journal import StoreLike, store_of
from durable_nb.journal import folder as folders

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from durable_nb.fleet.errors import NotFinished
    from durable_nb.fleet.supervisor import Supervised

#: The variable that names the run.
RUN_VARIABLE: Final = "DURABLE_RUN"
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
        from durable_nb.fleet.papermill import Copy, Listeners, submitted_by
        from durable_nb.fleet.supervising import stopping
        from durable_nb.fleet.supervisor import Supervisor

        output = nb.metadata.papermill.get("output_path")
        given = run or os.environ.get(RUN_VARIABLE)
        base = _started_in()
        with chdir(str(base)):
            root = store_of(store or os.environ.get(folders.STORE_VARIABLE) or None)
        submitted = submitted_by(nb, kernel_name, input_path, "" if given else output, base)
        name = given or _name_from(output, submitted.path)
        folders.check_name(name)

        def manager() -> Any:
            return NotebookExecutionManager(
                nb, output_path, log_output, progress_bar, autosave_cell_every
            )

        copy = Copy(nb, manager, Listeners(log_output, stdout_file, stderr_file, logger))
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
            at_last.enter_context(stopping(stop, logger.warning, (signal.SIGINT, signal.SIGTERM)))
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

    store: StoreLike | None
    store_named: bool


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


def _problem(place: _Place, report: Supervised, timeout: float | None) -> NotFinished | None:
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
