"""The two stages that make a `%%durable` cell: text and syntax tree."""

from __future__ import annotations

import ast
import traceback
from typing import Any

import pytest

from durable_nb.notebook.transform import Wrapper, rewrite


def rewritten(source: str) -> str:
    return "".join(rewrite(source.splitlines(keepends=True)))


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n",
        "%%time\nx = 1\n",
        "%%writefile notes.md\n%%durable is a magic\n",
        "text = '''\n%%durable plan\n'''\n",
        "# %%durable plan\nx = 1\n",
        "%%durables plan\nx = 1\n",
        "%durable status\n",
        "",
    ],
)
def test_any_other_cell_is_left_exactly_as_it_is(source):
    """The input stage touches nothing but cells that `%%durable` begins."""
    assert rewritten(source) == source


def test_line_numbers_stay_true_below_comments_and_a_hoisted_future_import():
    """The marker takes the line of `%%durable`, and nothing moves to another line."""
    source = "# why\n\n%%durable plan\nfrom __future__ import annotations\nx = 1\n"

    made = rewritten(source).splitlines()

    assert made[:2] == ["# why", ""]
    assert made[2].startswith("from __future__ import annotations; get_ipython()")
    assert made[3:] == ["", "x = 1"]


def test_a_future_import_over_several_lines_is_hoisted_whole():
    """`from __future__` has to come before the marker, however it is written."""
    made = rewritten("%%durable p\nfrom __future__ import (\n  annotations,\n)\nx = 1\n")

    assert made.splitlines()[1:] == ["", "", "", "x = 1"]
    ast.parse(made)
    compile(made, "<cell>", "exec")


@pytest.mark.slow
def test_a_marker_that_was_not_wrapped_raises_and_its_body_does_not_run(opened):
    """Without the second stage a durable cell fails closed."""
    opened.shell.events.unregister("pre_run_cell", opened.shell._durable_nb_extension.verify)
    opened.shell.ast_transformers.clear()

    done = opened.run("%%durable plan\nran = True")

    assert not done.ok
    assert "not prepared" in done.out
    assert "ran" not in opened.names


def test_a_transformer_that_broke_once_runs_nothing_unguarded_and_comes_back(opened, monkeypatch):
    """IPython drops a tree transformer that raised; no cell runs bare, and it is registered anew."""

    def broken(self: Any, node: Any) -> Any:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Wrapper, "visit", broken)
        with pytest.warns(UserWarning, match="unregistered"):
            first = opened.run("%%durable plan --effect none\ncount = 1")
    assert not first.ok
    assert "count" not in opened.names
    assert opened.names["run"].states() == []

    second = opened.ok("%%durable plan --effect none\ncount = 2")

    assert "unregistered" in second.out
    assert opened.names["count"] == 2
    assert [s.id for s in opened.names["run"].states()] == ["plan#1"]


def test_an_input_stage_that_went_missing_is_put_back_before_the_next_cell(opened):
    """Without the first stage `%%durable` is a magic that only raises."""
    opened.shell.input_transformers_cleanup.remove(rewrite)

    first = opened.run("%%durable plan --effect none\ncount = 1")
    second = opened.run("%%durable plan --effect none\ncount = 1")

    assert not first.ok
    assert "not prepared" in first.out
    assert second.ok


def test_a_cell_that_cannot_be_wrapped_is_rejected_and_the_transformer_stays(opened, monkeypatch):
    """A failure inside the stage itself rejects that one cell."""

    def fail(*_: Any) -> Any:
        raise RecursionError("too deep")

    with monkeypatch.context() as patch:
        patch.setattr("durable_nb.notebook.transform.find", fail)
        done = opened.run("%%durable plan\nran = True")

    assert not done.ok
    assert "too deep" in done.out
    assert "ran" not in opened.names
    opened.ok("%%durable plan --effect none\nran = True")


@pytest.mark.parametrize("magic", ["time", "capture", "prun", "timeit"])
def test_a_durable_cell_under_another_cell_magic_is_refused(opened, magic):
    """Another magic would swallow a failure or run the body more than once."""
    done = opened.run(f"%%{magic}\n%%durable plan\nran = True")

    assert "ran" not in opened.names
    assert opened.names["run"].states() == []
    if magic != "capture":  # it swallows even this message
        assert f"%%durable cannot stand under %%{magic}" in done.out or "not prepared" in done.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("%%durable plan\n%%time\nran = True", "%time"),
        ("%%durable plan\nran = True\n%%bash\nls", "%%bash cannot stand under"),
        ("ran = True\n%%durable plan\nran = 2", "first line"),
        ("%%durable plan\nran = True\n%%durable more\nran = 2", "Split the cell"),
        ("%%durable plan\n# nothing here\n", "empty"),
        ("%%durable\nran = True", "needs a name"),
        ("%%durable a b\nran = True", "one name"),
        ("%%durable plan --efect none\nran = True", "no option --efect"),
        ("%%durable plan --effect maybe\nran = True", "idempotent"),
        ("%%durable plan --in nowhere\nran = True", "no cell has made"),
        ("%%durable plan --out nowhere\nran = True", "does not make"),
        ("%%durable plan --run nowhere\nran = True", "nowhere"),
        ("%%durable plan --out 'a b'\nran = True", "commas"),
    ],
)
def test_a_wrong_line_is_an_error_before_anything_runs_or_is_recorded(opened, source, says):
    """What is wrong with the line is said, with the remedy, and neither stage starts the body."""
    done = opened.run(source)

    assert not done.ok
    assert says in done.out
    assert "ran" not in opened.names
    assert opened.names["run"].states() == []


