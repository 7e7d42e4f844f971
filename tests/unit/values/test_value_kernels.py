"""Classes and codecs of a notebook through real restarts: a value waits, or says what changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.child import Bench

pytestmark = pytest.mark.slow  # together they take longer than all the rest

#: One program, whose first argument says what the kernel has defined by now.
PLANS = """
import dataclasses, enum, typing
import attrs, pydantic
from durable_nb.values import ValueNotLoadable, WaitingForClass

kind, mode = more

if mode == "defined":
    if kind == "dataclass":
        @dataclasses.dataclass
        class Plan:
            goal: str
            steps: int
    elif kind == "attrs":
        @attrs.define
        class Plan:
            goal: str
            steps: int
    elif kind == "model":
        class Plan(pydantic.BaseModel):
            goal: str
            steps: int
    elif kind == "namedtuple":
        class Plan(typing.NamedTuple):
            goal: str
            steps: int
elif mode == "changed":
    if kind == "dataclass":
        @dataclasses.dataclass
        class Plan:
            goal: str
            owner: str = "me"
    elif kind == "attrs":
        @attrs.define
        class Plan:
            goal: str
            owner: str = "me"
    elif kind == "model":
        class Plan(pydantic.BaseModel):
            goal: str
            owner: str = "me"
    elif kind == "namedtuple":
        class Plan(typing.NamedTuple):
            goal: str
            owner: str = "me"

def make_plan(goal):
    ledger.add(goal)
    return [{"plan": Plan(goal=goal, steps=3)}]

run = dnb.open_run("plans", store=store)
try:
    for effect in ("none", "external"):
        try:
            (row,) = run.step(effect, effect=effect).call(make_plan, effect)
        except dnb.DurableSignal as problem:
            tell(**{effect: f"{type(problem).__name__}: {problem}"})
        else:
            plan = row["plan"]
            tell(**{effect: [type(plan) is Plan, plan.goal, plan.steps]})
finally:
    tell(outcomes=outcomes(run), kinds=[kinds(run, f"{e}#1") for e in ("none", "external")])
    run.close()
"""


@pytest.mark.parametrize("kind", ["dataclass", "attrs", "model", "namedtuple"])
def test_case_63_value_waits_for_its_class_or_says_what_changed(kind, tmp_path):
    """Without its class a step waits by name; with another class it lists both sets of fields.

    In neither case does it run again, whatever its effect, and the record stays as it is.
    """
    bench = Bench(tmp_path)
    saved = bench.run(PLANS, kind, "defined").ok().facts
    assert saved["none"] == [True, "none", 3]

    waiting = bench.run(PLANS, kind, "missing").ok().facts
    changed = bench.run(PLANS, kind, "changed").ok().facts
    again = bench.run(PLANS, kind, "defined").ok().facts

    for effect in ("none", "external"):
        assert waiting[effect].startswith(f"ResultNotLoadable: {effect}#1 in run")
        assert "Why: waiting for class `Plan`: run its cell." in waiting[effect]
        assert "the recorded value of class Plan cannot be loaded" in changed[effect]
        assert "It is not run again" in changed[effect]
        assert "were (goal: str, steps: int) and now are (goal: str, owner: str)" in changed[effect]
        assert "define the class as it was, or invalidate the operation" in changed[effect]
        assert again[effect] == [True, effect, 3]
    for facts in (waiting, changed, again):
        assert facts["outcomes"] == {"none#1": "completed", "external#1": "completed"}
        assert facts["kinds"] == [["intended", "completed"]] * 2
    assert Path(bench.ledger_file).read_text().count("\n") == 2


#: The second kernel has version 2 of the codec, with or without a decoder of version 1.
MONEY = """
class Money:
    def __init__(self, cents, currency="EUR"):
        self.cents, self.currency = cents, currency

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None

if more[0] == "1":
    dnb.register_codec("money", Money, 1, lambda m: m.cents, Money)
else:
    older = {1: Money} if more[0] == "2, reads 1" else None
    encode = lambda m: {"cents": m.cents, "in": m.currency}
    decode = lambda d: Money(d["cents"], d["in"])
    if more[0] != "none":
        dnb.register_codec("money", Money, 2, encode, decode, older=older)

def pay(cents):
    ledger.add(str(cents))
    return [Money(cents)]

run = dnb.open_run("codecs", store=store)
for name in ("old", *map(str, more[1:])):
    try:
        found = run.step(name, effect="none").call(pay, 5)
        tell(**{name: found == [Money(5)] and type(found[0]) is Money})
    except dnb.DurableSignal as problem:
        tell(**{name: f"{type(problem).__name__}: {problem}"})
run.close()
"""


def test_older_versions_of_a_codec_are_read_after_a_restart(tmp_path):
    """A codec at version 2 reads what version 1 wrote, if it has a decoder for it."""
    bench = Bench(tmp_path)
    assert bench.run(MONEY, "1").ok().facts["old"] is True
    assert bench.run(MONEY, "2, reads 1", "new").ok().facts == {"old": True, "new": True}
    assert bench.run(MONEY, "2, reads 1", "new").ok().facts == {"old": True, "new": True}

    without = bench.run(MONEY, "2", "new").ok().facts
    assert without["new"] is True
    assert "recorded in version 1" in without["old"]
    assert "older={...}" in without["old"]

    none = bench.run(MONEY, "none").ok().facts["old"]
    assert "the recorded value of type money cannot be loaded" in none
    assert "register_codec for it first" in none
    assert Path(bench.ledger_file).read_text().count("\n") == 2
