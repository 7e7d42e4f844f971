"""The contract of a tool: what a model is told of it, as a JSON schema."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from durable_nb.engine.calls import KEY_PARAMETER
from durable_nb.engine.unwrap import type_text
from durable_nb.values.classes import annotation

Schema = dict[str, Any]

_SCALARS: Final[Mapping[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    None: "null",
}
_ARRAYS: Final = (list, Sequence)
_SETS: Final = (set, frozenset, AbstractSet)


def contract(tool: Any) -> Schema:
    """Write down what a model is told of a tool.

    Parameters
    ----------
    tool : callable or dict
        A function, a step, a class or an object that can be called; a dict is a schema already.

    Returns
    -------
    dict
        ``name``, ``description`` (the docstring) and ``parameters``, a JSON schema of an object.
        `idempotency_key` is left out: the engine gives it, not the model.

    Raises
    ------
    TypeError
        It can be neither called nor read.
    """
    if isinstance(tool, Mapping):
        return dict(tool)
    if not callable(tool):
        raise TypeError(f"{type_text(type(tool))} is no tool: give a function, a step or a schema.")
    fn = tool
    if not isinstance(tool, type) and callable(inspect.getattr_static(tool, "fn", None)):
        fn = tool.fn  # a step
    name = getattr(tool, "step_name", None) or getattr(fn, "__name__", None)
    return {
        "name": name or getattr(getattr(fn, "func", None), "__name__", type(fn).__name__),
        "description": _description(fn),
        "parameters": _parameters(fn),
    }


def _default_text(value: Any) -> Any:
    """Write what JSON has no form for: its type."""
    return {"type": type_text(type(value))}


def _description(fn: Any) -> str:
    """Give the docstring; an object's own class has one, a partial's class is no description."""
    inner = getattr(fn, "func", fn)
    return inspect.getdoc(inner) or ""


def _parameters(fn: Callable[..., Any]) -> Schema:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none
        return {"type": "object", "properties": {}, "required": []}
    hints = _hints(fn)
    properties: Schema = {}
    required = []
    more: Any = None
    for name, parameter in signature.parameters.items():
        if name == KEY_PARAMETER:
            continue
        schema = _schema(hints.get(name, parameter.annotation), ())
        if parameter.kind is parameter.VAR_KEYWORD:
            more = schema or True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            properties[name] = {"type": "array", "items": schema}
            continue
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            schema = {**schema, "default": _plain(parameter.default)}
        properties[name] = schema
    found: Schema = {"type": "object", "properties": properties, "required": required}
    return found if more is None else {**found, "additionalProperties": more}


def _hints(fn: Any) -> Mapping[str, Any]:
    """Resolve annotations; those that name what is not there stay text."""
    target = getattr(fn, "func", fn)
    if isinstance(target, type):
        target = inspect.getattr_static(target, "__init__")
    elif not isinstance(target, types.FunctionType | types.MethodType):
        target = getattr(type(target), "__call__", target)  # noqa: B004 - its annotations
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # a name under TYPE_CHECKING, or an expression that raises
        return {}


# -- types ----------------------------------------------------------------------------------------


def _schema(kind: Any, above: tuple[Any, ...]) -> Schema:
    """Describe one type; `above` are the classes around it, which it may name again."""
    if kind in (inspect.Parameter.empty, Any):
        return {}
    if kind is None or (isinstance(kind, type) and kind in _SCALARS):
        return {"type": _SCALARS[kind]}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _annotated(args, above)
    if origin is typing.Literal:
        return {"enum": [_plain(value) for value in args]}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(arg, above) for arg in args]}
    if origin in (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return _schema(args[0], above)
    made = _container(origin or kind, args, above)
    if made is not None:
        return made
    return _class(kind, above) if isinstance(kind, type) else {"type": _text(kind)}


def _annotated(args: tuple[Any, ...], above: tuple[Any, ...]) -> Schema:
    """Take texts beside a type as its description, all else by its attributes that JSON has."""
    schema = _schema(args[0], above)
    for extra in args[1:]:
        if isinstance(extra, str):
            schema = {**schema, "description": extra}
            continue
        if isinstance(getattr(extra, "description", None), str):
            schema = {**schema, "description": extra.description}
        inner = getattr(extra, "metadata", None)  # of a pydantic Field
        limits = inner if isinstance(inner, list) else [extra]
        if limits:
            schema = {**schema, "metadata": [*schema.get("metadata", ()), *map(_plain, limits)]}
    return schema


def _container(kind: Any, args: tuple[Any, ...], above: tuple[Any, ...]) -> Schema | None:
    """Describe lists, sets, tuples and dicts."""
    if kind in _ARRAYS:
        return {"type": "array", "items": _schema(args[0], above)} if args else {"type": "array"}
    if kind in _SETS:
        items = {"items": _schema(args[0], above)} if args else {}
        return {"type": "array", **items, "uniqueItems": True}
    if kind is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": _schema(args[0], above)}
        if not args:
            return {"type": "array"}
        each = [_schema(arg, above) for arg in args]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    if kind in (dict, Mapping):
        if len(args) != 2:
            return {"type": "object"}
        keys = {} if args[0] in (str, Any) else {"propertyNames": _schema(args[0], above)}
        return {"type": "object", "additionalProperties": _schema(args[1], above), **keys}
    return None


def _class(kind: Any, above: tuple[Any, ...]) -> Schema:
    """Describe an enum, a data class, a TypedDict or a pydantic model; any other by its name."""
    if kind in above:
        return {"$ref": kind.__qualname__}
    above = (*above, kind)
    if issubclass(kind, enum.Enum):
        return {"enum": [_plain(member.value) for member in kind], "title": kind.__qualname__}
    model_schema = getattr(kind, "model_json_schema", None)
    if callable(model_schema):
        found: Schema = model_schema()
        return found
    if dataclasses.is_dataclass(kind):
        fields = {field.name: field.default for field in dataclasses.fields(kind) if field.init}
        optional = {
            f.name
            for f in dataclasses.fields(kind)
            if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        }
        given = {n: d for n, d in fields.items() if d is not dataclasses.MISSING}
        return _object(kind, list(fields), set(fields) - optional, given, above)
    if typing.is_typeddict(kind):
        hints = _hints_of_class(kind)
        required = {name for name, hint in hints.items() if _is_required(kind, name, hint)}
        return _object(kind, list(hints), required, {}, above)
    return {"type": _text(kind)}


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    """Read it off the resolved annotation: of one that was text, the class itself knows nothing."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in kind.__required_keys__


def _object(
    kind: Any,
    names: Sequence[str],
    required: AbstractSet[str],
    defaults: Mapping[str, Any],
    above: tuple[Any, ...],
) -> Schema:
    hints = _hints_of_class(kind)
    properties = {
        name: _schema(hints.get(name, Any), above)
        | ({"default": _plain(defaults[name])} if name in defaults else {})
        for name in names
    }
    return {
        "type": "object",
        "title": kind.__qualname__,
        "properties": properties,
        "required": [name for name in names if name in required],
    }


def _hints_of_class(kind: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # a name that is not there
        return {name: str(hint) for name, hint in inspect.get_annotations(kind).items()}


def _text(kind: Any) -> str:
    """Name a type that has no JSON form."""
    return type_text(kind) if isinstance(kind, type) else annotation(kind, object)


def _plain(value: Any) -> Any:
    """Give a value as JSON has it, else what type it is of: never a repr."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if value - value == 0 else {"type": "float", "value": str(value)}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name, None)) for f in dataclasses.fields(value)}
        return {**_default_text(value), **fields}
    return _default_text(value)
