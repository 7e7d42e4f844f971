"""The body of a `with` is code like any other: a change of it is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import uuid

import pytest

import durable_nb as dnb

WITH = """
LIMIT = 3

def clean(x):
    return x.strip()

def go(run, x):
    with run.step("send", effect="none", on_change="ask", inputs={"x": x}) as op:
        if op.needed:
            op.result = clean(x) * LIMIT
    return op.result
"""


def program(text, filename=None):
    """Define a program from source that can be read back, as a notebook cell can."""
    name = filename or f"<cell {uuid.uuid4()}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "__main__", "contextlib": contextlib}
    exec(compile(text, name, "exec"), space)
    return space["go"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("clean(x) * LIMIT", "clean(x) + 'b'", "code of the step"),
        ("x.strip()", "x.upper()", "helper clean changed"),
        ("clean(x) * LIMIT", "clean(x) * LIMIT  # the same", ""),
        ("op.result = clean(x) * LIMIT", "op.result = (\n  clean(x) * LIMIT)", ""),
        ("def go(run, x):", "\n\ndef go(run, x, more=1):", ""),
    ],
    ids=["body", "helper", "comment", "layout", "moved"],
)
def test_a_changed_body_is_noticed(open_run, old, new, said):
    """As of a function: its syntax tree, and the user's own functions that it names."""
    with open_run() as run:
        assert program(WITH)(run, " a ") == "aaa"
    with open_run() as run:
        changed = program(WITH.replace(old, new))
        if not said:
            assert changed(run, " a ") == "aaa"
            assert run.get("send").source == "record"
            return
        with pytest.raises(dnb.IncompatibleCheckpoint, match=said) as stop:
            changed(run, " a ")
        assert len(stop.value.changes) == 1


def test_variables_around_the_body_are_inputs_where_they_are_declared(open_run):
    """What the body reads of the program around it may well differ: `inputs=` says what counts."""
    text = WITH.replace("LIMIT = 3", "LIMIT = 4")
    with open_run() as run:
        program(WITH)(run, " a ")
    with open_run() as run:
        assert program(text)(run, " a ") == "aaa"


@pytest.mark.parametrize(
    "way",
    [
        "with run.step('a', effect='none') as a, run.step('b', effect='none') as op:",
        "with (\n  run.step('a', effect='none') as a,\n  run.step('b', effect='none') as op,\n):",
    ],
)
def test_each_of_several_in_one_with_has_its_body(open_run, way):
    """They share the body; each of them is found."""
    text = "def go(run):\n" + "".join(f"    {line}\n" for line in way.splitlines())
    text += "        a.result = op.result = (a.needed, op.needed) and 1\n"
    with open_run() as run:
        program(text)(run)
    with open_run() as run:
        frame = run.facets_of()
        assert list(frame.loc[frame["facet"] == "code", "op"]) == ["a#1", "a#1/b#1"]
        assert frame["digest"].nunique() == 1


def test_async_with_has_its_body_too(open_run):
    """The caller is a coroutine then."""
    text = """
async def go(run):
    async with run.step("b", effect="none") as op:
        if op.needed:
            op.result = 1
"""
    with open_run() as run:
        asyncio.run(program(text)(run))
        assert list(run.facets_of("b")["facet"]) == ["code"]


def test_a_step_that_is_entered_by_hand_has_no_body(open_run):
    """An `ExitStack` has nothing that could be compared; it works all the same."""
    text = """
def go(run):
    with contextlib.ExitStack() as stack:
        op = stack.enter_context(run.step("b", effect="none"))
        if op.needed:
            op.result = 1
"""
    with open_run() as run:
        program(text)(run)
        assert run.facets_of("b").empty


def test_without_source_nothing_is_compared_and_nothing_fails(open_run):
    """A program that was compiled from a text that nobody kept."""
    space = {}
    exec(
        "def go(run):\n  with run.step('b', effect='none') as op:\n    op.result = op.needed", space
    )
    with open_run() as run:
        space["go"](run)
        assert run.facets_of("b").empty
