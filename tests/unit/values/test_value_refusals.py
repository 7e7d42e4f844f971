"""What cannot be recorded is refused with the path to it, before anything is stored."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest

from durable_nb import values
from durable_nb.model.errors import NotRecordable
from durable_nb.values.registry import BUILT_IN, default_registry


class Zone(tzinfo):
    def utcoffset(self, when: Any) -> timedelta:
        return timedelta(0)


class Client:
    def __repr__(self) -> str:
        raise AssertionError("no repr of a user's object is called")


def test_case_66_lock_is_refused_with_the_path_to_it(artifacts):
    """The error names where the object is, what it is, and what to do; nothing is stored."""
    value = {"big": b"x" * 70_000, "client": [1, {"session": (threading.Lock(),)}]}
    with pytest.raises(NotRecordable) as refused:
        values.encode(value, artifacts)
    assert refused.value.path == 'result["client"][1]["session"][0]'
    assert refused.value.found == "_thread.lock"
    assert "record=" in refused.value.advice
    assert artifacts.blobs == {}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({(1, 2): Client()}, "result[<tuple>]"),
        ({Client: 1}, None),
        ([defaultdict(lambda: 0)], "result[0]"),
        ({"a": datetime(2021, 1, 1, tzinfo=Zone())}, 'result["a"].tzinfo'),
        (frozenset({print}), "result{…}"),
        ([iter([])], "result[0]"),
        (memoryview(b"a"), "result"),
        (lambda: 0, "result"),
        (object(), "result"),
        (type, "result"),
    ],
)
def test_refusal_names_the_place(value, path, artifacts):
    """Whatever is not covered is refused at its place."""
    with pytest.raises(NotRecordable) as refused:
        values.encode(value, artifacts)
    assert path is None or refused.value.path == path


def test_factory_that_only_has_a_known_name_is_refused(artifacts):
    """A user's function called `list` is not taken for the builtin."""

    def named() -> list[int]:
        return [1]

    named.__name__ = "list"
    with pytest.raises(NotRecordable, match="factory"):
        values.encode(defaultdict(named), artifacts)


def test_long_path_is_cut_in_its_middle(artifacts):
    """A path through a thousand levels stays readable."""
    value: Any = print
    for _ in range(1_000):
        value = [value]
    with pytest.raises(NotRecordable) as refused:
        values.encode(value, artifacts)
    assert len(refused.value.path) < 120
    assert "more" in refused.value.path


def test_tuple_that_contains_itself_is_refused_by_name(artifacts):
    """A cycle that starts in an immutable value cannot be rebuilt, and is said so."""
    inner: list[Any] = []
    value = (inner,)
    inner.append(value)
    with pytest.raises(NotRecordable, match="contains itself"):
        values.encode(value, artifacts)
    with pytest.raises(values.NotDigestible, match="contains itself"):
        values.digest(value)


# -- codecs that users register ----------------------------------------------------------------


class Money:
    def __init__(self, cents: int, currency: str = "EUR") -> None:
        self.cents, self.currency = cents, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def registered(monkeypatch):
    """Let a test register codecs that no other test sees."""
    monkeypatch.setattr("durable_nb.values.registry._default", BUILT_IN)
    return values.register_codec


def test_registered_type_is_recorded_and_digested(registered, back):
    """One row teaches encode, decode and digest a new type, also deep inside others."""
    with pytest.raises(NotRecordable):
        back(Money(1))
    registered("money", Money, 1, lambda m: (m.cents, m.currency), lambda d: Money(*d))
    assert back([Money(5)]) == [Money(5)]
    assert values.digest(Money(1)) == values.digest(Money(1)) != values.digest(Money(2))
    assert "money" not in BUILT_IN.by_tag
    assert "money" in default_registry().by_tag


def test_registered_codec_that_loses_something_is_refused(registered, artifacts):
    """A codec is believed only after its value came back equal."""
    registered("money", Money, 1, lambda m: m.cents, Money)
    values.encode(Money(1), artifacts)
    with pytest.raises(NotRecordable, match="changes"):
        values.encode(Money(1, "USD"), artifacts)


def test_registered_codec_that_fails_names_the_value(registered, artifacts):
    """An error in a user's codec says where and which."""
    registered("money", Money, 1, lambda m: 1 / 0, Money)
    with pytest.raises(NotRecordable, match="ZeroDivisionError"):
        values.encode([Money(1)], artifacts)
    registered("money", Money, 1, lambda m: m.cents, lambda d: 1 / 0)
    with pytest.raises(NotRecordable, match=r"result\[0\].*ZeroDivisionError"):
        values.encode([Money(1)], artifacts)


def test_older_versions_need_a_decoder(registered, artifacts):
    """A form of another version is read by its own decoder or not at all."""
    registered("money", Money, 1, lambda m: m.cents, Money)
    old = values.encode(Money(5), artifacts)

    registered("money", Money, 2, lambda m: [m.cents, m.currency], lambda d: Money(*d))
    assert '"ver":2' in values.encode(Money(5), artifacts)
    with pytest.raises(values.ValueNotLoadable, match="version 1"):
        values.decode(old, artifacts)

    registered(
        "money", Money, 2, lambda m: [m.cents, m.currency], lambda d: Money(*d), older={1: Money}
    )
    assert values.decode(old, artifacts) == Money(5)


def test_tag_without_a_codec_is_said_so(registered, artifacts):
    """A value of a type whose codec is not registered in this kernel names the tag."""
    registered("money", Money, 1, lambda m: m.cents, Money)
    text = values.encode(Money(5), artifacts)
    with pytest.raises(values.ValueNotLoadable, match="money"):
        values.decode(text, artifacts, registry=BUILT_IN)


@pytest.mark.parametrize("tag", ["tuple", "graph", "artifact", "pandas.X", "a b", "", "$"])
def test_tags_of_others_are_refused(registered, tag):
    """A user's codec cannot replace a built-in one."""
    with pytest.raises(ValueError, match="tag"):
        registered(tag, Money, 1, lambda m: 1, Money)
    with pytest.raises(ValueError, match="covered"):
        registered("mine", dict, 1, lambda m: 1, Money)
    with pytest.raises(ValueError, match="start at 1"):
        registered("mine", Money, 0, lambda m: 1, Money)
