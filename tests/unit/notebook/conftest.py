"""An IPython shell in this process, with the extension loaded and a store of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import capture_output
from support.shells import real_shell

import durable_nb as dnb
from durable_nb.engine.context import OPEN


class Notebook:
    """Runs cells, and says what each showed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    @property
    def names(self) -> dict[str, Any]:
        return self.shell.user_ns

    def run(self, source: str) -> SimpleNamespace:
        with capture_output() as shown:
            result: ExecutionResult = self.shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        displays = "".join(o.data.get("text/plain", "") + "\n" for o in shown.outputs)
        text = shown.stdout + displays + shown.stderr
        return SimpleNamespace(
            ok=result.success,
            error=error,
            out=text,
            stdout=shown.stdout,
            value=result.result,
            displays=[dict(o.data) for o in shown.outputs],
        )

    def ok(self, source: str) -> SimpleNamespace:
        done = self.run(source)
        assert done.ok, done.out
        return done

    def restart(self) -> None:
        """Begin again as a new kernel would: no names, and the run closed."""
        close_all()
        wipe(self.shell)


def wipe(shell: InteractiveShell) -> None:
    for name in set(shell.user_ns) - set(shell.user_ns_hidden):
        if not name.startswith("__"):
            del shell.user_ns[name]


def close_all() -> None:
    for run in OPEN.all():
        with contextlib.suppress(dnb.DurableError):
            run.close()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with real_shell(tmp_path_factory.mktemp("ipython")) as made:
        yield made


@pytest.fixture
def notebook(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    monkeypatch.setenv("DURABLE_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    interactivity = shell.ast_node_interactivity
    dnb.load_ipython_extension(shell)
    try:
        yield Notebook(shell)
    finally:
        close_all()
        dnb.unload_ipython_extension(shell)
        shell.ast_node_interactivity = interactivity
        wipe(shell)


@pytest.fixture
def opened(notebook: Notebook) -> Notebook:
    """A notebook in which `%durable run job` was executed."""
    notebook.ok("%durable run job")
    return notebook
