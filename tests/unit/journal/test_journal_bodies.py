"""Bodies of records are JSON in ASCII, and read as they were written."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from durable_nb.journal.rows import BadRow, Row, pack_body, records_of
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft

BODIES = {
    "ordinary": {"effect": "none", "attempt": 1, "inputs": {"n": "b2:00"}, "key_ttl": None},
    "other scripts": {"result": '"Zoë 😀"'},
    "surrogate": {"shown": {"\ud800": "\udfff"}},
    "infinite": {"key_ttl": float("inf"), "usd": 1e-7},
    "large": {"tokens": 2**70, "why": "a" * 100_000, "delete": "\x7f\x00"},
    "member": {"kind": Kind.RAISED},
}


def read(*bodies: bytes) -> list[dict]:
    rows = [(n, f"a#{n}", "intended", 1, 1, body) for n, body in enumerate(bodies, 1)]
    return [dict(record.body) for record in records_of(rows)]


@pytest.mark.parametrize("name", BODIES)
def test_body_is_ascii_and_reads_as_it_was_written(name):
    """Whatever a body holds, it is ASCII, and comes back equal."""
    raw = pack_body(Draft("a#1", Kind.INTENDED, BODIES[name]))
    assert raw.isascii()
    assert read(raw) == [BODIES[name]] == [json.loads(raw)]


def test_bodies_that_two_writers_wrote_are_read_beside_each_other():
    """What only `json` reads does not keep the rows beside it from being read."""
    raws = [pack_body(Draft("a#1", Kind.INTENDED, body)) for body in BODIES.values()]
    assert read(*raws) == list(BODIES.values())


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, b"ab"])
def test_body_takes_no_more_than_json_has(value):
    """What JSON has no form for is an error where it is written, and no text that looks like it."""
    with pytest.raises(TypeError):
        pack_body(Draft("a#1", Kind.INTENDED, {"value": value}))


@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff", b'{"a":"\xff"}', b"{} {}", b"{},{}"])
def test_body_that_is_damaged_is_named(raw):
    """A row that cannot be ours is named by its number, and no row beside it hides it."""
    with pytest.raises(BadRow, match="record 2"):
        records_of([Row(n, f"a#{n}", "intended", 1, 1, b) for n, b in ((1, b"{}"), (2, raw))])
