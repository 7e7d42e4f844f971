"""Plain scalars, which JSON carries as they are, and how JSON is written."""

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

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

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


def is_plain_scalar(value: Any) -> bool:
    """Say whether a value is a scalar that JSON carries exactly, and no long text."""
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_TEXT and (value.isascii() or is_clean(value))
    if kind is int:
        return bool(value.bit_length() <= MAX_BITS)
    if kind is float:
        return math.isfinite(value)
    return value is None or kind is bool


def same_scalar(one: Any, two: Any) -> bool:
    """Say whether two values are one scalar of one type; 0.0 differs from -0.0."""
    kind = type(one)
    if type(two) is not kind or kind not in _SCALARS or one != two:
        return False
    return kind is not float or one.hex() == two.hex()
