"""What code reaches, and what of it counts: the identity table of the code facet."""

from __future__ import annotations

import ast
import dataclasses
import functools
import gc
import json
import linecache
import os
import subprocess
import sys
import textwrap
import timeit
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import durable_nb
import durable_nb as dnb
from durable_nb.engine import syntax
from durable_nb.engine.reach import reach, reach_of_source
from durable_nb.model.facets import FacetSet, Part, combine

_ROOT = Path(durable_nb.__file__).resolve().parents[1]

#: A notebook of two cells; each row of the tables edits it.
NOTEBOOK = """\
LIMIT = 3
NAMES = {"a": [1, 2]}


class Base:
    def scale(self):
        return 2


class Tool(Base):
    kind = "tool"

    def use(self, x):
        return deep(x) * self.scale()


def deep(x):
    return x + 1


def helper(x):
    return deep(x)


def step(x):
    "Say it."
    first = 'a'
    return helper(x) + LIMIT + len(NAMES) + Tool().use(x), first
"""


@pytest.fixture(autouse=True)
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own; the modules in it are the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) or name.startswith("zz"):
            file = str(getattr(sys.modules[name], "__file__", ""))
            if file.startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """A real IPython shell, whose names are those of `__main__`."""
    main, hook = sys.modules["__main__"], sys.displayhook
    config = Config()
    config.HistoryManager.enabled = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        made = InteractiveShell.instance(config=config)
        sys.modules["__main__"] = made.user_module
        try:
            yield made
        finally:
            InteractiveShell.clear_instance()
            sys.modules["__main__"] = main
            sys.displayhook = hook


@pytest.fixture
def cell(shell: InteractiveShell) -> Callable[[str], dict[str, Any]]:
    """Execute cells in the shell; gives its names."""
    hidden = set(shell.user_ns)

    def run(source: str) -> dict[str, Any]:
        with capture_output():
            shell.run_cell(textwrap.dedent(source), store_history=True).raise_error()
        names: dict[str, Any] = shell.user_ns
        return names

    yield run
    for name in set(shell.user_ns) - hidden:
        del shell.user_ns[name]


def module(working: Path, source: str, name: str) -> Any:
    """Write and import a module of the user's."""
    (working / f"{name}.py").write_text(textwrap.dedent(source))
    import importlib

    importlib.invalidate_caches()
    return importlib.import_module(name)


def differences(old: FacetSet, new: FacetSet) -> set[str]:
    """Name the parts that differ."""
    both = {**old.parts, **new.parts}
    return {n for n in both if old.parts.get(n) != new.parts.get(n)}


def changed(old: FacetSet, new: FacetSet) -> set[str]:
    """Name the parts whose digests differ."""
    names = {*old.parts, *new.parts}
    gone = Part("", "")
    return {n for n in names if old.parts.get(n, gone).digest != new.parts.get(n, gone).digest}


# -- the table ------------------------------------------------------------------------------------

