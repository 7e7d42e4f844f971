"""Looking at functions, classes and modules without running any code of theirs."""

from __future__ import annotations

import functools
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

#: Modules that are a notebook, or a script.
NOTEBOOKS: Final = frozenset({"__main__", "__mp_main__"})

#: Types of which nothing is called: most of what a name stands for.
_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None), list, dict, tuple, set})


def root_of(kind: type) -> str:
    """Name the package that a class comes from; nothing of it gets to run."""
    module = type.__dict__["__module__"].__get__(kind)
    return module.partition(".")[0] if isinstance(module, str) else "builtins"


def dict_of(value: Any) -> Any:
    """Give the `__dict__` of a class, module or object without running its own code."""
    if issubclass(type(value), type):
        return type.__dict__["__dict__"].__get__(value)
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}


def type_text(kind: type) -> str:
    """Name a class by its package and qualified name: where in the package may change."""
    name = str(type.__dict__["__qualname__"].__get__(kind))
    root = root_of(kind)
    return name if root in ("builtins", "__main__") else f"{root}.{name}"


def functions(fn: Any) -> list[FunctionType]:
    """Give the functions at the heart of something callable, the innermost first."""
    found: list[FunctionType] = []
    for inner in inside(fn):
        found += [inner] if type(inner) is FunctionType else functions(inner)
    return found


def inside(value: Any) -> Iterator[Any]:
    """Give the code that a callable wraps, the innermost first; nothing for other objects."""
    kind = type(value)
    if kind is FunctionType:
        wrapped = value.__dict__.get("__wrapped__")
        if wrapped is not None and wrapped is not value:
            yield from inside(wrapped)
        yield value
    elif kind in (MethodType, staticmethod, classmethod):
        yield from inside(value.__func__)
    elif issubclass(kind, functools.partial | functools.partialmethod):
        yield value.func
    elif issubclass(kind, property):
        for part in (value.fget, value.fset, value.fdel):
            if part is not None:
                yield from inside(part)
    elif issubclass(kind, functools.cached_property):
        yield from inside(value.func)
    elif kind not in _PLAIN and not issubclass(kind, type | ModuleType):
        wrapped = dict_of(value).get("__wrapped__")
        if wrapped is not None and wrapped is not value:
            yield from inside(wrapped)


def has_code(value: Any) -> bool:
    """Tell whether it is a function, or wraps one."""
    return next(inside(value), None) is not None


def ref(value: Any) -> Callable[[], Any]:
    """Hold something weakly, where it can be."""
    try:
        return weakref.ref(value)
    except TypeError:  # of a class with slots
        return lambda: value


def called(value: Any) -> str:
    """Name a function or class by its package and qualified name."""
    if issubclass(type(value), type):
        return f"class {type_text(value)}"
    found = functions(value)
    if found:
        root = str(found[0].__globals__.get("__name__", "")).partition(".")[0]
        return f"function {root}.{found[0].__code__.co_qualname}"
    if type(value) is BuiltinFunctionType:
        root = str(value.__module__ or type_text(type(value.__self__)))
        return f"function {root.partition('.')[0].lstrip('_')}.{value.__qualname__}"
    return type_text(type(value))


def prefix(namespace: Mapping[str, Any]) -> str:
    """Give the module that stands before names in it; none for a notebook."""
    name = namespace.get("__name__")
    return "" if name is None or name in NOTEBOOKS else f"{name}."


def prefix_of_class(cls: type) -> str:
    """Give the same for a class."""
    module = type.__dict__["__module__"].__get__(cls)
    return "" if module in NOTEBOOKS else f"{module}."


# -- folders ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def is_under(file: str, working: str) -> bool:
    """Tell whether a module's file is the user's own: under the folder and not installed there."""
    if not working:
        return False
    path, folder = Path(file).resolve(), Path(working).resolve()
    if not path.is_relative_to(folder):
        return False
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    installed = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    if any(path.is_relative_to(Path(place).resolve()) for place in installed):
        return False
    between = [p for p in path.parents if p.is_relative_to(folder)]
    return not any((place / "pyvenv.cfg").exists() for place in between)
