"""`durable-nb report`: what durability cost a run and saved it, from a shell."""

from __future__ import annotations

import json
from pathlib import Path

from support.terminal import do

import durable_nb as dnb


def test_report_prints_what_run_report_says(store: Path) -> None:
    """The verb prints the text of `run.report()`, and records nothing."""
    before = do("history", "refund-17").stdout
    result = do("report", "refund-17")
    assert result.exit_code == 0, result.output
    assert result.stdout == dnb.watch("refund-17", store=store).report().to_text() + "\n"
    assert "1 attempt ended with the kernel" in result.stdout
    assert do("history", "refund-17").stdout == before


def test_report_as_json_is_the_report_as_a_dict(store: Path) -> None:
    """With --json it is one document: the lines, with their numbers by name."""
    document = json.loads(do("report", "refund-17", "--json").stdout)
    assert document == dnb.watch("refund-17", store=store).report().as_dict()
    numbers = {line["about"]: line["numbers"] for line in document["lines"]}
    assert numbers["cut short"] == {"attempts": 1}
    assert 0 < numbers["checkpointing"]["share"] < 1


def test_report_of_a_run_that_is_not_there(store: Path) -> None:
    """It says which runs there are, and exits 1."""
    result = do("report", "refund-99")
    assert result.exit_code == 1
    assert "refund-17" in result.stderr
