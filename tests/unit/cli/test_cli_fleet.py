"""The verbs of the fleet where its extra is not installed."""

from __future__ import annotations

import sys

import pytest
from support.terminal import do


@pytest.mark.parametrize(
    "words", [("submit", "x.ipynb", "--run", "r"), ("worker",), ("fleet",)], ids=lambda w: w[0]
)
def test_a_missing_extra_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, words):
    """Nothing is begun, and nothing about it is unexpected."""
    monkeypatch.setitem(sys.modules, "procrastinate", None)
    monkeypatch.delitem(sys.modules, "durable_nb.fleet.queue", raising=False)
    result = do(*words, "--store", "postgresql://nobody@127.0.0.1:1/x")
    assert result.exit_code == 1
    assert "pip install 'durable-nb[fleet]'. Nothing was begun." in result.stderr
    assert "unexpected" not in result.stderr
