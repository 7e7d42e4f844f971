"""Classes of every family that can be recorded, defined where any process finds them."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import namedtuple
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import attrs
import pydantic

T = TypeVar("T")


class Color(enum.Enum):
    RED = 1
    BLUE = ("b", 2)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Perm(enum.Flag):
    R = 1
    W = 2


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Outer:
    class Inner(enum.Enum):
        X = "x"

    @dataclasses.dataclass
    class Data:
        x: int


@dataclasses.dataclass
class Order:
    id: int
    tags: list[str] = dataclasses.field(default_factory=list)
    total: float = dataclasses.field(default=0.0, init=False)
    limit: ClassVar[int] = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    next: Any = None


@dataclasses.dataclass(slots=True)
class Partial:
    x: int
    y: int = dataclasses.field(init=False)


@dataclasses.dataclass(kw_only=True)
class Keyed(Order):
    note: str = ""


@dataclasses.dataclass
class Seeded:
    x: int
    seed: dataclasses.InitVar[int] = 3

    def __post_init__(self, seed: int) -> None:
        self.x += seed

    @functools.cached_property
    def doubled(self) -> int:
        return self.x * 2


@dataclasses.dataclass
class Crate(Generic[T]):
    item: T


@dataclasses.dataclass(eq=False)
class ById:
    x: int


class Pair(NamedTuple):
    a: int
    b: Any = "b"


Old = namedtuple("Old", "x y")  # the older spelling is covered too


@attrs.define
class Attrs:
    x: int
    _private: str = "p"


@attrs.frozen(cache_hash=True)
class Hashed:
    name: str


class Model(pydantic.BaseModel):
    x: int
    items: list[int] = pydantic.Field(default_factory=list)
    other: Any = pydantic.Field(default=None, alias="Other")
    _secret: Any = pydantic.PrivateAttr(default=5)


class Sub(Model):
    y: Color


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


class Frozen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    x: int

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.x * 2

    @functools.cached_property
    def kept(self) -> list[int]:
        return [self.x]


class Root(pydantic.RootModel[list[int]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class IntBox(Box[int]):
    pass


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    lives: float


class Zoo(pydantic.BaseModel):
    pets: list[Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]]


class Event(pydantic.BaseModel):
    at: datetime
    url: pydantic.HttpUrl | None = None
    key: pydantic.SecretStr | None = None


@pydantic.dataclasses.dataclass
class Checked:
    x: int


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


class MyInt(int):
    pass


class MyText(str):
    __slots__ = ()


class MyDict(dict[Any, Any]):
    pass


class MyList(list[Any]):
    pass


@dataclasses.dataclass
class DataDict(dict[Any, Any]):
    x: int = 0


class Plain:
    def __init__(self, **state: Any) -> None:
        vars(self).update(state)
