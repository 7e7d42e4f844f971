"""Finding where in a value something lies that looks like a secret; the value is left as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from durable_nb.values.classes import object_state
from durable_nb.values.previews import preview
from durable_nb.values.redaction import redact_tokens

#: How much of a value is looked at: inner values, and characters of its texts.
_VALUES: Final = 20_000
_CHARACTERS: Final = 4_000_000
_PART: Final = 1_000_000


def find_secret(value: Any, name: str = "result") -> str:
    """Find the first text in a value that tells by its shape that it is a secret.

    Parameters
    ----------
    value : object
        Anything; no method that a user wrote is called, and it is not changed.
    name : str
        What the path begins with.

    Returns
    -------
    str
        The path to it, such as ``result['config']['key']``; "" if none was seen in the first
        20,000 inner values and 4 MB of text. Arrays and frames are not looked into.
    """
    room = _CHARACTERS
    waiting: list[Iterator[tuple[str, Any]]] = [iter([(name, value)])]
    seen: set[int] = set()
    for _ in range(_VALUES):
        while waiting:
            step = next(waiting[-1], None)
            if step is not None:
                break
            waiting.pop()
        if not waiting or step is None:
            return ""
        path, item = step
        if isinstance(item, str | bytes | bytearray):
            text = item[:_PART] if isinstance(item, str) else bytes(item[:_PART]).decode("latin-1")
            room -= len(text)
            if redact_tokens(text) != text:
                return path
        elif id(item) not in seen:
            seen.add(id(item))
            waiting.append(_inner(path, item))
        if room < 0:
            return ""
    return ""


def _inner(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """List what a container or an object of a data class holds, with the paths."""
    if isinstance(value, Mapping) and isinstance(value, dict):
        for key, item in dict.items(value):
            inner = f"{path}[{preview(key, 40)}]"
            yield inner, item
            if isinstance(key, str | bytes | tuple | frozenset):
                yield inner, key
    elif isinstance(value, list | tuple | set | frozenset):
        for n, item in enumerate(islice(iter(value), _VALUES)):
            yield f"{path}[{n}]", item
    elif hasattr(type(value), "__dict__") and type(value).__module__ not in _NOT_INTO:
        try:
            fields = object_state(value)
        except Exception:  # no data class: nothing of it is recorded by its fields
            return
        for field, item in fields.items():
            yield f"{path}.{field}", item


_NOT_INTO: Final = frozenset({"builtins", "numpy", "datetime", "decimal", "uuid"})
