"""Ctrl-C at any moment: real SIGINTs, many of them and one at each place where Python delivers it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.child import Bench
from support.ledger import Ledger

#: Both programs: a cell, or the `try` in the loop of a script, with its steps in both forms, that is
#: executed again after each interrupt, as a person would do it.
CELL = """
import random
from durable_nb.engine.context import adopt_latest
from durable_nb.engine.scope import Origin
from durable_nb.engine.store import open_run

executions = 0
cell = dnb.Surroundings(origin=lambda: Origin("the cell", executions), say=lambda line: None)
run = open_run("storm", store=store, surroundings=cell)

def effect(n, *, idempotency_key):
    ledger.add(f"e{n}", idempotency_key)
    return n * n

def step(n):
    global executions
    executions += 1
    if spelling != "script":
        adopt_latest()  # as the notebook does it before each cell
    if n % 2:
        return run.step("effect", key=n).call(effect, n)
    with run.step("effect", key=n, inputs={"n": n}) as op:
        if op.needed:
            op.result = effect(n, idempotency_key=op.idempotency_key)
    return op.result

def settle():
    for op in run.unknown():  # a person looks at the ledger
        if ledger.count(f"e{op.key}"):
            run.confirm(op, int(op.key) ** 2, evidence="the ledger")
        else:
            run.deny(op, evidence="the ledger")

def summary():
    history = run.history()
    tell(
        seqs=list(map(int, history["seq"])),
        kinds={op: list(rows["kind"]) for op, rows in history.groupby("op") if op},
        keys={s.id: s.place.key for s in run.states()},
        outcomes=outcomes(run),
    )
"""

STORM = (
    CELL
    + """
spelling = more[2]
count, chance = int(more[0]), random.Random(int(more[1]))
pressed = caught = n = 0
values = {}
inside = False  # whether an interrupt is caught; pressed outside, it would end this program

def turn():
    global n
    try:
        values[n] = step(n)
        n += 1
    except dnb.UnknownOutcome:
        settle()

def press():
    global pressed
    while pressed < count:
        time.sleep(chance.uniform(0.0002, 0.02))
        while not inside:
            time.sleep(0.0001)
        os.kill(os.getpid(), signal.SIGINT)
        pressed += 1

def storm():
    global caught, inside
    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            inside = True
            while thread.is_alive():
                turn()
        except KeyboardInterrupt:
            inside = False
            caught += 1

if count:
    storm()
    tell(caught=caught, steps=n, values=values)
else:
    settle()
    tell(values={s.place.key: step(int(s.place.key)) for s in run.states()})
summary()
run.close()
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("place", [pytest.param("cell", marks=pytest.mark.slow), "script"])
@pytest.mark.parametrize("presses", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_interrupts_in_the_middle_of_commits_neither_double_nor_lose_a_record(
    bench: Bench, ledger: Ledger, presses: int, place: str
) -> None:
    """However often Ctrl-C is pressed, journal and ledger agree, and every record is there once."""
    seen = bench.run(STORM, presses, 7, place).ok().facts
    assert seen["caught"] > presses / 4
    assert seen["steps"] > 2
    agree(seen, ledger)

    effects = ledger.lines()
    after = bench.run(STORM, 0, 7, place).ok().facts
    agree(after, ledger)
    assert effects == ledger.lines()[: len(effects)]
    assert len(ledger.lines()) - len(effects) <= 1  # the step at which the storm ended
    for n, value in seen["values"].items():
        assert value == after["values"][n] == int(n) ** 2


#: Python looks for signals when it enters a function and when a built-in one has returned: the
#: profiler is called at the same places.
SWEEP = (
    CELL
    + """
spelling = more[2]
first, stride = int(more[0]), int(more[1])
package = os.path.dirname(dnb.__file__)
seen = 0
where = ""

def at_check(frame, event, argument):
    "Press Ctrl-C at the chosen check; the toolkit's own handling decides when it is delivered."
    global seen, where
    if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(package):
        return
    seen += 1
    if seen == wanted:
        where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        signal.raise_signal(signal.SIGINT)

def interrupted(n):
    global seen
    seen = 0
    try:
        sys.setprofile(at_check)
        step(n)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return seen >= wanted

pressed, problems, wanted, n = 0, [], first, 0
while interrupted(n):
    pressed += 1
    try:
        try:
            value = step(n)
        except dnb.UnknownOutcome:
            settle()
            value = step(n)
        assert value == n * n
        assert run.unknown() == [] and dnb.current_operation() is None
    except Exception as problem:
        problems.append(f"{where}: {type(problem).__name__}: {problem}")
        if len(problems) > 9:
            break
        run.close()
        run = open_run("storm", store=store, surroundings=cell)
        settle()
    wanted, n = wanted + stride, n + 1
tell(pressed=pressed, problems=problems)
summary()
run.close()
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "stride"),
    [*(pytest.param(n, 3, marks=pytest.mark.slow) for n in (1, 2, 3)), (1, 12)],  # each of them
)
@pytest.mark.parametrize("place", ["cell", pytest.param("script", marks=pytest.mark.slow)])
def test_an_interrupt_at_any_moment_of_a_step_leaves_a_cell_that_can_be_executed_again(
    bench: Bench, ledger: Ledger, first: int, stride: int, place: str
) -> None:
    """Wherever Ctrl-C falls, the next execution of the cell completes it with one effect in all."""
    seen = bench.run(SWEEP, first, stride, place).ok().facts

    assert seen["problems"] == []
    assert seen["pressed"] > 150 / stride
    agree(seen, ledger)
    assert set(seen["outcomes"].values()) == {"completed"}


def agree(seen: dict[str, Any], ledger: Ledger) -> None:
    """Compare journal and ledger: one effect and one outcome for all that is completed."""
    assert seen["seqs"] == list(range(1, len(seen["seqs"]) + 1))
    happened = Counter(what for what, _ in ledger.lines())
    for op, kinds in seen["kinds"].items():
        effects = happened[f"e{seen['keys'][op]}"]
        settled = [k for k in kinds if k in ("completed", "confirmed")]
        assert effects <= 1, (op, kinds)
        assert len(settled) <= 1, (op, kinds)
        if seen["outcomes"][op] == "completed":
            assert len(settled) == effects == 1, (op, kinds)
        taken_back = kinds.count("denied") + kinds.count("not_applied")
        assert kinds.count("intended") <= taken_back + 1, (op, kinds)
