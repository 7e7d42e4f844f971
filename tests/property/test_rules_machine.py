"""Random programs, kills, verdicts, edits and resumes: the engine against a second opinion.

After each rule the engine and `support.rule_model`, which shares no code with it, agree on every
outcome, key, question and signal, on what a pass returned, and on what happened outside.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.rule_model import C, Model, U
from support.rule_programs import (
    CODES,
    MODELS,
    NAMES,
    TROUBLES,
    VALUES,
    Program,
    Step,
    changed,
    paths,
    programs,
    steps,
    within,
)
from support.rule_world import World

from dataclasses import replace

PICK = st.integers(0, 11)
#: What an edit of one step replaces.
EDITS = st.one_of(
    st.tuples(st.just("value"), VALUES),
    st.tuples(st.just("code"), CODES),
    st.tuples(st.just("model"), MODELS),
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("feeds"), st.booleans()),
    st.tuples(st.just("catch"), st.booleans()),
)


class Rules(RuleBasedStateMachine):
    """A program, the run that it is executed in, and the model of both."""

    def __init__(self) -> None:
        super().__init__()
        shm = Path("/dev/shm")  # commits cost no waiting for a disk there
        self.place = Path(tempfile.mkdtemp(prefix="rules-", dir=shm if shm.is_dir() else None))
        self.world, self.model = World(self.place), Model()
        self.program: Program = ()
        self.versions: list[Program] = []

    def teardown(self) -> None:
        try:
            self.world.close()
        finally:
            self.world.end()
            shutil.rmtree(self.place, ignore_errors=True)

    @initialize(program=programs())
    def write(self, program: Program) -> None:
        self._edit(program)

    # -- kernels and passes ------------------------------------------------------------------

    @rule()
    def run_all(self) -> None:
        self._go({})

    @rule(pick=PICK, trouble=st.sampled_from(TROUBLES))
    def run_all_into_trouble(self, pick: int, trouble: str) -> None:
        ids = sorted(identities(self.program))
        if ids:
            self._go({ids[pick % len(ids)]: trouble})

    @rule(how=st.sampled_from(["close", "kill"]))
    def resume(self, how: str) -> None:
        getattr(self.world, how)()
        getattr(self.model, how)()

    @rule()
    def the_world_changes(self) -> None:
        self.world.state += 1
        self.model.world += 1

    # -- verdicts ----------------------------------------------------------------------------

    @precondition(lambda self: self._ids(lambda op: op.outcome == U))
    @rule(pick=PICK, verdict=st.sampled_from(["confirm", "deny"]))
    def settle(self, pick: int, verdict: str) -> None:
        self._give(verdict, self._ids(lambda op: op.outcome == U), pick, None)

    @precondition(lambda self: self._ids(lambda op: op.question))
    @rule(pick=PICK, verdict=st.sampled_from(["keep", "rerun"]))
    def decide(self, pick: int, verdict: str) -> None:
        self._give(verdict, self._ids(lambda op: op.question), pick, None)

    @precondition(lambda self: self._ids(lambda op: op.outcome == C))
    @rule(pick=PICK, fate=st.sampled_from(["stands", "compensated", None]))
    def invalidate(self, pick: int, fate: str | None) -> None:
        self._give("invalidate", self._ids(lambda op: op.outcome == C), pick, fate)

    @precondition(lambda self: self.model.ops)
    @rule(
        pick=PICK,
        verdict=st.sampled_from(["confirm", "deny", "invalidate", "keep", "rerun"]),
    )
    def give_any_verdict(self, pick: int, verdict: str) -> None:
        self._give(verdict, list(self.model.ops), pick, None)

    # -- edits -------------------------------------------------------------------------------

    @precondition(lambda self: self.program)
    @rule(pick=PICK, new=EDITS)
    def edit_a_step(self, pick: int, new: tuple[str, Any]) -> None:
        self._edit(changed(self.program, self._path(pick), lambda s: replace(s, **dict([new]))))

    @precondition(lambda self: self.program)
    @rule(code=CODES)
    def edit_all_code(self, code: int) -> None:
        self._edit(tuple(everywhere(step, code) for step in self.program))

    @rule(pick=PICK, at=PICK, step=steps())
    def add(self, pick: int, at: int, step: Step) -> None:
        places = [(), *(p for p in paths(self.program) if step_at(self.program, p).inner)]
        place = places[pick % len(places)]
        self._edit(within(self.program, place, lambda old: inserted(old, at, step)))

    @precondition(lambda self: self.program)
    @rule(pick=PICK, how=st.sampled_from(["remove", "move up"]))
    def reorder(self, pick: int, how: str) -> None:
        *above, last = self._path(pick)
        change = without if how == "remove" else swapped
        self._edit(within(self.program, tuple(above), lambda old: change(old, last)))

    @rule(pick=PICK)
    def edit_back(self, pick: int) -> None:
        self._edit(self.versions[-1 - pick % len(self.versions)])

    # -- what holds after each ---------------------------------------------------------------

    @invariant()
    def engine_and_model_agree(self) -> None:
        assert engine_view(self.world) == model_view(self.model)
        keys = {(op, key) for op, key in self.world.ledger}
        assert [op for op, _ in self.world.ledger] == [op for op, _ in self.model.ledger]
        pairs = set(zip(self.model.ledger, self.world.ledger, strict=True))
        assert len(pairs) == len(keys) == len(set(self.model.ledger))
        assert self.world.run.fold.doubted is None

    # -- how ---------------------------------------------------------------------------------

    def _go(self, troubles: dict[str, str]) -> None:
        before, done = outcomes(self.world), len(self.world.ledger)
        generations = {s.id: s.generation for s in self.world.run.states()}
        left = dict(troubles)
        ended = self.world.go(self.program, left)
        self._check_promise(before, generations, self.world.ledger[done:])
        expected_left = dict(troubles)
        assert ended == self.model.go(self.program, expected_left)
        assert left == expected_left

    def _check_promise(
        self,
        before: dict[str, tuple[str, str]],
        generations: dict[str, int],
        happened: list[tuple[str, str]],
    ) -> None:
        """DESIGN section 1, whatever the model says."""
        doubts = {op for op, (_, outcome) in before.items() if outcome == U}
        now = {s.id: s.generation for s in self.world.run.states()}
        for op, _ in happened:
            assert op not in doubts, "an unknown effect was repeated"
            assert not doubts or any(d.startswith(f"{op}/") for d in doubts), "walked around"
            if before.get(op, ("", ""))[1] == C:
                assert now[op] > generations[op], "a completed operation ran again"

    def _give(self, verdict: str, ids: list[str], pick: int, fate: str | None) -> None:
        op = ids[pick % len(ids)]
        before = dict(self.world.run.fold.operations)
        said = self.world.verdict(verdict, op, fate)
        assert said == self.model.verdict(verdict, op, fate)
        if said == "VerdictRefused":
            assert self.world.run.fold.operations == before

    def _ids(self, wanted: Any) -> list[str]:
        return [op_id for op_id, op in self.model.ops.items() if wanted(op)]

    def _path(self, pick: int) -> tuple[int, ...]:
        all_paths = list(paths(self.program))
        return all_paths[pick % len(all_paths)]

    def _edit(self, program: Program) -> None:
        self.program = program
        self.versions.append(program)
        del self.versions[:-6]


# -- programs ----------------------------------------------------------------------------------


def identities(program: Program, above: str = "") -> set[str]:
    """List the identities of a program's calls, each only once where they are counted."""
    found = set()
    for step in program:
        key = "" if step.key is None else f"[{step.key}]"
        number = next(n for n in range(1, 99) if f"{above}{step.name}{key}#{n}" not in found)
        found.add(f"{above}{step.name}{key}#{number}")
        found |= identities(step.inner, f"{above}{step.name}{key}#{number}/")
    return found


