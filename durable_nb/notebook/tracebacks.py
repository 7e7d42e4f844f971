"""How errors of a durable cell are shown: at the line of the cell, without our own frames."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import Any, TypeVar

from durable_nb.model import frames
from durable_nb.model.errors import DurableError
from durable_nb.notebook.origin import current_shell

E = TypeVar("E", bound=DurableError)


def _lines(lines: list[str]) -> list[str]:
    return lines


def show_as(problem: BaseException, lines: list[str]) -> None:
    """Have IPython show these lines for this error."""
    problem._render_traceback_ = functools.partial(_lines, lines)  # type: ignore[attr-defined]


def briefly(problem: E) -> E:
    """Show an error of the cell's own machinery without a traceback: no line of the body is it."""
    lines = [f"{type(problem).__name__}: {problem}"]
    problem._render_traceback_ = functools.partial(_brief, problem, lines)  # type: ignore[method-assign]
    return problem


def _brief(problem: DurableError, lines: list[str]) -> list[str]:
    return frames.render(problem) if frames.is_whole(current_shell()) else lines


def of_cell(shell: Any, error: BaseException, tb: TracebackType | None) -> list[str]:
    """Render an error of the body as IPython does in a plain cell, while the cell has not ended."""
    found: list[str] = shell.InteractiveTB.structured_traceback(
        type(error), error, None if tb is None else _at_its_line(tb), tb_offset=0
    )
    return found


def _at_its_line(tb: TracebackType) -> TracebackType:
    """Give a traceback whose outermost frame stands where it raised.

    IPython reads the line from the frame, and the frame of the cell stands at its `with` by now,
    the line of the marker. So a frame of the same file is made that raised at the right line.
    """
    code = compile(
        "\n" * (tb.tb_lineno - 1) + "raise StopIteration", tb.tb_frame.f_code.co_filename, "exec"
    )
    try:
        exec(code, {"__name__": "__main__"})
    except StopIteration as stop:
        made = stop.__traceback__ and stop.__traceback__.tb_next
        if made is not None:
            return TracebackType(tb.tb_next, made.tb_frame, made.tb_lasti, tb.tb_lineno)
    return tb
