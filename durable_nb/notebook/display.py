"""A run as static HTML: what a reopened notebook still shows when no widget is alive."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from durable_nb.engine.picture.svg import svg_of
from durable_nb.engine.picture.text import anchor, tag_of
from durable_nb.engine.tree import StatusRow, more_text
from durable_nb.engine.views import OperationView, StatusView
from durable_nb.model.timeline import Timeline

#: Outcome -> colour of its sign; the word stands beside it, so colour is never the only sign.
#: JupyterLab's own is made for areas: mixed with its text it has contrast enough on its pages.
_MIXED: Final = "color-mix(in srgb, {} 65%, var(--jp-ui-font-color0, currentColor))"
_COLOURS: Final[Mapping[str, str]] = {
    "completed": _MIXED.format("var(--jp-success-color1, #1a7f37)"),
    "incomplete": "inherit",
    "unknown": _MIXED.format("var(--jp-warn-color1, #9a6700)"),
}
#: Rows, and lines of what is open, in a static table: it is saved with the notebook. The live
#: table has all of them.
LIMIT: Final = 100
#: Of these, lines that are not scrolled: with all, the live table would be a long way below, and
#: Notebook 7 would put both of them into a small frame.
_SCROLLED: Final = 24
#: As far from the left as JupyterLab has an output that is text.
INSET: Final = "padding:0 5px"
_CELL: Final = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"
_COLUMNS: Final = ("operation", "outcome", "effect", "attempt", "", "idempotency key")
_MONO: Final = "font-family:monospace;white-space:pre-wrap"


class Shown:
    """A status as IPython displays it: HTML where that is shown, else plain text."""

    def __init__(self, view: StatusView, timeline: Timeline | None = None) -> None:
        self._view, self._timeline = view, timeline

    def _repr_html_(self) -> str:
        return status_html(self._view, self._timeline)

    def __repr__(self) -> str:
        return self._view.to_text(LIMIT)


def status_html(view: StatusView, timeline: Timeline | None = None) -> str:
    """Render a run's status as static HTML, everything in it escaped.

    Parameters
    ----------
    view : StatusView
        From ``run.status_view()``.
    timeline : Timeline, optional
        Drawn below the table, whose rows its bars lead to.

    Returns
    -------
    str
        One element without scripts, with the same words as ``view.to_text(LIMIT)``.
    """
    c = view.counts
    counts = ", ".join(f"{c[k]} {k}" for k in ("completed", "incomplete", "unknown"))
    head = f"<b>run {_text(view.run)}</b> · {_text(view.status)} · {_text(counts)}"
    money = _money(view)
    above = [f"<div>{head}{money}</div>"]
    if view.headline:
        above.append(f"<div>{_text(view.headline)}</div>")
    parts = []
    if view.rows:
        listed, more = view.shortened(LIMIT)
        tag = "" if timeline is None else tag_of(timeline)  # without it no link leads to a row
        rows = "".join(_row(view.run, r, tag) for r in listed)
        header = "".join(f'<th style="{_CELL}">{h}</th>' for h in _COLUMNS)
        table = (
            f'<table style="border-collapse:collapse"><thead><tr>{header}</tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )
        parts.append(_framed(table, len(listed)))
        parts += [f"<div>{_text(more_text(more))}</div>"] if more else []
    if view.restored:
        parts.append(f"<div>{view.restored} from record, not run again</div>")
    asked = [
        f'<div>{_text(what)} <code style="{_MONO}">{_text(line)}</code></div>'
        for what, line in view.open[:LIMIT]
    ]
    parts.append(_framed("".join(asked), len(asked)))
    if len(view.open) > LIMIT:
        parts.append(f"<div>... and {len(view.open) - LIMIT:,} more</div>")
    if timeline is not None and timeline.bars:
        parts.append(f'<div style="overflow-x:auto">{svg_of(timeline, within=True)}</div>')
    if body := "".join(parts):  # a live panel folds it, and unfolds it when its kernel is gone
        summary = "<summary>saved with the notebook: operations and timeline</summary>"
        above.append(f'<details class="durable-nb-static" open>{summary}{body}</details>')
    inset = f'style="{INSET}" role="status"'
    return f'<div class="durable-nb-status" {inset}>{"".join(above)}</div>'


def _framed(html: str, lines: int) -> str:
    """Put many lines into a frame that is scrolled."""
    if lines <= _SCROLLED:
        return html
    return f'<div style="max-height:{_SCROLLED}em;overflow:auto">{html}</div>'


def _row(run: str, row: StatusRow, tag: str) -> str:
    colour = _COLOURS.get(row.outcome, "inherit")
    indent = f"padding-left:{1.2 * row.depth:.1f}em"
    view = row.view
    effect, attempt, key = ("", "", "") if view is None else _facts(view)
    ident = "" if view is None or not tag else f' id="{_text(anchor(run, view.id, tag))}"'
    return (
        f'<tr{ident}><td style="{_CELL};{indent};font-family:monospace">{_text(row.label)}</td>'
        f'<td style="{_CELL};white-space:nowrap">'
        f'<span style="color:{colour}">{_text(row.sign)}</span> {_text(row.outcome)}</td>'
        f'<td style="{_CELL}">{_text(effect)}</td><td style="{_CELL}">{_text(attempt)}</td>'
        f'<td style="{_CELL}">{_text(row.note)}</td>'
        f'<td style="{_CELL};font-family:monospace;overflow-wrap:anywhere">{_text(key)}</td></tr>'
    )


def _facts(view: OperationView) -> tuple[str, str, str]:
    key = "" if view.keyed is False else view.idempotency_key  # nobody outside has heard of it
    return view.effect, str(view.attempt or ""), key


def _money(view: StatusView) -> str:
    if view.usd is None:
        return ""
    return f" · {'at least ' if view.at_least else ''}${view.usd:.2f}"


def _text(value: object) -> str:
    return escape(str(value), quote=True)
