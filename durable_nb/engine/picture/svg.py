"""A timeline as SVG: text without scripts, with everything in it escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from durable_nb.engine.picture.legend import legend
from durable_nb.engine.picture.rows import Drawn, Row, rows_of, tally
from durable_nb.engine.picture.scale import Scale, clock, scale_of, span
from durable_nb.engine.picture.style import patterns, style
from durable_nb.engine.picture.text import anchor, fitted, shown, tag_of, width_of
from durable_nb.model.timeline import KILLED, Band, Bar, KernelEnd, Timeline, Verdict

#: Links are of this kind: JupyterLab fails at a plain ``href`` of an element that is not HTML's.
_XLINK: Final = "http://www.w3.org/1999/xlink"
#: Pixels: of the whole width, of the column of labels, and of what stands above the rows.
WIDTH: Final = 960.0
LABELS: Final = 200.0
#: Pixels that it has at least, where there is no room for the whole width: its texts can be read.
LEAST: Final = 800.0
_RIGHT: Final = 22.0
_TOP: Final = 56.0
#: Pixels of a row with one lane, of each lane of one with several, and of the bar in it.
_ROW: Final = 19.0
_LANE: Final = 8.0
_BAR: Final = 11.0
#: Pixels that a bar in doubt has at least: it is never overlooked.
_STRIKING: Final = 7.0
#: Characters of the end of a label that are to be seen in any case.
_TAIL: Final = 8
#: Pixels of a verdict's sign; those that are nearer to each other are drawn as one.
_SIGN: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sheet:
    """Where everything of a picture is.

    Attributes
    ----------
    tops : tuple of float
        Of the rows.
    bottom : float
        Below the last row.
    tag : str
        Tells the pictures of a page apart.
    within : bool
        Whether it stands in a page that shows the operations, so that links lead there; else they
        lead to the label of the row.
    """

    timeline: Timeline
    scale: Scale
    rows: tuple[Row, ...]
    tops: tuple[float, ...]
    bottom: float
    tag: str
    within: bool

    def href(self, op: str, row: Row) -> str:
        """Give where a click leads."""
        return shown("#" + anchor(self.timeline.run, op if self.within else row.op, self.tag))


def svg_of(timeline: Timeline, *, within: bool = False) -> str:
    """Draw a timeline.

    Parameters
    ----------
    timeline : Timeline
        What ran when.
    within : bool
        Whether the page that it is put into has an element for each operation, with the id of
        `durable_nb.engine.picture.text.anchor`, tagged by this timeline.

    Returns
    -------
    str
        One ``svg`` element. Each bar has ``data-op``, a link, and a title.
    """
    scale = scale_of(timeline, LABELS, WIDTH - _RIGHT)
    rows = tuple(rows_of(timeline.bars, scale)) if timeline.bars else ()
    tops, bottom = [], _TOP
    for row in rows:
        tops.append(bottom)
        bottom += _height(row)
    bottom = max(bottom, _TOP + _ROW)
    tag = tag_of(timeline)
    sheet = Sheet(timeline, scale, rows, tuple(tops), bottom, tag, within)
    looks = {look for row in rows for look in row.looks}
    key, end = legend(timeline, looks, bool(scale.idle), tag, LABELS, bottom + 34, WIDTH)
    parts = [
        f'<rect class="page" width="{WIDTH:g}" height="{end:g}"/>',
        *_head(timeline),
        *_bands(sheet),
        *_axis(sheet),
        *_rows(sheet),
        *_lengths(sheet),
        *_names(sheet),
        *_kills(sheet),
        *_verdicts(sheet),
        *key,
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="{_XLINK}" '
        f'class="dnb-timeline" role="img" '
        f'aria-label="{shown(line_of(timeline))}" viewBox="0 0 {WIDTH:g} {end:g}" '
        f'width="{WIDTH:g}" style="max-width:100%;min-width:{LEAST:g}px;height:auto">\n'
        f"{style()}{patterns(tag)}\n" + "\n".join(parts) + "\n</svg>\n"
    )


def line_of(timeline: Timeline) -> str:
    """Say in one line what is in a picture; no times, so that it stays the same."""
    operations, attempts = timeline.operations, sum(not bar.wait for bar in timeline.bars)
    killed = sum(band.ended in KILLED for band in timeline.bands)
    parts = [_count(operations, "operation") + f" in {_count(attempts, 'attempt')}"]
    if timeline.bands:
        parts.append(_count(len(timeline.bands), "kernel") + (f", {killed} killed" * bool(killed)))
    if timeline.unknown:
        parts.append(f"{len(timeline.unknown):,} unknown")
    return f"run {timeline.run} · {' · '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _height(row: Row) -> float:
    return _ROW if row.lanes == 1 else row.lanes * _LANE + 6


def _head(timeline: Timeline) -> Iterator[str]:
    title = fitted(line_of(timeline), 13, WIDTH - 24)
    yield f'<text class="h" x="12" y="20">{shown(title)}</text>'
    if timeline.note:
        note = fitted(timeline.note, 11, LABELS - 16)
        yield f'<text class="f" x="12" y="42">{shown(note)}{_title(timeline.note)}</text>'


def _title(text: str) -> str:
    return f"<title>{shown(text)}</title>"


# -- kernels -----------------------------------------------------------------------------------


def _bands(sheet: Sheet) -> Iterator[str]:
    y, height = _TOP - 22, sheet.bottom - _TOP + 22
    for band in sheet.timeline.bands:
        left, right = sheet.scale.x(band.begin), sheet.scale.x(band.end)
        wide = max(2.0, right - left)
        title = _title(band_text(band))
        tall = height if band.number % 2 else 18.0  # every other one, so that edges are seen
        yield (
            f'<rect class="band" x="{left:.1f}" y="{y:g}" width="{wide:.1f}" height="{tall:g}">'
            f"{title}</rect>"
        )
        if band.known:
            until = max(sheet.scale.x(band.begun) - left, min(wide, 6.0))
            yield (
                f'<rect class="replay" x="{left:.1f}" y="{y:g}" width="{until:.1f}" '
                f'height="{height:g}">{title}</rect>'
            )


def _names(sheet: Sheet) -> Iterator[str]:
    """Name the kernels, over what is drawn, and beside where time is cut short."""
    for band in sheet.timeline.bands:
        left, right = sheet.scale.x(band.begin), sheet.scale.x(band.end)
        for piece in sheet.scale.idle:
            if piece.left <= left < piece.right < right:
                left = piece.right
        room = max(2.0, right - left) - 16
        label = _fitting(f"kernel {band.number}", _restored(band), room)
        if label:
            title = _title(band_text(band))
            yield f'<text x="{left + 4:.1f}" y="{_TOP - 9:g}">{shown(label)}{title}</text>'


def _fitting(name: str, more: str, room: float) -> str:
    """Give as much of a kernel's label as there is room for: all, its name, its number, or none."""
    whole = f"{name} · {more}" if more else name
    choices = (whole, name, name.rpartition(" ")[2])
    return next((text for text in choices if width_of(text, 11) <= room), "")


