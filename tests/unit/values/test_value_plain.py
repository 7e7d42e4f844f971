"""Plain results are written and read fast, and as they always were."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from support.memory_artifacts import MemoryArtifacts
from support.same_values import same

from durable_nb import values
from durable_nb.values.dissect import dissect
from durable_nb.values.errors import TextDamaged
from durable_nb.values.nodes import to_json
from durable_nb.values.plain import (
    MAX_BITS,
    MAX_DEPTH,
    MAX_TEXT,
    read_json,
    write_json,
    write_plain,
)
from durable_nb.values.registry import BUILT_IN
from durable_nb.values.trail import Trail


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    ONE = 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


PLAIN = {
    "scalars": [None, True, False, 0, -1, 2**64, "", "a"],
    "floats": [0.0, -0.0, 0.1, 1e-4, -1e-4, 9999999999999998.0, 118.75],
    "texts": {"quotes": '"\\/', "control": "".join(map(chr, range(33))), "delete": "\x7f"},
    "other scripts": {"Zoë": "Müller 日本 😀"},
    "looks like a tag": ['"$":', '{"$":"tuple"}'],
    "empty": [[], {}, [[]]],
    "equal but not shared": [[1], [1]],
    "large integer": 2**MAX_BITS - 1,
    "deep": nested(MAX_DEPTH),
}

SHARED: Any = [1]
OTHERS = {
    "shared": [SHARED, {"again": SHARED}],
    "tuple": [(1,)],
    "member": [Colour.RED],
    "number of an enum": [Size.ONE],
    "member as key": {Colour.RED: 1},
    "number as key": {1: 2},
    "dollar": {"$": "tuple"},
    "ordered": [OrderedDict(a=1)],
    "not a number": [float("nan")],
    "infinite": [float("-inf")],
    "surrogate": ["\ud800"],
    "surrogate as key": {"\ud800": 1},
    "too large": 2**MAX_BITS,
    "too deep": nested(MAX_DEPTH + 1),
    "long text": "a" * (MAX_TEXT + 1),
}


def general_text(value: Any) -> str:
    """Write a value on the general path."""
    table = dissect(value, Trail("v"), BUILT_IN, MemoryArtifacts().put).table
    return write_json(to_json(table))


@pytest.mark.parametrize("name", PLAIN)
def test_plain_value_is_written_as_the_general_path_writes_it(name):
    """What is plain is written in one go, and its text is the same, byte for byte."""
    assert write_plain(PLAIN[name]) == general_text(PLAIN[name])


@pytest.mark.parametrize("name", OTHERS)
def test_value_that_json_does_not_carry_as_it_is_takes_another_path(name):
    """What JSON would change, share no more or write at length is not taken for plain."""
    assert write_plain(OTHERS[name]) is None


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
def test_value_is_read_back_with_its_types(name):
    """Whichever path it takes, what is read back is what was written."""
    value, kept = {**PLAIN, **OTHERS}[name], MemoryArtifacts()
    text, again = values.round_trip(value, kept)
    assert same(again, value)
    assert same(values.decode(text, kept), value)


@pytest.mark.parametrize("value", [1e-5, 1e16, 1e22, -2.5e-300, 5e-324, 1.7976931348623157e308])
def test_float_in_another_form_keeps_its_text(value):
    """A float that is written with an exponent has the text that it always had."""
    text, again = values.round_trip([value], MemoryArtifacts())
    assert text == json.dumps([value])
    assert again == [value]


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '["\\ud83dx"]',
        "123456789012345678901234567890",
        "-0",
        "-0.0",
        "1E400",
        '{"a":1,"a":2}',
    ],
)
def test_text_that_json_has_written_reads_as_json_reads_it(text):
    """What other writers left behind means what it meant to them."""
    assert same(read_json(text), json.loads(text))


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "[1,]", '"\x01"', "01", "", "[1] x", "[" * 5_000]
)
def test_text_that_is_no_json_is_damaged(text):
    """What is no JSON is refused by name, whoever reads it."""
    with pytest.raises(TextDamaged):
        values.decode(text, MemoryArtifacts())
