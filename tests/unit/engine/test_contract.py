"""The contract of a tool: what a model is told of it."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pydantic
import pytest
from support.seeds import printed_under_seeds

import durable_nb as dnb
from durable_nb import values
from durable_nb.engine.contract import contract


class Level(enum.Enum):
    LOW = 1
    HIGH = "high"


@dataclasses.dataclass
class Order:
    id: str
    lines: list[int] = dataclasses.field(default_factory=list)
    level: Level = Level.LOW
    above: Order | None = None


class Keys(TypedDict):
    a: int
    b: NotRequired[str]


class Model(pydantic.BaseModel):
    n: int = pydantic.Field(ge=1, description="how many")


class Client:
    pass


def schema(kind: Any) -> Any:
    """Describe one annotation."""

    def tool(x):
        pass

    tool.__annotations__["x"] = kind
    return contract(tool)["parameters"]["properties"]["x"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - both
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Level, {"enum": [1, "high"], "title": "Level"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Client, {"type": f"{__name__}.Client"}),
        (datetime.date, {"type": "datetime.date"}),
        (Callable[[int], str], None),
        (
            Keys,
            {
                "type": "object",
                "title": "Keys",
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                "required": ["a"],
            },
        ),
        (
            Order,
            {
                "type": "object",
                "title": "Order",
                "properties": {
                    "id": {"type": "string"},
                    "lines": {"type": "array", "items": {"type": "integer"}},
                    "level": {"enum": [1, "high"], "title": "Level", "default": 1},
                    "above": {"anyOf": [{"$ref": "Order"}, {"type": "null"}], "default": None},
                },
                "required": ["id"],
            },
        ),
    ],
)  # fmt: skip
def test_a_type_has_its_json_schema(kind: Any, expected: Any) -> None:
    """What JSON has no form for is named by its qualified type."""
    found = schema(kind)
    json.dumps(found)
    if expected is None:
        assert "Callable" in found["type"]
    else:
        assert found == expected


def test_a_pydantic_model_describes_itself() -> None:
    """Its own schema is what frameworks hand to the model."""
    found = schema(Model)
    assert found["properties"]["n"]["minimum"] == 1
    assert found["properties"]["n"]["description"] == "how many"


def test_a_whole_contract(tmp_path: Path) -> None:
    """Name, cleaned docstring, parameters; the engine's key is no parameter of the model."""

    def send(
        to: str,
        copies: int = 1,
        *rest: int,
        urgent: bool = False,
        idempotency_key: str,
        **more: str,
    ):
        """Send it.

        Twice.
        """

    assert contract(send) == {
        "name": "send",
        "description": "Send it.\n\nTwice.",
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "string"},
                "copies": {"type": "integer", "default": 1},
                "rest": {"type": "array", "items": {"type": "integer"}},
                "urgent": {"type": "boolean", "default": False},
            },
            "required": ["to"],
            "additionalProperties": {"type": "string"},
        },
    }  # fmt: skip


BASE = '''
def tool(to: str, n: int = 1, flag=None):
    """Send."""
    return 1
'''


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ("return 1", "return 2", False),
        ('"""Send."""', "'Send.'  # a comment", False),
        ("Send.", "Send it.", True),
        ("def tool", "def other", True),
        ("to:", "whom:", True),
        ("n: int = 1", "n: int = 2", True),
        ("n: int = 1", 'n: int = "1"', True),
        ("n: int = 1", "n: int = True", True),
        ("n: int = 1", "n: int = 1.0", True),
        ("n: int = 1", "n: float = 1", True),
        ("n: int = 1", "n: int", True),
        ("to: str", "to: str | None", True),
        (", flag=None", "", True),
        (", flag=None", ", flag=None, idempotency_key=''", False),
    ],
)
def test_what_the_model_is_told_changes_the_digest_and_the_body_does_not(
    before: str, after: str, differs: bool
) -> None:
    """Description, names, types, defaults and what is optional."""

    def of(source: str) -> str:
        names: dict[str, Any] = {}
        exec(
            source.replace("flag=None)", "flag=None)")
            if "n: int," not in source
            else source.replace("flag=None", "flag"),
            names,
        )
        return values.digest(contract(names.get("tool") or names["other"]))

    assert before in BASE
    assert (of(BASE) != of(BASE.replace(before, after, 1))) is differs


def test_limits_beside_a_type_count() -> None:
    """What `Annotated` says of a parameter is part of what a model is told."""
    fields = [
        Annotated[int, pydantic.Field(ge=1)],
        Annotated[int, pydantic.Field(ge=2)],
        Annotated[int, pydantic.Field(ge=1, description="d")],
        Annotated[int, "d"],
        int,
    ]
    assert len({json.dumps(schema(kind)) for kind in fields}) == len(fields)


def test_a_step_is_its_function_and_a_schema_is_kept() -> None:
    """With the name that it has as a step; the options are no part of the contract."""

    def tool(x: int) -> int:
        """Do it."""
        return x

    assert contract(dnb.step(tool, effect="none")) == contract(tool)
    assert contract(dnb.step(tool, name="act"))["name"] == "act"
    given = {"name": "x", "parameters": {"type": "object"}}
    assert contract(given) == given
    with pytest.raises(TypeError, match="no tool"):
        contract(5)


def test_other_callables_have_a_contract_too() -> None:
    """Partials, methods, classes, objects that are called, builtins."""

    class Tool:
        """A tool."""

        def __init__(self, size: int) -> None: ...
        def __call__(self, y: str) -> None: ...
        def method(self, z: bool) -> None: ...

    def fn(a: int, b: str) -> None:
        """Bind."""

    assert list(contract(functools.partial(fn, 1))["parameters"]["properties"]) == ["b"]
    assert contract(functools.partial(fn, 1))["description"] == "Bind."
    assert contract(Tool)["parameters"]["properties"] == {"size": {"type": "integer"}}
    assert contract(Tool(1))["parameters"]["properties"] == {"y": {"type": "string"}}
    assert contract(Tool(1).method)["parameters"]["properties"] == {"z": {"type": "boolean"}}
    assert contract(len)["name"] == "len"
    assert contract(print)["name"] == "print"


def test_a_default_without_json_form_is_its_type_and_never_its_repr() -> None:
    """A repr holds an address."""

    def make() -> Callable[..., None]:
        def tool(a=object(), b=float("nan"), c={"k": (1, object())}):  # noqa: B006, B008 - the point
            pass

        return tool

    assert contract(make()) == contract(make())
    assert "0x" not in json.dumps(contract(make()))


def test_an_annotation_that_cannot_be_resolved_stays_text() -> None:
    """A name under TYPE_CHECKING is no reason to fail."""

    def tool(x: Nowhere) -> None: ...  # noqa: F821 - the point

    assert contract(tool)["parameters"]["properties"] == {"x": {"type": "Nowhere"}}


@pytest.mark.slow
def test_contracts_are_the_same_in_every_process() -> None:
    """They depend on no hash seed."""
    program = (
        "from typing import Literal\nfrom durable_nb.engine.contract import contract\n"
        "def t(x: Literal['a', 'b'] = 'a', *, y: frozenset[str] = frozenset({'q', 'r', 's'})): 'd'\n"
        "print(contract(t))"
    )
    (told,) = printed_under_seeds(program)
    assert told.startswith("{'name': 't', 'description': 'd'")
