"""Bars to rows and drawn bars: few enough to look at, however many operations there are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from durable_nb.engine.picture.scale import Scale
from durable_nb.model.outcomes import Kind, Outcome
from durable_nb.model.timeline import CUT, Bar, above_of, group_of, label_of

#: Rows that a screen shows at once. With more operations, those of one name share a row.
MOST_ROWS: Final = 48
#: What runs at the same time in one row is drawn in so many lanes; more than that overlaps.
MOST_LANES: Final = 4
#: Bars that are thinner than this, in pixels, are drawn as one.
THIN: Final = 0.5
#: Pixels of what is drawn at least.
_DRAWN: Final = 1.0
#: Bytes of all drawn bars: above, more of them are drawn as one. Each has about so many, and five
#: times its identity: in a title, as data, and as an address, which has three for each special one.
MOST_BYTES: Final = 1_500_000
_BYTES: Final = 340

#: How a bar is drawn, what strikes most first: one that stands for several is drawn as the first.
LOOKS: Final = ("unknown", "failed", "cut", "live", "waits", "settled", "done", "pale")


def look_of(bar: Bar) -> str:
    """Give how a bar is drawn: one of `LOOKS`."""
    if bar.outcome == Outcome.UNKNOWN:
        return "unknown"
    if bar.pale:
        return "pale"
    if bar.wait:
        return "waits"
    if not bar.ended:
        return "live"
    if bar.ended in {Kind.COMPLETED, Kind.PINNED}:
        return "done"
    if bar.outcome == Outcome.COMPLETED:
        return "settled"
    return "cut" if bar.ended == CUT else "failed"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One bar as it is drawn, for one attempt or for several that are too thin.

    Attributes
    ----------
    bars : tuple of Bar
        What it stands for.
    left, right : float
        Pixels.
    lane : int
        From 0.
    look : str
        One of `LOOKS`.
    """

    bars: tuple[Bar, ...]
    left: float
    right: float
    lane: int
    look: str

    @property
    def chief(self) -> Bar:
        """The one to lead to: what strikes most."""
        return next(bar for bar in self.bars if look_of(bar) == self.look)


@dataclass(frozen=True, slots=True)
class Row:
    """The attempts of an operation, or of all operations of a name.

    Attributes
    ----------
    label : str
        The operation's identity below its parent, or the name.
    op : str
        The first operation in it.
    depth, operations, lanes : int
        How far it is indented, how many operations it is for, and how many lanes it has.
    drawn : tuple of Drawn
        In order.
    looks : frozenset of str
        Those of its bars.
    """

    label: str
    op: str
    depth: int
    operations: int
    lanes: int
    drawn: tuple[Drawn, ...]
    looks: frozenset[str]


def rows_of(bars: Sequence[Bar], scale: Scale) -> list[Row]:
    """Give the rows of a picture, parents before what is below them.

    Parameters
    ----------
    bars : sequence of Bar
        By when they began.
    scale : Scale
        Of the picture.
    """
    groups = _grouped(bars)
    size = sum(_BYTES + 5 * len(bar.op.encode("utf-8", "replace")) for bar in bars)
    most = MOST_BYTES * len(bars) // max(1, size)
    thin = THIN
    while True:
        rows = [_row(label, depth, group, scale, thin) for label, depth, group in groups]
        if sum(len(row.drawn) for row in rows) <= max(most, 2 * MOST_LANES * len(rows)):
            return rows
        thin *= 2


def _grouped(bars: Sequence[Bar]) -> list[tuple[str, int, list[Bar]]]:
    """Put bars into rows: one an operation; else one a name; else one an outer name."""
    by_op = _by(bars, [bar.op for bar in bars])
    if len(by_op) <= MOST_ROWS:
        return _labelled(by_op)
    names = [group_of(bar.op) for bar in bars]
    deepest = max(name.count("/") for name in names)
    for depth in range(deepest, -1, -1):
        names = ["/".join(name.split("/")[: depth + 1]) for name in names]
        by_name = _by(bars, names)
        if len(by_name) <= MOST_ROWS:
            break
    found = _labelled(by_name)
    if len(found) > MOST_ROWS:  # so many names at the root: the last row takes the rest
        rest = [bar for _, _, group in found[MOST_ROWS - 1 :] for bar in group]
        more = len(found) - MOST_ROWS + 1
        found[MOST_ROWS - 1 :] = [(f"… {more} more names", 0, rest)]
    return found


