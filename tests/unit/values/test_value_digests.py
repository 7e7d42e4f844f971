"""Digests tell values apart by type and content, the same way in every process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from durable_nb import values

DIFFERENT = [
    1, 1.0, True, "1", b"1", bytearray(b"1"), None, "None", 0, 0.0, -0.0, False, "", b"", [], (), {}, set(),
    frozenset(), (1, 2), [1, 2], "(1, 2)", [[1], 2], [1, [2]], [[1, 2]], ["1,2"], {1: 2}, {"1": 2}, [1, 2, None],
    "2021-01-01", "2021-01-02", Decimal(1), Decimal("1.0"), 1 + 0j, {1}, deque([1, 2]), deque([1, 2], 2),
    Counter([1]), defaultdict(int, {1: 1}), defaultdict(list, {1: 1}), OrderedDict([(1, 1)]), {1: 1}, "a\ud83d", "a?",
    float("nan"), float("inf"), 2**130, 2**130 + 1, ["ab", "c"], ["a", "bc"], np.int64(1), np.int32(1),
    np.float64(1), np.array([1]), np.array([[1]]), np.array([1.0]), np.array(1), np.array([1], dtype="i4"),
]  # fmt: skip


def test_case_40_different_values_have_different_digests():
    """Type and content count: of many look-alikes no two share a digest."""
    digests = [values.digest(value) for value in DIFFERENT]
    same = [
        (a, b)
        for (a, x), (b, y) in itertools.combinations(zip(DIFFERENT, digests, strict=True), 2)
        if x == y
    ]
    assert same == []


def test_digest_has_the_documented_form():
    """A digest is `b2:` and 32 hexadecimal digits; its value is pinned, since journals keep it."""
    assert values.digest({"a": [1, (2.5, None)]}) == "b2:a8bbf8c3e7c233e2e1601c9a1db4275c"


def test_order_counts_only_where_equality_says_so():
    """Sets and dicts have no order, OrderedDict, list and tuple have."""
    assert values.digest({"a": 1, "b": 2}) == values.digest({"b": 2, "a": 1})
    assert values.digest({1, "x", (2,)}) == values.digest({(2,), "x", 1})
    one, two = OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)
    assert values.digest(one) != values.digest(two)
    assert values.digest([1, 2]) != values.digest([2, 1])


def test_nothing_is_cut_off_at_a_depth():
    """A difference 5,000 levels down is a difference."""

    def deep(bottom: object) -> object:
        for _ in range(5_000):
            bottom = [bottom]
        return bottom

    assert values.digest(deep(1)) == values.digest(deep(1)) != values.digest(deep(2))


def test_copies_and_shared_references_are_equal_inputs():
    """Equal inputs have equal digests, however their parts are shared."""
    row = [1]
    assert values.digest([row, row]) == values.digest([[1], [1]])


def test_memory_layout_does_not_count():
    """Equal arrays have equal digests in C order, in Fortran order and as a view."""
    array = np.arange(6).reshape(2, 3)
    for other in (np.asfortranarray(array), np.vstack([array, array])[:2]):
        assert values.digest(other) == values.digest(array)


@dataclass
class Point:
    x: int


def test_class_counts_by_qualified_name_and_fields(monkeypatch):
    """A class that moves from the notebook to a module keeps its digests."""
    moved = make_dataclass("Point", [("x", int)])
    moved.__module__ = "helpers"
    module = types.ModuleType("helpers")
    vars(module)["Point"] = moved
    monkeypatch.setitem(sys.modules, "helpers", module)
    assert values.digest(moved(1)) == values.digest(Point(1)) != values.digest(Point(2))


@pytest.mark.parametrize(
    ("value", "path"),
    [({"a": [print]}, 'order["a"][0]'), (threading.Lock(), "order"), ({1: lambda: 0}, "order[1]")],
)
def test_input_without_a_digest_is_named(value, path):
    """A function, client or lock among the inputs is an error that offers `inputs=`."""
    with pytest.raises(values.NotDigestible, match="inputs=") as refused:
        values.digest(value, name="order")
    assert refused.value.path == path


def test_digest_does_not_depend_on_the_hash_seed():
    """Sets, dicts, enums and frozensets have one digest, and one text, under any hash seed."""
    source = """
import enum, durable_nb.values as v
class C(enum.Enum):
    A = "a"; B = "b"
value = {"s": {"x", "y", "z", ("t", 1), None, C.A, C.B}, "f": frozenset("abcdef"), C.A: {frozenset("ab"), frozenset("cd")}}
print(v.digest(value), v.encode(value, None), v.preview(value))
"""
    root = str(Path(values.__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(outputs) == 1
    assert "b2:" in outputs.pop()
