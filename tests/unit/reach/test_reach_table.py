"""What code reaches, and what of it counts: the identity table of the code facet."""

from __future__ import annotations

import gc
import linecache
import os
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import pytest
from support.reaching import NOTEBOOK, changed, differences, module

from durable_nb.engine.reach import reach, reach_of_source
from durable_nb.model.facets import combine

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