def _restored(band: Band) -> str:
    if not band.known:
        return ""
    return "replays" if band.restored is None else f"{band.restored:,} from record"


def band_text(band: Band) -> str:
    """Say what is known of a kernel."""
    lines = [f"kernel {band.number}: {_ENDS[band.ended]}"]
    lines += [band.why] if band.why else []
    lines.append(f"from {_precise(band.begin)} to {_precise(band.end)}")
    if band.restored is not None and band.known:
        lines.append(f"{band.restored:,} operations from record, not run again")
    elif band.known:
        lines.append(f"{band.known:,} operations were on record before it")
    return "\n".join(lines)


_ENDS: Final = {
    KernelEnd.LIVE: "executes the run now",
    KernelEnd.CLOSED: "closed the run",
    KernelEnd.FAILED: "ended with an error",
    KernelEnd.FINISHED: "finished the run",
    KernelEnd.DIED: "died",
    KernelEnd.CRASHED: "ended without closing the run; its last record is where it is marked",
}


def _kills(sheet: Sheet) -> Iterator[str]:
    """Mark how each kernel ended, above all where it was killed."""
    y = _TOP - 13
    for band in sheet.timeline.bands:
        x, title = sheet.scale.x(band.end), _title(band_text(band))
        if band.ended in KILLED:
            yield (
                f'<g class="killed" data-kernel="{band.number}">{title}'
                f'<path class="kill" d="M{x:.1f} {_TOP - 6:g}V{sheet.bottom:g}"/>'
                f'<path class="cross" d="M{x - 5:.1f} {y - 5:g}l10 10m0 -10l-10 10"/></g>'
            )
        elif band.ended is KernelEnd.LIVE:
            yield f'<path class="live" d="M{x - 8:.1f} {y - 5:g}l8 5l-8 5z">{title}</path>'
        else:
            look = "cross" if band.ended is KernelEnd.FAILED else "shut"
            yield (
                f'<rect class="{look}" x="{x - 7:.1f}" y="{y - 3:g}" width="6" height="6">'
                f"{title}</rect>"
            )


