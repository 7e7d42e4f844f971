"""The legend of a picture: only what is in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from durable_nb.engine.picture.rows import LOOKS, WORDS
from durable_nb.engine.picture.text import shown, width_of
from durable_nb.model.timeline import KILLED, KernelEnd, Timeline

#: Pixels of a sign, and between two entries and two lines.
_SIGN: Final = 20.0
_APART: Final = 20.0
_LINE: Final = 18.0


def legend(
    timeline: Timeline,
    looks: Collection[str],
    idle: bool,
    tag: str,
    left: float,
    top: float,
    right: float,
) -> tuple[list[str], float]:
    """Draw the legend.

    Parameters
    ----------
    timeline : Timeline
        What is drawn.
    looks : collection of str
        How its bars are drawn.
    idle : bool
        Whether a stretch of time is cut short.
    tag : str
        Names the patterns.
    left, top, right : float
        Pixels.

    Returns
    -------
    list of str
        Elements.
    float
        Where it ends, in pixels.
    """
    parts: list[str] = []
    x, y = left, top
    for sign, word in _entries(timeline, looks, idle, tag):
        wide = _SIGN + 6 + width_of(word, 11)
        if x > left and x + wide > right - 8:
            x, y = left, y + _LINE
        parts.append(
            f'<g class="key" transform="translate({x:.1f} {y:g})">{sign}'
            f'<text class="f" x="{_SIGN + 5:g}" y="10">{shown(word)}</text></g>'
        )
        x += wide + _APART
    return parts, y + _LINE + 6


def _entries(
    timeline: Timeline, looks: Collection[str], idle: bool, tag: str
) -> Iterator[tuple[str, str]]:
    for look in reversed(LOOKS):
        if look in looks:
            pattern = {"unknown": "u", "waits": "w"}.get(look)
            fill = f' fill="url(#{pattern}-{tag})"' if pattern else ""
            word = f"{WORDS[look]}?" if look == "unknown" else WORDS[look]
            yield _box(look, fill), word
    ends = {band.ended for band in timeline.bands}
    if ends & KILLED:
        yield '<path class="cross" d="M5 1l10 10m0 -10l-10 10"/>', "kernel killed"
    if KernelEnd.FAILED in ends:
        yield '<rect class="cross" x="7" y="3" width="6" height="6"/>', "ended with an error"
    if ends & {KernelEnd.CLOSED, KernelEnd.FINISHED}:
        yield '<rect class="shut" x="7" y="3" width="6" height="6"/>', "run closed"
    if any(band.known for band in timeline.bands):
        yield _box("replay"), "replays what is on record"
    if timeline.verdicts:
        yield '<path class="verdict" d="M10 1l5 5l-5 5l-5 -5z"/>', "verdict"
    if idle:
        yield _box("line", f' fill="url(#g-{tag})"'), "nothing happened (cut short)"


def _box(look: str, more: str = "") -> str:
    return f'<rect class="{look}" x="1" y="1" width="{_SIGN - 2:g}" height="10"{more}/>'
