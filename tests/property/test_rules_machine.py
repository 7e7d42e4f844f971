"""Random programs, kills, verdicts, edits and resumes: the engine against a second opinion.

After each rule the engine and `support.rule_model`, which shares no code with it, agree on every
outcome, key, question and signal, on what a pass returned, and on what happened outside.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.child import Bench
from support.ledger import Ledger
from support.rule_model import Model
from support.rule_programs import (
    CODES,
    MODELS,
    NAMES,
    SCOPES,
    TROUBLES,
    VALUES,
    Program,
    Step,
    changed,
    everywhere,
    identities,
    inserted,
    paths,
    programs,
    step_at,
    steps,
    swapped,
    within,
    without,
)
from support.rule_state import C, I, Op, U
from support.rule_views import engine_view, journal_of, model_view, outcomes, waiting
from support.rule_world import World

from durable_nb.engine.store import open_run

PICK = st.integers(0, 11)
#: What becomes of the kernel.
THEN = st.sampled_from([*["stay"] * 5, "close", "kill"])
#: What a call that is still to be done comes to.
FATE_OF_CALL = st.sampled_from(["", "", "", *TROUBLES])
#: What an edit of one step replaces.
EDITS = st.one_of(
    st.tuples(st.just("value"), VALUES),
    st.tuples(st.just("code"), CODES),
    st.tuples(st.just("model"), MODELS),
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("requires"), SCOPES),
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

    # Most rules end with a pass: what they changed shows only there.
    @initialize(program=programs(), pick=PICK, trouble=FATE_OF_CALL)
    def write(self, program: Program, pick: int, trouble: str) -> None:
        self._edit(program)
        self._go(pick, trouble)

    @rule(then=THEN, pick=PICK, trouble=FATE_OF_CALL)
    def run_all(self, then: str, pick: int, trouble: str) -> None:
        self._then(then)
        self._go(pick, trouble)

    @rule(how=st.sampled_from(["close", "kill"]), version=st.sampled_from([None, "1", "2"]))
    def resume(self, how: str, version: str | None) -> None:
        getattr(self.world, how)(version)
        getattr(self.model, how)(version)
        self._go()

    # -- verdicts ----------------------------------------------------------------------------

    @precondition(lambda self: self._ids(is_unknown))
    @rule(pick=PICK, verdict=st.sampled_from(["confirm", "deny", "confirm", "deny", "invalidate"]))
    def settle(self, pick: int, verdict: str) -> None:
        self._give(verdict, self._ids(is_unknown), pick, None)

    @precondition(lambda self: self._ids(is_asked))
    @rule(pick=PICK, verdict=st.sampled_from(["keep", "rerun"]), then=THEN, trouble=FATE_OF_CALL)
    def decide(self, pick: int, verdict: str, then: str, trouble: str) -> None:
        self._give(verdict, self._ids(is_asked), pick, None)
        self._then(then)
        self._go(pick, trouble)

    @precondition(lambda self: self._ids(is_unknown) or self._ids(is_asked))
    @rule(
        happened=st.sampled_from(["confirm", "deny"]),
        changed=st.sampled_from(["keep", "rerun"]),
        pick=PICK,
        trouble=FATE_OF_CALL,
    )
    def answer_everything(self, happened: str, changed: str, pick: int, trouble: str) -> None:
        for op in self._ids(is_unknown):
            self._give(happened, [op], 0, None)
        for op in self._ids(is_asked):  # what is not done has no record to keep
            verdict = changed if self.model.ops[op].outcome == C else "rerun"
            self._give(verdict, [op], 0, None)
        self._go(pick, trouble)

    @precondition(lambda self: self._ids(is_done))
    @rule(
        pick=PICK,
        fate=st.sampled_from(["stands", "compensated", None]),
        changes=st.booleans(),
        trouble=FATE_OF_CALL,
    )
    def invalidate(self, pick: int, fate: str | None, changes: bool, trouble: str) -> None:
        self._give("invalidate", self._ids(is_done), pick, fate)
        self.world.state += changes  # what it comes out as may be another result then
        self.model.world += changes
        self._go(pick, trouble)

    @precondition(lambda self: self.model.ops)
    @rule(
        pick=PICK,
        verdict=st.sampled_from(["confirm", "deny", "invalidate", "keep", "rerun"]),
        then=THEN,
    )
    def give_any_verdict(self, pick: int, verdict: str, then: str) -> None:
        self._give(verdict, list(self.model.ops), pick, None)
        self._then(then)

    @rule(scope=st.sampled_from(["send", "send", "read"]), then=THEN)
    def grant(self, scope: str, then: str) -> None:
        assert self.world.grant(scope) == self.model.grant(scope)
        self._then(then)
        self._go()

    # -- edits -------------------------------------------------------------------------------

    @precondition(lambda self: self.program)
    @rule(pick=PICK, new=EDITS, then=THEN, trouble=FATE_OF_CALL)
    def edit_a_step(self, pick: int, new: tuple[str, Any], then: str, trouble: str) -> None:
        self._edit(changed(self.program, self._path(pick), lambda s: replace(s, **dict([new]))))
        self._then(then)
        self._go(pick, trouble)

    @precondition(lambda self: self._to_be_retried())
    @rule(pick=PICK, value=VALUES, then=THEN)
    def edit_the_input_of_what_was_tried(self, pick: int, value: int, then: str) -> None:
        tried = self._to_be_retried()
        path = tried[pick % len(tried)]
        self._edit(changed(self.program, path, lambda step: replace(step, value=value)))
        self._then(then)
        self._go()

    @precondition(lambda self: self.program)
    @rule(code=CODES, then=THEN)
    def edit_all_code(self, code: int, then: str) -> None:
        self._edit(tuple(everywhere(step, code) for step in self.program))
        self._then(then)
        self._go()

    @rule(pick=PICK, at=PICK, step=steps(), then=THEN, trouble=FATE_OF_CALL)
    def add(self, pick: int, at: int, step: Step, then: str, trouble: str) -> None:
        places = [(), *(p for p in paths(self.program) if step_at(self.program, p).inner)]
        place = places[pick % len(places)]
        self._edit(within(self.program, place, lambda old: inserted(old, at, step)))
        self._then(then)
        self._go(pick, trouble)

    @precondition(lambda self: not self._ids(is_unknown) and not self._ids(is_asked))
    @rule(
        name=NAMES,
        effect=st.sampled_from(["external", "external", "idempotent"]),
        trouble=st.sampled_from(TROUBLES),
    )
    def come_to_trouble(self, name: str, effect: str, trouble: str) -> None:
        self._edit((*self.program, Step(name, effect)))
        self._go(-1, trouble)

    @precondition(lambda self: self.program)
    @rule(pick=PICK, how=st.sampled_from(["remove", "move up"]))
    def reorder(self, pick: int, how: str) -> None:
        *above, last = self._path(pick)
        change = without if how == "remove" else swapped
        self._edit(within(self.program, tuple(above), lambda old: change(old, last)))

    @rule(pick=PICK)
    def edit_back(self, pick: int) -> None:
        self._edit(self.versions[-1 - pick % len(self.versions)])
        self._go()

    # -- what holds after each ---------------------------------------------------------------

    @invariant()
    def engine_and_model_agree(self) -> None:
        engine, model = engine_view(self.world), model_view(self.model)
        assert list(engine) == list(model)
        assert [(op, engine[op], model[op]) for op in model if engine[op] != model[op]] == []
        assert [op for op, _ in self.world.ledger] == [op for op, _ in self.model.ledger]
        pairs = set(zip(self.model.ledger, self.world.ledger, strict=True))
        assert len(pairs) == len(set(self.world.ledger)) == len(set(self.model.ledger))
        assert self.world.run.fold.doubted is None

    # -- how ---------------------------------------------------------------------------------

    def _then(self, then: str) -> None:
        """Go on in the same kernel, or end it and go on in another one."""
        if then != "stay":
            getattr(self.world, then)()
            getattr(self.model, then)()

    def _go(self, pick: int = 0, trouble: str = "") -> None:
        """Run the program, in which one call that is still to be done may come to trouble."""
        places, done = identities(self.program), self._ids(is_done)
        open_ = [op for op in places if op not in done]
        effects = [op for op in open_ if step_at(self.program, places[op]).effect != "none"]
        open_ = effects or open_  # where trouble means something
        troubles = {open_[pick % len(open_)]: trouble} if open_ and trouble else {}
        expected, expected_left = copy.deepcopy(self.model), dict(troubles)
        told = expected.go(self.program, expected_left)
        before, done = outcomes(self.world), len(self.world.ledger)
        generations = {s.id: s.generation for s in self.world.run.states()}
        assert self.world.go(self.program, troubles) == told
        self._check_promise(before, generations, self.world.ledger[done:])
        assert troubles == expected_left
        self.model = expected

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

    def _to_be_retried(self) -> list[tuple[int, ...]]:
        """Say where the calls stand that were tried, and are neither done nor in doubt."""
        tried = self._ids(lambda op: op.effect != "none" and op.outcome == I)
        return [place for op, place in identities(self.program).items() if op in tried]

    def _path(self, pick: int) -> tuple[int, ...]:
        all_paths = list(paths(self.program))
        return all_paths[pick % len(all_paths)]

    def _edit(self, program: Program) -> None:
        self.program = program
        self.versions.append(program)
        del self.versions[:-6]


def is_done(op: Op) -> bool:
    return op.outcome == C


def is_unknown(op: Op) -> bool:
    return op.outcome == U


def is_asked(op: Op) -> bool:
    return op.asked is not None


# -- the tests ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _committed_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no timer commit what waits for the next commit, so that a kill loses the same each time."""
    monkeypatch.setattr("durable_nb.journal.records_journal.LAZY_LIMIT", 3600.0)