# -- time --------------------------------------------------------------------------------------


def _axis(sheet: Sheet) -> Iterator[str]:
    bottom, scale = sheet.bottom, sheet.scale
    right = WIDTH - _RIGHT
    yield f'<path class="line" d="M{LABELS:g} {bottom:g}H{right:g}"/>'
    for tick in scale.ticks():
        yield f'<path class="line" d="M{tick.x:.1f} {_TOP - 4:g}V{bottom + 4:g}" opacity=".6"/>'
        middle = tick.x + width_of(tick.text, 11) / 2 < WIDTH - 2
        side = ' text-anchor="middle"' if middle else ' text-anchor="end"'
        x = tick.x if middle else WIDTH - 4
        yield f'<text class="f" x="{x:.1f}" y="{bottom + 17:g}"{side}>{shown(tick.text)}</text>'
    for piece in scale.idle:
        text = f"{span(piece.end - piece.begin)} in which nothing happened"
        wide, height = piece.right - piece.left, bottom - _TOP + 22
        yield (
            f'<g class="idle">{_title(text)}<rect x="{piece.left:.1f}" y="{_TOP - 22:g}" '
            f'width="{wide:.1f}" height="{height:g}" fill="url(#g-{sheet.tag})"/>'
        )
        yield "</g>"


def _lengths(sheet: Sheet) -> Iterator[str]:
    """Write the length of each stretch that is cut short into it, over what is drawn there."""
    height = sheet.bottom - _TOP + 22
    for piece in sheet.scale.idle:
        short = span(piece.end - piece.begin)
        short = next((t for t in (f"{short} idle", short) if width_of(t, 11) < height - 6), "")
        if piece.right - piece.left >= 14 and short:
            x, y = (piece.left + piece.right) / 2 + 4, (_TOP - 22 + sheet.bottom) / 2
            yield (
                f'<text class="f over" text-anchor="middle" transform="translate({x:.1f} {y:.1f}) '
                f'rotate(-90)">{shown(short)}</text>'
            )


def _precise(seconds: float) -> str:
    return clock(seconds, 0.001 if seconds < 60 else 1.0)


# -- operations --------------------------------------------------------------------------------


def _rows(sheet: Sheet) -> Iterator[str]:
    for row, top in zip(sheet.rows, sheet.tops, strict=True):
        middle = top + _height(row) / 2
        own = anchor(sheet.timeline.run, row.op, sheet.tag)
        ident = "" if sheet.within else f' id="{shown(own)}"'
        several = f" ×{row.operations:,}" if row.operations > 1 else ""
        sign = "? " if "unknown" in row.looks else ""
        x = 12 + 12 * min(row.depth, 6)
        room = LABELS - x - 10 - width_of(several + sign, 11)
        label = f"{fitted(row.label, 11.4, room, tail=_TAIL)}{several}"
        whole = _title(f"{row.label}{several}" if several else row.op)
        mark = f'<tspan class="q">{sign}</tspan>' if sign else ""
        yield (
            f'<g{ident}><text class="m" x="{x:g}" y="{middle + 4:.1f}">{mark}{shown(label)}'
            f"{whole}</text></g>"
        )
        yield from (_bar(sheet, row, drawn, top) for drawn in row.drawn)


