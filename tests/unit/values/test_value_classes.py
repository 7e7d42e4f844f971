"""Instances of classes: found by name, rebuilt without their own code, never another class."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attrs
import pytest
from support.script import kernel

from durable_nb import values
from durable_nb.model.errors import NotRecordable

ROOT = Path(values.__file__).parents[2]
CALLS: list[str] = []
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

    def __post_init__(self) -> None:
        CALLS.append("post_init")

    def __setattr__(self, name: str, value: Any) -> None:
        CALLS.append("setattr")
        object.__setattr__(self, name, value)

    def __setstate__(self, state: Any) -> None:
        CALLS.append("setstate")

    def __reduce__(self) -> Any:
        CALLS.append("reduce")
        return (print, ("reduced",))


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    next: Node | None = None
    colors: frozenset[Color] = frozenset()


@dataclasses.dataclass(slots=True)
class Partial:
    x: int
    y: int = dataclasses.field(init=False)


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


class Pair(NamedTuple):
    a: int
    b: str = "b"


Old = namedtuple("Old", "x y")  # the older spelling is covered too


class PairWithMethod(Pair):
    __slots__ = ()

    def both(self) -> str:
        return f"{self.a}{self.b}"


class LoosePair(Pair):
    pass


@attrs.define
class Attrs:
    x: int
    _private: str = "p"


@attrs.frozen(cache_hash=True)
class Hashed:
    name: str


class MyInt(int):
    pass


class MyDict(dict):  # type: ignore[type-arg]
    pass


@dataclasses.dataclass
class DataDict(dict):  # type: ignore[type-arg]
    x: int = 0


class Plain:
    def __init__(self) -> None:
        self.x = 1


INSTANCES: dict[str, Any] = {
    "enum": Color.RED,
    "enum of tuple": Color.BLUE,
    "IntEnum": Level.LOW,
    "StrEnum": Word.A,
    "flag": Perm.R,
    "flags together": Perm.R | Perm.W,
    "no flag": Perm(0),
    "nested enum": Outer.Inner.X,
    "nested dataclass": Outer.Data(1),
    "dataclass": Order(1, ["a"]),
    "frozen slots": Point(1.5),
    "dataclass in a dataclass": Node("a", Node("b", colors=frozenset({Color.RED}))),
    "unset slot": Partial(1),
    "generic": Box[int](1),
    "NamedTuple": Pair(1),
    "namedtuple": Old(1, (2,)),
    "NamedTuple with a method": PairWithMethod(1, "x"),
    "attrs": Attrs(1, "q"),
    "attrs with a kept hash": Hashed("a"),
    "as key": {Point(1.0): Color.RED, Pair(1): 2},
    "in a set": {Color.RED, Point(2.0)},
}


def redefined(*fields: tuple[str, type]) -> type:
    """Define `Point` again, as executing an edited cell does."""
    new = dataclasses.make_dataclass("Point", fields)
    new.__module__ = __name__
    return new


@pytest.mark.parametrize("name", INSTANCES)
def test_case_68_instance_comes_back_as_its_class(name, back):
    """An instance comes back equal and of the very same class."""
    value = INSTANCES[name]
    again = back(value)
    assert type(again) is type(value)
    if name == "unset slot":
        assert again.x == 1
        assert not hasattr(again, "y")
    else:
        assert again == value
    assert values.digest(again) == values.digest(value)


def test_enum_members_are_the_members(back):
    """`is` holds for members, also for combined flags."""
    assert back([Color.RED, Level.LOW, Word.A]) == [Color.RED, Level.LOW, Word.A]
    for member in (Color.RED, Level.LOW, Word.A, Perm.R | Perm.W):
        assert back(member) is member


def test_loading_runs_no_code_of_the_class(back):
    """Neither `__init__` nor `__post_init__`, `__setattr__`, `__setstate__` or `__reduce__` runs."""
    order = Order(1)
    CALLS.clear()
    assert back(order) == order
    assert CALLS == []


def test_hash_that_attrs_keeps_is_not_recorded(artifacts):
    """A kept hash depends on the hash seed of its process, so it is computed anew."""
    value = Hashed("a")
    before = values.digest(value)
    hash(value)
    assert "cached_hash" not in values.encode(value, artifacts)
    assert values.digest(value) == before
    assert hash(values.decode(values.encode(value, artifacts), artifacts)) == hash(value)


def test_attributes_beside_the_fields_are_kept_but_not_digested(back):
    """What a cached property left behind survives, and changes no digest."""
    one, two = Order(1), Order(1)
    vars(one)["cached"] = [1]
    assert vars(back(one))["cached"] == [1]
    assert values.digest(one) == values.digest(two)


@pytest.mark.parametrize(
    "value",
    [MyInt(1), MyDict(a=1), DataDict(), Plain(), Color, ValueError("x"), True.real.__class__],
)
def test_what_is_not_covered_is_refused_and_not_flattened(value, artifacts):
    """A subclass of a builtin is never recorded as its base, an object never as its `__dict__`."""
    with pytest.raises(NotRecordable) as refused:
        values.encode([value], artifacts)
    assert refused.value.path == "result[0]"
    assert artifacts.blobs == {}


def test_class_inside_a_function_is_refused(artifacts):
    """A class that cannot be found by name is refused when it is recorded, not when it is loaded."""

    @dataclasses.dataclass
    class Local:
        x: int

    with pytest.raises(NotRecordable, match="top level"):
        values.encode(Local(1), artifacts)


def test_instance_from_before_its_class_was_defined_again_is_refused(artifacts, monkeypatch):
    """An object of the old class would come back as one of the new: it has to be made again."""
    old = Point(1.0)
    monkeypatch.setattr(sys.modules[__name__], "Point", redefined(("x", float), ("y", float)))
    with pytest.raises(NotRecordable, match="defined again"):
        values.encode({"p": old}, artifacts)


def test_changed_fields_are_listed(artifacts, monkeypatch):
    """A class whose fields changed is an incompatibility that shows both sets of fields."""
    text = values.encode(Point(1.0), artifacts)
    monkeypatch.setattr(sys.modules[__name__], "Point", redefined(("x", int), ("z", float)))
    with pytest.raises(values.ValueNotLoadable) as refused:
        values.decode(text, artifacts)
    assert "(x: float, y: float)" in str(refused.value)
    assert "(x: int, z: float)" in str(refused.value)


def test_class_that_is_no_dataclass_any_more_is_refused(artifacts, monkeypatch):
    """A name that now means another kind of class is not filled with recorded state."""
    text = values.encode(Point(1.0), artifacts)
    monkeypatch.setattr(sys.modules[__name__], "Point", Plain)
    with pytest.raises(values.ValueNotLoadable, match="no dataclass any more"):
        values.decode(text, artifacts)


def test_builtin_with_fields_is_refused_by_its_base(artifacts):
    """A dataclass that is also a dict would lose what the dict holds."""
    with pytest.raises(NotRecordable, match="subclass of dict and is not flattened"):
        values.encode(DataDict(), artifacts)


def test_namedtuple_with_attributes_of_its_own_is_refused(artifacts):
    """What a subclass of a namedtuple keeps beside its fields is not dropped in silence."""
    value = LoosePair(1, "b")
    values.encode(value, artifacts)
    vars(value)["extra"] = 1
    with pytest.raises(NotRecordable, match="attributes of its own"):
        values.encode(value, artifacts)


def test_changed_enum_is_refused(artifacts, monkeypatch):
    """A member that is gone or has another value is not taken for the recorded one."""
    text = values.encode(Color.RED, artifacts)
    for changed in (enum.Enum("Color", {"RED": 2}), enum.Enum("Color", {"GREEN": 1})):
        monkeypatch.setattr(sys.modules[__name__], "Color", changed)
        with pytest.raises(values.ValueNotLoadable, match="recorded RED = 1"):
            values.decode(text, artifacts)


def test_class_that_is_gone_is_named(artifacts):
    """A module without the class, and a module that is not imported, are both said by name."""
    text = values.encode(Point(1.0), artifacts)
    with pytest.raises(values.ValueNotLoadable, match="no such class"):
        values.decode(text.replace(":Point", ":Gone"), artifacts)
    with pytest.raises(values.WaitingForClass, match=r"no_such_module_here\.Point"):
        values.decode(text.replace(f'"{__name__}:', '"no_such_module_here:'), artifacts)


def test_loading_a_value_imports_nothing(artifacts, tmp_path, monkeypatch):
    """A planted record that names a module on the path must not run it."""
    (tmp_path / "planted_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    text = values.encode(Point(1.0), artifacts).replace(f'"{__name__}:', '"planted_module:')
    with pytest.raises(values.WaitingForClass):
        values.decode(text, artifacts)
    assert not (tmp_path / "ran").exists()


DEFINITIONS = """
import enum, sys, dataclasses
import durable_nb.values as v
class NoArtifacts:
    def put(self, data): raise AssertionError
    get = put
