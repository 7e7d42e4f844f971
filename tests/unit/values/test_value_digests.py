"""Digests tell values apart by type and content, the same way in every process."""

from __future__ import annotations

import itertools
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, make_dataclass
from decimal import Decimal

import numpy as np
import pytest
from support.seeds import printed_under_seeds
from support.value_table import KEPT

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


#: Name in the table of values -> its digest, which journals keep.
PINNED = {
    "none": "dfccc5067c8f0010be62bc1998c5536c",
    "true": "4a1dd9ab900347e9cf8b19c6af49118c",
    "minus one": "8927681df48041ceec4468161ed44db3",
    "2**130": "4d0fa4e31c0d420798b863e8662ad1c1",
    "float": "dea8b05be58b60fb4268edb30502b757",
    "minus zero": "a81f7a7ee7ae6bb90a1e49d8f2bf28be",
    "nan": "21f483d50c8507198d69ea2a30cc85d0",
    "-inf": "98888b0b4565d0ff62b007c5f230fcdb",
    "umlaut": "69edc223392ff3108fbf7b088b3ed787",
    "lone surrogate": "7e7fab15a6418df9dd7114952b1cc142",
    "bytes": "5f99857ae5c37b4e60bffcf56b87766e",
    "bytearray": "82140dbdfcc3397f391783ecaf28ba7f",
    "list": "ebef02b5c9ed20e091aaeba7336befb1",
    "tuple": "fe3436d154bf8fc32c98e312c3dfd044",
    "empty tuple": "dfe2fe345a963a03a36ab766f9d42581",
    "set": "2b77f3bfc188749096da57a76faa1e73",
    "mixed set": "2826a2fa2d3760c413270dfeb28a0328",
    "set of frozensets": "8e2344848d3cc68f6f2e38379b0fe5d8",
    "mixed keys": "b045227fd0c98b532131a54cdf36ecfb",
    "dollar key": "3419a993aebfbff60ed91149051ff86a",
    "NaN in a dict": "49fa7f1af940ead60e9e498cc06990b8",
    "deque": "7a102f8048d58569b8e26613f9f48453",
    "Counter": "5b960459a0590a08cf71dbd05da5be38",
    "defaultdict": "859f177aef2c1c221e6136cd58bdcfb0",
    "OrderedDict": "da96ee1ad8ef79ef802840b69c8a1556",
    "Decimal": "f2c55fd8c66ae91e17ed7705e5544ec2",
    "Fraction": "769354ced4b4790ff93324dddcf3765e",
    "complex": "bfa0e66a08550e14ff7e7a13a85d1a60",
    "range": "e46ebcee5bad6a2df583f622079922b6",
    "slice": "8e0f11fe98334888014b23a53c5dc9e1",
    "datetime": "a999d05fb50a23a607cad7d0867199f3",
    "second 02:30": "14bb29544f5ff8b2bcc03e47c11d0900",
    "named offset": "37d55e042186f77d2cce1f95c9c39e51",
    "date": "25b81fabb76b07e82fb9313b8766e12a",
    "time": "522d356e6c8cb93ad036fa5b29582830",
    "timedelta": "0aa38d37e4bc45605a2276b7e8458abe",
    "zone": "03a38e5dcebde6b420c83f6aed79ae01",
    "UUID": "04d0354e457fc836287ee05c9de5df81",
    "Path": "dd45db13dc043eb641e4a2a300f88ba6",
    "pattern": "f03bd328f05dbd219e528fda8c9a304f",
    "IPv4Address": "a26f0f064136f2b15103d88dfd505519",
    "SimpleNamespace": "cf41cbbc28a2eb044c904b69fa96ff44",
    "enum": "1cc8c22f4439f9c5c2fda750ea54d039",
    "flags together": "2ef00a9279b08319f671045964a83457",
    "dataclass": "1b47c9fb63d84b1fbfa463ea656f333e",
    "NamedTuple": "75a0c53c166ea63a8547d13bd07c8e32",
    "tool result": "63ccaaabaa3e022f498b5298a805e6a0",
    "bytes above the limit": "f1974a739d9416838ef1786b1c359d95",
    "1,000 tuples": "94574cbf8aec92911bf5c64f2e357f05",
}


@pytest.mark.parametrize("name", PINNED)
def test_digest_of_a_named_value_never_changes(name):
    """A digest is on record for ever: however it is computed, its value stays."""
    assert values.digest(KEPT[name]) == f"b2:{PINNED[name]}"


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


@pytest.mark.slow
def test_digest_does_not_depend_on_the_hash_seed():
    """Sets, dicts, enums and frozensets have one digest, and one text, under any hash seed."""
    source = """
import enum, durable_nb.values as v
class C(enum.Enum):
    A = "a"; B = "b"
value = {"s": {"x", "y", "z", ("t", 1), None, C.A, C.B}, "f": frozenset("abcdef"), C.A: {frozenset("ab"), frozenset("cd")}}
print(v.digest(value), v.encode(value, None), v.preview(value))
"""
    outputs = printed_under_seeds(source)
    assert len(outputs) == 1
    assert "b2:" in outputs.pop()
