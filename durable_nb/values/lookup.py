"""Where a class is found: its address in recorded text, and back without importing anything."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any, Final

from durable_nb.values.errors import ValueNotLoadable, WaitingForClass
from durable_nb.values.parts import CannotTake, type_name

#: Builtin containers that may stand among the arguments of a generic model: `Page[list[int]]`.
_CONTAINERS: Final = frozenset({list, dict, set, frozenset, tuple})


def is_model(cls: type) -> bool:
    """Say whether this is a pydantic v2 model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return isinstance(base, type) and issubclass(cls, base)


def class_address(cls: type) -> str:
    """Say where a class is found: `module:qualname`, and `origin[args]` for a generic model."""
    origin, args = _made_of(cls)
    if args:
        return f"{class_address(origin)}[{','.join(map(class_address, args))}]"
    return f"{cls.__module__}:{cls.__qualname__}"


def _made_of(cls: Any) -> tuple[Any, tuple[Any, ...]]:
    """Give what a parametrised class was made of, where each argument has an address."""
    made: dict[str, Any] = {}
    if isinstance(cls, types.GenericAlias):
        made = {"origin": cls.__origin__, "args": cls.__args__}
    elif isinstance(cls, type) and is_model(cls):
        made = vars(cls).get("__pydantic_generic_metadata__") or {}
    args = made.get("args") or ()
    return (made.get("origin"), args) if all(map(_has_address, args)) else (None, ())


def _has_address(kind: Any) -> bool:
    if isinstance(kind, types.GenericAlias):
        return kind.__origin__ in _CONTAINERS and all(map(_has_address, kind.__args__))
    return isinstance(kind, type) and kind is not types.NoneType


def find_class(address: str) -> type:
    """Look a class up by its address, among what is imported: loading a value runs no code.

    An import would: a planted record could name any module on the path. A generic model that
    nobody has parametrised in this process yet is parametrised, which is pydantic's own code.

    Raises
    ------
    WaitingForClass
        It belongs to the notebook and is not defined yet, or its module is not imported.
    ValueNotLoadable
        Its module has no such class any more.
    """
    head, bracket, rest = address.partition("[")
    if bracket and rest.count(":") and rest.endswith("]"):
        origin: Any = find_class(head)
        if origin in _CONTAINERS or is_model(origin):
            made: type = origin[tuple(map(find_class, _split(rest[:-1])))]
            return made
    return _named(*address.split(":", 1)) if ":" in address else _named(address, "")


def _split(args: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    depth, start = 0, 0
    for at, sign in enumerate(args):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield args[start:at]
            start = at + 1
    yield args[start:]


def _named(module: str, qualname: str) -> type:
    """Look a class up by module and qualified name."""
    holder: Any = sys.modules.get(module)
    if holder is None and module != "__main__":
        raise WaitingForClass(f"{module}.{qualname}")
    found = holder
    # A parametrised model stands in its module under one name, brackets and dots included.
    for name in [qualname] if "[" in qualname else qualname.split("."):
        # vars() and not getattr: no descriptor, no metaclass and no lazy module gets to run.
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
        if found is None:
            break
    if isinstance(found, type):
        return found
    if module == "__main__":
        raise WaitingForClass(qualname)
    raise ValueNotLoadable(
        f"value of class {qualname}",
        f"module {module} has no such class",
        "bring the class back or register_codec for it, or invalidate the operation",
    )


def must_be_found(cls: type) -> None:
    """Refuse a class that a later kernel could not find by its name."""
    advice = "define the class at the top level of a cell or module"
    if "[" in cls.__qualname__:
        advice = "give the parametrised class a name of its own: an empty subclass at the top level"
    try:
        found: Any = find_class(class_address(cls))
    except (WaitingForClass, ValueNotLoadable) as cause:
        raise CannotTake(
            f"{type_name(cls)}, a class that cannot be found by name", advice
        ) from cause
    if found is not cls:
        raise CannotTake(
            f"{type_name(cls)} from before its class was defined again",
            "make the object again with the class as it is now",
        )
