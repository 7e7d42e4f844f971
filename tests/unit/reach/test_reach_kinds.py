"""All kinds of callables are followed to their code."""

from __future__ import annotations

import ast
from textwrap import indent
from typing import Any

import pytest
from support.reaching import changed

from durable_nb.engine import syntax
from durable_nb.engine.reach import reach
from durable_nb.model.facets import FacetSet

# -- all kinds of callables -----------------------------------------------------------------------


def test_recursion_and_cycles_end(cell: Any) -> None:
    """A function that calls itself, two that call each other, data that contains itself."""
    names = cell(
        """
        loop = []
        loop.append(loop)
        fns = {}

        def even(n):
            return not n or odd(n - 1)

        def odd(n):
            return n and even(n - 1) and fns

        fns["even"] = even

        def step(n):
            return step(n - 1) if n else even(n), loop
        """
    )
    found = reach(names["step"])
    assert set(found.parts) == {"code", "helper even", "helper odd", "type of fns", "type of loop"}
    assert "contains itself" in found.unwatched["loop"]
    assert set(reach(names["even"]).parts) == {"code", "helper odd", "type of fns"}


def test_closures_count_by_what_they_hold(cell: Any) -> None:
    """Two closures of one function differ by value, also where both are reached."""
    names = cell(
        """
        def make(n, f=None):
            def inner(x):
                return x + n, f
            return inner

        def other():
            return 1

        one, two, three = make(1), make(2), make(1, other)

        def step(x):
            return one(x), two(x)
        """
    )
    one, two = reach(names["one"]), reach(names["two"])
    assert changed(one, two) == {"constant make.n"}
    assert one.parts["constant make.n"].shown == "1"
    three = reach(names["three"])
    assert changed(one, three) == {"constant make.f", "helper other"}
    both = reach(names["step"]).parts
    assert (both["constant make.n"].shown, both["constant make.n (2)"].shown) == ("1", "2")
    cell("one, two = two, one")
    assert changed(FacetSet.of(both, {}), reach(names["step"])) == {
        "constant make.n", "constant make.n (2)",
    }  # fmt: skip


def test_every_kind_of_callable_is_followed_to_its_code(cell: Any) -> None:
    """Partials, methods, steps, wrappers, objects that are called, generators, coroutines."""
    names = cell(
        """
        import functools
        import durable_nb as dnb

        def deep():
            return 1

        def wrap(fn):
            @functools.wraps(fn)
            def wrapper(*a):
                return fn(*a)
            return wrapper

        @dnb.step(effect="none")
        def stepped(x):
            return deep()

        @functools.lru_cache
        def cached(x):
            return deep()

        @wrap
        def wrapped(x):
            return deep()

        async def later(x):
            return deep()

        def gen(x):
            yield deep()

        class Tool:
            size = 1

            def __call__(self, x):
                return deep()

            def method(self, x):
                return self.prop

            @staticmethod
            def static(x):
                return deep()

            @classmethod
            def made(cls, x):
                return deep()

            @property
            def prop(self):
                return deep()

        TABLE = {"d": deep}

        def through(x):
            return TABLE["d"]()

        part = functools.partial(later, 5, y=[1])
        fn = lambda x: deep()
        pair = (lambda x: deep(), lambda x: deep() + 1)
        """
    )
    tool = names["Tool"]()
    called = {
        "stepped": names["stepped"],
        "cached": names["cached"],
        "wrapped": names["wrapped"],
        "later": names["later"],
        "gen": names["gen"],
        "through": names["through"],
        "part": names["part"],
        "fn": names["fn"],
        "pair": names["pair"][1],
        "object": tool,
        "method": tool.method,
        "static": names["Tool"].static,
        "made": names["Tool"].made,
        "class": names["Tool"],
    }
    before = {name: reach(fn) for name, fn in called.items()}
    assert {name for name, found in before.items() if "helper deep" not in found.parts} == set()
    assert {n for n, f in before.items() if not f.parts["code"].digest.startswith("ast:")} == set()
    cell("def deep():\n    return 2")
    for name, fn in called.items():
        assert "helper deep" in changed(before[name], reach(fn)) or name == "through", name
    assert before["stepped"].parts["code"].shown.startswith("def stepped")
    assert "helper wrap.<locals>.wrapper" in before["wrapped"].parts
    assert before["pair"].parts["code"].shown == "lambda x: deep() + 1"
    assert before["part"].parts["argument 0 of partial"].shown == "5"
    assert before["part"].parts["argument y of partial"].shown == "[1]"
    assert {"class Tool", "constant Tool.size"} <= set(before["method"].parts)
    assert before["object"].unwatched["self"] == "Tool"
    assert reach(len) == FacetSet.of({}, {})


