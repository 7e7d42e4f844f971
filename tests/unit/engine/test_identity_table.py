"""The identity table of a function step: what may change between two kernels, and what is noticed.

Not noticed: the record replays. Noticed: the step is external, so the run stops, names what changed
and does nothing. The same table for `%%durable` cells is in `tests/unit/notebook/test_cell_identity.py`.
"""

from __future__ import annotations

import linecache
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from support.identity_rows import CODE, REACHED, REPLAYS, SHARED, Row

import durable_nb as dnb

#: A script, as the kernel that recorded it ran it. `effects` is the outside world.
SCRIPT = (
    REACHED
    + """

def work(x):
    "Say it."
    effects(client is not None)
    return helper(x), LIMIT, 'a'
"""
)


def nested(inner: object, levels: int = 30) -> object:
    """Put something below many lists."""
    for _ in range(levels):
        inner = [inner]
    return inner


TABLE = {
    **SHARED,
    "comment": Row("    return helper(x), ", "    # why\n    return helper(x), "),
    "blank lines": Row("    return helper(x), ", "\n\n    return helper(x), "),
    "docstring": Row("Say it.", "Say it!", CODE),
    "a constant's type": Row("LIMIT = 3", "LIMIT = '3'", ("constant LIMIT: 3 -> '3'",)),
    '`1` against `"1"`': Row(noticed=("input x: 1 -> '1'",), inputs=(1, "1")),
    "`1` against `1.0`": Row(noticed=("input x: 1 -> 1.0",), inputs=(1, 1.0)),
    "`1` against `True`": Row(noticed=("input x: 1 -> True",), inputs=(1, True)),
    "inputs that differ only at nesting level 30": Row(
        noticed=("input x: [[[[[…]]]]], which differs inside",), inputs=(nested(1), nested("1"))
    ),
}


def kernel(source: str, effects: Callable[..., int]) -> dict[str, Any]:
    """Execute a script as `__main__` of another kernel would, with source that can be read back."""
    filename = f"<cell {uuid.uuid4()}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names: dict[str, Any] = {"__name__": "__main__", "effects": effects}
    exec(compile(source, filename, "exec"), names)
    return names


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_what_changes_between_two_kernels_and_what_is_noticed(open_run, effects, row):
    """A step's record replays, or the stop says exactly what differs; nothing is done again."""
    assert row.before in SCRIPT
    first, second = row.inputs
    with open_run() as run:
        recorded = run.call(kernel(SCRIPT, effects)["work"], first)
    changed = kernel(SCRIPT.replace(row.before, row.after, 1), effects)["work"]

    with open_run() as run:
        if row.noticed == REPLAYS:
            assert run.call(changed, second) == recorded
            assert run.get("work").source == "record"
        else:
            with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
                run.call(changed, second)
            assert stop.value.changes == row.noticed
            assert [op.id for op in stop.value.operations] == ["work#1"]

    assert effects.count == 1


@pytest.mark.parametrize(
    ("edit", "noticed"),
    [(("Say it.", "Say it."), REPLAYS), (("LIMIT, 'a'", "LIMIT, 'b'"), CODE)],
    ids=["as it was", "with another body"],
)
def test_a_step_function_redefined_in_the_same_kernel(open_run, effects, edit, noticed):
    """What the name stands for now is compared: never the object, nor what it was at first."""
    names = kernel(SCRIPT, effects)
    with open_run() as run:
        recorded = run.call(names["work"], 1)
    again = kernel(SCRIPT.replace(*edit, 1), effects)["work"]
    assert again is not names["work"]
    names["work"] = again

    with dnb.run("r", store=run.folder.parent) as run:  # the same kernel comes to it once more
        if noticed == REPLAYS:
            assert run.call(names["work"], 1) == recorded
        else:
            with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
                run.call(names["work"], 1)
            assert stop.value.changes == noticed

    assert effects.count == 1


def test_what_is_not_noticed_of_a_client_is_listed(open_run, effects):
    """Nobody has to guess: the facets name what the code reaches and nobody compares."""
    with open_run() as run:
        run.call(kernel(SCRIPT, effects)["work"], 1)
        facets = run.facets_of("work").set_index("facet")
    assert bool(facets.loc["constant LIMIT", "watched"]) is True
    assert bool(facets.loc["client", "watched"]) is False
    assert facets.loc["client", "shown"] == "Client"
