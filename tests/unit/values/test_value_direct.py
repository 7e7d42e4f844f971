"""The direct path writes and reads what the general path does, or declines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memory_artifacts import MemoryArtifacts
from support.same_values import same
from support.value_strategies import LEAVES, TREES
from support.value_table import KEPT

from durable_nb import values
from durable_nb.model.errors import DurableError, NotRecordable
from durable_nb.values.build import build
from durable_nb.values.direct import DECLINED, read_direct, write_direct
from durable_nb.values.dissect import dissect
from durable_nb.values.nodes import from_json, to_json
from durable_nb.values.parts import Parts
from durable_nb.values.plain import write_json
from durable_nb.values.registry import BUILT_IN
from durable_nb.values.trail import Trail

pytestmark = pytest.mark.slow  # together they take longer than all the rest

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
HASHABLE = SCALARS | st.sampled_from([b"a", Decimal("1.0"), (1, "a"), frozenset({1.0})])
TYPED = st.one_of(*(LEAVES[t] for t in ("int", "str", "bytes", "Decimal", "datetime", "UUID")))

#: Trees of the types that the direct path is for.
DIRECT = st.recursive(
    SCALARS | TYPED,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text("ab$", max_size=2), inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=4)
        | st.frozensets(HASHABLE, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$", "v"]), inner).map(
            lambda found: SimpleNamespace(**found)
        )
    ),
    max_leaves=15,
)


def general_text(value: Any) -> str:
    """Write a value on the general path."""
    artifacts = MemoryArtifacts()
    return write_json(to_json(dissect(value, Trail("v"), BUILT_IN, artifacts.put).table))


def general_value(text: str) -> Any:
    """Read a value on the general path."""
    return build(from_json(json.loads(text)), BUILT_IN, MemoryArtifacts().get)


def check(value: Any) -> bool:
    """Insist on one text and one value on both paths; say whether the direct path took it."""
    text = write_direct(value, BUILT_IN)
    if text is None:
        return False
    assert text == general_text(value)
    again = read_direct(text, BUILT_IN)
    assert again is DECLINED or same(again, value)
    return True


@settings(derandomize=True, max_examples=400, deadline=None, suppress_health_check=SLOW)
@given(DIRECT)
def test_direct_text_is_the_general_text(value):
    """Whichever path writes a value, the text is the same, byte for byte."""
    check(value)


@settings(derandomize=True, max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(TREES)
def test_direct_text_of_any_tree_is_the_general_text(value):
    """That holds where classes, arrays and frames are among the parts, too."""
    check(value)


@pytest.mark.parametrize("name", KEPT)
def test_direct_text_of_a_named_value_is_the_general_text(name):
    """And for each named value."""
    check(KEPT[name])


@pytest.mark.parametrize(
    "value",
    [
        {"at": datetime(2026, 3, 1, tzinfo=UTC), "total": Decimal("1.5"), "range": (1, 5)},
        [{1, "a"}, b"ab", 2**3000, math.nan, -math.inf, "\ud800", {"$": 1}, {1: {2: ()}}],
        [(), (), frozenset(), {"x": [[], {}]}, {"id": KEPT["UUID"]}],
    ],
)
def test_direct_path_takes_ordinary_results(value):
    """Typed results of tools need no general path, neither to be written nor to be read."""
    assert check(value)
    assert read_direct(general_text(value), BUILT_IN) is not DECLINED


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {1: v}, lambda v: {"a": v}]
)
@pytest.mark.parametrize("bottom", [1, Decimal(1), (), b""])
def test_both_paths_change_to_the_flat_form_at_one_depth(wrap: Callable[[Any], Any], bottom):
    """The last nested form and the first flat one are the same on both paths."""
    taken = []
    for levels in (*range(46, 53), *range(96, 103)):
        value = bottom
        for _ in range(levels):
            value = wrap(value)
        taken.append(check(value))
    assert True in taken
    assert False in taken


ONE: list[int] = []


@pytest.mark.parametrize("shared", [ONE, {}, set(), (1,), frozenset({1}), SimpleNamespace()])
def test_shared_reference_stays_shared(shared, back):
    """What is met twice is written as a reference, which the direct path leaves to the general."""
    again = back([shared, {"b": shared}])
    assert write_direct([shared, {"b": shared}], BUILT_IN) is None
    assert again[0] is again[1]["b"]


#: Texts that no value writes. Inner objects stand where no value has its place, or lack something.
DAMAGED = [
    '{"$":"Decimal","v":{"$":"str","utf8":"31"}}',
    '{"$":"Decimal","v":{"$":"Decimal","v":"1"}}',
    '{"$":"timedelta","days":{"$":"int","hex":"1"},"seconds":0,"us":0}',
    '{"$":"datetime","at":"2026-01-01","v":{"$":"dict","v":["tzinfo",{"$":"ZoneInfo","v":"UTC"}]}}',
    '{"$":"bytes","b64":{"$":"str","utf8":"41414141"}}',
    '{"$":"bytes","b64":"A"}',
    '{"$":"bytes","b64":"Q!Q=="}',
    '{"$":"bytes"}',
    '{"$":"Decimal","v":"x"}',
    '{"$":"Decimal","ver":2,"v":"1"}',
    '{"$":"Decimal","class":"decimal:Decimal","v":"1"}',
    '{"$":"float","v":"1.5"}',
    '{"$":"set","v":[[1]]}',
    '{"$":"nothing"}',
    '{"$":null}',
    '{"$":["tuple"]}',
    '{"$":{"$":"str","utf8":"61"}}',
    '{"$":"tuple","v":[NaN]}',
    '{"$":"tuple","v":[1]',
    '{"$":"tuple","v":' + "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_text_is_refused_by_the_general_path(text, artifacts):
    """The direct path reads no text that the general one refuses."""
    assert read_direct(text, BUILT_IN) is DECLINED
    with pytest.raises(DurableError):
        values.decode(text, artifacts)


TAGS = st.sampled_from(sorted({row.tag for row in BUILT_IN.rows if row.is_direct}))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "1", "tuple", "dict"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$", "v"]), inner, max_size=2)
        | st.builds(lambda tag, v: {"$": tag, "v": v}, TAGS, inner)
        | st.builds(
            lambda tag, facts: {"$": tag, **facts},
            TAGS,
            st.dictionaries(st.sampled_from(["v", "at", "hex", "utf8", "b64", "days"]), inner),
        )
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=1_500, deadline=None, suppress_health_check=SLOW)
@given(JSON)
def test_any_text_that_is_read_directly_is_read_so_generally(tree):
    """For whatever JSON: the direct path gives the general path's value, or declines."""
    text = write_json(tree)
    direct = read_direct(text, BUILT_IN)
    if direct is not DECLINED:
        assert same(direct, general_value(text))


