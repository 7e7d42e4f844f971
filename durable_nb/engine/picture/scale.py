"""Seconds to pixels, where stretches in which nothing happened are cut short. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from durable_nb.engine.picture.text import width_of
from durable_nb.model.timeline import Bar, Timeline, above_of

#: A stretch without anything is cut short if it is longer than this share of the time in which
#: something happened: a shorter one leaves enough room for that.
_IDLE: Final = 0.10
#: Seconds that nobody calls idle; and how many stretches there are to cut at most.
_LEAST_S: Final = 5.0
_MOST_GAPS: Final = 200
#: Pixels of a stretch that is cut short, and the share of the width that all of them may take.
_GAP: Final = 30.0
_GAPS: Final = 0.35
#: Pixels between two round times at least.
_APART: Final = 64.0
#: Size of the labels of ticks, and pixels between two of them.
_SIZE: Final = 11.0
_AIR: Final = 10.0
#: Seconds between two ticks, of which the smallest that fits is taken.
_STEPS: Final = (
    *(n * 10.0**p for p in range(-6, 1) for n in (1, 2, 5)),
    *(10.0, 15.0, 30.0),
    *(60.0 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3600.0 * n for n in (1, 2, 6, 12)),
    *(86400.0 * n for n in (1, 2, 7, 30, 90, 365)),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time and where it is drawn; one that is cut short has no scale of its own."""

    begin: float
    end: float
    left: float
    right: float
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis of time."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds since the birth of a run to pixels, piece by piece.

    Attributes
    ----------
    pieces : tuple of Piece
        Without gaps between them, in order.
    """

    pieces: tuple[Piece, ...]

    def x(self, at: float) -> float:
        """Give where a moment is drawn; one that is outside is drawn at the edge."""
        place = bisect_right(self.pieces, at, key=lambda piece: piece.begin) - 1
        piece = self.pieces[max(0, place)]
        span = piece.end - piece.begin
        share = (at - piece.begin) / span if span > 0 else 0.0
        return piece.left + min(1.0, max(0.0, share)) * (piece.right - piece.left)

    @property
    def idle(self) -> tuple[Piece, ...]:
        """The stretches that are cut short."""
        return tuple(piece for piece in self.pieces if piece.idle)

    def ticks(self) -> list[Tick]:
        """Give the marks of the axis: round times, and the time at which each piece begins."""
        pieces = [piece for piece in self.pieces if not piece.idle]
        rate = max(
            (
                (piece.right - piece.left) / (piece.end - piece.begin)
                for piece in pieces
                if piece.end > piece.begin
            ),
            default=0.0,
        )
        step = next((s for s in _STEPS if s * rate >= _APART), _STEPS[-1])
        after_gap = [(piece.left, piece.begin) for piece in pieces]
        wanted = after_gap + [mark for piece in pieces for mark in self._round(piece, step)]
        found: list[Tick] = []
        # where a piece begins counts for more than a round time beside it
        for x, at in wanted:
            text = clock(at, step)
            if all(abs(x - tick.x) >= _between(text, tick.text) for tick in found):
                found.append(Tick(x, text))
        return sorted(found, key=lambda tick: tick.x)

    def _round(self, piece: Piece, step: float) -> Iterable[tuple[float, float]]:
        number = int(piece.begin // step) + 1
        most = int((piece.right - piece.left) / _APART) + 2
        for n in range(number, number + most):
            if n * step <= piece.end:
                yield self.x(n * step), n * step


def scale_of(timeline: Timeline, left: float, right: float) -> Scale:
    """Lay a timeline's seconds out between two edges.

    Parameters
    ----------
    timeline : Timeline
        Of the run.
    left, right : float
        Pixels.
    """
    busy = _joined([*_busy(timeline.bars), *_moments(timeline)])
    edges = [0.0, *(edge for stretch in busy for edge in stretch), timeline.length]
    quiet = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
    at_work = timeline.length - sum(b - a for a, b in quiet)
    idle = _too_long(quiet, at_work, timeline.length)
    return Scale(tuple(_laid(idle, timeline.length, left, right)))


def _busy(bars: Sequence[Bar]) -> Iterable[tuple[float, float]]:
    """Give when something was at work: neither a wait, nor what only holds one that waits."""
    waiting = {above for bar in bars if bar.wait for above in above_of(bar.op)}
    for bar in bars:
        if not bar.wait and bar.op not in waiting:
            yield bar.begin, bar.end


def _moments(timeline: Timeline) -> Iterable[tuple[float, float]]:
    """Give what happened in no time at all, so that no cut hides it."""
    moments = [verdict.at for verdict in timeline.verdicts]
    moments += [at for band in timeline.bands for at in (band.begin, band.end)]
    moments += [at for bar in timeline.bars for at in (bar.begin, bar.end)]
    return ((at, at) for at in moments)


def _joined(stretches: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join stretches that touch, in order."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _too_long(
    quiet: Sequence[tuple[float, float]], at_work: float, length: float
) -> list[tuple[float, float]]:
    """Give the stretches to cut short: the longest, as long as one is long beside all the rest."""
    least = max(_LEAST_S, length / _MOST_GAPS)
    shown = at_work
    by_length = sorted(quiet, key=lambda stretch: stretch[1] - stretch[0])
    for place, (begin, end) in enumerate(by_length):
        if end - begin > max(least, _IDLE * shown):
            return sorted(by_length[place:])
        shown += end - begin
    return []


def _laid(
    idle: Sequence[tuple[float, float]], length: float, left: float, right: float
) -> Iterable[Piece]:
    gap = min(_GAP, _GAPS * (right - left) / len(idle)) if idle else 0.0
    shown = length - sum(end - begin for begin, end in idle)
    room = right - left - gap * len(idle)
    x, at = left, 0.0
    for begin, end in [*idle, (length, length)]:
        if begin > at or not (idle or at):
            wide = room * (begin - at) / shown if shown > 0 else room
            yield Piece(at, begin, x, x + wide)
            x += wide
        if end > begin:
            yield Piece(begin, end, x, x + gap, idle=True)
            x += gap
        at = end


def _between(one: str, other: str) -> float:
    """Give how far apart two ticks are at least, so that their labels do not touch."""
    return max(_APART, (width_of(one, _SIZE) + width_of(other, _SIZE)) / 2 + _AIR)


def clock(seconds: float, step: float = 1.0) -> str:
    """Show a moment of a run's own clock: `0 s`, `2.5 s`, `1 min 30 s`, `5 h 20 min`.

    Parameters
    ----------
    seconds : float
        Since its birth.
    step : float
        Seconds between two ticks: what is smaller is not shown.
    """
    digits = 0 if step >= 1 else len(f"{step:.6f}".rstrip("0").partition(".")[2])
    minutes, rest = divmod(round(seconds, digits), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    told = [f"{days} d"] if days else []
    told += [f"{hours} h"] if hours else []
    told += [f"{minutes} min"] if minutes and step < 86400 else []
    told += [f"{rest:.{digits}f} s"] if rest and step < 60 else []
    return " ".join(told) or "0 s"


def span(seconds: float) -> str:
    """Show how long something took: `3 ms`, `2.5 s`, `1 h 20 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    return clock(seconds, 1.0 if seconds < 3600 else 60.0)
