"""`%load_ext durable_nb`: puts `%durable` and `%%durable` in place, and keeps them there."""

from __future__ import annotations

import sys
from typing import Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

from durable_nb.notebook import hooks
from durable_nb.notebook.magics import HELP as VERBS_HELP
from durable_nb.notebook.magics import Verbs, list_unfinished
from durable_nb.notebook.options import HELP as CELL_HELP
from durable_nb.notebook.transform import Wrapper, rewrite

#: Where a shell keeps what was registered on it.
_LOADED: Final = "_durable_nb_extension"


class Extension:
    """What `%load_ext` registered on one shell; survives `%autoreload` as the shell's own."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._rewrite = rewrite
        self._wrapper = Wrapper(shell)
        self._verbs = Verbs(shell)

    def load(self) -> None:
        """Register everything."""
        register = self._shell.register_magic_function
        register(_line_magic(self._verbs), "line", "durable")
        register(_unguarded, "cell", "durable")
        self._register()
        self._shell.events.register("pre_run_cell", self.verify)
        hooks.install(self._shell)

    def unload(self) -> None:
        """Take everything away; a `%%durable` cell is then an unknown magic, and does not run."""
        shell = self._shell
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("durable", None)
        if self._rewrite in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.remove(self._rewrite)
        if self._wrapper in shell.ast_transformers:
            shell.ast_transformers.remove(self._wrapper)
        hooks.forget(shell, "pre_run_cell", self.verify)
        hooks.remove(shell)

    def verify(self, info: Any = None) -> None:
        """Before each cell: put back what is missing, and say so.

        IPython drops a syntax-tree transformer that raised once. The cell in which it did raise
        did not run, because its marker was not replaced; from this one on all is in place again.
        """
        missing = self._register()
        if missing:
            print(
                f"durable_nb: {' and '.join(missing)} of %%durable had been unregistered (IPython "
                "does that when it fails once). No cell ran unguarded; it is in place again.",
                file=sys.stderr,
            )

    def _register(self) -> list[str]:
        shell, missing = self._shell, []
        if self._rewrite not in shell.input_transformers_cleanup:
            shell.input_transformers_cleanup.append(self._rewrite)
            missing.append("the input transformer")
        if self._wrapper not in shell.ast_transformers:
            shell.ast_transformers.append(self._wrapper)
            missing.append("the syntax-tree transformer")
        return missing


def _line_magic(verbs: Verbs) -> Any:
    @no_var_expand
    def durable(line: str) -> None:
        verbs(line)

    durable.__doc__ = "Runs and their operations.\n\n" + VERBS_HELP
    return durable


@no_var_expand
def _unguarded(line: str, cell: str | None) -> None:
    raise UsageError(
        "this %%durable cell was not prepared, so it did not run and nothing was recorded. "
        "%%durable has to be the first line of its cell, with no other %%magic around it. If it "
        "is, run the cell once more: the transformers are registered again before each cell."
    )


_unguarded.__doc__ = "Run a cell once and record what it leaves behind.\n\n" + CELL_HELP


def load_ipython_extension(shell: Any) -> None:
    """Register the magics and list unfinished runs; nothing is opened or executed.

    Parameters
    ----------
    shell : InteractiveShell
        As IPython hands it to an extension. Loading twice is the same as once.
    """
    if getattr(shell, _LOADED, None) is not None:
        return
    extension = Extension(shell)
    extension.load()
    setattr(shell, _LOADED, extension)
    for line in list_unfinished():
        print(line)


def unload_ipython_extension(shell: Any) -> None:
    """Take everything away that loading put in place."""
    extension: Extension | None = getattr(shell, _LOADED, None)
    if extension is not None:
        extension.unload()
        setattr(shell, _LOADED, None)