def test_value_that_changes_on_the_way_is_refused(artifacts):
    """The direct path, too, reads back and compares: a codec that loses something is found."""
    row = BUILT_IN.of_tag("Decimal")
    lossy = replace(row, decode=lambda parts: Decimal(parts.data["v"]).normalize())
    registry = BUILT_IN.with_row(lossy)
    assert values.encode([Decimal("1.5")], artifacts, registry=registry)
    with pytest.raises(NotRecordable) as refused:
        values.encode({"a": (Decimal("1.50"),)}, artifacts, registry=registry)
    assert refused.value.path == 'result["a"][0]'


def test_name_that_is_no_text_is_refused(artifacts):
    """JSON would turn the name 1 into "1", unnoticed by a comparison of texts."""
    value = SimpleNamespace()
    vars(value)[1] = "x"  # type: ignore[index]
    with pytest.raises(NotRecordable):
        values.encode([value], artifacts)


def test_codec_that_users_register_is_not_direct():
    """Its values are compared with `==`, too, which texts do not show."""
    row = BUILT_IN.of_tag("Decimal")
    assert row.is_direct
    assert not replace(row, mutable=True).is_direct
    assert not replace(row, by_equality=True).is_direct
    assert not replace(row, matches=lambda cls: cls is Decimal).is_direct
    assert not replace(row, content=lambda value: Parts()).is_direct


def test_codec_that_is_not_direct_is_left_to_the_general_path():
    """Neither writing nor reading takes its values directly, so its code runs on one path only."""
    row = BUILT_IN.of_tag("Decimal")
    registry = BUILT_IN.with_row(replace(row, mutable=True))
    assert write_direct([Decimal(1)], registry) is None
    assert read_direct('[{"$":"Decimal","v":"1"}]', registry) is DECLINED
    assert read_direct('[{"$":"Decimal","v":"1"}]', BUILT_IN) == [Decimal(1)]
