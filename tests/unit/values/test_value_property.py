"""Whatever nested value the covered types build: it comes back the same, and so does its digest."""

from __future__ import annotations

import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.memory_artifacts import MemoryArtifacts
from support.same_values import same
from support.value_strategies import CONTAINERS, ELSEWHERE, LEAVES, TREES
from support.value_table import KEPT

from durable_nb import values
from durable_nb.model.errors import NotRecordable
from durable_nb.values.registry import BUILT_IN, LIBRARIES

ROOT = Path(values.__file__).parents[2]
#: Without shrinking: these trees shrink for minutes, and what fails is printed whole.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def test_every_codec_has_a_strategy():
    """A codec that no strategy builds values of is one that no property test has seen."""
    rows = [*BUILT_IN.rows]
    for module in LIBRARIES.values():
        rows += importlib.import_module(module).ROWS
    assert {row.tag for row in rows} - LEAVES.keys() - CONTAINERS.keys() == ELSEWHERE


@pytest.mark.parametrize("tag", [*LEAVES, *CONTAINERS])
def test_strategy_builds_values_of_its_codec(tag):
    """The strategy of a codec builds values that this very codec takes."""
    strategy = LEAVES[tag] if tag in LEAVES else CONTAINERS[tag](st.integers())

    @settings(derandomize=True, max_examples=5, database=None, suppress_health_check=SLOW)
    @given(strategy)
    def check(value: object) -> None:
        row = BUILT_IN.of_type(type(value))
        assert row is not None
        assert row.tag == tag

    check()


@pytest.mark.slow
@settings(
    derandomize=True, max_examples=300, deadline=None, phases=PHASES, suppress_health_check=SLOW
)
@given(TREES)
def test_case_68_any_tree_comes_back_or_is_refused(value):
    """What is written comes back equal and of the same type, with an equal digest."""
    artifacts = MemoryArtifacts()
    try:
        text = values.encode(value, artifacts)
    except NotRecordable:
        assert artifacts.blobs == {}
        return
    again = values.decode(text, artifacts)
    assert same(again, value)
    assert values.digest(again) == values.digest(value)
    assert values.encode(again, artifacts) == text


@pytest.mark.slow
@settings(
    derandomize=True, max_examples=100, deadline=None, phases=PHASES, suppress_health_check=SLOW
)
@given(TREES)
def test_few_trees_are_refused(value):
    """All that the strategies build is covered: a refusal here is a gap, not a verdict."""
    values.encode(value, MemoryArtifacts())


@pytest.mark.slow
@settings(
    derandomize=True, max_examples=300, deadline=None, phases=PHASES, suppress_health_check=SLOW
)
@given(TREES, TREES)
def test_case_40_unequal_values_have_unequal_digests(one, two):
    """Two values have one digest exactly where they are equal and of the same types."""
    assert (values.digest(one) == values.digest(two)) is same(one, two, ordered=False)


@pytest.mark.slow
@settings(
    derandomize=True, max_examples=150, deadline=None, phases=PHASES, suppress_health_check=SLOW
)
@given(TREES)
def test_copy_has_the_digest_of_its_original(value):
    """A deep copy shares nothing with its original and has its digest all the same."""
    assert values.digest(copy.deepcopy(value)) == values.digest(value)


def test_case_40_no_two_named_values_share_a_digest_unless_they_are_the_same():
    """Of all named values, those with one digest are equal and of one type."""
    by_digest: dict[str, list[str]] = {}
    for name, value in KEPT.items():
        by_digest.setdefault(values.digest(value), []).append(name)
    shared = [names for names in by_digest.values() if len(names) > 1]
    unlike = [ns for ns in shared if not all(same(KEPT[ns[0]], KEPT[n], ordered=False) for n in ns)]
    assert unlike == []


#: Reads recorded texts, and says the digest and the text of each value in this process.
PROGRAM = """
import json, sys
from durable_nb import values
from support.memory_artifacts import MemoryArtifacts
from support.value_table import KEPT

def said(value):
    return values.digest(value), values.encode(value, MemoryArtifacts())

read = [said(values.decode(text, MemoryArtifacts())) for text in json.load(sys.stdin)]
print(json.dumps([read, {name: said(value) for name, value in KEPT.items()}]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_equal_values_have_one_digest_and_one_text_in_every_process(seed):
    """A process with another hash seed gives each value the very same digest and text."""
    texts, digests = [], []

    @settings(
        derandomize=True, max_examples=100, deadline=None, phases=PHASES, suppress_health_check=SLOW
    )
    @given(TREES)
    def note(value: object) -> None:
        texts.append(values.encode(value, MemoryArtifacts()))
        digests.append(values.digest(value))

    note()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYTHONHASHSEED": seed},
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    read, named = json.loads(done.stdout)
    assert [text for _, text in read] == texts
    assert [digest for digest, _ in read] == digests
    here = {n: [values.digest(v), values.encode(v, MemoryArtifacts())] for n, v in KEPT.items()}
    assert [name for name in KEPT if named[name] != here[name]] == []
