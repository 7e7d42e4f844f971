"""Trails: where inside a value something was found, written as Python would reach it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from durable_nb.values.parts import Parts, Shape


class Trail(NamedTuple):
    """A step down from a value to one of its inner values; the root has no `above`."""

    name: str
    above: Trail | None = None
    parts: Parts | None = None
    place: int = 0

    def path(self) -> str:
        """Write the whole way, such as `result["client"].session`; long ones lose their middle."""
        steps: list[str] = []
        at: Trail | None = self
        while at is not None:
            steps.append(at.name if at.parts is None else _step(at.parts, at.place))
            at = at.above
        steps.reverse()
        if len(steps) > 24:
            steps[12:-8] = [f"…({len(steps) - 20} more)…"]
        return "".join(steps)


def _step(parts: Parts, place: int) -> str:
    """Write one step."""
    if parts.shape is Shape.NAMED:
        name = parts.names[place]
        return name if name.startswith("[") else f".{name}"
    if parts.shape is Shape.SET:
        return "{…}"
    if parts.shape is Shape.SEQUENCE:
        return f"[{place}]"
    key = _key(parts.items[place - place % 2])
    return f"[{key}]" if place % 2 else f".key({key})"


def _key(key: Any) -> str:
    """Write a key; only plain ones are shown, since any other `__repr__` could be code."""
    if type(key) is str:
        return json.dumps(
            key if len(key) <= 40 else key[:39] + "…", ensure_ascii=not key.isprintable()
        )
    if key is None or type(key) in (bool, float):
        return repr(key)
    if type(key) is int and key.bit_length() <= 64:
        return repr(key)
    return f"<{type(key).__name__}>"