def examples(count: int, length: int) -> settings:
    """Draw the same stories each time, so that one state of the code has one verdict.

    After a change of the rules draw new ones: ``DURABLE_NB_EXPLORE=1 pytest tests/property``.
    """
    return settings(
        derandomize="DURABLE_NB_EXPLORE" not in os.environ,
        database=None,
        max_examples=count,
        stateful_step_count=length,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


@pytest.mark.slow
def test_engine_and_model_agree_whatever_happens() -> None:
    """Outcomes, keys, questions, signals, results and effects are those of the written rules."""
    run_state_machine_as_test(Rules, settings=examples(30, 25))


@pytest.mark.slow
def test_engine_and_model_agree_over_longer_stories() -> None:
    """The same over more and longer programs."""
    run_state_machine_as_test(Rules, settings=examples(150, 40))


# -- the same in processes that are really killed ------------------------------------------------

KERNEL = """
from durable_nb.journal import records_journal
from support.rule_programs import Step
from support.rule_world import World

records_journal.LAZY_LIMIT = 3600.0  # as in the parent
verdicts, program, troubles = eval(more[0])

class Killable(World):
    def happens(self, op, key):
        ledger.add(op, key)

world = Killable(store.parent, kill=die)
tell(said=[world.verdict(verdict, op) for verdict, op in verdicts])
tell(ended=world.go(program, troubles))
world.run.close()
"""

DEATHS = st.sampled_from([*(t for t in TROUBLES if t.startswith("die")), *TROUBLES, ""])
VERDICTS = st.sampled_from(["confirm", "deny", "keep", "rerun"])


@pytest.mark.slow
def test_a_simulated_kill_leaves_what_a_real_one_leaves() -> None:
    """The same stories, with SIGKILL in real kernels: the same journal and the same effects."""

    @settings(examples(12, 1), phases=[Phase.reuse, Phase.generate])
    @given(programs(), st.lists(st.tuples(PICK, DEATHS, VERDICTS), min_size=1, max_size=4))
    def tell_both(program: Program, kernels: list[tuple[int, str, str]]) -> None:
        place = Path(tempfile.mkdtemp(prefix="rules-"))
        (place / "real").mkdir()
        simulated, bench = World(place / "simulated"), Bench(place / "real")
        try:
            verdicts: list[tuple[str, str]] = []
            for pick, death, verdict in kernels:
                done = {i for i, (_, outcome) in outcomes(simulated).items() if outcome == C}
                open_ = sorted(set(identities(program)) - done)
                troubles = {open_[pick % len(open_)]: death} if open_ and death else {}
                _one_kernel(simulated, bench, verdicts, program, troubles)
                verdicts = [(verdict, op) for op in waiting(simulated)]
        finally:
            simulated.end()
            shutil.rmtree(place)

    tell_both()


def _one_kernel(
    simulated: World,
    bench: Bench,
    verdicts: list[tuple[str, str]],
    program: Program,
    troubles: dict[str, str],
) -> None:
    """Tell a part of the story to a simulated kernel and to a real one, and compare."""
    real = bench.run(KERNEL, repr((verdicts, program, troubles)))
    said = [simulated.verdict(verdict, op) for verdict, op in verdicts]
    ended = simulated.go(program, dict(troubles))
    if ended == ("killed",):
        assert real.killed, real
    else:
        simulated.close()
        assert real.ok().facts["ended"] == json.loads(json.dumps(ended))
    assert real.facts["said"] == said
    reader = open_run("r", store=bench.store, role="reader")
    try:
        assert reader.fold.doubted is None
        assert journal_of(reader) == journal_of(simulated.run)
    finally:
        reader.close()
    happened = Ledger(bench.ledger_file).lines()
    assert [op for op, _ in happened] == [op for op, _ in simulated.ledger]
    assert len(set(happened)) == len(set(zip(happened, simulated.ledger, strict=True)))
