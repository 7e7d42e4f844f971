"""Container or opaque, names and digests: read from a cell's source before it runs."""

from __future__ import annotations

import ast
import functools
from types import SimpleNamespace

import pytest
from IPython.core.inputtransformer2 import TransformerManager

import durable_nb as dnb
from durable_nb.notebook.source import Facts, Source, is_toolkit


def source(text: str) -> Source:
    return Source.of(ast.parse(TransformerManager().transform_cell(text)).body)


@dnb.step(effect="none")
def a_step() -> None: ...


@pytest.mark.parametrize(
    ("text", "container"),
    [
        ("charge(1)", True),
        ("x = charge", True),
        ("def later():\n    return charge(1)", True),
        ("job.call(print, 1)", True),
        ("dnb.current_run()", True),
        ("import durable_nb as other", True),
        ("from durable_nb import step", True),
        ("%time charge(1)", True),
        ("%time -q x = charge(1)", True),
        ("y = decorate(1)", True),
        ("!charge 1", False),
        ("print('charge')", False),
        ("other.charge(1)", False),
        ("x = 1", False),
    ],
)
def test_a_cell_is_a_container_when_its_source_names_the_run_a_step_or_the_toolkit(text, container):
    """What counts is the source and what its names stand for, never how the cell ran before."""
    namespace = {
        "charge": a_step,
        "job": SimpleNamespace(),
        "dnb": dnb,
        "decorate": dnb.step,
        "other": SimpleNamespace(),
    }
    run = dnb.Run.__new__(dnb.Run)
    namespace["job"] = run

    assert source(text).is_container(namespace) is container


def test_what_merely_looks_like_the_toolkit_is_not_taken_for_it():
    """A value of the user's is never the toolkit's own, whatever it is wrapped in."""
    assert is_toolkit(dnb)
    assert is_toolkit(a_step)
    assert is_toolkit(dnb.NotRecordable)
    assert not is_toolkit(functools.partial(print))
    assert not is_toolkit(SimpleNamespace(run=a_step))
    assert not is_toolkit(ast)


def test_comments_blank_lines_and_quotes_do_not_count_and_code_and_magics_do():
    """The digest is of the syntax tree, after IPython turned magics into calls."""
    digest = source("x = 'a'\ny = f(x)").own.digest

    assert source('# why\nx = "a"\n\n\ny = f( x )  # so').own.digest == digest
    assert source("x = 'b'\ny = f(x)").own.digest != digest
    assert source("!ls").own.digest != source("!ls -l").own.digest
    assert source("%time f()").own.digest != source("%time g()").own.digest
    assert source("x = 1").own.digest != source("x = 1.0").own.digest


def test_names_that_a_cell_binds_at_its_top_level_are_found_however_it_binds_them():
    """Loops, `with`, `match`, imports, walrus and `global` bind names; inner scopes do not."""
    text = """
import a.b, c as d
from e import f as g
for h, (i, *j) in []:
    k = 1
with open("x") as l, m as (n, o):
    p: int = 1
def q(not1):
    not2 = 1
    global r
    r = 2
class s:
    not3 = 1
[not4 for not4 in [] if (t := 1)]
match x:
    case {"k": u, **v} | [w, *y]:
        pass
try:
    pass
except E as z:
    pass
del aa
lambda not5: 1
%time bb = 1
cc = !ls
"""
    found = set(source(text).binds)

    names = "a d g h i j k l n o p q r s t u v w y aa bb cc"
    assert set(names.split()) <= found
    assert not any(name.startswith("not") for name in found)
    assert source(text).managed == ("l",)


def test_a_cell_that_can_reach_names_out_of_sight_is_known_to():
    """`exec`, star imports and `%run` read and bind what no syntax shows."""
    for text in ("exec('x = 1')", "from os import *", "%run other.py", "globals()['x'] = 1"):
        assert source(text).blind, text
    for text in ("x = 1", "%time f()", "!ls", "obj.exec()"):
        assert not source(text).blind, text


def test_what_is_known_of_a_cell_travels_as_a_literal():
    """The second stage writes its findings into the cell itself and keeps no state."""
    facts = Facts(source("x = y"), ("f",), {"g": "why"}, ("os",), ("math",))

    assert Facts.unpacked(ast.literal_eval(repr(facts.packed()))) == facts