def _bar(sheet: Sheet, row: Row, drawn: Drawn, top: float) -> str:
    chief, wide = drawn.chief, max(1.0, drawn.right - drawn.left)
    height = _BAR if row.lanes == 1 else _LANE - 2
    y = top + (_ROW - _BAR) / 2 if row.lanes == 1 else top + 3 + drawn.lane * _LANE
    fill, more = "", ""
    if drawn.look == "unknown":
        wide = max(wide, _STRIKING)
        fill = f' fill="url(#u-{sheet.tag})"'
        more = f'<text class="q" x="{drawn.left + wide + 3:.1f}" y="{y + height - 1:.1f}">?</text>'
    elif drawn.look == "waits":
        fill = f' fill="url(#w-{sheet.tag})"'
    elif drawn.look in {"failed", "cut", "settled"}:
        wide = max(wide, 3.0)
    elif drawn.look in {"done", "pale"} and chief.holds and row.lanes == 1:
        y, height = y + 3.5, 4.0  # what only holds others is drawn thinner than what works
    op = shown(chief.op)
    return (
        f'<a xlink:href="{sheet.href(chief.op, row)}" data-op="{op}">'
        f"{_title(bars_text(drawn.bars))}"
        f'<rect class="{drawn.look}" x="{drawn.left:.1f}" y="{y:.1f}" width="{wide:.1f}" '
        f'height="{height:g}"{fill}/>{more}</a>'
    )


def bars_text(bars: Sequence[Bar]) -> str:
    """Say what a drawn bar stands for."""
    first = bars[0]
    if len(bars) > 1:
        begin, end = _precise(first.begin), _precise(max(bar.end for bar in bars))
        return f"{tally(bars)}\n{fitted(first.op, 1, 80)} and on, from {begin} to {end}"
    what = f"waits for {first.wait}" if first.wait else f"attempt {first.attempt} · {first.effect}"
    lines = [f"{fitted(first.op, 1, 80)} · {what} · {_became(first)}"]
    lines.append(f"from {_precise(first.begin)}, {span(first.end - first.begin)}")
    if first.kernel:
        lines[1] += f", in kernel {first.kernel}"
    return "\n".join(lines)


def _became(bar: Bar) -> str:
    ended = bar.ended.replace("_", " ")
    if bar.outcome == ended or not ended:
        return bar.outcome if ended or bar.wait else "at work"
    return f"{'cut off by the end of its kernel' if ended == 'cut' else ended}, {bar.outcome}"


def _verdicts(sheet: Sheet) -> Iterator[str]:
    rows = {
        bar.op: place
        for place, row in enumerate(sheet.rows)
        for drawn in row.drawn
        for bar in drawn.bars
    }
    near: dict[tuple[int, int], list[Verdict]] = {}
    for verdict in sheet.timeline.verdicts:
        if verdict.op in rows:
            spot = (rows[verdict.op], int(sheet.scale.x(verdict.at) // _SIGN))
            near.setdefault(spot, []).append(verdict)
    for (place, _), found in near.items():
        row, x = sheet.rows[place], sheet.scale.x(found[0].at)
        y = sheet.tops[place] + _height(row) / 2
        yield (
            f'<a xlink:href="{sheet.href(found[0].op, row)}" '
            f'data-op="{shown(found[0].op)}">'
            f"{_title(_verdicts_text(found))}"
            f'<path class="verdict" d="M{x:.1f} {y - _SIGN:.1f}l{_SIGN:g} {_SIGN:g}'
            f'l-{_SIGN:g} {_SIGN:g}l-{_SIGN:g} -{_SIGN:g}z"/></a>'
        )


def _verdicts_text(found: Sequence[Verdict]) -> str:
    lines = list(_each(found[:8]))
    more = [f"and {len(found) - 8:,} more"] if len(found) > 8 else []
    return "\n".join([*lines, *more])


def _each(found: Iterable[Verdict]) -> Iterator[str]:
    for verdict in found:
        by = f" by {verdict.actor}" if verdict.actor else ""
        yield f"{fitted(verdict.op, 1, 80)}: {verdict.kind}{by}, at {_precise(verdict.at)}"
