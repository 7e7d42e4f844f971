"""The crash matrix: boundary x effect x spelling, with a real SIGKILL each, resumed in new processes.

A case is one run: a child is killed at the boundary; a second process resumes; a third gives the
verdict, where one is needed, and resumes; a fourth resumes once more. The ledger is the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.child import Child
from support.ledger import Ledger

PROGRAM = Path(__file__).parent / "programs" / "trajectory.py"

SPELLINGS = (
    "call", "with", "decorator", "run_decorator", "async", "async_with", "nested", "map",
    "async_map", "cell",
)  # fmt: skip
EFFECTS = ("none", "idempotent", "external")

#: Boundary -> effects in the ledger at the moment of the kill.
BOUNDARIES = {
    "before_intent": 0,
    "before_effect": 0,
    "inside_effect": 1,
    "before_outcome": 1,
    "after_outcome": 1,
}
#: Boundaries at which an intent is on record, and no outcome.
BETWEEN = ("before_effect", "inside_effect", "before_outcome")

#: Runs that one process resumes.
IN_ONE_PROCESS = 10

#: Children at a time: they wait for the disk as much as they compute.
AT_ONCE = 3


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    spelling: str
    effect: str
    boundary: str
    verdict: str = ""

    @property
    def id(self) -> str:
        parts = (self.spelling, self.effect, self.boundary, self.verdict)
        return "-".join(p for p in parts if p)

    @property
    def target(self) -> str:
        return {"nested": "outer#1/target#1", "map": "target[b]#1", "async_map": "target[b]#1"}.get(
            self.spelling, "target#1"
        )

    @property
    def in_doubt(self) -> bool:
        """Whether only evidence can settle the operation that was killed."""
        return self.effect == "external" and self.boundary in BETWEEN

    def arguments(self, folder: Path) -> dict[str, str]:
        return {
            "id": self.id,
            "spelling": self.spelling,
            "effect": self.effect,
            "boundary": self.boundary,
            "verdict": self.verdict,
            "store": str(folder / self.id / "store"),
            "ledger": str(folder / self.id / "effect.log"),
            "acknowledged": str(folder / self.id / "acknowledged"),
        }


def variants(spelling: str, effect: str, boundary: str) -> list[Case]:
    """Give a case; twice, with each verdict, where one is needed."""
    case = Case(spelling, effect, boundary)
    if not case.in_doubt:
        return [case]
    return [Case(spelling, effect, boundary, v) for v in ("confirm", "deny")]


MATRIX = [case for cell in product(SPELLINGS, EFFECTS, BOUNDARIES) for case in variants(*cell)]

#: Every run of the tests shows these: each spelling in doubt, each boundary, each effect.
QUICK = [
    *(Case("call", "external", b) for b in ("before_intent", "after_outcome")),
    *(Case("call", "external", b, "deny") for b in BETWEEN),
    Case("call", "external", "inside_effect", "confirm"),
    *(Case("call", e, "before_outcome") for e in ("none", "idempotent")),
    *(Case(s, "external", "inside_effect", "deny") for s in SPELLINGS if s != "call"),
]


@dataclass(frozen=True)
class Story:
    """What became of one case."""

    killed: bool
    acknowledged: list[list[Any]]  #: records that the killed process was told are durable
    at_kill: list[tuple[str, str]]  #: the ledger then
    resumes: list[dict[str, Any]]  #: what each further process saw


def tell(cases: Sequence[Case], folder: Path) -> dict[Case, Story]:
    """Play the stories of some cases: kills side by side, resumes in batches."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        killed = dict(zip(cases, pool.map(lambda c: kill(c, folder), cases), strict=True))
        seen: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases}
        at_kill = {case: Ledger(Path(case.arguments(folder)["ledger"])).lines() for case in cases}
        for mode in ("resume", "settle", "resume"):
            jobs = [(mode, batch, folder) for batch in batches(cases)]
            for batch, told in zip(
                batches(cases), pool.map(lambda j: resume(*j), jobs), strict=True
            ):
                for case in batch:
                    seen[case].append(told[case.id])
    return {
        case: Story(killed[case], acknowledged(case, folder), at_kill[case], seen[case])
        for case in cases
    }


def batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Group cases whose runs one process resumes, one after the other."""
    shells = [c for c in cases if c.spelling == "cell"]  # one shell is one notebook: each alone
    others = [c for c in cases if c.spelling != "cell"]
    return [[c] for c in shells] + [
        others[i : i + IN_ONE_PROCESS] for i in range(0, len(others), IN_ONE_PROCESS)
    ]


def kill(case: Case, folder: Path) -> bool:
    (folder / case.id).mkdir(parents=True)
    arguments = case.arguments(folder)
    with Child(PROGRAM, "-", "-", "kill", json.dumps([arguments])) as child:
        if case.boundary != "inside_effect":
            ended = child.wait()
        else:
            ledger = Ledger(Path(arguments["ledger"]))
            ended = child.until(lambda: ledger.count("target") == 1).kill()
    assert ended.killed, f"{case.id}: {ended.code}\n{ended.out}\n{ended.err}"
    return ended.killed


def resume(mode: str, cases: Iterable[Case], folder: Path) -> dict[str, Any]:
    arguments = json.dumps([case.arguments(folder) for case in cases])
    return Child(PROGRAM, "-", "-", mode, arguments).wait().ok().facts


def acknowledged(case: Case, folder: Path) -> list[list[Any]]:
    lines = Path(case.arguments(folder)["acknowledged"]).read_text().splitlines()
    return [[int(seq), op, kind] for seq, op, kind in (line.split("\t") for line in lines)]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Story]:
    """Give the story of a case; those of one group are told together, when the first is asked for."""
    told: dict[Case, Story] = {}
    failed: dict[tuple[bool, bool], Exception] = {}

    def of(case: Case) -> Story:
        group = group_of(case)
        if group in failed:
            raise failed[group]
        if case not in told:
            cases = [c for c in MATRIX if group_of(c) == group]
            try:
                told.update(tell(cases, tmp_path_factory.mktemp("matrix")))
            except Exception as problem:
                failed[group] = problem
                raise
        return told[case]

    return of


def group_of(case: Case) -> tuple[bool, bool]:
    """Tell which stories are told together: what always runs and the rest, cells apart."""
    return case in QUICK, case.spelling == "cell"


def count(effects: Iterable[Sequence[str]], what: str) -> int:
    return sum(1 for name, _ in effects if name == what)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.id, marks=() if c in QUICK else pytest.mark.slow)
        for c in [*QUICK, *(c for c in MATRIX if c not in QUICK)]
    ],
)
def test_killed_run_goes_on(case: Case, story: Callable[[Case], Story]) -> None:
    """What is completed is not run again, what is in doubt waits for a verdict, the rest goes on."""
    told = story(case)
    first, second, third = told.resumes

    assert told.killed
    assert count(told.at_kill, "before") == 1
    assert count(told.at_kill, "target") == BOUNDARIES[case.boundary]
    assert count(told.at_kill, "after") == 0

    nothing_committed_is_lost(told)
    the_outcome_at_reopening_is_what_the_journal_proves(case, first)
    if case.in_doubt:
        nothing_runs_before_the_verdict(case, told.at_kill, first)
    else:
        the_run_goes_on(case, told.at_kill, first)
    if case.verdict == "confirm":
        a_confirmed_effect_is_not_repeated(told.at_kill, second)
    elif case.verdict == "deny":
        a_denied_effect_is_done_once_more_under_its_key(told.at_kill, second)
    else:
        everything_is_from_the_record(first, second)
    everything_is_from_the_record(second, third)


def nothing_committed_is_lost(told: Story) -> None:
    """Every record that was acknowledged before the kill is there, in its place."""
    assert [kind for _, _, kind in told.acknowledged[:2]] == ["born", "opened"]
    opened = told.resumes[0]["opened"]["history"]
    assert opened[: len(told.acknowledged)] == told.acknowledged
    for earlier, later in zip(told.resumes, told.resumes[1:], strict=False):
        known = earlier["ended"]["history"]
        assert later["opened"]["history"][: len(known)] == known


def the_outcome_at_reopening_is_what_the_journal_proves(case: Case, first: dict[str, Any]) -> None:
    found = first["opened"]["outcomes"]
    assert found["before#1"] == "completed"
    assert first["headline"].endswith("ended without closing the run")
    assert "after#1" not in found
    if case.boundary == "before_intent":
        assert case.target not in found
    elif case.boundary == "after_outcome":
        assert found[case.target] == "completed"
    elif case.effect == "external":
        assert found[case.target] == "unknown"
    else:  # their intents ride with the next commit, so the kill may have taken them along
        assert found.get(case.target, "incomplete") == "incomplete"


def nothing_runs_before_the_verdict(
    case: Case, at_kill: list[tuple[str, str]], first: dict[str, Any]
) -> None:
    assert first["error"] == "UnknownOutcome"
    assert first["doubted"] == [case.target]
    assert first["before"].startswith("before by")
    assert first["ended"]["sources"]["before#1"] == "record"
    assert [tuple(e) for e in first["effects"]] == at_kill
    assert first["ended"]["outcomes"][case.target] == "unknown"


def the_run_goes_on(case: Case, at_kill: list[tuple[str, str]], first: dict[str, Any]) -> None:
    assert first["error"] == ""
    done = case.boundary == "after_outcome"
    effects = first["effects"]
    assert count(effects, "before") == 1
    assert count(effects, "target") == BOUNDARIES[case.boundary] + (0 if done else 1)
    assert count(effects, "after") == 1
    assert len({key for what, key in effects if what == "target"}) == 1
    assert [tuple(e) for e in effects[: len(at_kill)]] == at_kill
    if done:
        assert first["ended"]["sources"][case.target] in ("record", "")
    assert set(first["ended"]["outcomes"].values()) == {"completed"}


def a_confirmed_effect_is_not_repeated(
    at_kill: list[tuple[str, str]], second: dict[str, Any]
) -> None:
    assert second["error"] == ""
    assert second["result"] == "confirmed"
    assert count(second["effects"], "target") == count(at_kill, "target")
    assert count(second["effects"], "after") == 1


def a_denied_effect_is_done_once_more_under_its_key(
    at_kill: list[tuple[str, str]], second: dict[str, Any]
) -> None:
    assert second["error"] == ""
    assert second["result"].startswith("done by")
    assert count(second["effects"], "target") == count(at_kill, "target") + 1
    assert len({key for what, key in second["effects"] if what == "target"}) == 1
    assert count(second["effects"], "after") == 1


def everything_is_from_the_record(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    assert later["error"] == ""
    assert later["effects"] == earlier["effects"]
    for part in ("before", "result", "after"):
        assert later[part] == earlier[part]
    assert set(later["ended"]["outcomes"].values()) == {"completed"}
    assert "ran" not in later["ended"]["sources"].values()


def test_every_spelling_boundary_and_effect_is_in_the_matrix() -> None:
    """The matrix is the whole product, and the part that always runs is part of it."""
    assert len({(c.spelling, c.effect, c.boundary) for c in MATRIX}) == 10 * 3 * 5
    assert set(QUICK) <= set(MATRIX)
    assert {c.spelling for c in QUICK} == set(SPELLINGS)
    assert {c.boundary for c in QUICK} == set(BOUNDARIES)
    assert {c.effect for c in QUICK} == set(EFFECTS)
