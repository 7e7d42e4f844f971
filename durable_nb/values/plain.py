"""Plain values: what JSON carries as it is, and the fast path for trees of it."""

from __future__ import annotations

import json
import math
from typing import Any, Final

#: Integers of more bits are written in hexadecimal. 2,000 bits are 603 digits: below 640, the
#: lowest limit that `sys.set_int_max_str_digits` accepts, so decimal text always loads.
MAX_BITS: Final = 2_000

#: Nested JSON is written up to this many levels; deeper values become a flat table of nodes.
#: Python's `json` recurses in C and shares the recursion limit (1,000) with the caller's stack.
MAX_DEPTH: Final = 100

#: Texts of more characters are no part of the JSON, whose escapes take up to twelve times the
#: memory of a text: they go as bytes beside it.
MAX_TEXT: Final = 64 * 1024

_write = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


def write_json(tree: Any) -> str:
    """Write a JSON tree, compact and in ASCII."""
    return _write(tree)


def is_clean(text: str) -> bool:
    """Say whether text has no lone surrogates, which JSON readers outside Python refuse."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_short(text: str) -> bool:
    """Say whether JSON carries a text as it is."""
    return len(text) <= MAX_TEXT and (text.isascii() or is_clean(text))


def is_plain_scalar(value: Any) -> bool:
    """Say whether a value is a scalar that JSON carries exactly, and no long text."""
    kind = type(value)
    if kind is str:
        return _is_short(value)
    if kind is int:
        return bool(value.bit_length() <= MAX_BITS)
    if kind is float:
        return math.isfinite(value)
    return value is None or kind is bool


def plain_text(value: Any) -> str | None:
    """Give the JSON text of a tree of plain types, or None where the general path is needed.

    Exact types only, no shared lists or dicts, no `$` key, no more than `MAX_DEPTH` levels.
    """
    seen: set[int] = set()
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if not _is_short(item):
                    return None
            elif kind is dict:
                if id(item) in seen or "$" in item:
                    return None
                seen.add(id(item))
                for key in item:
                    if type(key) is not str or not _is_short(key):
                        return None
                below.extend(item.values())
            elif kind is list:
                if id(item) in seen:
                    return None
                seen.add(id(item))
                below.extend(item)
            elif not is_plain_scalar(item):
                return None
        if not below:
            return _write(value)
        level = below
    return None
