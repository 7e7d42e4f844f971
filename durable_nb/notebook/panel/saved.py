"""The static table above a live one: what a saved notebook still shows when no kernel is alive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from IPython.display import display

from durable_nb.notebook.origin import current_shell, ipython_origin

#: Seconds between two updates at least, and how many times as long as the last one took.
_EVERY_S: Final = 3.0
_REST: Final = 60


class Displayed(Protocol):
    """What IPython displays as HTML, or as plain text."""

    def _repr_html_(self) -> str: ...


class Saved:
    """A static table where it was last shown, kept current as long as its kernel lives.

    It is saved with the notebook, so that it has to say how things were in the end, and not how
    they were when it was shown. Where nobody looks (a cell without an id, as in nbval and
    papermill) it stays as it was shown.
    """

    def __init__(self) -> None:
        self._publish: Callable[[Displayed], None] | None = None
        self._of: object = None
        self._next = 0.0

    def show(self, made: Displayed, of: object) -> None:
        """Show it under the cell that is at work.

        Parameters
        ----------
        made : Displayed
            The table.
        of : object
            What it shows, to be compared with what there is later.
        """
        shell, origin = current_shell(), ipython_origin()
        self._publish = None
        if getattr(shell, "kernel", None) is None or origin is None or not origin.has_id:
            display(made)  # type: ignore[no-untyped-call]
            return
        about: dict[str, Any] = {"display_id": f"durable-nb-{secrets.token_hex(8)}"}
        display(made, **about)  # type: ignore[no-untyped-call]
        publish = shell.display_pub.publish

        def update(now: Displayed) -> None:
            data = {"text/plain": repr(now), "text/html": now._repr_html_()}
            publish(data, transient=about, update=True)

        self._publish, self._of = update, of

    def renew(self, of: object, make: Callable[[], Displayed]) -> None:
        """Make it say how things are now, where that is something else, and not too often."""
        if self._publish is None or of == self._of or time.monotonic() < self._next:
            return
        began = time.thread_time()
        self._publish(make())
        self._of = of
        took = time.thread_time() - began
        self._next = time.monotonic() + max(_EVERY_S, _REST * took)
