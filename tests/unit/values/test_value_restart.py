"""Every named value through a real restart: one process saves all, the next ones load them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.child import Bench, Ended
from support.frame_values import FRAMES
from support.late_values import WAITS
from support.value_table import KEPT, REFUSED

pytestmark = pytest.mark.slow  # together they take longer than all the rest

#: One program, three kernels: `save` saves, `load` loads, `late` loads once its classes are there.
#: Each value is one step; a step that runs again is told.
PROGRAM = """
from durable_nb.values import WaitingForClass
from support import value_table
from support.frame_equality import alike
from support.frame_values import FRAMES
from support.same_values import same

table = {**value_table.KEPT, **{f"refused {n}": v for n, (v, _, _) in value_table.REFUSED.items()}}
waiting = {}
table.update({f"frame {n}": make() for n, make in FRAMES.items()})
if more[0] != "load":
    from support.late_values import WAITS
    waiting.update(WAITS)
else:
    waiting.update(dict.fromkeys(map(str, more[1:])))

class World:  # no plain data, so that the step stands on its input alone
    pass

world = World()
world.table, world.waiting, world.ran = table, waiting, []

def give(name):
    world.ran.append(name)
    return world.waiting[name] if name in world.waiting else world.table[name]

found = {}
run = dnb.open_run("values", store=store)
for name in [*table, *waiting]:
    try:
        value = run.step(name, effect="none").call(give, name)
    except (Exception, dnb.DurableSignal) as problem:
        found[name] = f"{type(problem).__name__}: {problem}"
    else:
        equal = alike if name.startswith("frame ") else same
        is_same = equal(value, {**table, **waiting}[name])
        found[name] = "same" if is_same else f"other: {value!r:.200}"
failed = [state.id for state in run.states() if state.failed]
tell(found=found, ran=world.ran, outcomes=outcomes(run), failed=failed)
run.close()
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Save in one process, and load in two more."""
    bench = Bench(tmp_path_factory.mktemp("restart"))
    return {
        mode: bench.run(PROGRAM, mode, *(WAITS if mode == "load" else ())).ok()
        for mode in ("save", "load", "late")
    }


def frames() -> list[str]:
    """Name the tables of pandas, numpy and Arrow, which have a table of their own."""
    return [f"frame {name}" for name in FRAMES]


def wrong(kernel: Ended, names: list[str], expected: str) -> dict[str, str]:
    """Name every value whose verdict is another one."""
    found = kernel.facts["found"]
    return {name: found[name] for name in names if not found[name].startswith(expected)}


def test_table_has_enough_values_of_each_verdict():
    """The table names at least 150 values; some are kept, some refused, some wait."""
    assert len(KEPT) + len(REFUSED) + len(WAITS) >= 150
    assert min(len(KEPT), len(REFUSED), len(WAITS)) >= 10


@pytest.mark.parametrize("mode", ["save", "load", "late"])
def test_case_63_65_68_71_value_is_the_same_live_and_after_a_restart(kernels, mode):
    """Live and in the next processes, a value comes back equal and of the same type."""
    assert wrong(kernels[mode], [*KEPT, *frames()], "same") == {}


@pytest.mark.parametrize("mode", ["save", "load"])
def test_case_66_value_that_is_refused_is_never_recorded_as_done(kernels, mode):
    """The program handled the refusal and went on: it meets the same refusal in each kernel."""
    names = [f"refused {name}" for name in REFUSED]
    assert wrong(kernels[mode], names, "ResultLost: ") == {}
    failed = set(kernels[mode].facts["failed"])
    assert [name for name in names if f"{name.replace('%', '%25')}#1" not in failed] == []


def test_case_63_value_waits_for_its_class_by_name(kernels):
    """Before the cell of its class ran, a value waits for it by name and is computed by nobody."""
    assert wrong(kernels["load"], [*WAITS], "ResultNotLoadable: ") == {}
    found = kernels["load"].facts["found"]
    assert [name for name in WAITS if f".{name.split()[0]}`: run its cell" not in found[name]] == []
    done = kernels["load"].facts["outcomes"]
    assert [name for name in WAITS if done[f"{name}#1"] != "completed"] == []


def test_case_63_value_is_there_once_its_class_is(kernels):
    """A value that waited is loaded by the process that has its class."""
    assert wrong(kernels["late"], [*WAITS], "same") == {}


def test_nothing_that_was_kept_runs_again(kernels):
    """A resume runs nothing: what was kept is loaded, what was refused and handled is history."""
    for mode in ("load", "late"):
        assert kernels[mode].facts["ran"] == []


def test_case_66_refusal_names_the_path_and_what_to_do(kernels):
    """The message says where the object is and what it is, or what to do instead."""
    found = kernels["save"].facts["found"]
    bad = {
        name: found[f"refused {name}"]
        for name, (_, path, words) in REFUSED.items()
        if f"({path} is a " not in found[f"refused {name}"] or words not in found[f"refused {name}"]
    }
    assert bad == {}


def test_table_is_importable_without_pytest():
    """The table serves programs, so it needs nothing of pytest."""
    folder = Path(__file__).parents[2] / "support"
    for name in ("value_table", "value_classes", "late_values", "same_values"):
        assert "pytest" not in (folder / f"{name}.py").read_text().split('"""', 2)[2]
