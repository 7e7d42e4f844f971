"""What a cell left behind, in the one line that a person reads of its operation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from durable_nb import values

NONE = "%%durable cell --effect none"


def shown(notebook, body: str, *before: str) -> str:
    for source in before:
        notebook.ok(source)
    notebook.ok(f"{NONE}\n{body}")
    line: str = notebook.names["run"].get("cell").result_preview
    return line


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("total = 42.5\nplan = {'order': 'A-17'}", "plan = {'order': 'A-17'}, total = 42.5"),
        ("x = 1\nprint('a')\nprint('b\\nc')", "x = 1; printed 3 lines"),
        ("print('a', end='')", "printed 1 line"),
        ("x = 1\nx", "x = 1; showed 1 output"),
        ("def f(): pass\nclass C: pass", "defined f, C"),
        ("import math\nroot = math.sqrt\nm = math", "m = <module math>, root = <function sqrt>"),
        ("del old\nnew = 1\ndel new", "deleted old"),
        ("log.append(2)\nsame = log", "log = [1, 2], same = [1, 2]"),
        ("pass", "nothing left behind"),
        ("key = 'sk-' + 'a1B2' * 12", "key = '[redacted]'"),
    ],
)
def test_a_cell_is_shown_by_what_it_left_behind(opened, body, line):
    """Names with their values, then what it defined, deleted, printed and showed."""
    assert shown(opened, body, "old = 1; log = [1]") == line


@pytest.mark.slow
def test_an_object_of_an_earlier_cell_is_shown_as_it_is(opened):
    """The record points to it; the line shows it."""
    assert shown(opened, "mine = {'log': log}", "log = [1]") == "mine = {'log': [1]}"


@pytest.mark.slow
def test_the_line_is_short_and_says_how_much_it_leaves_out(opened):
    """A long value is cut, and names for which there is no room are counted."""
    line = shown(opened, "for i in range(30): globals()[f'n{i:02}'] = 'x' * 500\nprint(1)")

    assert len(line) <= 200
    assert line.startswith(f"i = 29, n00 = '{'x' * 58}…, n01 = ")
    assert line.endswith(", … 28 more; printed 1 line")


@pytest.mark.slow
def test_lines_that_are_not_in_the_record_are_not_counted_as_if_they_were(opened):
    """Of what was too long to keep, the number of lines is a least one."""
    line = shown(opened, "for n in range(40000): print(n)\ndel n")

    assert line.startswith("printed at least ")


@pytest.mark.slow
def test_the_command_line_shows_it_without_the_notebook(opened, tmp_path):
    """It is on record itself, also beside a value that is too large to be loaded for it."""
    opened.ok(f"{NONE}\nbig = 'x' * 1_000_000\nprint('done')")
    opened.restart()
    program = (
        "import sys; from durable_nb.cli import main\n"
        "try: main()\n"
        "finally: print([m for m in sys.modules if m == 'durable_nb.notebook'], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "show", "job", "cell"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert f"big = '{'x' * 58}…; printed 1 line" in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


def test_it_is_shown_where_the_value_cannot_be_loaded(opened, monkeypatch):
    """What a person may read does not depend on what this process can put together."""
    opened.ok(f"{NONE}\ntotal = 42.5")
    opened.restart()
    opened.ok("%durable run job")

    def decode(*_):
        raise AssertionError("nobody asked for the value")

    with monkeypatch.context() as patch:
        patch.setattr(values, "decode", decode)
        assert opened.names["run"].get("cell").result_preview == "total = 42.5"


def test_a_cell_on_record_without_such_a_line_is_shown_by_its_value(opened, monkeypatch):
    """As a record of an earlier version is."""
    from durable_nb.notebook import cell

    with monkeypatch.context() as patch:
        patch.setattr(cell.Cell, "_summary", lambda self: None)
        line = shown(opened, "x = 1")
    assert line.startswith("{'durable_cell': 1, 'names': {'x': 1}")
