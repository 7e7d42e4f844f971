"""The static table above a panel: what a saved notebook still shows when no kernel is alive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from IPython.display import display

from durable_nb.engine.views import StatusView
from durable_nb.engine.watched import Watched
from durable_nb.model.bases import DurableSignal
from durable_nb.model.timeline import Timeline
from durable_nb.notebook.display import Shown
from durable_nb.notebook.origin import current_shell, ipython_origin

#: Operations up to which the timeline is drawn as well; `run.timeline()` draws any run.
_DRAWN: Final = 5_000
#: Seconds between two updates at least, and how many times as long as the last one took.
_EVERY_S: Final = 3.0
_REST: Final = 60


class Static:
    """One static table, where it was last shown, kept current as long as its kernel lives.

    It is saved with the notebook, so that it has to say how the run was in the end, and not how
    it was when it was shown. Where nobody looks (a cell without an id, as in nbval and papermill)
    it stays as it was shown.
    """

    def __init__(self) -> None:
        self._publish: Callable[[Shown], None] | None = None
        self._at: object = None
        self._next = 0.0

    def show(self, run: Watched, status: StatusView) -> None:
        """Show it under the cell that is at work."""
        shell, stamp = current_shell(), run.stamp()
        self._publish = None
        made = Shown(status, _timeline_of(run, status))
        origin = ipython_origin()
        if getattr(shell, "kernel", None) is None or origin is None or not origin.has_id:
            display(made)  # type: ignore[no-untyped-call]
            return
        about = {"display_id": f"durable-nb-{secrets.token_hex(8)}"}
        display(made, **about)  # type: ignore[no-untyped-call]
        publish = shell.display_pub.publish

        def update(now: Shown) -> None:
            data = {"text/plain": repr(now), "text/html": now._repr_html_()}
            publish(data, transient=about, update=True)

        self._publish, self._at = update, stamp

    def renew(self, run: Watched) -> None:
        """Make it say how the run is now, if it does not, and not too often."""
        if self._publish is None or time.monotonic() < self._next:
            return
        stamp = run.stamp()
        if stamp == self._at:
            return
        began = time.thread_time()
        status = run.status_view()
        self._publish(Shown(status, _timeline_of(run, status)))
        self._at = stamp
        took = time.thread_time() - began
        self._next = time.monotonic() + max(_EVERY_S, _REST * took)


def _timeline_of(run: Watched, status: StatusView) -> Timeline | None:
    """Give what is drawn; a run that cannot be drawn has its table all the same."""
    if len(status.rows) > _DRAWN:
        return None
    try:
        return run.timeline(published=True).data
    except (Exception, DurableSignal):  # such as that this kernel no longer owns the run
        return None
