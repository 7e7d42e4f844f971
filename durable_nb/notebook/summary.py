"""What a cell left behind, in one line: `total = 42.5, plan = {…}; printed 3 lines`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from durable_nb import values
from durable_nb.notebook.names import Before, Left

#: Longest line, and longest value in it, in characters.
_LIMIT: Final = 200
_VALUE: Final = 60
#: How many names a list without values holds.
_LISTED: Final = 3


def of(
    before: Before,
    left: Left,
    namespace: Mapping[str, Any],
    defines: Sequence[str],
    outputs: Iterable[Mapping[str, Any]],
) -> str:
    """Summarise a cell's record.

    Parameters
    ----------
    before : Before
        The names before it.
    left : Left
        What it left behind.
    namespace : Mapping
        Where the values are: in `left`, what is shared with earlier cells is cut off.
    defines : sequence of str
        Functions and classes that a replay defines again.
    outputs : iterable of Mapping
        What it showed, as recorded.
    """
    others = [
        _listed("defined", defines),
        _listed("deleted", [n for n in left.deleted if n in before.names]),
        *_shown(list(outputs)),
    ]
    rest = "; ".join(part for part in others if part)
    bound = sorted({*left.names, *left.modules, *left.references})
    names = _names({n: namespace[n] for n in bound if n in namespace}, _LIMIT - len(rest) - 2)
    line = "; ".join(part for part in (names, rest) if part)
    return values.one_line(line or "nothing left behind", _LIMIT)


def _names(bound: Mapping[str, Any], room: int) -> str:
    """Show names with their values, as many as there is room for."""
    parts: list[str] = []
    for name, value in bound.items():
        part = f"{name} = {values.preview(value, _VALUE)}"
        more = f", … {len(bound) - len(parts)} more"
        if parts and room < len(part) + len(", ") + len(more):
            return ", ".join(parts) + more
        parts.append(part)
        room -= len(part) + len(", ")
    return ", ".join(parts)


def _listed(what: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{what} {', '.join(names[:_LISTED])}{more}"


def _shown(outputs: list[Mapping[str, Any]]) -> list[str]:
    """Count the lines of streams, and displays."""
    streams = [o for o in outputs if o["type"] == "stream"]
    lines = sum(len(str(o["text"]).splitlines()) for o in streams)
    least = "at least " if any(o.get("lost") for o in streams) else ""
    displays = len(outputs) - len(streams)
    return [
        f"printed {least}{lines} {'line' if lines == 1 else 'lines'}" if lines else "",
        f"showed {displays} {'output' if displays == 1 else 'outputs'}" if displays else "",
    ]
