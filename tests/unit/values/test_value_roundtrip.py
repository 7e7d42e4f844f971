"""Values come back equal and of the same type, or are refused: nothing in between."""

from __future__ import annotations

import inspect
import json
import sys
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import value_classes as c
from support.quick_values import QUICKLY_KEPT
from support.same_values import same
from support.value_table import KEPT, deep

from durable_nb import values


@pytest.mark.parametrize("name", KEPT)
def test_case_68_71_value_comes_back_equal_and_of_the_same_type(name, back):
    """A covered value survives the round trip, alone and inside others."""
    value = KEPT[name]
    assert same(back(value), value)
    assert same(back({"k": [value, (value,)]}), {"k": [value, (value,)]})


@pytest.mark.parametrize("name", QUICKLY_KEPT)
def test_value_has_one_text_and_one_digest(name, artifacts):
    """The text and the digest of what came back are those of what was written."""
    text = values.encode(KEPT[name], artifacts)
    again = values.decode(text, artifacts)
    assert values.encode(again, artifacts) == text
    assert values.digest(again) == values.digest(KEPT[name])


@pytest.mark.parametrize("name", QUICKLY_KEPT)
def test_text_is_json_for_every_reader(name, artifacts):
    """The text is ASCII JSON without NaN and without lone surrogates, so SQL can read it."""
    text = values.encode(KEPT[name], artifacts)
    assert text.isascii()
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    json.dumps(json.loads(text), ensure_ascii=False).encode()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda s: st.lists(s, max_size=4) | st.dictionaries(st.text(max_size=4), s, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@settings(derandomize=True, max_examples=200, deadline=None)
@given(PLAIN)
def test_plain_trees_need_no_second_look(value):
    """The fast path, which does not read back, is right for every plain tree."""
    assert same(values.decode(values.encode(value, NO_ARTIFACTS), NO_ARTIFACTS), value)


class _NoArtifacts:
    def put(self, data: bytes) -> str:
        raise AssertionError("small values need no artifacts")

    def get(self, sha256: str) -> bytes:
        raise AssertionError("small values need no artifacts")


NO_ARTIFACTS = _NoArtifacts()


def test_plain_tree_looks_like_plain_json(artifacts):
    """A plain result can be read by SQL as it is."""
    value = {"id": 7, "items": [{"sku": "a", "price": 1.5, "note": None}], "ok": True}
    assert json.loads(values.encode(value, artifacts)) == value
    assert values.encode((1, 2), artifacts) == '{"$":"tuple","v":[1,2]}'


@pytest.mark.slow
@pytest.mark.parametrize("depth", [99, 100, 101, 1_000, 5_000])
@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "mixed"])
def test_depth_does_not_meet_the_recursion_limit(depth, kind, artifacts):
    """Values of any depth are written, read and digested."""
    value: Any = 1.5
    for level in range(depth):
        step = kind if kind != "mixed" else ("list", "dict", "tuple")[level % 3]
        value = {"list": [value], "dict": {"a": value}, "tuple": (value,)}[step]
    again = values.decode(values.encode(value, artifacts), artifacts)
    assert values.digest(again) == values.digest(value)
    for _ in range(depth):
        assert type(again) is type(value)
        again, value = (x["a"] if type(x) is dict else x[0] for x in (again, value))
    assert again == value == 1.5


def test_depth_is_safe_near_the_end_of_the_stack(artifacts):
    """A value as deep as the nested form allows is written in a kernel that is deep in calls."""

    def below(frames: int) -> Any:
        if frames:
            return below(frames - 1)
        return values.decode(values.encode(deep, artifacts), artifacts)

    used = len(inspect.stack(0))
    for depth in (99, 300):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        again = below(sys.getrecursionlimit() - used - 160)
        assert values.digest(again) == values.digest(deep)


def test_shared_references_stay_shared(back):
    """Two references to one list are two references to one list afterwards."""
    row = [1]
    again = back({"a": row, "b": (row, {"c": row})})
    again["a"].append(2)
    assert again["b"][0] == [1, 2]
    assert again["b"][1]["c"] is again["a"]
    for part in ([], {}, {"a": 1}):
        first, second = back([part, part])
        assert first is second


