"""The one shape that every value is taken apart into: facts, inner values and bytes.

A codec row says how to take a value of one type apart and how to put it together. Writing,
loading, comparing and digesting all walk these parts with a stack of their own, so the depth of
user data never meets Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

#: A plain JSON scalar, as a codec's facts hold it.
Scalar = None | bool | int | float | str

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Shape(StrEnum):
    """What the order of the inner values means."""

    SEQUENCE = "sequence"  #: order counts
    SET = "set"  #: order does not count
    MAPPING = "mapping"  #: key, value, key, value; kept in order, equal in any order
    PAIRS = "pairs"  #: key, value, key, value; order counts
    NAMED = "named"  #: each inner value has a name


class Parts(NamedTuple):
    """One value taken apart, one level deep.

    Attributes
    ----------
    data : Mapping
        Small facts, JSON. A key `v` is for a scalar, and only where there are no items.
    items : Sequence
        Inner values, each encoded by the same rules.
    shape : Shape
        What their order means.
    names : tuple of str
        Names of the inner values, for `Shape.NAMED`.
    blob : bytes, memoryview or None
        Bulk content; over 64 KB it becomes an artifact. A view (of single bytes) spares a copy
        where the parts are only looked at, to compare or to digest them.
    cls : type or None
        The class, for families of classes (enums, dataclasses, ...).
    """

    data: Mapping[str, Any] = NOTHING
    items: Sequence[Any] = ()
    shape: Shape = Shape.SEQUENCE
    names: tuple[str, ...] = ()
    blob: bytes | memoryview | None = None
    cls: type | None = None

    def filled(self, items: Sequence[Any]) -> Parts:
        """Give these parts with other inner values."""
        return self._replace(items=items)


class CannotTake(Exception):
    """A codec refuses a value of its own type; `advice` says why and what to do."""

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found, advice)
        self.found, self.advice = found, advice


def _no_fingerprint(cls: type) -> str:
    """Say that classes of this codec carry no field fingerprint."""
    return ""


#: No older versions.
_NONE_OLDER: Final[Mapping[int, Callable[[Parts], Any]]] = MappingProxyType({})


#: Immutable types that hold any values: written once, or nested sharing would grow without bound.
NESTING: Final = frozenset({tuple, frozenset})


@dataclass(frozen=True, slots=True)
class Codec:
    """One row of the registry: how values of one type are taken apart and put together.

    Attributes
    ----------
    tag : str
        Name of the type in the recorded text.
    matches : type or callable
        The exact type, or a test on a type for a family of classes.
    encode : callable
        Value to `Parts`; raises `CannotTake`.
    decode : callable
        `Parts` to value. With `fill`, it gets no inner values and makes an empty one.
    fill : callable or None
        Puts the inner values into a mutable value, so that it may contain itself.
    content : callable or None
        What equality and digests look at, where `encode` gives an opaque format.
    digested : callable or None
        What digests look at, where that is less than equality.
    fingerprint : callable
        Text that changes when the fields of a class change.
    mutable : bool
        Whether two references to one object mean something.
    by_equality : bool
        Whether `==` must hold too after a round trip (codecs that users register).
    advice : str
        What to do about a value that changes in an opaque format.
    version : int
        Version of this row's form.
    older : Mapping
        Version to decoder, for forms that were written before.
    is_direct : bool
        Whether the direct path takes its values: one exact type, of which equality looks at what
        `encode` gives and no more. Never a codec that users register.
    """

    tag: str
    matches: type | Callable[[type], bool]
    encode: Callable[[Any], Parts]
    decode: Callable[[Parts], Any]
    fill: Callable[[Any, Parts], None] | None = None
    content: Callable[[Any], Parts] | None = None
    digested: Callable[[Any], Parts] | None = None
    fingerprint: Callable[[type], str] = _no_fingerprint
    mutable: bool = False
    by_equality: bool = False
    advice: str = ""
    version: int = 1
    older: Mapping[int, Callable[[Parts], Any]] = field(default_factory=lambda: _NONE_OLDER)
    is_direct: bool = field(init=False)

    def __post_init__(self) -> None:
        is_bare = not (self.mutable or self.by_equality or self.content) and self.version == 1
        is_direct = isinstance(self.matches, type) and is_bare
        object.__setattr__(self, "is_direct", is_direct)

    @property
    def of_identity(self) -> bool:
        """Whether shared references to one value must stay shared."""
        return self.mutable or self.fill is not None

    def is_shared(self, value: Any) -> bool:
        """Say whether a second reference to a value is written as a reference to the first."""
        return self.mutable or self.fill is not None or (self.matches in NESTING and bool(value))


def type_name(cls: type) -> str:
    """Name a type for people: qualified, builtins bare."""
    module = getattr(cls, "__module__", "builtins")
    qualname = getattr(cls, "__qualname__", str(cls))
    return qualname if module == "builtins" else f"{module}.{qualname}"
