"""What is redacted and what is left alone, each in one table; and that time stays linear."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from durable_nb import values

#: (Text, the part that must be gone.)
REDACTED = [
    ("key sk-TEST here", "sk-TEST"),
    ("OPENAI sk-proj-Abc_123-xyz", "Abc_123"),
    ("sk-ant-api03-AbCdEf0123456789-_AbCdEf", "AbCdEf0123456789"),
    ("'first line\\nsk-TEST12345\\nlast'", "TEST12345"),
    ("\x1b[31msk-TEST12345\x1b[0m", "TEST12345"),
    ("prefixsk-ant-api03-abcdefghij0123456789", "abcdefghij0123456789"),
    ("sk_live_0123456789abcdef", "0123456789"),
    ("whsec_0123456789abcdef0123", "0123456789abcdef"),
    ("id AKIAABCDEFGHIJKLMNOP.", "AKIAABCDEFGHIJKLMNOP"),
    ("'a\\nASIAABCDEFGHIJKLMNOP'", "ASIAABCDEFGHIJKLMNOP"),
    ("ghp_0123456789abcdefABCDEF", "0123456789"),
    ("x\\nghs_0123456789abcdefABCDEF", "0123456789"),
    ("github_pat_11ABCDEFG0123456789_x", "11ABCDEFG"),
    ("glpat-0123456789abcdef-_xy", "0123456789"),
    ("xoxb-123456-abcdef", "123456"),
    ("https://hooks.slack.com/services/T000/B000/abcdef012345", "abcdef012345"),
    ("AIzaSyA0123456789abcdefghijklmnopqrstuvw", "0123456789"),
    ("ya29.a0AfH6SMBx0123456789abcdef", "0123456789"),
    ("hf_abcdefghijklmnopqrstuvwx", "abcdefghijkl"),
    ("gsk_abcdefghijklmnopqrstuvwx", "abcdefghijkl"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.abc", "zdWIiOiIx"),
    ("-H 'Bearer abc.DEF-123=='", "abc.DEF"),
    ("bearer abcdefghijklmnopqrstuvwx", "abcdefghijkl"),
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ('{"authorization": "token abcdef"}', "abcdef"),
    ("[('authorization', 'hunter two'), ('accept', '*/*')]", "hunter two"),
    ("[(b'X-Api-Key', b'hunter2')]", "hunter2"),
    ("Cookie: session=hunter2; other=three4", "three4"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "MIIabc"),
    ("-----BEGIN PRIVATE KEY-----\\nMIIabc\\nMIIdef", "MIIdef"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz", "b3BlbnNz"),
    ("postgresql://user:p@ss@host/db", "p@ss"),
    ("redis://:hunter2@host:6379/0", "hunter2"),
    ("dsn password=hunter2 host=x", "hunter2"),
    ("PGPASSWORD=hunter2", "hunter2"),
    ("password: 12345", "12345"),
    ("Client(api_key='hunter2', timeout=3)", "hunter2"),
    ('{"apiKey": "hunter2", "a": 1}', "hunter2"),
    ('{"accessToken": "hunter2", "a": 1}', "hunter2"),
    ('"{\\"client_secret\\": \\"hunter2\\"}"', "hunter2"),
    ("AWS_SECRET_ACCESS_KEY=hunter2", "hunter2"),
    ("{'db.password': 'hunter 2'}", "hunter"),
    ("token=abcdef0123456789", "abcdef0123456789"),
    ("credentials={'user': 'a', 'value': 'hunter2'}", "hunter2"),
    ("'secrets': ['a', 'hunter2']", "hunter2"),
    ("curl --token hunter2 https://x", "hunter2"),
    ("if password == 'hunter2':", "hunter2"),
    ("?X-Amz-Signature=deadbeef0123&X-Amz-Date=1", "deadbeef0123"),
    ("AccountKey=hunter2==;EndpointSuffix=x", "hunter2"),
]  # fmt: skip

KEPT = [
    "max_tokens=5", "max_tokens=4096, prompt_tokens: 12", "the token was spent", "token: None",
    "token=5", "{'token': ' following', 'logprob': -0.1}", "eos_token='</s>', pad_token='<pad>'",
    "the secret of life", "a password is needed", "Password: required", "key=7", "cache_key='abc'",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "commit 1e7c14d90728be1077bde8d4a945267d52aa11bb",
    "task-1234567890abcdef1234", "disk-0", "risk-free task-list", "sk-learn", "locale sk-SK",
    "https://host:80/a@b", "https://user@host/", "mail a@b.org or see http://x.org:8080/",
    "2021-01-01T00:00:00", "tokenizer='x'", "password=settings.password, api_key=api_key",
    "token = get_token(user)", "def f(password: str, token: Optional[str] = None)",
    "api_key=${API_KEY} api_key=<your key> password=***", "bearer of bad news", "bearer authentication",
    "Authorization: required for admins", "cookie: chocolate chip", "PWD=/home/user/project",
    "xoxo-hugs-and-kisses", "def task_test_runner1(): pass", "['username', 'password', 'email']",
    '{"password": {"type": "string"}}', "ghost_0123456789abcdef01", "eyJ alone", "AKIA", "--token-limit 5",
    "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----", "monkey=1, donkey: 2",
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), REDACTED, ids=itertools.count())
def test_case_74_secrets_are_redacted_alone_and_within_text(text: str, secret: str) -> None:
    """The secret is gone, what stands around it is not, and doing it again changes nothing."""
    for whole in (text, f"before {text}\nafter", repr(f"before\n{text}")):
        redacted = values.redact(whole)
        assert secret not in redacted
        assert "[redacted]" in redacted
        assert values.redact(redacted) == redacted
    assert values.redact(f"before {text}").startswith("before ")


@pytest.mark.parametrize("text", KEPT, ids=itertools.count())
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Counts of tokens, digests, ids, code, prose and placeholders stay readable."""
    assert values.redact(text) == text
    assert values.redact(f"{text}\n{text}") == f"{text}\n{text}"


