"""Pydantic models: kept whole, private attributes included, and loaded without their validators."""

from __future__ import annotations

import sys
from typing import Any, Generic, TypeVar

import pydantic
import pytest
from support.script import kernel
from support.value_classes import Color

from durable_nb import values
from durable_nb.model.errors import NotRecordable

T = TypeVar("T")


class Model(pydantic.BaseModel):
    x: int
    items: list[int] = pydantic.Field(default_factory=list)
    other: Any = pydantic.Field(default=None, alias="Other")
    _secret: int = pydantic.PrivateAttr(default=5)

    @pydantic.field_validator("x")
    @classmethod
    def _positive(cls, x: int) -> int:
        assert x > 0
        return x


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


class Sub(Model):
    y: Color


class Root(pydantic.RootModel[list[int]]):
    pass


def test_case_65_model_comes_back_whole(back):
    """A model comes back as its class with its extras, private attributes and set fields."""
    model = Model(x=1, items=[1], Other=(1, 2))
    model._secret = 6
    again = back(model)
    assert type(again) is Model
    assert again == model
    assert again._secret == 6
    assert again.model_fields_set == model.model_fields_set
    for other in (Loose(x=1, more=(1,)), Sub(x=2, y=Color.RED), Root([1, 2])):
        assert back(other) == other
        assert values.digest(back(other)) == values.digest(other)


def test_loading_runs_no_validator_of_a_model(artifacts):
    """A validator is code of the user: a model is believed by its fields, as a dataclass is."""
    text = values.encode(Model(x=1), artifacts)
    assert values.decode(text.replace('"x":1', '"x":-1'), artifacts).x == -1
    changed = Model(x=1)
    changed.x = -1
    assert values.decode(values.encode(changed, artifacts), artifacts) == changed


def test_private_attribute_counts_as_pydantic_counts_it():
    """Two models that differ in a private attribute are unequal, so their digests are too."""
    one, two = Model(x=1), Model(x=1)
    assert values.digest(one) == values.digest(two)
    two._secret = 6
    assert one != two
    assert values.digest(one) != values.digest(two)


@pytest.mark.parametrize(
    ("body", "was", "now"),
    [
        ({"x": (str, ...)}, "x: int", "x: str"),
        ({"x": (int, ...), "y": (int, 0)}, "(x: int)", "(x: int, y: int)"),
        ({"x": (int, pydantic.Field(gt=0))}, "(x: int)", "(x: int (Gt(gt=0)))"),
        ({"x": (int, ...), "_p": (int, pydantic.PrivateAttr(1))}, "(x: int)", "(x: int, _p)"),
    ],
)
def test_changed_model_lists_both_sets_of_fields(body, was, now, artifacts, monkeypatch):
    """Types, constraints and private attributes of a model are what its record is checked by."""
    old = pydantic.create_model("Changing", x=(int, ...), __module__=__name__)
    new = pydantic.create_model("Changing", __module__=__name__, **body)
    monkeypatch.setattr(sys.modules[__name__], "Changing", old, raising=False)
    text = values.encode(old(x=1), artifacts)
    monkeypatch.setattr(sys.modules[__name__], "Changing", new)
    with pytest.raises(values.ValueNotLoadable) as refused:
        values.decode(text, artifacts)
    assert was in str(refused.value).split(" and now are ")[0]
    assert now in str(refused.value).split(" and now are ")[1]


@pytest.mark.slow
def test_model_with_a_name_that_is_defined_later_has_one_fingerprint(artifacts):
    """A forward reference and the class it came to mean are the same field."""
    source = """
        import sys, pydantic, durable_nb.values as v
        class Nowhere: get = None
        class Early(pydantic.BaseModel):
            later: "list[Later]"
        class Later(pydantic.BaseModel):
            n: int
    """
    write = source + "\n        print(v.encode(Early(later=[Later(n=1)]), None))"
    read = source + "\n        print(v.decode(sys.stdin.read(), Nowhere).later[0].n)"
    assert kernel(read, kernel(write)) == "1"


T2 = TypeVar("T2")


class Generic2(pydantic.BaseModel, Generic[T, T2]):
    a: T
    b: T2


@pytest.mark.parametrize("args", [(int, str), (list[int], Color), (Model, dict[str, list[int]])])
def test_model_that_was_parametrised_inside_a_function_comes_back(args, back):
    """A generic model is found by its origin and its arguments, wherever it was parametrised."""
    value = Generic2[args].model_construct(a=1, b=(2,))
    assert type(back(value)) is Generic2[args]
    assert back(value) == value


@pytest.mark.slow
def test_parametrised_model_is_made_again_in_the_next_kernel():
    """A process in which nobody has said `Box[int]` yet loads one all the same."""
    source = """
        import sys, pydantic, typing, durable_nb.values as v
        class Nowhere: get = None
        T = typing.TypeVar("T")
        class Box(pydantic.BaseModel, typing.Generic[T]):
            item: T
        def made(): return Box[dict[str, Box[int]]](item={"a": Box[int](item=1)})
    """
    text = kernel(source + "\n        print(v.encode(made(), None))")
    read = "\n        value = v.decode(sys.stdin.read(), Nowhere)\n        print(value == made())"
    assert kernel(source + read, text) == "True"


@pytest.mark.slow
@pytest.mark.parametrize(
    "address",
    ["builtins:dict[builtins:int", "subprocess:Popen[builtins:int]", "builtins:list[os:system]",
     f"{__name__}:Box[builtins:int]", "builtins:list[" * 1_500 + "x:y" + "]" * 1_500, "[:]", "x"],
)  # fmt: skip
def test_planted_address_of_a_parametrised_class_runs_nothing(address, artifacts):
    """Only models and builtin containers are parametrised; any other address is refused."""
    text = values.encode(Model(x=1), artifacts).replace(f"{__name__}:Model", address)
    with pytest.raises((values.ValueNotLoadable, values.WaitingForClass)):
        values.decode(text, artifacts)


def test_model_of_what_has_no_address_is_refused_with_the_way_out(artifacts):
    """A parametrised model that no later kernel could find says to give it a name."""
    with pytest.raises(NotRecordable, match="Give the parametrised class a name"):
        values.encode(Generic2[int | None, Any](a=1, b=2), artifacts)
