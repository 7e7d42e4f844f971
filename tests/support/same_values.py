"""Strict equality of two values, written without the code under test."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, deque
from datetime import datetime, time, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np

from support.frame_equality import alike

#: What equality of pydantic models looks at beside the fields, and which fields were given.
_MODEL_STATE = ("__pydantic_fields_set__", "__pydantic_private__", "__pydantic_extra__")


def same(a: Any, b: Any, *, ordered: bool = True) -> bool:
    """Compare by type and content all the way down, without recursion.

    Not `ordered`, a dict is the same in any order, as its own equality says.
    """
    todo = [(a, b)]
    while todo:
        one, two = todo.pop()
        inner = _opened(one, two, ordered) if type(one) is type(two) else False
        if inner is False:
            return False
        if inner is not True:
            todo += inner
    return True


def _opened(a: Any, b: Any, ordered: bool) -> bool | list[tuple[Any, Any]]:
    """Compare two values of one type, or say which inner values have to be the same."""
    if a is b:
        return True
    if isinstance(a, enum.Enum):
        return False
    if isinstance(a, (float, complex, Decimal, range, slice, timezone, np.generic)):
        return repr(a) == repr(b)
    if isinstance(a, (datetime, time)):
        return repr(a) == repr(b) and a.fold == b.fold and type(a.tzinfo) is type(b.tzinfo)
    if isinstance(a, dict):
        if getattr(a, "default_factory", 0) is not getattr(b, "default_factory", 0):
            return False
        pairs = [list(a.items()), list(b.items())]
        if not ordered and not isinstance(a, OrderedDict):
            pairs = [sorted(found, key=lambda pair: _stable(pair[0])) for found in pairs]
        return _zipped(*([x for pair in found for x in pair] for found in pairs))
    if isinstance(a, (list, tuple, deque)):
        return getattr(a, "maxlen", 0) == getattr(b, "maxlen", 0) and _zipped(a, b)
    if isinstance(a, (set, frozenset)):
        return sorted(map(_stable, a)) == sorted(map(_stable, b))
    library = type(a).__module__.partition(".")[0] in ("numpy", "pandas", "pyarrow")
    if library and not (isinstance(a, np.ndarray) and a.dtype == object):
        return alike(a, b)
    if isinstance(a, np.ndarray):
        if (a.dtype, a.shape) != (b.dtype, b.shape) or a.flags.fnc != b.flags.fnc:
            return False
        return _zipped(a.ravel(), b.ravel())
    return _objects(a, b)


def _objects(a: Any, b: Any) -> bool | list[tuple[Any, Any]]:
    """Compare two objects of one class."""
    if isinstance(a, SimpleNamespace):
        return [(vars(a), vars(b))]
    if isinstance(getattr(a, "__pydantic_fields__", None), dict) and hasattr(a, "model_fields_set"):
        return [(vars(a), vars(b)), *((getattr(a, f), getattr(b, f)) for f in _MODEL_STATE)]
    if hasattr(a, "__dataclass_fields__") or hasattr(a, "__attrs_attrs__"):
        return [(_fields(a), _fields(b))]
    return type(a).__eq__ is not object.__eq__ and bool(a == b)


def _zipped(a: Any, b: Any) -> bool | list[tuple[Any, Any]]:
    return len(a) == len(b) and list(zip(a, b, strict=True))


def _fields(value: Any) -> dict[str, Any]:
    """Give the fields that are set, and what else its `__dict__` holds."""
    fields = getattr(value, "__attrs_attrs__", None) or dataclasses.fields(value)
    names = [field.name for field in fields]
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    found.pop("__orig_class__", None)  # typing's note of how it was called, and no state
    return found


def _stable(value: Any) -> str:
    """Write a member of a set with its type, in an order that no hash seed changes."""
    if isinstance(value, (tuple, frozenset)):
        inner = list(map(_stable, value))
        return f"{type(value)} {inner if isinstance(value, tuple) else sorted(inner)}"
    if hasattr(value, "__dataclass_fields__"):
        return f"{type(value)} {list(map(_stable, _fields(value).values()))}"
    return f"{type(value)} {value!r}"
