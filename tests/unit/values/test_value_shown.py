"""What is shown or stored as text: previews, redaction and errors."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from durable_nb import values
from durable_nb.values import previews

SECRETS = {
    "short key of case 74": ("key sk-TEST here", "sk-TEST"),
    "openai": ("sk-proj-Abc_123-xyz", "Abc_123"),
    "stripe": ("sk_live_0123456789abcdef", "0123456789"),
    "bearer": ("-H 'Bearer abc.DEF-123=='", "abc.DEF"),
    "authorization": ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "authorization in json": ('{"authorization": "token abcdef"}', "abcdef"),
    "private key": (
        "x -----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY----- y",
        "MIIabc",
    ),
    "cut private key": ("-----BEGIN PRIVATE KEY-----\\nMIIabc", "MIIabc"),
    "aws": ("id AKIAABCDEFGHIJKLMNOP.", "AKIAABCDEFGHIJKLMNOP"),
    "github": ("ghp_0123456789abcdefABCDEF", "0123456789"),
    "github fine": ("github_pat_11ABCDEFG0123456789_x", "11ABCDEFG"),
    "slack": ("xoxb-123456-abcdef", "123456"),
    "jwt": ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "zdWIiOiIx"),
    "url": ("postgresql://user:p@ss/w@host/db".replace("/w", ""), "p@ss"),
    "password=": ("dsn password=hunter2 host=x", "hunter2"),
    "json": ('{"api_key": "hunter2", "a": 1}', "hunter2"),
    "json in json": ('"{\\"client_secret\\": \\"hunter2\\"}"', "hunter2"),
    "repr": ("Client(api_key='hunter2', timeout=3)", "hunter2"),
    "env": ("AWS_SECRET_ACCESS_KEY=hunter2", "hunter2"),
    "dict repr": ("{'db.password': 'hunter 2'}", "hunter"),
    "escaped quote": ("password='hun\\'ter2'", "ter2"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_case_74_known_secrets_are_redacted(name):
    """Known shapes of secrets do not survive, alone or in the middle of other text."""
    text, secret = SECRETS[name]
    for whole in (text, f"before {text}\nafter"):
        assert secret not in values.redact(whole)
        assert "[redacted]" in values.redact(whole)
    assert values.redact(f"before {text}\nafter").startswith("before ")


@pytest.mark.parametrize(
    "text",
    ["max_tokens=4096, prompt_tokens: 12", "token: None", "my risk-free task-list", "https://host:80/a@b",
     "https://user@host/", "the secret of life", "password", "key=7", "2021-01-01T00:00:00", "tokenizer='x'"],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text):
    """Counts of tokens, plain URLs and prose stay readable."""
    assert values.redact(text) == text


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "password" * 10**5, "token: " * 10**5, "://" * 10**5, "-" * 10**6, "eyJ" * 10**5,
             "x://" + "a:" * 10**5, "password='" + "\\" * 10**6, "secret-" * 10**5, "-----BEGIN PRIVATE KEY-----" * 10**4],
    ids=itertools.count(),
)  # fmt: skip
def test_redaction_takes_linear_time(text):
    """No text makes redaction slow."""
    start = time.perf_counter()
    values.redact(text)
    assert time.perf_counter() - start < 3


# -- previews ---------------------------------------------------------------------------------


class Client:
    def __init__(self) -> None:
        self.key = "sk-TEST"

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Liar:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("outside of any context")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


class BadMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__", "_fields"):
            raise RuntimeError("no")
        return super().__getattribute__(name)


class Bad(metaclass=BadMeta):
    pass


@dataclass
class Order:
    id: int
    client: Any
    password: str = "hunter2"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"b": 1, "a": [1.5, None]}, "{'b': 1, 'a': [1.5, None]}"),
        ({"z", "y", "x"}, "{'x', 'y', 'z'}"),
        (set(), "set()"),
        ((1,), "(1,)"),
        (Client(), "<Client object>"),
        ([Liar()], "[<Liar object>]"),
        (Bad(), "<Bad object>"),
        (Client, "<class Client>"),
        (print, "<function print>"),
        (json, "<module json>"),
        (Order(1, Client()), "Order(id=1, client=<Client object>, password=[redacted])"),
        (threading.Lock(), "<lock object>"),
        (ValueError("sk-TEST"), "ValueError('[redacted]')"),
        (b"x" * 1000, repr(b"x" * 40) + "… 1000 bytes"),
        (10**5000, "<int of 16610 bits>"),
        ("a\nb", "'a\\nb'"),
        (deque([1], 2), "deque([1], maxlen=2)"),
        (Path("a"), "PosixPath('a')"),
        (datetime(2021, 1, 1, tzinfo=UTC), "datetime.datetime(2021, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)"),
        (np.zeros((2, 3)), "ndarray float64 2×3"),
        (np.float64(1.5), "float64(1.5)"),
        (pd.DataFrame({"a": range(1000), "b": 1}), "DataFrame 1000×2"),
        (pd.Series([1.0]), "Series float64 1"),
        (pd.Timestamp("2021-01-01"), "2021-01-01 00:00:00"),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_preview_is_one_stable_line(value, shown):
    """A preview shows what matters, without addresses, secrets or a user's `__repr__`."""
    assert values.preview(value) == shown


