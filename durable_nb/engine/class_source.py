"""The source of a class, or a description of it where there is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from durable_nb import values
from durable_nb.engine import constants, syntax
from durable_nb.engine.unwrap import dict_of, functions, has_code, inside, type_text
from durable_nb.values.classes import annotation


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Give what a class statement put into the class, methods and attributes."""
    for name, value in dict(dict_of(cls)).items():
        if has_code(value) or not (name.startswith("__") and name.endswith("__")):
            yield name, value


def is_machinery(cls: type, name: str, value: Any) -> bool:
    """Tell what a metaclass put into a class, and the slots of its instances."""
    if "_member_map_" in dict_of(cls):  # an enum: its members are in its source
        return True
    if issubclass(type(value), type):
        return False
    if inspect.getattr_static(type(value), "__get__", None) is not None:
        return True
    return name.startswith(("_abc_", "__", "_is_protocol"))


def is_generated(fn: FunctionType) -> bool:
    """Tell a method that dataclasses or attrs wrote from one that a person did."""
    return fn.__code__.co_filename.startswith(("<string>", "<attrs generated"))


def class_node(cls: type, members: list[tuple[str, Any]]) -> Any:
    """Find the source of a class by one of its methods; a cell without any cannot be told apart."""
    for _, value in members:
        for fn in inside(value):
            if type(fn) is FunctionType:
                node = syntax.class_node(cls, fn.__code__)
                if node is not None:
                    return node
    return None


def described(cls: type, members: list[tuple[str, Any]]) -> Iterator[str]:
    """Describe a class without source by what it is made of."""
    names, mine = dict_of(cls), f"{cls.__qualname__}."
    bases = [type_text(base) for base in type.__dict__["__bases__"].__get__(cls)]
    yield f"class {cls.__qualname__}({', '.join(bases)}):"
    if names.get("__doc__"):  # dataclasses write one, with the defaults in it
        yield re.sub(r" at 0x[0-9a-fA-F]+", "", f"    {names['__doc__']!r}")
    for name, kind in dict(names.get("__annotations__") or {}).items():
        yield f"    {name}: {annotation(kind, cls)}"
    fields = names.get("__pydantic_fields__")
    for name, info in fields.items() if type(fields) is dict else ():
        given = {**getattr(info, "_attributes_set", {}), "metadata": getattr(info, "metadata", [])}
        for key in sorted(set(given) - {"annotation"}):
            yield f"    {name}.{key} = {_told(given[key])}"
    for name, member in dict(names.get("_member_map_") or {}).items():
        yield f"    {name} = {_told(dict_of(member).get('_value_'))}"
    for name, value in sorted(members, key=lambda pair: pair[0]):
        own = [f for f in functions(value) if f.__code__.co_qualname.startswith(mine)]
        code = [syntax.own(f.__code__).digest for f in own]
        if code:
            yield f"    {name}: {' '.join(code)}"


def _told(value: Any) -> str:
    """Write a value for people, with its digest; what is no plain data, by its type."""
    try:
        return f"{values.preview(value)}  # {constants.look(value).digest}"
    except Exception:  # no plain data, or a class that raises when it is looked at
        return type_text(type(value))
