"""Where the clicks on a widget are answered: beside a cell that blocks, and never nowhere."""

from __future__ import annotations

import contextlib
from typing import Any

from durable_nb.notebook.origin import current_shell


def answer_beside_cells(comm: Any) -> None:
    """Have clicks answered where the front end sends them, which is beside a cell that blocks.

    Pausing is for a cell that is at work. JupyterLab sends clicks to a subshell where a kernel
    has any (JEP 91). ipykernel 7.4 hands them on to whoever has last published instead, and what
    a watcher publishes counts as the cell's: then a click waits until the cell has ended. So
    does one for a subshell that is gone, as after a page was loaded anew: it would get lost.
    """
    kernel: Any = getattr(current_shell(), "kernel", None)

    def chosen(_data: Any, subshell: str | None) -> str | None:
        with contextlib.suppress(AttributeError):  # a kernel that keeps them elsewhere
            there = kernel.shell_channel_thread.manager.list_subshell()
            return subshell if subshell in there else None
        return None

    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = chosen
