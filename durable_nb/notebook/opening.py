"""From the line of a durable cell to its context manager: what is wrong is said here, early."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from IPython.core.error import UsageError

from durable_nb.engine.context import OPEN, current_run
from durable_nb.engine.run import Run
from durable_nb.engine.validation import fits
from durable_nb.model.errors import DurableError, NoActiveRun, RunMissing
from durable_nb.notebook import tracebacks
from durable_nb.notebook.cell import Cell
from durable_nb.notebook.options import HELP, CellOptions, HelpWanted, parse
from durable_nb.notebook.origin import current_shell
from durable_nb.notebook.source import CELL, Facts


def open_cell(args: str, packed: tuple[Any, ...]) -> Cell | Nothing:
    """Make the context manager of a durable cell; only the syntax-tree stage calls this.

    Raises
    ------
    UsageError
        The line is wrong, or another magic runs the cell. Nothing was recorded.
    NoActiveRun, RunMissing
        There is no run to record in.
    """
    __tracebackhide__ = True
    shell = current_shell()
    _refuse_inside_magic(sys._getframe(1))
    try:
        options = parse(args)
    except HelpWanted:
        print(HELP)
        return Nothing(shell)
    facts = Facts.unpacked(packed)
    _check_names(options, facts, shell.user_ns)
    try:
        return Cell(shell, _find_run(options, shell.user_ns), options, facts)
    except DurableError as problem:
        raise tracebacks.briefly(problem) from None


def _refuse_inside_magic(frame: FrameType | None) -> None:
    """Refuse `%%time`, `%%capture` and so on: they would swallow a failure, or run a body twice."""
    while frame is not None:
        if frame.f_code.co_name == "run_cell_magic" and "IPython" in frame.f_code.co_filename:
            magic = frame.f_locals.get("magic_name", "magic")
            raise UsageError(
                f"%%durable cannot stand under %%{magic}: it has to be the first line of its cell. "
                f"Nothing was run or recorded. Put %%durable first, and %{magic} (one %) before "
                "the statement that it is for."
            )
        frame = frame.f_back


def _check_names(options: CellOptions, facts: Facts, namespace: dict[str, Any]) -> None:
    missing = [name for name in options.inputs if name not in namespace]
    if missing:
        raise UsageError(
            f"%%durable {options.name}: --in names {', '.join(missing)}, which no cell has made. "
            "Nothing was run or recorded. Run the cell that makes it first."
        )
    checks = [f for _, f in options.validate if not fits(namespace.get(f))]
    if checks:
        raise UsageError(
            f"%%durable {options.name}: --validate names {', '.join(checks)}, which is no function "
            "that a cell has made. Nothing was run or recorded. Run the cell that makes it first."
        )
    known = {*facts.source.binds, *namespace}
    unknown = [name for name in options.outputs or () if name not in known]
    if unknown and not facts.source.blind:
        raise UsageError(
            f"%%durable {options.name}: --out names {', '.join(unknown)}, which this cell does not "
            "make. Nothing was run or recorded. Correct the name."
        )


def _find_run(options: CellOptions, namespace: dict[str, Any]) -> Run:
    if not options.run:
        run = current_run()
        if run is None:
            raise NoActiveRun(options.name)
        return run
    held = namespace.get(options.run)
    if isinstance(held, Run):
        return held
    for run in reversed(OPEN.all()):
        if run.name == options.run:
            return run
    known = [run.name for run in OPEN.all()]
    raise RunMissing(options.run, "this kernel", known)


class Nothing:
    """A cell that does nothing: it was asked for help."""

    needed = False

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def restore(self) -> None:
        """Bring nothing back."""

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.user_ns.pop(CELL, None)

    async def __aenter__(self) -> Nothing:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shell.user_ns.pop(CELL, None)
