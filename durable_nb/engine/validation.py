"""Validators: what a result has to be, before it is recorded as completed."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from durable_nb import values
from durable_nb.engine.reach import reach
from durable_nb.engine.syntax import code_of
from durable_nb.model.facets import FacetSet, Part

#: The facet that a validator is of its operation.
SCHEMA: Final = "artifact schema"

_NOTHING: Final = FacetSet()
_LENGTH: Final = 32
#: Characters of a validator's own words.
_SAID: Final = 400


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a stage has to produce, and what each of it has to pass.

    Attributes
    ----------
    names : tuple of str
        All of them have to be there.
    checks : callable, class, Mapping or None
        As `validate=` of a step: of the whole, or by name.
    """

    names: tuple[str, ...]
    checks: Any = None


class Refused(ValueError):
    """A result is not what its step has to give."""


def fits(validator: object) -> bool:
    """Tell whether something can be given as ``validate=``."""
    if isinstance(validator, Outputs):
        return True
    if isinstance(validator, Mapping):
        return bool(validator) and all(
            isinstance(name, str) and not isinstance(check, Mapping) and fits(check)
            for name, check in validator.items()
        )
    if is_model(validator):
        return True
    return callable(validator) and not inspect.iscoroutinefunction(validator)


def is_model(validator: object) -> bool:
    """Tell whether it is a class that validates by itself, such as a pydantic model."""
    return callable(getattr(validator, "model_validate", None))


def check(validator: Any, value: Any) -> None:
    """Refuse a value that does not pass.

    Raises
    ------
    Refused
        It says everything that is wrong, one after the other.
    """
    wrong = list(_wrong(validator, value))
    if wrong:
        problem = next((error for _, error in wrong if error is not None), None)
        raise Refused("; ".join(text for text, _ in wrong)) from problem


def _wrong(validator: Any, value: Any) -> Iterator[tuple[str, Exception | None]]:
    """Give what is wrong with a value, as text, with the error that said so."""
    if isinstance(validator, Outputs):
        missing = [name for name in validator.names if name not in value]
        if missing:
            yield f"did not produce {', '.join(missing)}", None
        if isinstance(validator.checks, Mapping):
            made = {name: c for name, c in validator.checks.items() if name in value}
            yield from _each(made, value)
        elif validator.checks is not None and not missing:
            yield from _wrong(validator.checks, value)
        return
    if isinstance(validator, Mapping):
        if not isinstance(value, Mapping):
            yield f"validate= names {', '.join(validator)}, and the result is no mapping", None
            return
        missing = [name for name in validator if name not in value]
        if missing:
            yield f"the result has no {', '.join(missing)}", None
        yield from _each({n: c for n, c in validator.items() if n in value}, value)
        return
    yield from _refusal(validator, value, "the result")


def _each(
    checks: Mapping[str, Any], value: Mapping[str, Any]
) -> Iterator[tuple[str, Exception | None]]:
    for name, validator in checks.items():
        yield from _refusal(validator, value[name], name)


def _refusal(validator: Any, value: Any, what: str) -> Iterator[tuple[str, Exception | None]]:
    """Ask one validator; give why it refused the value, if it did."""
    try:
        if is_model(validator):
            validator.model_validate(value)
            return
        answer = validator(value)
        if inspect.isawaitable(answer):
            getattr(answer, "close", lambda: None)()
            raise TypeError("validate= is async: give a plain function")
    except Exception as problem:
        said = values.one_line(str(problem), _SAID)
        yield f"{name_of(validator)} refused {what}: {type(problem).__name__}: {said}", problem
        return
    # numpy's False is not the False of Python
    if answer is not None and type(answer).__name__ in {"bool", "bool_"} and not answer:
        yield f"{name_of(validator)} refused {what} {values.preview(value)}", None


def name_of(validator: Any) -> str:
    """Name a validator in a message."""
    return str(getattr(validator, "__name__", "") or type(validator).__name__)


def schema_of(validator: Any) -> FacetSet:
    """Give the facet of a validator: its code, or its schema.

    Parameters
    ----------
    validator
        As `validate=` takes it; `None` gives no facet.
    """
    return _NOTHING if validator is None else FacetSet.of({SCHEMA: _part(validator)})


def _part(validator: Any) -> Part:
    if isinstance(validator, Outputs):
        digest = "" if validator.checks is None else _part(validator.checks).digest
        return _named([*sorted(validator.names), digest], ", ".join(validator.names))
    if isinstance(validator, Mapping):
        lines = [f"{name}\0{_part(validator[name]).digest}" for name in sorted(validator)]
        return _named(lines, ", ".join(sorted(validator)))
    if is_model(validator):
        return _named([_model_digest(validator)], name_of(validator))
    found = reach(validator)
    code = found.digest if found.parts else _code_of_object(validator)
    return _named([code], name_of(validator))


def _named(lines: list[str], name: str) -> Part:
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
    return Part(digest[:_LENGTH], f"{name} ({digest[:8]})")


def _code_of_object(validator: Callable[..., Any]) -> str:
    """Describe a validator that is no function: an object with `__call__`, or a builtin."""
    kind = validator if isinstance(validator, type) else type(validator)
    code = code_of(getattr(kind, "__init__" if kind is validator else "__call__"))
    return code or f"{kind.__module__}.{getattr(validator, '__qualname__', kind.__qualname__)}"


@functools.lru_cache(maxsize=256)
def _model_digest(model: Any) -> str:
    """Digest the schema of a pydantic class; of another one, what it is called."""
    try:
        return str(values.digest(model.model_json_schema()))
    except Exception:  # fields that JSON schema knows no word for
        fields = getattr(model, "model_fields", {})
        shown = sorted(f"{name}: {field!r}" for name, field in fields.items())
        return "\n".join([f"{model.__module__}.{model.__qualname__}", *shown])
