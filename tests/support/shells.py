"""A real IPython shell in the process of the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@contextmanager
def real_shell(folder: Path) -> Iterator[InteractiveShell]:
    """Give a shell whose names are those of `__main__`; all is as it was afterwards."""
    main, hook = sys.modules["__main__"], sys.displayhook
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder))
        made = InteractiveShell.instance(config=config)
        sys.modules["__main__"] = made.user_module
        try:
            yield made
        finally:
            InteractiveShell.clear_instance()
            sys.modules["__main__"] = main
            sys.displayhook = hook