def test_help_on_the_line_teaches_and_runs_nothing(opened):
    """`%%durable --help` prints the options with an example."""
    done = opened.ok("%%durable --help\nran = True")

    assert "--on-change" in done.out
    assert "Example" in done.out
    assert "ran" not in opened.names


def test_a_syntax_error_is_shown_as_usual_and_nothing_is_recorded(opened):
    """A cell that does not compile never reaches its intent."""
    for body in ("x = = 1", "return 1", "yield 1", "break", "def f(:\n  pass"):
        done = opened.run(f"%%durable plan\n{body}")
        assert isinstance(done.error, SyntaxError), body
    assert opened.names["run"].states() == []


#: Cells whose behaviour must not depend on the `%%durable` line above them.
SAME = [
    "x = 1\nx + 1",
    "x = 1\nx + 1;",
    "x = 1\nif x:\n    x + 1",
    "for i in range(3):\n    print(i)\ni",
    "import math\nmath.pi",
    "from math import *\nround(sin(pi), 3)",
    "def f(a, b=2):\n    return a + b\nf(1)",
    "class A:\n    n = 3\n    def m(self):\n        return self.n\nA().m()",
    "def outer():\n    global made\n    made = 7\nouter()\nmade",
    "global g\ng = 4\ng",
    "x: int = 3\nx",
    "[y * 2 for y in range(3)]",
    "if (n := 10) > 5:\n    print(n)\nn",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    caught = str(e)\ncaught",
    "with open(__import__('os').devnull) as f:\n    data = f.read()\ndata",
    "a = b = [1]\ndel a\nb",
    "'a string'",
    "None",
    "text = '''\n%%durable x\n'''\ntext",
    "match [1, 2]:\n    case [p, q]:\n        print(p, q)",
    "out = !echo hello\nout",
    "%time z = 3\nz",
    "lambda: 1;",
    "import asyncio\nawait asyncio.sleep(0, 'slept')",
    "async def agen():\n    yield 1\n    yield 2\n[v async for v in agen()]",
    (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def acm():\n    yield 5\n"
        "async with acm() as got:\n    print(got)\ngot"
    ),
    "async def agen():\n    yield 1\nasync for v in agen():\n    print(v)",
    "from __future__ import annotations\ndef f(a: Unknown): return a\nf(3)",
    "x = 1 # c\n# the end",
    "print('a'); print('b')",
]


def values(names: dict[str, Any], before: set[str]) -> dict[str, str]:
    shown = {}
    for name in sorted(set(names) - before):
        if not name.startswith("_") and not callable(names[name]):
            shown[name] = repr(names[name])
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("body", SAME)
def test_a_durable_cell_shows_and_leaves_what_the_plain_cell_does(opened, body):
    """Last expression, magics, `await`, scopes and names are as without the line above."""
    before = set(opened.names)
    plain = opened.run(body)
    left = values(opened.names, before)
    for name in set(opened.names) - before:
        if not name.startswith("_"):
            del opened.names[name]

    durable = opened.run(f"%%durable cell --effect none\n{body}")

    assert durable.ok == plain.ok, durable.out
    assert repr(durable.value).split(" at 0x")[0] == repr(plain.value).split(" at 0x")[0]
    strip = [t.replace("Out[", "").partition("]")[2] or t for t in (durable.out, plain.out)]
    if "%time" not in body:
        assert strip[0] == strip[1]
    assert values(opened.names, before) == left


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "x = 1\nx / 0",
        "x = 1\n\ndef f():\n    return 1 / 0\n\nf()\n",
        "import asyncio\nawait asyncio.sleep(0)\n1 / 0",
        "x = [\n  1,\n  undefined,\n]",
        "from __future__ import annotations\n1 / 0",
    ],
)
def test_tracebacks_show_the_true_lines_of_the_cell_and_no_frame_of_ours(opened, body):
    """An error points at the same line of the body as in a plain cell, one line further down."""

    def frames(source: str) -> list[tuple[str, int]]:
        error = opened.run(source).error
        found = traceback.extract_tb(error.__traceback__)
        return [(f.name, f.lineno or 0) for f in found if "IPython" not in f.filename]

    plain = frames(body)
    durable = frames(f"%%durable cell --effect none\n{body}")

    assert [(name, line + 1) for name, line in plain] == durable


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", "last", "last_expr", "none", "last_expr_or_assign"])
@pytest.mark.parametrize("body", ["1\n2\nx = 3", "for i in (1, 2):\n    i", "1\nx = 4\nx"])
def test_the_setting_for_which_expressions_are_shown_is_obeyed(opened, mode, body):
    """`ast_node_interactivity` means the same in a durable cell."""
    opened.shell.ast_node_interactivity = mode
    plain = opened.ok(body).out
    durable = opened.ok(f"%%durable cell --effect none\n{body}").out

    def shown(text: str) -> list[str]:
        return [line.partition(": ")[2] or line for line in text.split("\n")]

    assert shown(durable) == shown(plain)