def test_preview_is_bounded():
    """A huge or endless value costs no more than a small one, and is cut."""
    ring: list[Any] = []
    ring.append(ring)
    huge = {"text": "x" * 10**7, "list": list(range(10**6)), "ring": ring, "set": set(range(10**5))}
    start = time.perf_counter()
    shown = values.preview(huge)
    assert time.perf_counter() - start < 0.5
    assert len(shown) == 200
    assert shown.endswith("…")
    assert len(values.preview([list(range(100))] * 100, limit=50)) == 50
    assert values.preview(ring) == "[[[[[…]]]]]"


def test_secret_at_the_cut_is_redacted_whole():
    """A key that the limit would cut in two is not shown in part."""
    shown = values.preview("x" * 190 + " sk-ABCDEFGHIJKLMNOP")
    assert "sk-" not in shown


# -- errors -----------------------------------------------------------------------------------


class Quiet(ValueError):
    pass


class Loud(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


MADE: list[Any] = []


class Counted(Exception):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        MADE.append(args)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("k"), KeyError(1), OSError(2, "No", "f"), OSError(2, "No", "a", None, "b"),
     TimeoutError(), KeyboardInterrupt(), Quiet("q", 1, None), ZeroDivisionError(), StopIteration(3), Exception()],
)  # fmt: skip
def test_error_of_a_plain_class_comes_back(error):
    """An error whose class takes its arguments back is rebuilt, of the same class and text."""
    described = json.loads(json.dumps(values.describe_error(caught(error))))
    again = values.rebuild_error(described)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert "in caught" in described["traceback"]


@pytest.mark.parametrize(
    "error",
    [Loud(1, 2), ValueError([1]), ValueError(Client()), UnicodeDecodeError("x", b"a", 0, 1, "r"),
     ExceptionGroup("g", [ValueError()]), ValueError(float("nan"))],
)  # fmt: skip
def test_case_73_other_errors_stay_text(error):
    """An error with an `__init__` of its own, or other arguments, is recorded as text only."""
    described = values.describe_error(caught(error))
    assert "args" not in described
    assert described["type"].endswith(type(error).__qualname__)
    assert (
        type(error).__name__ in described["traceback"] or "<no traceback" in described["traceback"]
    )
    assert values.rebuild_error(described) is None
    json.dumps(described)


def test_no_init_of_an_error_runs():
    """Neither describing nor rebuilding an error calls an `__init__` that a user wrote."""
    error = caught(Counted("x"))
    MADE.clear()
    described = values.describe_error(error)
    assert values.rebuild_error({**described, "args": ["x"]}) is None
    assert MADE == []


def test_error_without_a_text_is_described():
    """An error whose `__str__` raises is described all the same."""
    described = values.describe_error(caught(Mute()))
    assert described["message"] == "<no text: its __str__ raised RuntimeError>"
    assert "Mute" in described["traceback"]


def test_case_74_keys_in_errors_are_redacted():
    """A provider that repeats the key in its message leaves none on record."""
    described = values.describe_error(caught(ValueError("bad key sk-TEST", "x")))
    assert "sk-TEST" not in json.dumps(described)
    again = values.rebuild_error(described)
    assert type(again) is ValueError
    assert "[redacted]" in str(again)


def test_long_tracebacks_keep_their_end():
    """A traceback is at most 8 KB, and its end, which says what happened, is kept."""

    def deep(n: int) -> None:
        exec("deep(n - 1)" if n else "raise ValueError('x' * 100_000)", {"deep": deep, "n": n})

    with pytest.raises(ValueError, match="xxx") as raised:
        deep(100)
    described = values.describe_error(raised.value)
    assert len(described["traceback"]) <= 8 * 1024
    assert len(described["message"]) <= 2_000
    assert described["traceback"].rstrip().endswith("x")


@pytest.mark.parametrize(
    "described",
    [{}, {"class": "builtins:print", "args": ["x"], "message": ""}, {"class": "os:system", "args": ["x"]},
     {"class": "no:No", "args": []}, {"class": "builtins:ValueError", "args": ["x"], "message": "y"},
     {"class": "builtins:ValueError", "args": [[1]], "message": "[1]"}, {"class": 5, "args": []}],
)  # fmt: skip
def test_planted_errors_call_nothing(described):
    """A description that names no plain error class gives no error, and calls nothing."""
    assert values.rebuild_error(described) is None


_KEYS = st.sampled_from(["a", "api_key", "id", "a long name of a column", "'"])
_PARTS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300)
_JSON = st.recursive(
    _PARTS,
    lambda inner: st.lists(inner, max_size=23) | st.dictionaries(_KEYS, inner),
    max_leaves=40,
)


@pytest.mark.slow
@settings(deadline=None)
@example([[[[1]]]])
@example([[[[[1]]]]])
@example({"a": {"api_key": "x"}})
@example([list(range(30))])
@example([10**400])
@example(["x" * 801])
@example(["x" * 400, ["y" * 395], 1, 2])
@given(_JSON | st.lists(_JSON) | st.dictionaries(st.text(max_size=5) | st.integers(), _JSON))
def test_what_json_carries_is_shown_as_anything_else(value: Any) -> None:
    """Python's own way to show a value is taken where it says the same, and nowhere else."""
    assert previews._by_repr(value, 800) in ("", previews._show(value, 800, previews._DEPTH))
