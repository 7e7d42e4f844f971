"""Values of classes that a later process has not defined yet; it must not import this module."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
import pydantic

from support.value_classes import Box, Crate

T = TypeVar("T")


class LateColor(enum.Enum):
    RED = 1


class LatePerm(enum.Flag):
    R = 1
    W = 2


@dataclasses.dataclass
class LatePlan:
    goal: str
    steps: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class LatePoint:
    x: float


class LatePair(NamedTuple):
    a: int


@attrs.define
class LateAttrs:
    x: int


class LateModel(pydantic.BaseModel):
    x: int


class LateBox(pydantic.BaseModel, Generic[T]):
    item: T


#: name -> value; the name of its class is what the value waits for.
WAITS: dict[str, Any] = {
    "LateColor": LateColor.RED,
    "LatePerm": LatePerm.R | LatePerm.W,
    "LatePlan": LatePlan("rest", [1]),
    "LatePoint": LatePoint(1.0),
    "LatePair": LatePair(1),
    "LateAttrs": LateAttrs(1),
    "LateModel": LateModel(x=1),
    "LateBox": LateBox[int](item=1),
    "LatePlan in a list": [1, (LatePlan("a"),)],
    "LatePoint as a key": {LatePoint(1.0): 1},
    "LateModel in a model": Box[LateModel](item=LateModel(x=2)),
    "LatePair in a dataclass": Crate(LatePair(2)),
}
