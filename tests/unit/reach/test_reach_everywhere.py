"""Digests are the same everywhere, and looking again costs next to nothing."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import durable_nb
import durable_nb as dnb
from durable_nb.engine.reach import reach
from durable_nb.model.facets import Part, combine

_ROOT = Path(durable_nb.__file__).resolve().parents[1]


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


@pytest.mark.slow
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


def test_a_call_with_nothing_changed_gives_what_is_remembered(cell: Any) -> None:
    """The very object, until something changes; what that costs, the benchmarks say."""
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
    assert reach(step) is first
    names["C"]["three"].append(4)
    assert reach(step) is not first


def test_a_step_object_is_what_its_function_is(cell: Any) -> None:
    """The bare function of a step reaches the same."""

    def inner() -> int:
        return 1

    assert reach(dnb.step(inner, effect="none")) == reach(inner)