def step_at(program: Program, path: tuple[int, ...]) -> Step:
    step = program[path[0]]
    return step_at(step.inner, path[1:]) if path[1:] else step


def everywhere(step: Step, code: int) -> Step:
    return replace(step, code=code, inner=tuple(everywhere(s, code) for s in step.inner))


def inserted(old: Program, at: int, step: Step) -> Program:
    place = at % (len(old) + 1)
    return (*old[:place], step, *old[place:])


def without(old: Program, at: int) -> Program:
    return old[:at] + old[at + 1 :]


def swapped(old: Program, at: int) -> Program:
    return old if not at else (*old[: at - 1], old[at], old[at - 1], *old[at + 1 :])


# -- what is compared --------------------------------------------------------------------------


def outcomes(world: World) -> dict[str, tuple[str, str]]:
    now = world.run.clock.now()
    return {s.id: (str(s.effect), str(s.outcome(now))) for s in world.run.states()}


def engine_view(world: World) -> dict[str, Any]:
    """What the journal says of each operation, in the order in which they began."""
    now, run = world.run.clock.now(), world.run
    return {
        s.id: {
            "outcome": str(s.outcome(now)),
            "attempt": s.attempt,
            "generation": s.generation,
            "question": questioned(s),
        }
        for s in run.states()
    }


def questioned(state: Any) -> tuple[str, ...]:
    rows = (state.question or {}).get("rows", ())
    return tuple(sorted({row[0] for row in rows}))


def model_view(model: Model) -> dict[str, Any]:
    return {
        op_id: {
            "outcome": op.outcome,
            "attempt": op.attempt,
            "generation": op.generation,
            "question": op.question.facets if op.question else (),
        }
        for op_id, op in model.ops.items()
    }


# -- the tests ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _committed_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no timer commit what waits for the next commit, so that a kill loses the same each time."""
    monkeypatch.setattr("durable_nb.journal.duckdb_journal.LAZY_LIMIT", 3600.0)


def examples(count: int, length: int) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def test_engine_and_model_agree_whatever_happens() -> None:
    """Outcomes, keys, questions, signals, results and effects are those of the written rules."""
    run_state_machine_as_test(Rules, settings=examples(40, 25))


@pytest.mark.slow
def test_engine_and_model_agree_over_longer_stories() -> None:
    """The same over more and longer programs."""
    run_state_machine_as_test(Rules, settings=examples(200, 50))