def _labelled(groups: dict[str, list[Bar]]) -> list[tuple[str, int, list[Bar]]]:
    """Give rows with label and indentation: whole and at the edge where no row is above it."""
    found = []
    for name, group in _tree(groups):
        label = label_of(name, groups.__contains__)
        depth = sum(above in groups for above in above_of(name)) if label != name else 0
        found.append((label, depth, group))
    return found


def _by(bars: Sequence[Bar], keys: Sequence[str]) -> dict[str, list[Bar]]:
    found: dict[str, list[Bar]] = {}
    for bar, key in zip(bars, keys, strict=True):
        found.setdefault(key, []).append(bar)
    return found


def _tree(groups: dict[str, list[Bar]]) -> Iterable[tuple[str, list[Bar]]]:
    """Order groups below their parents, by when they first began."""
    place = {name: number for number, name in enumerate(groups)}

    def path(name: str) -> tuple[int, ...]:
        parts = name.split("/")
        above = ("/".join(parts[:n]) for n in range(1, len(parts) + 1))
        return tuple(place[one] for one in above if one in place)

    return sorted(groups.items(), key=lambda item: path(item[0]))


def _row(label: str, depth: int, bars: Sequence[Bar], scale: Scale, thin: float) -> Row:
    operations = len({bar.op for bar in bars})
    lanes = _lanes(bars)
    drawn: list[Drawn] = []
    for lane, taken in enumerate(lanes):
        drawn += _drawn(taken, lane, scale, thin)
    looks = frozenset(map(look_of, bars))
    if operations == 1 and bars[0].op.count("/") == label.count("/") == 0:
        label = bars[0].op
    return Row(label, bars[0].op, depth, operations, len(lanes), tuple(drawn), looks)


def _lanes(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Put what ran at the same time beside each other: each into the first lane that is free."""
    lanes: list[list[Bar]] = []
    ends: list[float] = []
    for bar in sorted(bars, key=lambda bar: bar.begin):
        free = next((n for n, end in enumerate(ends) if end <= bar.begin), None)
        if free is None and len(lanes) < MOST_LANES:
            free = len(lanes)
            lanes.append([])
            ends.append(0.0)
        elif free is None:
            free = min(range(len(ends)), key=ends.__getitem__)
        lanes[free].append(bar)
        ends[free] = max(ends[free], bar.end)
    return lanes


def _drawn(bars: Sequence[Bar], lane: int, scale: Scale, thin: float) -> Iterable[Drawn]:
    """Draw one bar for each that is wide enough, and one for thin ones in a row."""
    together: list[Bar] = []
    left = right = 0.0
    for bar in bars:
        begin, end = scale.x(bar.begin), scale.x(bar.end)
        small = end - begin < thin
        near = begin - max(right, left + _DRAWN) < thin
        if together and not (small and near and end - left < _widest(thin)):
            yield _one(together, left, right, lane)
            together = []
        if not small:
            yield _one([bar], begin, end, lane)
            continue
        if not together:
            left = begin
        right = max(end, left)
        together.append(bar)
    if together:
        yield _one(together, left, right, lane)


def _widest(thin: float) -> float:
    """Give how wide a drawn bar of several gets: no wider than a person would want to point at."""
    return 8 * thin


def _one(bars: Sequence[Bar], left: float, right: float, lane: int) -> Drawn:
    looks = set(map(look_of, bars))
    look = next(look for look in LOOKS if look in looks)
    return Drawn(tuple(bars), left, right, lane, look)


def tally(bars: Sequence[Bar]) -> str:
    """Say how many attempts a drawn bar stands for, and what became of them."""
    found = Counter(map(look_of, bars))
    parts = [f"{found[look]:,} {WORDS[look]}" for look in LOOKS if found[look]]
    return f"{len(bars):,} attempts drawn as one: {', '.join(parts)}"


#: Look -> the word for it.
WORDS: Final = {
    "unknown": "unknown",
    "failed": "without a result",
    "cut": "cut off by a kernel's end",
    "live": "at work",
    "waits": "waiting",
    "settled": "completed by a verdict, or a handled failure",
    "done": "completed",
    "pale": "copied or taken back",
}
