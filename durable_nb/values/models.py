"""Codec rows for pydantic v2: models, and the zones and URLs that its validation makes.

Pydantic itself is not imported: a value of it can only turn up, or be loaded, where it is.
A model is rebuilt from its whole state, private attributes and extras included, and none of its
validators runs: its class is believed when its fields are those that were recorded.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from durable_nb.values.classes import annotation, bare, from_state, only, set_state
from durable_nb.values.lookup import is_model
from durable_nb.values.parts import Codec, Parts

#: Modules whose field metadata is part of a fingerprint by its text, such as `Gt(gt=0)`.
_CONSTRAINTS: Final = frozenset({"annotated_types", "pydantic"})


def _model_fields(cls: Any) -> str:
    """List fields with their types and constraints, then the private attributes."""
    listed = [
        f"{name}: {annotation(info.annotation, cls)}{_constraints(info.metadata, cls)}"
        for name, info in cls.__pydantic_fields__.items()
    ]
    return ", ".join([*listed, *cls.__private_attributes__])


def _constraints(metadata: list[Any], cls: type) -> str:
    """Write the constraints of a field; of others' metadata only the class, its text may vary."""
    texts = [
        annotation(repr(one), cls)
        if type(one).__module__.partition(".")[0] in _CONSTRAINTS
        else type(one).__qualname__
        for one in metadata
    ]
    return f" ({', '.join(texts)})" if texts else ""


def _compared(cls: Any) -> frozenset[str]:
    """Name the state that equality of models looks at."""
    return frozenset(cls.__pydantic_fields__) | {"__pydantic_extra__", "__pydantic_private__"}


def _is_zone(cls: type) -> bool:
    return (cls.__module__, cls.__name__) == ("pydantic_core._pydantic_core", "TzInfo")


def _zone(value: Any) -> Parts:
    """Take the fixed offset that parsed datetimes carry."""
    return Parts({"seconds": value.utcoffset(None) // timedelta(seconds=1)}, cls=type(value))


def _to_zone(parts: Parts) -> Any:
    cls: Any = parts.cls
    return cls(parts.data["seconds"])


def _is_url(cls: type) -> bool:
    """Say whether this is one of pydantic's own URL classes; others could have code of theirs."""
    return cls.__module__ == "pydantic.networks" and hasattr(cls, "unicode_string")


def _url(value: Any) -> Parts:
    return Parts({"v": str(value)}, cls=type(value))


def _to_url(parts: Parts) -> Any:
    cls: Any = parts.cls
    return cls(parts.data["v"])


ROWS: Final[tuple[Codec, ...]] = (
    Codec(
        "pydantic",
        is_model,
        from_state,
        bare,
        fill=set_state,
        fingerprint=_model_fields,
        digested=only(_compared),
    ),
    Codec("pydantic.TzInfo", _is_zone, _zone, _to_zone),
    Codec("pydantic.URL", _is_url, _url, _to_url),
)
