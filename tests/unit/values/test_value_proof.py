"""Every value is read back and compared before it counts, and what was read is handed on."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from json import JSONDecoder
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pandas as pd
import pytest
from support.memory_artifacts import MemoryArtifacts
from support.quick_values import QUICKLY_KEPT
from support.same_values import same
from support.value_table import KEPT

from durable_nb import values
from durable_nb.model.errors import NotRecordable
from durable_nb.values import Registry, direct, text
from durable_nb.values.direct import DECLINED, read_direct, write_direct
from durable_nb.values.parts import Parts
from durable_nb.values.registry import BUILT_IN
from durable_nb.values.same import Difference


class Money(Decimal):
    """Equal to a Decimal, and none."""


def _broken(tag: str, decode: Callable[[Parts], Any], **more: Any) -> Registry:
    row = BUILT_IN.of_tag(tag)
    assert row is not None
    assert row.is_direct
    return BUILT_IN.with_row(replace(row, decode=decode, **more))


def _read(tag: str) -> Callable[[Parts], Any]:
    row = BUILT_IN.of_tag(tag)
    assert row is not None
    return row.decode


def _fill(put: Callable[[Any, Parts], None]) -> dict[str, Any]:
    return {"fill": put}


#: What a codec may get wrong: the value, and a registry in which its row gets it wrong.
WRONG: dict[str, tuple[Any, Registry]] = {
    "cents are dropped": (
        Decimal("1.50"),
        _broken("Decimal", lambda p: Decimal(p.data["v"]).normalize()),
    ),
    "a subclass": (Decimal("1.5"), _broken("Decimal", lambda p: Money(p.data["v"]))),
    "text for a number": (Decimal("1.5"), _broken("Decimal", lambda p: p.data["v"])),
    "another number": (2**3000, _broken("int", lambda p: int(p.data["hex"], 16) + 1)),
    "no zone": (
        datetime(2026, 3, 1, tzinfo=UTC),
        _broken("datetime", lambda p: datetime.fromisoformat(p.data["at"])),
    ),
    "no fold": (
        datetime(2026, 10, 25, 2, 30, fold=1),
        _broken("datetime", lambda p: _read("datetime")(p).replace(fold=0)),
    ),
    "no microseconds": (
        time(1, 2, 3, 4),
        _broken("time", lambda p: _read("time")(p).replace(microsecond=0)),
    ),
    "a day more": (timedelta(1), _broken("timedelta", lambda p: timedelta(p.data["days"] + 1))),
    "another offset": (
        datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=1))),
        _broken("timezone", lambda p: UTC),
    ),
    "turned round": ((1, 2), _broken("tuple", lambda p: tuple(p.items[::-1]))),
    "true for one": ((1, 2), _broken("tuple", lambda p: (True, 2))),
    "minus zero": ((0.0, "a"), _broken("tuple", lambda p: (-0.0, "a"))),
    "cut": ((1, 2), _broken("tuple", lambda p: tuple(p.items[:1]))),
    "a list": ((1, 2), _broken("tuple", lambda p: list(p.items))),
    "typed parts changed places": (
        (Decimal(1), Decimal(2)),
        _broken("tuple", lambda p: tuple(p.items[::-1])),
    ),
    "a member lost": (
        {"new", "paid"},
        _broken("set", lambda p: set(), **_fill(lambda t, p: t.update(p.items[1:]))),
    ),
    "a member changed": (
        {1, "a"},
        _broken("set", lambda p: set(), **_fill(lambda t, p: t.update({True, "a"}))),
    ),
    "not frozen": (frozenset({1}), _broken("frozenset", lambda p: set(p.items))),
    "a pair lost": (
        {1: 2, 3: 4},
        _broken("dict", lambda p: {}, **_fill(lambda t, p: t.update({1: 2}))),
    ),
    "another order": (
        OrderedDict(a=1, b=2),
        _broken("OrderedDict", lambda p: OrderedDict(), **_fill(lambda t, p: t.update(b=2, a=1))),
    ),
    "a name lost": (
        SimpleNamespace(a=1),
        _broken("SimpleNamespace", lambda p: SimpleNamespace(), **_fill(lambda t, p: None)),
    ),
    "a byte lost": (b"abc", _broken("bytes", lambda p: p.blob[:-1])),
    "bytes that change": (b"abc", _broken("bytes", lambda p: bytearray(p.blob))),
    "no end": (deque([1], 5), _broken("deque", lambda p: deque())),
    "a count": (
        Counter("aab"),
        _broken("Counter", lambda p: Counter(), **_fill(lambda t, p: t.update("ab"))),
    ),
    "a half": (Fraction(1, 3), _broken("Fraction", lambda p: Fraction(1, 2))),
    "another id": (KEPT["UUID"], _broken("UUID", lambda p: UUID(int=1))),
    "it raises": (Decimal(1), _broken("Decimal", lambda p: Decimal(1) / 0)),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("around", [lambda v: v, lambda v: {"a": [1, v]}, lambda v: (v, "b")])
def test_what_a_codec_gets_wrong_is_refused(what, around, artifacts):
    """A part that comes back as another value or type is never recorded, on either path."""
    value, registry = around(WRONG[what][0]), WRONG[what][1]
    written = write_direct(value, registry)
    assert written is not None
    assert read_direct(written, registry, prove=True) is DECLINED
    for write in (values.encode, values.round_trip):
        with pytest.raises(NotRecordable):
            write(value, artifacts, registry=registry)


@pytest.mark.parametrize("what", WRONG)
def test_those_values_are_recorded_by_codecs_that_are_right(what, artifacts):
    """None of them is refused for another reason."""
    value = WRONG[what][0]
    assert same(values.round_trip(value, artifacts)[1], value)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICKLY_KEPT)
def test_round_trip_gives_what_encode_and_decode_give(name, artifacts):
    """The text is that of `encode`, and the value that which a replay will have."""
    for value in (KEPT[name], {"k": [KEPT[name], (1, "a")]}):
        written, again = values.round_trip(value, artifacts)
        assert written == values.encode(value, artifacts)
        assert same(again, values.decode(written, artifacts))
        assert same(again, value)


@pytest.mark.parametrize(
    "value", [{"a": [1]}, {"a": [1], "b": (1,)}, {"a": [1], "b": pd.DataFrame({"x": [1.5]})}]
)
def test_value_that_is_handed_on_is_no_part_of_the_original(value, artifacts):
    """What the body does with its own value later does not reach what the call returned."""
    _, again = values.round_trip(value, artifacts)
    value["a"].append(2)
    assert again["a"] == [1]


def test_typed_result_is_read_once(artifacts, monkeypatch):
    """A live call needs one reading, which is the proof; JSON is read once as well."""
    read: list[str] = []
    kept = text.read_direct

    def counted(written: str, registry: Registry, *, prove: bool = False) -> Any:
        read.append("proof" if prove else "plain")
        return kept(written, registry, prove=prove)

    monkeypatch.setattr(text, "read_direct", counted)
    values.round_trip({"total": Decimal(1), "range": (1, 5)}, artifacts)
    assert read == ["proof"]


@pytest.mark.parametrize(
    "wrong", [{"parse_int": lambda s: int(s) + 1}, {"parse_float": lambda s: -0.5}]
)
def test_what_json_carries_beside_typed_parts_is_compared_as_well(artifacts, monkeypatch, wrong):
    """A number that a reader of JSON gets wrong is refused like a typed part."""
    monkeypatch.setattr(direct, "JSONDecoder", partial(JSONDecoder, **wrong))
    with pytest.raises(NotRecordable):
        values.round_trip({"n": 1, "x": 1.5, "total": Decimal(1)}, artifacts)


def test_proof_takes_what_equals_nothing(artifacts, monkeypatch):
    """NaN in a typed result is proven by its text, without the general path."""
    monkeypatch.setattr(text, "difference", _unasked)
    again = values.round_trip({"x": [math.nan, (Decimal("NaN"), Decimal("sNaN"))]}, artifacts)[1]
    assert same(again, {"x": [math.nan, (Decimal("NaN"), Decimal("sNaN"))]})


def _unasked(*given: object) -> Difference | None:
    raise AssertionError("the general path was taken")


def test_what_lies_in_artifacts_is_read_from_there(artifacts):
    """A store that lost what it took is noticed before the result counts."""

    class Forgetful(MemoryArtifacts):
        def put(self, data: bytes) -> str:
            sha256 = super().put(data)
            self.blobs.clear()
            return sha256

    for value in ("x" * 100_000, [b"x" * 100_000], {"a": [1.5] * 50_000}):
        assert same(values.round_trip(value, artifacts)[1], value)
        with pytest.raises(values.ArtifactMissing):
            values.round_trip(value, Forgetful())