def test_a_table_of_functions_is_followed(cell: Any) -> None:
    """An agent's tools are often looked up in a dict."""
    names = cell(
        "def a():\n    return 1\n\n\nTOOLS = {'a': a}\n\n\ndef step(n):\n    return TOOLS[n]()"
    )
    first = reach(names["step"])
    assert "helper a" in first.parts
    cell("def a():\n    return 2\n\n\nTOOLS['a'] = a")
    assert changed(first, reach(names["step"])) == {"helper a"}


def test_defaults_count_by_value(cell: Any) -> None:
    """What they are made of does not; a literal is in the source already."""
    source = "BASE = {n}\n\n\ndef step(x=BASE + 1, *, y={m}, z=5):\n    return x"
    first = reach(cell(source.format(n=1, m="(1,)"))["step"])
    assert set(first.parts) == {"code", "default step.x", "default step.y"}
    assert changed(first, reach(cell(source.format(n=2, m="(1,)"))["step"])) == {"default step.x"}
    step = cell(source.format(n=1, m="(1,)"))["step"]
    step.__kwdefaults__["y"] = (2,)
    assert changed(first, reach(step)) == {"default step.y"}


def test_decorators_do_not_count(cell: Any) -> None:
    """The options of a step are facets of their own."""
    cell("import durable_nb as dnb")
    old = cell("@dnb.step(effect='none')\ndef step():\n    return 1")["step"]
    first = reach(old)
    new = cell("@dnb.step(effect='external', key='k')\ndef step():\n    return 1")["step"]
    assert reach(new) == first
    bare = cell("def step():\n    return 1")["step"]
    assert reach(bare) == first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x: int", "x: str"),
        ("= 1", "= 2"),
        ("A = 1", "A = 5"),
        ("y: str", "z: str"),
        ("ge=1", "ge=2"),
    ],
)
def test_a_class_without_methods_counts_by_its_fields(cell: Any, before: str, after: str) -> None:
    """Dataclasses, enums, pydantic models and typed dicts, in a notebook."""
    source = """\
import dataclasses, enum, typing, pydantic
@dataclasses.dataclass
class Data:
    x: int = 1
class Level(enum.Enum):
    A = 1
class Keys(typing.TypedDict):
    y: str
class Model(pydantic.BaseModel):
    n: int = pydantic.Field(default=3, ge=1)
def step():
    return Data, Level.A, Keys, Model
"""
    first = reach(cell(source)["step"])
    assert {n for n in first.parts if n.startswith("class")} == {
        "class Data", "class Keys", "class Level", "class Model",
    }  # fmt: skip
    assert before in source
    assert reach(cell(source)["step"]) == first
    assert changed(first, reach(cell(source.replace(before, after, 1))["step"]))


def test_a_function_is_found_in_whatever_statement_it_stands():
    """A file without lambdas is looked at by its statements alone, and nothing is missed."""
    made = "def f{n}(x=1):\n    class C:\n        def m(self): pass\n"
    blocks = (
        "if x:\n{0}elif y:\n{1}else:\n{2}",
        "for i in x:\n{0}else:\n{1}",
        "while x:\n{0}",
        "try:\n{0}except A:\n{1}else:\n{2}finally:\n{3}",
        "try:\n{0}except* A:\n{1}",
        "with x as y:\n{0}",
        "match x:\n    case 1:\n{0}",
        "async def g():\n    async with x:\n{0}    async for i in y:\n{1}",
        "class D:\n{0}",
    )
    for block in blocks:
        deep = "        " if "case" in block or "async" in block else "    "
        text = block.format(*(indent(made.format(n=n), deep) for n in range(4)))
        tree = ast.parse(text)
        by_statement = list(syntax._qualified(tree, "", syntax._statements))
        assert by_statement == list(syntax._qualified(tree, "", ast.iter_child_nodes))
        assert sum(name.endswith(".m") for name, _ in by_statement) == text.count("def m")
