"""All runs of a store as a live table, from which the panel of each opens."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

import anywidget
import ipywidgets
import traitlets
from IPython.display import display

from durable_nb.engine.context import OPEN
from durable_nb.engine.overview import Overview, RunRow, overview
from durable_nb.engine.watched import Watched
from durable_nb.journal import Store
from durable_nb.model.errors import DurableError
from durable_nb.notebook.display import INSET
from durable_nb.notebook.origin import current_shell
from durable_nb.notebook.panel import texts
from durable_nb.notebook.panel.clicks import answer_beside_cells
from durable_nb.notebook.panel.panel import panel_of
from durable_nb.notebook.panel.saved import Saved

#: Seconds between two looks at the store, or so many times what the last look took.
LOOK_S: Final = 2.0
_REST: Final = 20
_HERE: Final = Path(__file__).parent
#: With soft hyphens: in a narrow window long words are broken, and only there.
_COLUMNS: Final = (
    "run", "status", "com&shy;pleted", "in&shy;com&shy;plete", "un&shy;known", "cost", "asks",
)  # fmt: skip


class Table(anywidget.AnyWidget):
    """The runs; what it shows are its traits, all plain data."""

    _esm = "\n".join((_HERE / name).read_text("utf-8") for name in ("dom.js", "overview.js"))
    _css = _HERE / "table.css"

    store = traitlets.Unicode().tag(sync=True)
    rows: Any = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)


class Runs:
    """The runs of one store in this kernel.

    Attributes
    ----------
    widget : ipywidgets.VBox
        The table, and below it the panel of the run that was chosen.
    saved : Saved
        The static table above it, where it was last shown.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.table, self.saved = store, Table(), Saved()
        self.widget = ipywidgets.VBox([self.table])
        self._watcher: threading.Thread | None = None
        answer_beside_cells(self.table.comm)
        self.table.on_msg(self._on_message)

    def refresh(self) -> Overview | None:
        """Show the runs as they are now; a failure to do so is shown instead."""
        try:
            found = overview(self.store)
        except (DurableError, OSError) as problem:
            self.table.message = f"not current: {problem}"
            return None
        now = datetime.now(UTC)
        self.table.store = texts.plain(found.store)
        self.table.rows = [row_of(row, now) for row in found.rows]
        self.table.message = ""
        return found

    def watch(self) -> None:
        """Keep what is shown current, as long as the kernel lives."""
        if self._watcher is None:
            self._watcher = threading.Thread(
                target=self._watch, name="durable_nb runs", daemon=True
            )
            self._watcher.start()

    def _watch(self) -> None:
        pause = LOOK_S
        while True:
            time.sleep(pause)
            began = time.monotonic()
            try:
                found = self.refresh()
                if found is not None:
                    self.saved.renew(found, partial(Static, found))
            except Exception:  # no way to the front end
                return
            pause = max(LOOK_S, _REST * (time.monotonic() - began))

    def _on_message(self, widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
        """Open the panel of a run below the table, or none; nothing that goes wrong leaves it."""
        try:
            wanted = content.get("open")
            if not wanted:
                self.table.chosen, self.widget.children = "", (self.table,)
                return
            name = next(
                row.name for row in overview(self.store).rows if texts.plain(row.name) == wanted
            )
            panel = panel_of(Watched(self.store.place(name)))
            panel.table.message = {}  # what was said of an earlier doubt is said
            panel.refresh()
            panel.table.observe(self._on_answer, "answer")  # once, however often it is opened
            self.table.chosen = texts.plain(name)
            self.widget.children = (self.table, panel.widget)
            panel.watch()
        except Exception as problem:
            self.table.message = f"{type(problem).__name__}: {problem}"

    def _on_answer(self, change: Mapping[str, Any]) -> None:
        """Show what a click in the panel of a run has changed, which its owner publishes now."""
        if not change["new"].get("ok"):
            return
        for run in OPEN.all():
            if run.place.store == self.store:
                run.publisher.publish()
        self.refresh()


def row_of(row: RunRow, now: datetime) -> dict[str, Any]:
    """Give a run as the table shows it."""
    touched = None if row.updated is None else max(0.0, (now - row.updated).total_seconds())
    return {
        "name": texts.plain(row.name),
        "status": row.standing,
        "pace": row.pace,
        "completed": row.completed,
        "incomplete": row.incomplete,
        "unknown": row.unknown,
        "cost": row.cost,
        "asks": [texts.plain(ask) for ask in row.asks],
        "touched_s": touched,
    }


class Static:
    """The runs as IPython displays them where no widget is alive."""

    def __init__(self, found: Overview) -> None:
        self._found = found

    def _repr_html_(self) -> str:
        style = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"
        cell = f'style="{style}"'
        name, asks = (  # the words of the others stay whole in a narrow window
            f'style="{style};overflow-wrap:anywhere;min-width:{least}em"' for least in (4, 7)
        )
        head = "".join(f"<th {cell}>{heading}</th>" for heading in _COLUMNS)
        body = "".join(
            "<tr>"
            + "".join(
                f"<td {how}>{escape(str(text))}</td>"
                for how, text in (
                    (name, row.name), (cell, row.standing), (cell, row.completed),
                    (cell, row.incomplete), (cell, row.unknown), (cell, row.cost),
                    (asks, "; ".join(row.asks)),
                )
            )
            + "</tr>"
            for row in self._found.rows
        )  # fmt: skip
        return (
            f'<div class="durable-nb-runs" style="{INSET}" role="status">'
            f"<b>runs in {escape(self._found.store)}</b>"
            '<details class="durable-nb-static" open>'
            "<summary>saved with the notebook: these runs</summary>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details></div>"
        )

    def __repr__(self) -> str:
        return self._found.to_text()


#: What this kernel has shown, one a store.
_shown: Final[dict[Store, Runs]] = {}


def show_runs(store: Store) -> None:
    """Show the runs: a static table that outlives the kernel, and below it the live one."""
    found = overview(store)
    runs = _shown.get(store)
    saved = Saved() if runs is None else runs.saved
    saved.show(Static(found), found)
    if getattr(current_shell(), "kernel", None) is None:
        return
    if runs is None:
        runs = _shown[store] = Runs(store)
    runs.saved = saved
    runs.refresh()
    bundle = dict(runs.widget._repr_mimebundle_())
    bundle["text/plain"] = "the live list of these runs"
    display(bundle, raw=True)  # type: ignore[no-untyped-call]
    runs.watch()
