"""The live panel: one container, one table, and a thread that keeps it current."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

from durable_nb.engine.views import StatusView
from durable_nb.engine.watched import Watched
from durable_nb.journal import Place
from durable_nb.model.bases import DurableSignal
from durable_nb.model.errors import DurableError, OperationMissing
from durable_nb.notebook.display import Shown
from durable_nb.notebook.origin import current_shell
from durable_nb.notebook.panel import model
from durable_nb.notebook.panel.actions import Answer, act
from durable_nb.notebook.panel.clicks import answer_beside_cells
from durable_nb.notebook.panel.header import header_of
from durable_nb.notebook.panel.rows import Sent
from durable_nb.notebook.panel.saved import Saved
from durable_nb.notebook.panel.texts import plain

#: Seconds between two looks at the run, and between two signs of life for the front end.
LOOK_S: Final = 1.0
BEAT_S: Final = 2.0
#: After so many seconds what has changed is not what an action itself did.
SAID_S: Final = 4.0
#: So many times as long as the last look took, the watcher waits for the next one.
_REST: Final = 20
#: How many clicks are remembered, so that one delivered twice is answered once.
_REMEMBERED: Final = 200
#: After so many failed looks in a row the watcher ends; `%durable panel` starts it again.
_GIVE_UP: Final = 10
#: Operations up to which the timeline is drawn as well; `run.timeline()` draws any run.
_DRAWN: Final = 5_000
_HERE: Final = Path(__file__).parent
#: The front end's files, in the order in which they are put together: no bundler is needed.
_MODULES: Final = (
    "dom.js",
    "store.js",
    "header.js",
    "rows.js",
    "detail.js",
    "notice.js",
    "table.js",
)


class Table(anywidget.AnyWidget):
    """The one widget of the front end; what it shows are its traits, all plain data."""

    _esm = "\n".join((_HERE / name).read_text("utf-8") for name in _MODULES)
    _css = _HERE / "table.css"

    header = traitlets.Dict().tag(sync=True)
    rows: Any = traitlets.Dict().tag(sync=True)  # its version; `whole` makes it all rows
    patch = traitlets.Dict().tag(sync=True)
    details = traitlets.Dict().tag(sync=True)
    message = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    stopped = traitlets.Dict().tag(sync=True)  # which panel, how many cells of it, and where
    queued = traitlets.Dict().tag(sync=True)  # the front end's own: what waits for an answer
    beat = traitlets.Int(0).tag(sync=True)
    #: Gives all rows as they are now, whenever they are sent: to a page that opens, too.
    whole: Callable[[], Mapping[str, Any]] | None = None

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """Give the state that is sent, with all rows in place of their version."""
        state = super().get_state(key=key, drop_defaults=drop_defaults)
        if "rows" in state and self.whole is not None:
            state["rows"] = self.whole()
        return state


class Panel:
    """The panel of one run in this kernel, whoever holds the run.

    Attributes
    ----------
    run : Watched
        What is shown, and settled.
    table : Table
        The table; what happens in it comes here.
    widget : ipywidgets.VBox
        The container, for a notebook to show or to put into a layout of its own.
    saved : Saved
        The static table above it, where it was last shown.
    """

    def __init__(self, run: Watched) -> None:
        self.run = run
        self.table = Table(stopped={"panel": secrets.token_hex(8), "count": 0, "notebook": ""})
        answer_beside_cells(self.table.comm)
        self._sent = Sent()
        self.table.whole = self._sent.whole
        self._resend = False  # whether a view may have come too late for a patch
        self.widget = ipywidgets.VBox([self.table])
        self.saved = Saved()
        self._lock = threading.RLock()
        self._shown: object = None
        self._broken = False
        self._behind: datetime | None = None  # since when it cannot be looked at the run
        self._answered: deque[str] = deque(maxlen=_REMEMBERED)
        self._watcher: threading.Thread | None = None
        self._over = threading.Event()
        self.table.on_msg(self._on_message)
        self.refresh()

    # -- from the front end ---------------------------------------------------------------

    def _on_message(self, widget: Any, content: Any, buffers: Any) -> None:
        """Take a click; nothing that goes wrong here leaves the panel."""
        try:
            with self._lock:
                self._handle(content)
        except Exception as problem:
            self._tell(f"the panel failed ({type(problem).__name__}: {problem})", ok=False)

    def _handle(self, content: Mapping[str, Any]) -> None:
        request, shown = str(content["request"]), str(content.get("op"))
        if request in self._answered:
            return
        self._answered.append(request)
        self._resend = False  # whoever can ask can ask for what it has missed
        found: dict[str, Any] = {"request": request, "op": shown}
        try:
            op = self._sent.op(shown)
            match content.get("action"):
                case "whole":
                    self.table.send_state("rows")
                case "detail":
                    found["detail"] = self._detail(op)
                case "why":
                    found["why"] = model.why_of(self.run, op)
                case "history":
                    found["history"] = model.history_of(self.run, op)
                case "dependants":
                    found["cascade"] = model.cascade_of(self.run, op)
                case _:
                    answer = act(self.run, {**content, "op": op})
                    found |= {"ok": answer.ok, "more": answer.more, "fields": answer.fields}
                    self._tell(answer.text, ok=answer.ok, request=request)
        except Exception as problem:
            answer = Answer(False, f"{type(problem).__name__}: {problem}")
            found["ok"] = answer.ok
            self._tell(answer.text, ok=False, request=request)
        finally:
            self._set("answer", found)
        self.refresh(anew=False)

    def _detail(self, op: str) -> dict[str, Any]:
        status = self.run.status_view()
        view = model.view_of(status, op)
        if view is None:
            raise OperationMissing(op)
        return next(model.detailed(status, [view]))

    # -- to the front end -----------------------------------------------------------------

    def refresh(self, *, anew: bool = True) -> None:
        """Show the run as it is now; a failure to do so is shown instead, and raised nowhere.

        Parameters
        ----------
        anew : bool
            Also where there is nothing new to be seen.
        """
        try:
            with self._lock:
                shown = self.run.stamp()
                if shown == self._shown and self._behind is None and not anew:
                    return
                status = self.run.status_view()
                with self.table.hold_sync():  # one message
                    if self._show_rows(status):
                        self._hush()
                    self.table.details = model.details_of(status)
                    self.table.header = header_of(status, datetime.now(UTC))
                self._shown = shown
                if self._behind is not None:
                    self._behind = None
                    self._set("message", {})
        except Exception as problem:
            self._fall_behind(problem)

    def _hush(self) -> None:
        """Take back what was said of an action once the run has gone on: it is over."""
        said = self.table.message
        if said.get("ok") and time.time() - said["at"] > SAID_S:
            self._set("message", {})

    def _show_rows(self, status: StatusView) -> bool:
        """Send what has changed; tell whether anything has."""
        patch = self._sent.update(status, whole=self._resend)
        if patch is None:
            self.table.rows = {"version": self._sent.version}
            self._resend = False
        elif patch:
            self.table.patch = patch
        return patch != {}

    def _fall_behind(self, problem: Exception) -> None:
        """Say once, until it is current again, that the table is not, and since when."""
        if self._behind is None:
            self._behind = since = datetime.now(UTC)
            why = f"{type(problem).__name__}: {problem}"
            at = f"{since:%Y-%m-%d %H:%M:%S} UTC"
            self._tell(f"the table is not current since {at} ({why})", ok=False)

    def _tell(self, text: str, *, ok: bool, request: str = "") -> None:
        """Say something: to the page that asked, or to all of them."""
        said = {"text": plain(text), "ok": ok, "at": time.time(), "request": request}
        self._set("message", said)

    def _set(self, trait: str, value: Any) -> None:
        """Set a trait; where not even that works, fall back to text, once."""
        try:
            setattr(self.table, trait, value)
        except Exception as problem:
            if not self._broken:
                self._broken = True
                print(
                    f"the panel cannot be updated ({type(problem).__name__}: {problem}); %durable "
                    f"status shows the run:\n{self.run.status_view().to_text()}"
                )

    # -- staying current ------------------------------------------------------------------

    def watch(self) -> None:
        """Keep what is shown current, from a thread of its own, as long as the kernel lives."""
        if self._watcher is None or not self._watcher.is_alive():
            self._over.clear()
            self._watcher = threading.Thread(
                target=self._watch, name=f"durable-panel-{self.run.name}", daemon=True
            )
            self._watcher.start()

    def _watch(self) -> None:
        began, failures, took = time.monotonic(), 0, 0.0
        rested = time.monotonic()
        while not self._over.wait(LOOK_S):
            try:
                if time.monotonic() - began >= BEAT_S:
                    began = time.monotonic()
                    self.table.beat += 1
                rests = time.monotonic() - rested < _REST * took
                changed = not (self._broken or rests) and (
                    self._behind is not None or self.run.stamp() != self._shown
                )
                if changed and self._lock.acquire(blocking=False):
                    try:
                        looked = time.thread_time()
                        self.refresh()
                        took, rested = time.thread_time() - looked, time.monotonic()
                    finally:
                        self._lock.release()
                self.saved.renew(self.run.stamp(), lambda: _shown(self.run))
                failures = 0
            except DurableError as problem:  # such as a database that is away: it is back some day
                self._fall_behind(problem)
            except Exception:  # no way to the front end, which calls the panel stale by itself
                failures += 1
                if failures >= _GIVE_UP:
                    return

    def expect_view(self) -> None:
        """Have all rows where a view that is made now finds them, and may miss the next patch."""
        with self._lock:
            if self.table.rows.get("version") != self._sent.version:
                self.table.rows = {"version": self._sent.version}
            self._resend = True

    def close(self) -> None:
        """Stop watching, and take the widgets away."""
        self._over.set()
        self.table.close()
        self.widget.close()


def _shown(run: Watched) -> Shown:
    """Make the static table, with the timeline of what is not too long for it."""
    status = run.status_view()
    drawn = None
    if len(status.rows) <= _DRAWN:
        with contextlib.suppress(Exception, DurableSignal):  # such as that it is another's now
            drawn = run.timeline(published=True).data
    return Shown(status, drawn)


#: The panel of each run that this kernel has shown, by its place: one a run, however often shown.
_panels: Final[dict[Place, Panel]] = {}


def panel_of(run: Watched) -> Panel:
    """Give the one panel of a run; made when it is first asked for."""
    panel = _panels.get(run.place)
    if panel is None:
        panel = _panels[run.place] = Panel(run)
    return panel


def show(run: Watched, *, stopped: bool = False, notebook: str = "") -> None:
    """Show the static table, and after it, where there is a front end, the live one.

    Parameters
    ----------
    run : Watched
        Whoever holds it. Shown again, it is the same widget in another place.
    stopped : bool
        Whether a cell has stopped because of it: the page says so, as long as it stands elsewhere.
    notebook : str
        Which notebook that is, where it is known.
    """
    known = _panels.get(run.place)  # which looks only for what has changed
    run, saved = (run, Saved()) if known is None else (known.run, known.saved)
    stamp = run.stamp()
    saved.show(_shown(run), stamp)
    if getattr(current_shell(), "kernel", None) is None:
        return
    try:
        panel = panel_of(run)
        panel.saved = saved
        panel.table.message = {}  # what was said of an earlier doubt is said
        panel.refresh()
        if stopped:
            before = panel.table.stopped
            said = {"count": before["count"] + 1, "notebook": plain(notebook)}
            panel.table.stopped = {**before, **said}
        panel.expect_view()
        bundle = dict(panel.widget._repr_mimebundle_())
        bundle["text/plain"] = f"the live panel of run {run.name}"
        display(bundle, raw=True)  # type: ignore[no-untyped-call]
        panel.watch()
    except Exception as problem:  # a panel that cannot be shown fails no cell
        print(
            f"the live panel cannot be shown ({type(problem).__name__}: {problem}); the table "
            "above says the same, and %durable confirm and deny settle what it asks"
        )
