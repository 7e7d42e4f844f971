"""The identity table of a `%%durable` cell: what may change between two kernels, what is noticed.

Not noticed: the cell comes from the record. Noticed: it is external, so the run stops, names what
changed and executes nothing. The same table for plain functions is in `tests/unit/engine`; tags,
places and copies of whole notebooks are in `tests/notebook/test_identity_of_cells.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.identity_rows import CODE, REACHED, REPLAYS, SHARED, Row

import durable_nb as dnb

#: The cell that defines what the other reaches.
DEFINITIONS = (
    REACHED
    + """

x = 1


def mark():
    with open("ledger", "a") as file:
        file.write("x")
"""
)

CELL = """\
%%durable work --in x --out answer
mark()
answer = helper(x), LIMIT, 'a', client is None
"""


TABLE = {
    **SHARED,
    "comment": Row("answer = helper", "# why\nanswer = helper"),
    "comment in a helper": Row("    return x", "    # why\n    return x"),
    "blank lines": Row("answer = helper", "\n\nanswer = helper"),
    "the magic's own line": Row(
        "--out answer\n",
        "\n",
        ("line: effect= in=x out=answer -> effect= in=x out=*",),
    ),
    "the magic's own line, spelled in another way": Row(
        "work --in x --out answer", "work  --out=answer --in=x"
    ),
    '`1` against `"1"`': Row("x = 1", "x = '1'", ("input x: 1 -> '1'",)),
}


def edited(row: Row) -> tuple[str, str]:
    """Give both cells as the next kernel has them."""
    assert row.before in DEFINITIONS or row.before in CELL
    if row.before in DEFINITIONS:
        return DEFINITIONS.replace(row.before, row.after, 1), CELL
    return DEFINITIONS, CELL.replace(row.before, row.after, 1)


def marks() -> str:
    """Give what the cell did outside, a letter each time."""
    return Path("ledger").read_text()


def holds(noticed: tuple[str, ...], done: Any, run: Any) -> None:
    """Check that a cell came from the record, or that the stop names exactly what changed."""
    if noticed == REPLAYS:
        assert done.ok, done.out
        assert "↺ work · from record" in done.out
        assert run.get("work").source == "record"
    else:
        assert isinstance(done.error, dnb.IncompatibleCheckpoint), done.out
        assert done.error.changes == noticed
        assert [op.id for op in done.error.operations] == ["work#1"]
    assert marks() == "x"


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_what_changes_between_two_kernels_and_what_is_noticed(opened, row):
    """A cell comes from the record, or the stop says exactly what differs; nothing is done again."""
    opened.ok(DEFINITIONS)
    opened.ok(CELL)
    opened.restart()
    opened.ok("%durable run job")
    definitions, cell = edited(row)
    opened.ok(definitions)

    done = opened.run(cell)

    holds(row.noticed, done, opened.names["run"])


def test_inputs_that_differ_only_at_nesting_level_30(opened):
    """Nothing is cut off at a depth where values are compared; only where they are shown."""
    opened.ok(DEFINITIONS)
    opened.ok(f"x = {'[' * 30}1{']' * 30}")
    opened.ok(CELL)
    opened.restart()
    opened.ok("%durable run job")
    opened.ok(DEFINITIONS)
    opened.ok(f"x = {'[' * 30}'1'{']' * 30}")

    done = opened.run(CELL)

    holds(("input x: [[[[[…]]]]], which differs inside",), done, opened.names["run"])


STEP = """\
@dnb.step
def work(x):
    mark()
    return helper(x), LIMIT, 'a'
"""


@pytest.mark.parametrize(
    ("edit", "noticed"),
    [(("", ""), REPLAYS), (("# nothing", "# x"), REPLAYS), (("LIMIT, 'a'", "LIMIT, 'b'"), CODE)],
    ids=["as it was", "comment", "with another body"],
)
def test_a_step_function_redefined_in_the_same_kernel(opened, edit, noticed):
    """Its cell is executed again, then the one that calls it: what it is by now is compared."""
    definition = STEP + "# nothing\n"
    opened.ok("import durable_nb as dnb")
    opened.ok(DEFINITIONS)
    opened.ok(definition)
    first = opened.ok("answer = work(x)\nanswer").value
    opened.ok(definition.replace(*edit, 1))

    done = opened.run("answer = work(x)\nanswer")

    if noticed == REPLAYS:
        assert done.ok
        assert done.value == first
    else:
        assert isinstance(done.error, dnb.IncompatibleCheckpoint), done.out
        assert done.error.changes == noticed
    assert marks() == "x"


def test_a_function_of_a_cell_redefined_in_the_same_kernel(opened):
    """A durable cell that is executed again reaches the helper as it is by now."""
    opened.ok(DEFINITIONS)
    opened.ok(CELL)
    opened.ok("def helper(x):\n    return -x")

    done = opened.run(CELL)

    holds(("helper helper changed",), done, opened.names["run"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "noticed"),
    [
        ("Help.", "Help!", ("helper helper changed",)),
        ("    return x\n", "    return x + 0\n", ("helper helper changed",)),
        ("LIMIT = 3", "LIMIT = 4", ("constant LIMIT: 3 -> 4",)),
        ("x = 1", "x = '1'", ("input x: 1 -> '1'",)),
        ('Client("a")', 'Client("b")', REPLAYS),
    ],
    ids=["docstring", "a helper's body", "a constant", '`1` against `"1"`', "a client or logger"],
)
def test_a_step_of_a_notebook_notices_what_a_plain_function_does(opened, before, after, noticed):
    """The notebook around a function step is the module that it reaches; no cell is a facet of it."""
    step = STEP.replace("LIMIT,", "LIMIT, client is None,")
    opened.ok("import durable_nb as dnb\n" + DEFINITIONS + "\n\n" + step)
    opened.ok("answer = work(x)")
    opened.restart()
    opened.ok("%durable run job")
    opened.ok("import durable_nb as dnb\n" + DEFINITIONS.replace(before, after, 1) + "\n\n" + step)

    done = opened.run("answer = work(x)  # the calling cell is no facet")

    assert (REPLAYS if done.ok else done.error.changes) == noticed, done.out
    assert marks() == "x"
