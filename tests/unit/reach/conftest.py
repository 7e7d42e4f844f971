"""A real shell and a working folder, for the tests of what code reaches."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from support.shells import real_shell


@pytest.fixture(autouse=True)
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own; the modules in it are the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) or name.startswith("zz"):
            file = str(getattr(sys.modules[name], "__file__", ""))
            if file.startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """A real IPython shell, whose names are those of `__main__`."""
    with real_shell(tmp_path_factory.mktemp("ipython")) as made:
        yield made


@pytest.fixture
def cell(shell: InteractiveShell) -> Callable[[str], dict[str, Any]]:
    """Execute cells in the shell; gives its names."""
    hidden = set(shell.user_ns)

    def run(source: str) -> dict[str, Any]:
        with capture_output():
            shell.run_cell(textwrap.dedent(source), store_history=True).raise_error()
        names: dict[str, Any] = shell.user_ns
        return names

    yield run
    for name in set(shell.user_ns) - hidden:
        del shell.user_ns[name]
