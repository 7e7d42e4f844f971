"""One line about any value, for people: stable, bounded and redacted."""

from __future__ import annotations

import enum
import re
import types
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from durable_nb.values.classes import object_state
from durable_nb.values.redaction import MARK, is_secret_name, redact

_DEPTH: Final = 4
_ITEMS: Final = 20
#: Read this many characters past the limit, so that a secret across the cut is still seen whole.
_MARGIN: Final = 600

#: Types whose own `repr` is short, stable and no user code.
_BY_REPR: Final = frozenset(
    {
        bool, type(None), float, complex, range, slice, Decimal, Fraction, UUID, type(...),
        datetime, date, time, timedelta, timezone,
    }
)  # fmt: skip

#: Numbers whose `repr` is at most some twenty characters.
_NUMBERS: Final = (int, float)
_LARGE: Final = 10**18
_AS_WRITTEN: Final = frozenset({bool, float, type(None)})

#: JSON texts of which nothing differs from what Python shows but the quotes.
_WORDS: Final = {"null": "None", "true": "True", "false": "False"}
_NUMBER: Final = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,20})?")
_STRING: Final = re.compile(r'"[ !#-&(-\[\]-~]*"')
_SIMPLE: Final = 600

_BRACKETS: Final[Mapping[type, tuple[str, str]]] = types.MappingProxyType(
    {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})")}
)


def preview(value: Any, limit: int = 200, *, name: str = "") -> str:
    """Describe a value in one line.

    Parameters
    ----------
    value : object
        Anything; no method that a user wrote is called, so this never raises.
    limit : int
        Longest text, in characters.
    name : str
        What the value is called: one that says so (``api_key``) is not shown at all.

    Returns
    -------
    str
        Without memory addresses, sets sorted, known secrets redacted, `…` where it was cut.
    """
    try:
        if _is_secret(name, value):
            return MARK
        if type(value) in _NUMBERS and -_LARGE < value < _LARGE:
            return repr(value)  # a number is no secret unless its name says so
        room = limit + _MARGIN
        shown = _by_repr(value, room) or _show(value, room, _DEPTH)
    except Exception:  # a metaclass or proxy that raises on a mere look: its name has to do
        shown = f"<{type.__dict__['__name__'].__get__(type(value))} object>"
    shown = shown[: 4 * (limit + _MARGIN)]
    if name:  # by the same rule as where the two stand in one text
        shown = redact(f"{name}={shown}").removeprefix(f"{name}=")
    return one_line(shown, limit)


def preview_of_text(text: str) -> str | None:
    """Describe the value that a short recorded text stands for, without reading it.

    Returns
    -------
    str or None
        The same as `preview` gives of the value; `None` where it has to be read for that.
    """
    if (word := _WORDS.get(text)) is not None:
        return word
    if len(text) > _SIMPLE:
        return None
    if _NUMBER.fullmatch(text):
        return text
    return one_line(f"'{text[1:-1]}'") if _STRING.fullmatch(text) else None


def one_line(text: str, limit: int = 200) -> str:
    """Make one line of a text: printable, redacted, `…` where it was cut.

    Parameters
    ----------
    text : str
        What describes something.
    limit : int
        Longest line, in characters.
    """
    line = redact(text)
    if not line.isprintable():
        line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def _by_repr(value: Any, room: int) -> str:
    """Let Python show what JSON carries, where it says the same as `_show`; else "".

    Most tools give that, and it takes half the time.
    """
    left, level = room, [value]
    for _ in range(_DEPTH):
        inner: list[Any] = []
        for held in level:
            size = _weigh(held, inner)
            if size is None or size > left:
                return ""
            left -= size
        if not inner:
            text = repr(value)
            return text if len(text) <= room else ""
        level = inner
    return ""  # deeper than is shown


def _weigh(held: Any, inner: list[Any]) -> int | None:
    """Count what a container takes at least, in characters; note the containers in it.

    `None` if it is no list or dict, or Python shows it in another way than `_show`.
    """
    if type(held) is dict:
        for key in held:
            if type(key) is not str or is_secret_name(key):
                return None
        parts: Iterable[Any] = held.values()
    elif type(held) is list:
        parts = held
    else:
        return None
    size = len(held)
    if size > _ITEMS:
        return None
    for part in parts:
        kind = type(part)
        if kind is str:
            size += len(part)
        elif kind is dict or kind is list:
            inner.append(part)
        elif kind is int:
            if not -_LARGE < part < _LARGE:
                return None
        elif kind not in _AS_WRITTEN:
            return None
    return size


