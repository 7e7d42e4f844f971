"""Who is calling: one execution of one cell, as the kernel knows it.

Needs nothing loaded: the message that asked for the execution says which cell it is, and a context
variable of the kernel's carries it into the tasks that the cell starts.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Mapping
from typing import Any, Final

from durable_nb.engine.scope import Origin

#: Message id -> number of the execution that it asked for.
_numbers: Final[dict[str, int]] = {}
_next: Final = itertools.count(1)
#: Where the counter of a terminal's executions is kept on its shell.
_COUNTER: Final = "_durable_nb_executions"


def current_shell() -> Any:
    """Give the running IPython shell, or `None`, without importing IPython."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def ipython_origin() -> Origin | None:
    """Say which execution of which cell is calling.

    Returns
    -------
    Origin or None
        `None` outside IPython. `cell` is the front end's cell id (JupyterLab sends one; nbclient
        and nbval do not), else a digest of the cell's source. `execution` is the same for all
        calls of one execution and differs between any two, silent ones included.
    """
    shell = current_shell()
    if shell is None:
        return None
    parent, message = _parent(shell), message_id(shell)
    cell_id = (parent.get("metadata") or {}).get("cellId")
    if not message:
        return _terminal_origin(shell)
    number = _numbers.get(message)
    if number is None:
        number = _numbers.setdefault(message, next(_next))
    if cell_id:
        return Origin(str(cell_id), number, has_id=True)
    return Origin(_digest((parent.get("content") or {}).get("code", "")), number, has_id=False)


def message_id(shell: Any) -> str:
    """Give the id of the message that asked for this execution; "" without a kernel."""
    return str((_parent(shell).get("header") or {}).get("msg_id") or "")


def count_execution(shell: Any) -> None:
    """Count an execution in a shell without a kernel; `execution_count` skips silent ones."""
    setattr(shell, _COUNTER, getattr(shell, _COUNTER, 0) + 1)


def _terminal_origin(shell: Any) -> Origin:
    history = getattr(shell.history_manager, "input_hist_raw", None) or [""]
    number = shell.execution_count + getattr(shell, _COUNTER, 0)
    return Origin(_digest(history[-1]), number, has_id=False)


def _parent(shell: Any) -> Mapping[str, Any]:
    get_parent = getattr(shell, "get_parent", None)
    if get_parent is None:
        return {}
    try:
        found: Mapping[str, Any] | None = get_parent()
    except LookupError:  # a kernel that was never asked for anything
        return {}
    return found or {}


def _digest(source: object) -> str:
    text = str(source).strip().encode("utf-8", "surrogatepass")
    return "source:" + hashlib.sha256(text).hexdigest()[:16]