BOMBS = [
    "a", "password", "token: ", "password=", "api_key: {", "secret: [", "://", "://a:", "-", "eyJ", "-eyJ",
    "eyJaaaaaaaa.", "sk-", "sk-a", "\\nsk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "bearer ", "Bearer a",
    "Authorization: ", "cookie: a", "--token ", "'authorization', ", "a.", "ghp_", "AKIA", "hf_a", "x://a:b",
    "password='\\", "secret-", "'cookie','", "-----BEGIN PRIVATE KEY----- -----END ",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", BOMBS, ids=itertools.count())
def test_redaction_takes_linear_time(part: str) -> None:
    """5 MB of the worst text take under 2 s."""
    text = (part * (5 * 2**20 // len(part) + 1))[: 5 * 2**20]
    start = time.process_time()
    values.redact(text)
    assert time.process_time() - start < 2


def test_a_long_private_key_that_is_cut_takes_the_key_and_not_the_rest() -> None:
    """Text after a key without an end is kept from its first character that is none of a key's."""
    shown = values.redact("-----BEGIN PRIVATE KEY-----\n" + "MIIabc\n" * 5_000 + "!and then this")
    assert shown == "[redacted]!and then this"


@dataclass
class Config:
    api_key: str
    nested: Any = None


@pytest.mark.parametrize(
    ("name", "value"),
    [("credentials", {"a": {"b": "hunter2"}, "c": "hunter2"}), ("x", {"credentials": {"a": {"b": "hunter2"}}}),
     ("api_key", "hunter2"), ("password", b"hunter2"), ("openai_api_key", "hunter2"), ("clientSecret", "hunter2"),
     ("credentials", {"user": "a", "value": "hunter2"}), ("token", "hunter2hunter2"), ("secrets", ["hunter2"]),
     ("x", {"a": [{"passphrase": ("hunter2",)}]}), ("x", Config("hunter2")), ("x", Config("", Config("hunter2"))),
     ("x", {"headers": [("x-api-key", "hunter2")]}), ("access_token", np.array(["hunter2"]))],
    ids=itertools.count(),
)  # fmt: skip
def test_case_74_a_value_whose_name_says_that_it_is_secret_is_not_shown(
    name: str, value: Any
) -> None:
    """An input's own name counts, and the names within it."""
    shown = values.preview(value, name=name)
    assert "hunter2" not in shown
    assert "[redacted]" in shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("api_key", None, "None"), ("max_tokens", 5, "5"), ("token", "abc", "'abc'"), ("question", "why", "'why'"),
     ("password", "", "''"), ("key", "order-7", "'order-7'"), ("eos_token", "</s>", "'</s>'")],
)  # fmt: skip
def test_a_value_that_is_no_secret_is_shown(name: str, value: Any, shown: str) -> None:
    """Nothing, counts and short marks are shown beside such names."""
    assert values.preview(value, name=name) == shown


@pytest.mark.parametrize(
    ("value", "path"),
    [("sk-TEST", "result"), ({"a": [1, {"b": "x sk-TEST"}]}, "result['a'][1]['b']"), ((b"sk-TEST",), "result[0]"),
     (Config("sk-TEST"), "result.api_key"), ({"password": "hunter2"}, ""), ([["a"] * 1000] * 1000, ""), (5, ""),
     ({"sk-TEST": 1}, "result[[redacted]]"), (np.zeros(3), "")],
    ids=itertools.count(),
)  # fmt: skip
def test_a_secret_in_a_value_is_found_by_its_path(value: Any, path: str) -> None:
    """The path names where it is, never what it is; names alone prove nothing in a result."""
    found = values.find_secret(value)
    assert values.redact(found).replace("'", "") == path.replace("'", "")


def test_finding_a_secret_is_bounded_and_ends_on_a_ring() -> None:
    """A huge or endless value costs no more than a look at its beginning."""
    ring: list[Any] = []
    ring.append(ring)
    huge = {"ring": ring, "list": list(range(10**6)), "text": "sk- " * 10**7, "last": "sk-TEST"}
    start = time.process_time()
    assert values.find_secret(huge) == ""
    assert time.process_time() - start < 1