def _show(value: Any, room: int, depth: int) -> str:
    """Show a value in about `room` characters."""
    kind = type(value)
    if kind is str:
        return repr(value[:room])
    if kind is int:
        bits = value.bit_length()
        return repr(value) if bits < 400 else f"<int of {bits} bits>"
    if kind in _BY_REPR:
        return repr(value)
    if kind is dict or kind is list:  # most of what a tool gives
        return _show_container(value, kind, room, depth)
    if issubclass(kind, PurePath) and kind.__module__ == "pathlib":
        return f"{kind.__name__}({str(value)[:room]!r})"
    if kind in (bytes, bytearray):
        return f"{bytes(value[:40])!r}" + (f"… {len(value)} bytes" if len(value) > 40 else "")
    if isinstance(kind, enum.EnumMeta):
        return f"{kind.__name__}.{value._name_}"
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType)):
        return f"<{'class' if issubclass(kind, type) else 'function'} {value.__qualname__}>"
    if kind is types.ModuleType:
        return f"<module {value.__name__}>"
    return _show_large(value, kind) or _show_container(value, kind, room, depth)


def _show_large(value: Any, kind: type) -> str:
    """Show arrays and frames by their shape."""
    root = kind.__module__.partition(".")[0]
    if root not in ("numpy", "pandas", "pyarrow"):
        return ""
    if kind.__name__ in ("Timestamp", "Timedelta", "NaTType", "NAType"):
        return str(value)
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or kind.__name__.endswith("DType"):
        return f"dtype {value}" if kind.__name__.endswith("DType") else ""
    if root == "numpy" and not shape and kind.__name__ not in ("ndarray", "void"):
        return f"{kind.__name__}({str(value)[:60]})"
    dtype = getattr(value, "dtype", None) if root != "pyarrow" else None
    size = "×".join(str(n) for n in shape) or "scalar"
    return f"{kind.__name__} {dtype} {size}" if dtype is not None else f"{kind.__name__} {size}"


def _show_container(value: Any, kind: type, room: int, depth: int) -> str:
    """Show what holds other values; beyond the depth only its kind."""
    name = kind.__name__
    inside = depth - 1
    if kind in _BRACKETS:
        left, right = _BRACKETS[kind]
        if not value:
            return f"{name}()" if kind in (set, frozenset) else left + right
        if depth <= 0:
            return f"{left}…{right}"
        shown = (_show(item, room, inside) for item in value)
        body = _some(shown, len(value), room, kind in (set, frozenset))
        return f"{left}{body}{',' if kind is tuple and len(value) == 1 else ''}{right}"
    if kind is deque:
        shown = (_show(item, room, inside) for item in value)
        body = _some(shown, len(value), room, False) if depth > 0 else "…"
        bound = "" if value.maxlen is None else f", maxlen={value.maxlen}"
        return f"deque([{body}]{bound})"
    if issubclass(kind, dict) and kind.__module__ in ("builtins", "collections"):
        if depth <= 0:
            return "{…}" if kind is dict else f"{name}(…)"
        pairs = (
            f"{_show(k, room, inside)}: {MARK if _is_secret(k, v) else _show(v, room, inside)}"
            for k, v in islice(dict.items(value), _ITEMS + 1)
        )
        body = "{" + _some(pairs, len(value), room, False) + "}"
        return body if kind is dict else f"{name}({body})"
    if issubclass(kind, BaseException):
        shown = (_show(item, room, inside) for item in value.args)
        return f"{name}({_some(shown, len(value.args), room, False)})"
    fields = _fields(value, kind)
    if fields is None:
        return f"<{name} object>"
    if depth <= 0:
        return f"{name}(…)"
    pairs = (
        f"{k}={MARK if _is_secret(k, v) else _show(v, room, inside)}" for k, v in fields.items()
    )
    return f"{name}({_some(pairs, len(fields), room, False)})"


def _is_secret(name: Any, value: Any) -> bool:
    """Tell whether a value is secret by its name; numbers and nothing are not."""
    if type(name) is not str or not is_secret_name(name):
        return False
    return value is not None and not (type(value) in (bool, str, bytes) and not value)


def _fields(value: Any, kind: type) -> dict[str, Any] | None:
    """Read the fields of a data class of any family, or None for another object."""
    names = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(names, tuple):
        return dict(zip(map(str, names), tuple.__iter__(value), strict=False))
    if any(
        hasattr(kind, m) for m in ("__dataclass_fields__", "__attrs_attrs__", "__pydantic_fields__")
    ):
        return {k: v for k, v in object_state(value).items() if not k.startswith("__")}
    return None


def _some(shown: Iterable[str], count: int, room: int, sort: bool) -> str:
    """Join the first few; a set is sorted by what it shows."""
    parts: list[str] = []
    if sort and count <= 1000:
        parts = sorted(shown)[:_ITEMS]
    elif not sort:
        for text in islice(shown, _ITEMS):
            parts.append(text)
            room -= len(text) + 2
            if room < 0:
                break
    more = count - len(parts)
    return ", ".join(parts) + (f"{', ' if parts else ''}… {more} more" if more > 0 else "")