#: What is edited in the notebook, and which parts have to change with it.
EDITS = {
    "comment": ("    first = 'a'\n", "    # why\n    first = 'a'  # because\n", set()),
    "blank lines": ("    first = 'a'\n", "\n\n    first = 'a'\n\n", set()),
    "quotes": ("first = 'a'", 'first = "a"', set()),
    "comment in a helper": ("return deep(x)\n", "return deep(x)  # deep\n", set()),
    "comment in a class": ("    kind =", "    # which\n    kind =", set()),
    "moved": ("LIMIT = 3\n", "UNUSED = 1\n\n\n\nLIMIT = 3\n", set()),
    "docstring": ("Say it.", "Say it!", {"code"}),
    "body": ("first = 'a'", "first = 'b'", {"code"}),
    "type of a constant in the body": ("first = 'a'", "first = b'a'", {"code"}),
    "a helper": ("return deep(x)\n", "return deep(x) + 0\n", {"helper helper"}),
    "a helper's helper": ("return x + 1", "return x + 2", {"helper deep"}),
    "a method": ("return deep(x) *", "return 1 + deep(x) *", {"class Tool"}),
    "a base class": ("return 2", "return 3", {"class Base"}),
    "a class attribute": (
        'kind = "tool"', 'kind = "tools"', {"class Tool", "constant Tool.kind"}
    ),
    "a constant": ("LIMIT = 3", "LIMIT = 4", {"constant LIMIT"}),
    "a constant's type": ("LIMIT = 3", 'LIMIT = "3"', {"constant LIMIT"}),
    "an int made a float": ("LIMIT = 3", "LIMIT = 3.0", {"constant LIMIT"}),
    "a container": ("[1, 2]", "[1, 3]", {"constant NAMES"}),
    "a tuple for a list": ("[1, 2]", "(1, 2)", {"constant NAMES"}),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_edited_in_a_notebook_changes_its_own_parts_and_no_others(
    cell: Any, edit: str
) -> None:
    """Comments, blank lines, quotes and places never count; code, helpers and constants do."""
    before, after, parts = EDITS[edit]
    assert before in NOTEBOOK
    old = reach(cell(NOTEBOOK)["step"])
    new = reach(cell(NOTEBOOK.replace(before, after, 1))["step"])
    assert changed(old, new) == parts
    assert (combine(old.parts) == combine(new.parts)) == (not parts)
    assert differences(old, new) == parts


def test_everything_that_a_step_reaches_is_named(cell: Any) -> None:
    """The names are those that a person knows it by, and each shows what it is."""
    parts = reach(cell(NOTEBOOK)["step"]).parts
    assert set(parts) == {
        "class Base", "class Tool", "code", "constant LIMIT", "constant NAMES",
        "constant Tool.kind", "helper deep", "helper helper",
    }  # fmt: skip
    assert parts["helper deep"].shown == "def deep(x):\n    return x + 1"
    assert parts["constant NAMES"].shown == "{'a': [1, 2]}"
    assert parts["class Base"].shown.startswith("class Base:")


@pytest.mark.parametrize("edit", EDITS)
def test_the_same_table_holds_for_a_durable_cell(cell: Any, edit: str) -> None:
    """A cell that calls the step reaches what the step reaches; its own source is its code."""
    before, after, parts = EDITS[edit]
    source = "answer = step(1)"
    old = reach_of_source(source, cell(NOTEBOOK))
    new = reach_of_source(source, cell(NOTEBOOK.replace(before, after, 1)))
    assert changed(old, new) == {"helper step" if part == "code" else part for part in parts}


def test_a_step_defined_again_in_the_same_kernel_is_seen_as_it_is_now(cell: Any) -> None:
    """Also where the new one is equal in length and line, and where an old one comes back."""
    first = reach(cell("def step(x: int):\n    return x")["step"])
    second = reach(cell("def step(x: str):\n    return x")["step"])
    again = reach(cell("def step(x: int):\n    return x")["step"])
    assert first.parts["code"].shown != second.parts["code"].shown
    assert changed(first, second) == {"code"}
    assert first == again


def test_a_helper_defined_again_is_seen_by_the_function_that_was_there_before(cell: Any) -> None:
    """The function object is the same; what its names stand for is not."""
    step = cell("def helper():\n    return 1\n\n\ndef step():\n    return helper()")["step"]
    first = reach(step)
    assert reach(step) is first
    cell("def helper():\n    return 2")
    assert changed(first, reach(step)) == {"helper helper"}
    cell("helper = None")
    assert changed(first, reach(step)) == {"helper helper", "constant helper"}
    cell("del helper")
    gone = reach(step)
    assert (set(gone.parts), gone.unwatched["helper"]) == ({"code"}, "not defined")


def test_code_and_defaults_put_into_a_function_are_seen(cell: Any) -> None:
    """The name stands for the same object, which does something else now."""
    names = cell("def helper(x=(1 + 1)):\n    return x\n\n\ndef step():\n    return helper()")
    first = reach(names["step"])
    names["helper"].__defaults__ = (5,)
    second = reach(names["step"])
    assert changed(first, second) == {"default helper.x"}
    names["helper"].__code__ = cell("def other(x):\n    return -x")["other"].__code__
    assert "helper other" in changed(second, reach(names["step"]))


def test_a_class_that_is_gone_is_not_taken_for_what_came_in_its_place(cell: Any) -> None:
    """Nothing is what a weak reference to it gives, and what the name stands for now."""
    names = cell("class Gone:\n    pass\n\n\ndef step():\n    return Gone")
    first = reach(names["step"])
    watch = weakref.ref(names["Gone"])
    names["Gone"] = None
    gc.collect()
    assert watch() is None
    assert changed(first, reach(names["step"])) == {"class Gone", "constant Gone"}


def test_a_method_put_into_a_class_is_seen(cell: Any) -> None:
    """Its source is not that of the class."""
    names = cell(
        "class Tool:\n    def use(self):\n        return 1\n\n\ndef step():\n    return Tool()"
    )
    first = reach(names["step"])
    kept = names["Tool"].use
    names["Tool"].use = cell("def better(self):\n    return 2")["better"]
    assert "helper better" in changed(first, reach(names["step"]))
    names["Tool"].use = kept
    assert reach(names["step"]) == first


def test_a_container_changed_in_place_is_seen_at_the_next_call(cell: Any) -> None:
    """A call with nothing changed gives the very same answer, one with a change another."""
    names = cell("CFG = {'a': [1], 'b': {2}, 'c': (3, [4])}\n\n\ndef step():\n    return CFG")
    step, cfg = names["step"], names["CFG"]
    seen = [reach(step)]
    assert reach(step) is seen[0]
    for change in (
        lambda: cfg["a"].append(2),
        lambda: cfg["b"].add(5),
        lambda: cfg["c"][1].clear(),
        lambda: cfg.update(a="x"),
        lambda: cfg.update(b=True),
        lambda: cfg.update(b=1),
    ):
        change()
        seen.append(reach(step))
        assert changed(*seen[-2:]) == {"constant CFG"}
        assert reach(step) is seen[-1]


# -- modules ----------------------------------------------------------------------------------------


def test_helpers_in_modules_under_the_working_folder_are_followed(working: Path) -> None:
    """Through dotted names, star-imports and modules of a package; what is installed is named."""
    (working / "pack").mkdir()
    (working / "pack" / "__init__.py").write_text("")
    module(working, "def deepest(x):\n    return x\n\n\nSTAR = 1\n", "zzbase")
    module(
        working, "from zzbase import *\n\n\ndef clean(x):\n    return deepest(x) + STAR\n", "zzmid"
    )
    (working / "pack" / "sub.py").write_text("CONST = 'k'\n")
    source = """\
        import json
        import pack.sub
        import zzmid as tools
        from json import dumps


        def step(x):
            return tools.clean(x), pack.sub.CONST, json.loads("1"), dumps(1), tools.NOTHING
    """
    found = reach(module(working, source, "zztop").step)
    assert set(found.parts) == {
        "code", "helper zzmid.clean", "helper zzbase.deepest", "constant zzmid.STAR",
        "constant pack.sub.CONST", "type of zztop.dumps",
    }  # fmt: skip
    assert found.unwatched == {
        "module json": "installed code",
        "zztop.dumps": "function json.dumps, installed code",
        "zzmid.NOTHING": "not defined",
    }


def test_what_is_installed_below_the_working_folder_is_not_the_users(working: Path) -> None:
    """A virtual environment in the project, and another working folder."""
    site = working / "venv" / "lib" / "site-packages"
    site.mkdir(parents=True)
    sys.path.insert(0, str(site))
    try:
        module(site, "def f():\n    return 1\n", "zzinstalled")
        top = module(
            working, "import zzinstalled\n\n\ndef step():\n    return zzinstalled.f()\n", "zzuser"
        )
    finally:
        sys.path.remove(str(site))
    assert reach(top.step).unwatched == {"module zzinstalled": "installed code"}
    assert set(reach(top.step, working=site).parts) == {"code"}


def test_a_module_edited_on_disk_counts_as_what_runs_and_not_as_what_lies_there(
    working: Path,
) -> None:
    """Else the result of old code would be recorded as one of the new code."""
    source = "def helper():\n    return 1\n"
    tools = module(working, source, "zzedited")
    first = reach(tools.helper).parts["code"]
    assert first.digest.startswith("ast:")
    path = working / "zzedited.py"
    path.write_text("def helper():\n    return 2\n\n\n")
    os.utime(path, (1, 1))
    linecache.checkcache()
    copy = types.FunctionType(tools.helper.__code__.replace(), tools.helper.__globals__)
    second = reach(copy).parts["code"]
    assert second.digest.startswith("bytecode:")
    path.write_text("# a comment, and lines\n\n" + source)
    os.utime(path, (2, 2))
    third = types.FunctionType(tools.helper.__code__.replace(), tools.helper.__globals__)
    assert reach(third).parts["code"] == first


# -- what is not followed -------------------------------------------------------------------------

CLIENT = """
touched = []


class Meta(type):
    def __getattr__(cls, name):
        touched.append(name)
        raise RuntimeError(name)


class Client(metaclass=Meta):
    def __getattribute__(self, name):
        touched.append(name)
        raise RuntimeError(name)

    def __getattr__(self, name):
        touched.append(name)
        raise RuntimeError(name)

    def __call__(self):
        touched.append("called")
        raise RuntimeError

    def __eq__(self, other):
        touched.append("compared")
        raise RuntimeError

    __hash__ = None

    @property
    def chat(self):
        touched.append("chat")
        raise RuntimeError


class Lazy(type(__import__("sys"))):
    def __getattribute__(self, name):
        touched.append(name)
        raise RuntimeError(name)


client = Client()
lazy = Lazy("lazy")
"""


def test_a_client_or_logger_is_never_touched(cell: Any) -> None:
    """No property, no `__getattr__`, no call, no comparison, no lazy module; only its type."""
    names = cell(CLIENT + "import logging\nlog = logging.getLogger('x')")
    cell(
        "def step():\n    log.info('x')\n    return client.chat.completions(), client(), lazy.name"
    )
    step = names["step"]
    for _ in range(2):
        found = reach(step)
    assert names["touched"] == []
    assert found.parts["type of log"].shown == "logging.Logger"
    assert found.unwatched["log"] == "logging.Logger"
    assert found.unwatched["client"] == "Client"
    names["client"] = 5
    assert "constant client" in reach(step).parts


def test_frames_and_large_data_count_by_type(cell: Any) -> None:
    """Up to 64 KB by value; more, and arrays and tables of any size, are listed with a reason."""
    names = cell(
        """
        import numpy as np
        import pandas as pd

        frame, array, cells = pd.DataFrame({"a": [1]}), np.zeros(3), {"f": pd.Series([1])}
        small, large, many = "x" * 60_000, "x" * 70_000, list(range(50_000))
        number, when = np.float64(1.5), pd.Timestamp("2026-01-01")

        def step():
            return frame, array, cells, small, large, many, number, when, np.ones(1)
        """
    )
    found = reach(names["step"])
    assert {n for n in found.parts if n.startswith("constant")} == {
        "constant small", "constant number", "constant when",
    }  # fmt: skip
    assert found.unwatched == {
        "frame": "pandas.DataFrame",
        "array": "numpy.ndarray",
        "cells": "dict, holds a pandas.Series",
        "large": "str, larger than 64 KB",
        "many": "list, larger than 64 KB",
        "module numpy": "installed code",
    }
    names["frame"]["a"] = 2
    assert reach(names["step"]) is found
    del names["many"][5:]
    assert changed(found, reach(names["step"])) == {"constant many", "type of many"}


def test_what_the_step_assigns_itself_is_no_constant(cell: Any) -> None:
    """A counter, a variable of an enclosing function, a count that a class keeps."""
    names = cell(
        """
        count, LIMIT = 0, 2

        class Tool:
            calls = made = seen = own = 0
            top = 5

            def use(self):
                Tool.calls += 1
                type(self).seen = 5
                self.own = self.own + 1

            @classmethod
            def make(cls):
                cls.made += 1
                return cls()

        def outer():
            n = 0
            def inner():
                nonlocal n
                n += 1
            return inner

        bump = outer()

        def reset():
            global count
            count = 0

        def step():
            reset()
            bump()
            Tool.make().use()
            return count + LIMIT
        """
    )
    found = reach(names["step"])
    assert {n for n in found.parts if n.startswith("constant")} == {
        "constant LIMIT", "constant Tool.top", "constant Tool.own",
    }  # fmt: skip
    ours = "assigned by the code itself"
    assert set(found.unwatched.values()) == {ours}
    assert set(found.unwatched) == {"count", "outer.n", "Tool.calls", "Tool.made", "Tool.seen"}
    names["step"]()
    assert reach(names["step"]).parts == found.parts


def test_a_constant_of_a_module_counts_unless_the_code_assigns_it(working: Path) -> None:
    """An attribute of the same name that some object gets is another thing."""
    module(working, "model, calls = 'small', 0\n", "zzconfig")
    source = """\
        import zzconfig


        class Agent:
            def __init__(self):
                self.model = zzconfig.model


        def step():
            zzconfig.calls += 1
            return Agent().model
    """
    found = reach(module(working, source, "zzagent").step)
    assert set(found.parts) == {"code", "class zzagent.Agent", "constant zzconfig.model"}
    assert found.unwatched == {"zzconfig.calls": "assigned by the code itself"}


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


# -- cells ----------------------------------------------------------------------------------------


def test_a_cell_reads_names_but_those_that_it_binds_or_is_given() -> None:
    """What it reads first and binds later is listed; a magic's Python counts by its names."""
    namespace = {
        "__name__": "__main__",
        "df": [1],
        "LIMIT": 2,
        "given": 3,
        "x": 4,
        "In": [],
        "T": 1,
    }
    source = (
        "df = df + [LIMIT]\nfor x in given:\n    y = x\nIn\nclass A:\n    df\n    own = 1\n    own"
    )
    found = reach_of_source(
        source, namespace, inputs=["given"], inside_magics=ast.parse("f(T)").body
    )
    assert set(found.parts) == {"code", "constant LIMIT", "constant T"}
    assert found.unwatched == {
        "df": "assigned by the code itself, after it was read",
        "f": "not defined",
    }
    again = reach_of_source(source + "  # a comment", namespace, inputs=["x"])
    assert changed(found, again) == {"constant T", "constant given"}
    own = syntax.own_of_cell(ast.parse(source), ast.parse("f(T)"))
    carried = syntax.Own(*eval(repr(dataclasses.astuple(own))))
    carried = dataclasses.replace(carried, reads=syntax.Reads(*carried.reads))
    assert reach_of_source(carried, namespace, inputs=["given"]) == found
    assert set(reach_of_source("await LIMIT", namespace).parts) == {"code", "constant LIMIT"}


# -- everywhere the same --------------------------------------------------------------------------

CHILD = """\
import json, sys
sys.path.insert(0, ".")
from durable_nb.engine.reach import reach
from durable_nb.model.facets import combine
{order}

def step(x):
    return helper(x) in {{"a", "b", "c"}}, KINDS, tools.clean(x), Tool(), x in ("p", "q")
made = {{}}
exec("def nosource(x):\\n    return x in {{'a', 'b', 'c', 'd'}}", made)
found = reach(step)
told = {{n: p.digest for n, p in found.parts.items()}}
told["nosource"] = reach(made["nosource"]).parts["code"].digest
print(json.dumps([combine(found.parts), told, dict(found.unwatched)]))
"""
ONE = """
import tools
KINDS = {"x", "y", "z"}
class Tool:
    words = frozenset({"p", "q"})
    def use(self): return 1
def helper(x): return KINDS
"""
TWO = """


def helper(x):
    # moved
    return KINDS
class Tool:
    words = frozenset({'p', 'q'})

    def use(self): return 1
KINDS = {"z", "y", "x"}
import tools
"""


def test_digests_are_the_same_in_every_process_and_place(tmp_path: Path) -> None:
    """No hash seed, path, line number or order of definition gets into them."""
    told = []
    for seed, order, place in [("1", ONE, "a"), ("2", TWO, "b/c"), ("77", ONE, "d")]:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "tools.py").write_text("def clean(x):\n    return x, {'k', 'l', 'm'}\n")
        (folder / "main.py").write_text(CHILD.format(order=order))
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)}
        done = subprocess.run(
            [sys.executable, "main.py"], cwd=folder, env=env, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    assert told[0] == told[1] == told[2]
    assert told[0][1]["nosource"].startswith("bytecode:")
    assert set(told[0][1]) >= {
        "helper helper",
        "helper tools.clean",
        "class Tool",
        "constant KINDS",
    }


def test_a_digest_of_a_set_of_parts_depends_on_names_and_digests_only() -> None:
    """Not on order, nor on what is shown; and no two sets run into each other."""
    a, b = Part("1", "x"), Part("2", "y")
    assert combine({"a": a, "b": b}) == combine({"b": b, "a": Part("1", "other")})
    assert len(combine({})) == 32
    assert len({combine(p) for p in ({}, {"a": a}, {"a": b}, {"b": a}, {"a1": Part("", "")})}) == 5


def test_what_is_shown_is_redacted_and_short(cell: Any) -> None:
    """A key in the source, or in a constant by its name, is not shown."""
    secret = "sk-" + "proj-A1b2C3d4E5f6G7h8J9"
    names = cell(
        f"api_key = 'plain-but-secret-1'\n\n\ndef step():\n    password = '{secret}'\n"
        f"    return api_key, '{'long ' * 800}'"
    )
    parts = reach(names["step"]).parts
    text = "".join(p.shown for p in parts.values())
    assert secret not in text
    assert "plain-but-secret-1" not in text
    assert len(parts["code"].shown) <= 2000


# -- cost ---------------------------------------------------------------------------------------


def test_functions_that_are_gone_are_let_go(cell: Any) -> None:
    """What is remembered holds no function alive."""
    names = cell("def helper():\n    return step\n\n\ndef step():\n    return helper()")
    reach(names["step"])
    watch = weakref.ref(names["step"])
    del names["step"], names["helper"]
    gc.collect()
    assert watch() is None


def test_a_call_with_nothing_changed_is_cheap(cell: Any) -> None:
    """About 3 µs for three helpers and three constants; the limit leaves room for slow machines."""
    names = cell(
        """
        A, B, C = 1, "two", {"three": [3]}

        def one():
            return A

        def two():
            return B

        def three():
            return C

        def step():
            return one(), two(), three(), A, B, C
        """
    )
    step = names["step"]
    first = reach(step)
    took = min(timeit.repeat(functools.partial(reach, step), number=1000, repeat=5)) / 1000
    assert reach(step) is first
    assert took < 50e-6


def test_a_step_object_is_what_its_function_is(cell: Any) -> None:
    """The bare function of a step reaches the same."""

    def inner() -> int:
        return 1

    assert reach(dnb.step(inner, effect="none")) == reach(inner)