def test_shared_tuples_do_not_blow_up(artifacts):
    """A value of 2**60 paths is written as 60 nodes."""
    value: Any = (1, 2)
    for _ in range(60):
        value = (value, value)
    text = values.encode(value, artifacts)
    assert len(text) < 4_000
    assert values.digest(values.decode(text, artifacts)) == values.digest(value)


def test_value_that_contains_itself_comes_back(back):
    """A list in itself is kept."""
    ring: list[Any] = [1]
    ring.append({"ring": ring, "pair": (ring, 2)})
    again = back(ring)
    assert again[1]["ring"] is again
    assert again[1]["pair"][0] is again


def _namespace() -> Any:
    ring = SimpleNamespace()
    ring.next = ring
    return ring


def _frozen() -> Any:
    ring = c.Node("n")
    object.__setattr__(ring, "next", (ring,))
    return ring


def _model() -> Any:
    ring = c.Model(x=1)
    ring.other = {"ring": ring}
    return ring


def _deque() -> Any:
    ring: Any = deque()
    ring.append([ring])
    return ring


@pytest.mark.parametrize(
    ("make", "inside"),
    [
        (_namespace, lambda ring: ring.next),
        (_frozen, lambda ring: ring.next[0]),
        (_model, lambda ring: ring.other["ring"]),
        (_deque, lambda ring: ring[0][0]),
    ],
)
def test_rings_through_objects_come_back(make, inside, back):
    """A ring through a namespace, a frozen dataclass, a model or a deque is the same ring."""
    again = back(make())
    assert type(again) is type(make())
    assert inside(again) is again


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: c.Node("n", (x,))])
def test_a_hundred_thousand_levels_come_back(wrap, artifacts):
    """No depth meets a limit, of Python's stack or of ours."""
    value = deep(100_000, wrap)
    again = values.decode(values.encode(value, artifacts), artifacts)
    assert values.digest(again) == values.digest(value)
    assert same(again, value)


def test_dict_order_is_kept(back):
    """Keys come back in the order of insertion."""
    assert list(back({"b": 1, "a": 2, 3: 0})) == ["b", "a", 3]


def test_arrays_can_be_written_to_as_before(back):
    """A writable array comes back writable, a locked one locked."""
    array = np.arange(3)
    assert back(array).flags.writeable
    array.flags.writeable = False
    assert not back(array).flags.writeable


def test_references_are_listed_without_reading(artifacts):
    """A text names its artifacts, also those inside a text that is itself an artifact."""
    small = values.encode({"a": b"x" * 70_000, "b": '"$":"artifact"'}, artifacts)
    assert [size for _, size in values.text_refs(small)] == [70_000]
    large = values.encode({"a": b"x" * 70_000, "b": "z" * 70_000}, artifacts)
    refs = values.text_refs(large)
    assert {sha256 for sha256, _ in refs} == set(artifacts.blobs)
    assert len(large) < 1_000
    assert values.text_refs('"{\\"$\\":\\"artifact\\""') == []


def test_large_values_leave_the_text(artifacts):
    """Blobs and texts over 64 KB are artifacts, smaller ones stay in the text."""
    assert len(values.encode(b"x" * 70_000, artifacts)) < 500
    assert len(values.encode("y" * 70_000, artifacts)) < 500
    assert len(artifacts.blobs) == 2
    values.encode(b"x" * 40_000, artifacts)
    assert len(artifacts.blobs) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", '{"$":"list"', '{"$":5}', '{"$":"nonsense"}', '{"$":"bytes","b64":"*"}',
     '{"$":"graph","root":[3],"nodes":[]}', '{"$":"graph","root":[0],"nodes":[{"$":"tuple","v":[[0]]}]}',
     '{"$":"Decimal","v":"x"}', '{"$":"set","v":[[]]}', '{"$":"dict","v":[1]}', '{"$":"tuple","ver":9}',
     '{"$":"artifact"}', '{"$":"defaultdict","factory":"system","v":[]}', "[" * 5000,
     '{"$":"dataclass","class":"subprocess:Popen","v":{}}', '{"$":"float","v":"1"}',
     '{"$":"numpy.ndarray","shape":[9],"dtype":"<i8","b64":""}', '{"$":"numpy.ndarray","dtype":"|O"}'],
)  # fmt: skip
def test_damaged_text_is_refused_by_one_error(text, artifacts):
    """Whatever the text is, loading gives a value or says that it cannot."""
    with pytest.raises(values.ValueNotLoadable, match="untouched"):
        values.decode(text, artifacts)
