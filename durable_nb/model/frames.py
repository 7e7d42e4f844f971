"""Which frames of a traceback are the person's own: what a notebook shows of an error of ours."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

#: Where the code of this package is.
_OURS: Final = f"{Path(__file__).parents[1]}/"
#: Where that of libraries is.
_LIBRARIES: Final = (
    *{f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")},
    "<frozen ",
)
#: The mode of IPython in which everything is shown: `%xmode Verbose`.
_WHOLE: Final = "Verbose"


def render(error: BaseException) -> list[str]:
    """Show an error as IPython does, without frames of this package.

    Parameters
    ----------
    error : BaseException
        With its traceback. `%xmode Verbose` shows all of it.
    """
    module = sys.modules.get("IPython")  # which is what asks
    shell = None if module is None else module.get_ipython()
    if shell is None:
        return traceback.format_exception(error)
    shown = shell.InteractiveTB
    if is_whole(shell):
        return list(shown.structured_traceback(type(error), error, error.__traceback__))
    with without_ours(error):
        return list(shown.structured_traceback(type(error), error, error.__traceback__))


def is_whole(shell: object) -> bool:
    """Tell whether a shell was asked to show tracebacks with everything that is in them."""
    return getattr(getattr(shell, "InteractiveTB", None), "mode", "") == _WHOLE


@contextmanager
def without_ours(error: BaseException) -> Iterator[None]:
    """Take our frames out of an error and its causes, for as long as this lasts.

    A cause that never touched a person's code is left out: the message says what it means.
    """
    saved: list[tuple[BaseException, TracebackType | None, BaseException | None, bool]] = []
    cause: BaseException | None = error
    try:
        while cause is not None and all(cause is not known for known, *_ in saved):
            saved.append((cause, cause.__traceback__, cause.__cause__, cause.__suppress_context__))
            before = cause.__cause__
            if before is None and not cause.__suppress_context__:
                before = cause.__context__
            cause.__traceback__ = theirs(cause.__traceback__)
            if before is not None and theirs(before.__traceback__) is None:
                cause.__cause__ = before = None  # and its context is not shown either
            cause = before
        yield
    finally:
        for known, tb, reason, suppressed in saved:
            known.__traceback__, known.__cause__ = tb, reason
            known.__suppress_context__ = suppressed


def theirs(tb: TracebackType | None) -> TracebackType | None:
    """Give a traceback without frames of ours, nor of the libraries that we called."""
    kept, ours = [], False
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file.startswith(_OURS):
            ours = True
        elif not (ours and file.startswith(_LIBRARIES)):
            kept.append(tb)
            ours = False
        tb = tb.tb_next
    found: TracebackType | None = None
    for frame in reversed(kept):
        found = TracebackType(found, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return found
