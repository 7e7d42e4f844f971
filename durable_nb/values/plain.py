"""Plain data, which JSON carries as it is, and how JSON is written and read.

Texts are written and read by msgspec where it and Python's `json` give the very same, and else by
`json`: in ASCII, with every integer and float exact. A text that one of them has written reads the
same by the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

import msgspec

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
_TEXTS: Final = frozenset({str})

#: Beyond these, msgspec writes a float in another form (`1e16`, `1e+16`).
_SMALL: Final = 1e-4
_LARGE: Final = 1e16
_INTEGERS: Final = 1 << MAX_BITS

_write = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_write_fast: Final = msgspec.json.Encoder().encode
_read_fast: Final = msgspec.json.Decoder().decode


def no_constant(name: str) -> Any:
    """Refuse NaN and the infinities, which our text writes as tags."""
    raise ValueError(f"{name} is no JSON")


_read: Final = json.JSONDecoder(parse_constant=no_constant).decode


def write_json(tree: Any) -> str:
    """Write a JSON tree, compact and in ASCII."""
    return _write(tree)


def read_json(text: str) -> Any:
    """Read a JSON text, without the constants that JSON does not have.

    Raises
    ------
    ValueError, RecursionError
        It is no JSON.
    """
    try:
        return _read_fast(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # lone surrogates, or no JSON
        return _read(text)


def write_plain(value: Any) -> str | None:
    """Give the text of a value that is a JSON tree as it stands, else None.

    That is: lists and dicts with plain keys (no `$`), none of them there twice, at most `MAX_DEPTH`
    levels of them, and plain scalars in them.
    """
    boxes: list[tuple[Iterable[Any], int]] = [([value], 0)]
    dicts: list[dict[Any, Any]] = []
    met: set[int] = set()
    for box, above in boxes:  # grows as inner ones turn up
        for item in box:
            kind = type(item)
            if kind is str:
                continue
            if kind is dict or kind is list:
                if id(item) in met or above == MAX_DEPTH:
                    return None
                met.add(id(item))
                if kind is dict:
                    dicts.append(item)
                boxes.append((item.values() if kind is dict else item, above + 1))
            elif kind is int:
                if not -_INTEGERS < item < _INTEGERS:
                    return None
            elif kind is float:
                if item and not _SMALL <= abs(item) < _LARGE:
                    return None
            elif item is not None and kind is not bool:
                return None
    if not _TEXTS.issuperset(map(type, chain.from_iterable(dicts))):
        return None
    return _text(value)


def _text(tree: Any) -> str | None:
    """Write a tree whose types are known; None where a text or key in it is not plain."""
    try:
        raw = _write_fast(tree)
    except UnicodeError:  # a lone surrogate
        return None
    if len(raw) > MAX_TEXT or b'"$":' in raw:
        return None
    return raw.decode() if raw.isascii() and b"\x7f" not in raw else _write(tree)


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
