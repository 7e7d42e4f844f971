"""Text and JSON that are safe to show: nothing that a run recorded can act on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd

#: Columns of whole numbers.
_WHOLE: Final = frozenset(
    {"row", "seq", "epoch", "attempt", "tokens", "completed", "incomplete", "unknown"}
)


def clean(value: object) -> str:
    r"""Show a value as one line of plain text.

    Escapes, control characters, invisible ones and lone surrogates are shown as what they are
    (`\x1b`), so that a step's name can neither colour a terminal nor move its cursor.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def clean_lines(value: object) -> str:
    """Show a text of several lines; each is cleaned."""
    return "\n".join(clean(line) for line in str(value).splitlines())


def short(value: object, limit: int = 60) -> str:
    """Show a value as one line of at most `limit` characters."""
    text = clean(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def to_json(value: Any) -> Any:
    """Turn a value of a run or of a query into JSON's own types.

    Times become ISO texts in UTC; what is missing (None, NaN, NaT) becomes null; what JSON does
    not know becomes its text.
    """
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, datetime):
        return _time(value)
    if hasattr(value, "tolist"):  # an array or a scalar of numpy
        return to_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return str(value)


def _time(value: datetime) -> str:
    return (value.astimezone(UTC) if value.tzinfo else value).isoformat()


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Give a DataFrame as JSON's own types, a mapping a row."""
    columns = [str(name) for name in frame.columns]
    return [
        {name: _cell(name, value) for name, value in zip(columns, row, strict=True)}
        for row in frame.itertuples(index=False, name=None)
    ]


def _cell(name: str, value: Any) -> Any:
    """Give one cell; pandas makes floats of whole numbers beside a gap, which is undone here."""
    plain = to_json(value)
    return int(plain) if name in _WHOLE and isinstance(plain, float) else plain


def moment(value: object) -> str:
    """Show a time of a row, to the second."""
    if value is None:
        return ""
    try:
        then = datetime.fromisoformat(str(value))
    except ValueError:
        return clean(value)
    return f"{then:%Y-%m-%d %H:%M:%S}"