class Color(enum.Enum):
    RED = 1
@dataclasses.dataclass
class Order:
    id: int
    color: Color
"""


@pytest.mark.slow
def test_case_63_notebook_classes_hold_in_the_next_kernel():
    """After a restart `isinstance` and `is` hold; until the cell ran, the value waits for it."""
    write = DEFINITIONS + "print(v.encode([Order(7, Color.RED)], NoArtifacts()))"
    text = kernel(write)
    load = """
order, = v.decode(sys.stdin.read(), NoArtifacts())
print(type(order) is Order, order.color is Color.RED, order == Order(7, Color.RED))
"""
    assert kernel(DEFINITIONS + load, text) == "True True True"
    waiting = (
        DEFINITIONS.split("class Color", maxsplit=1)[0]
        + """
try: v.decode(sys.stdin.read(), NoArtifacts())
except v.WaitingForClass as e: print(e.name, "|", e)
"""
    )
    assert kernel(waiting, text).startswith("Order | waiting for class `Order`: run its cell")


def test_errors_of_this_layer_pickle():
    """Errors travel between processes with their facts."""
    import pickle

    for error in (
        values.NotDigestible("a", "b"),
        values.ValueNotLoadable("a", "b"),
        values.WaitingForClass("a"),
        values.ArtifactMissing("a"),
        values.ArtifactDamaged("a", "b"),
        values.ArtifactStoreDamaged("a", "b"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
