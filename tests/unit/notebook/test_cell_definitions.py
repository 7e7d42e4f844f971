"""Which functions and classes of a cell a replay may define again."""

from __future__ import annotations

import ast
import dataclasses

import pytest

import durable_nb as dnb
from durable_nb.notebook.definitions import Definitions, find


def found(text: str, **namespace: object) -> Definitions:
    return find(ast.parse(text).body, namespace)


def register(fn: object) -> object:
    raise AssertionError("looking at a cell must not call anything")


HARMLESS = [
    "def f(a, b=2, *c, d=None, **e) -> int:\n    return launch()",
    "async def f(): await launch()",
    "class f:\n    'doc'\n    n = 3\n    def m(self, x=[]): return launch()",
    (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass f:\n"
        "    x: list = dataclasses.field(default_factory=list)"
    ),
    "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef f(): ...",
    "class f:\n    @property\n    def p(self): ...\n    @p.setter\n    def p(self, v): ...",
    "class f(base, metaclass=meta): ...",
    "import enum\nclass f(enum.Enum):\n    A = enum.auto()",
    "f = lambda x, y=1: launch(x)",
    "@dc\nclass f:\n    x: int",
    "@toolkit.step(effect='none')\ndef f(): launch()",
    "import durable_nb as d\n@d.step\ndef f(): launch()",
    "def f(limit=-1 * 60): ...",
]

HARMFUL = [
    ("@register\ndef f(): ...", "@register"),
    ("@app.route('/')\ndef f(): ...", "@app.route"),
    ("def f(a=launch()): ...", "launch()"),
    ("class f:\n    launch()", "launch()"),
    ("class f:\n    n = launch()", "launch()"),
    ("class f:\n    for i in range(3): pass", "for statement"),
    ("class f(make()): ...", "make()"),
    ("def f(): ...\ndef f(): ...", "more than once"),
    ("def f(): ...\nf = 3", "more than once"),
    ("def g():\n    global f\n    f = 1\ndef f(): ...", "more than once"),
    ("def f(a=print('x')): ...", "print()"),
    ("def f(a=[n := 1]): ...", "n := 1"),
]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_definition_that_only_defines_is_run_again_on_replay(text):
    """Nothing but the definition happens, so a replay may repeat it."""
    names = {"dc": dataclasses.dataclass, "toolkit": dnb, "base": object, "meta": type}
    assert found(text, **names).names[-1:] == ("f",), found(text, **names).refused


@pytest.mark.parametrize(("text", "why"), HARMFUL)
def test_a_definition_that_does_something_is_not_run_again_and_says_why(text, why):
    """Decorators, defaults, bases and class bodies may only call what is known to be harmless."""
    result = found(text, register=register)

    assert "f" not in result.names
    assert why in result.refused["f"]


def test_a_definition_that_needs_a_value_of_the_cell_comes_after_the_values():
    """Classes come back before values, because these may be instances; the rest after them."""
    result = found("import os\nlimit = 3\nclass A: ...\ndef f(n=limit): ...\ndef g(h=f): ...")

    assert [ast.unparse(s).splitlines()[0] for s in result.early] == ["import os", "class A:"]
    assert [s.name for s in result.late] == ["f", "g"]


def test_a_name_in_the_notebook_that_hides_a_builtin_is_judged_by_what_it_is():
    """`property` is harmless only while it is Python's own."""
    assert found("@property\ndef f(self): ...").names == ("f",)
    assert found("@property\ndef f(self): ...", property=register).names == ()


def test_imports_run_again_and_names_that_only_they_bind_are_known():
    """An import may be repeated; a name that is also bound otherwise is a value."""
    result = found("import os\nimport json as j\nj = 1\nfrom math import *\nfrom a import b")

    assert len(result.early) == 4
    assert result.imports == ("b", "os")
    assert result.stars == ("math",)
