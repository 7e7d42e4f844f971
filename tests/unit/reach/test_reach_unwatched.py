"""What is reached and not followed, and the names of a cell."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

from support.reaching import changed, module

from durable_nb.engine import syntax
from durable_nb.engine.reach import reach, reach_of_source

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
