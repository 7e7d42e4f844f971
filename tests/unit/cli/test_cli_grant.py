"""Grants from the command line: what a run may do, and spend, is widened on record."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Child
from support.terminal import do, document, records

import durable_nb as dnb

LIVE = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("refund-17", store=sys.argv[1])
print("open", flush=True)
while True:
    time.sleep(0.05)
    if "payments:write" in run.scopes:
        print("granted", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def limited(store: Path) -> Iterator[dnb.Run]:
    """A run with scopes and a budget that is spent."""
    with dnb.run("limited", store=store, scopes=["a"], budget={"calls": 1, "usd": 5}) as run:
        with run.step("ask", effect="none") as op:
            op.result = op.needed
            op.spend(usd=0.5)
        yield run


@pytest.mark.slow
def test_the_line_of_a_refusal_grants_it(limited: dnb.Run, store: Path) -> None:
    """What the signal prints for a shell does what it says once its blanks are filled in."""
    with pytest.raises(dnb.ScopeDenied) as denied:
        limited.step("pay", requires=["b", "c d"]).call(int)
    with pytest.raises(dnb.BudgetExceeded) as spent:
        limited.step("ask more", effect="none").call(int)
    limited.close()
    for stop, blank in ((denied.value, "said so"), (spent.value, "9")):
        line = stop.lines()[-1].partition(":")[2].replace('"..."', "'so'").replace("...", blank)
        assert do(*shlex.split(line)[1:]).exit_code == 0, line
    with dnb.run("limited", store=store) as run:
        assert run.scopes == ("a", "b", "c d")
        assert run.budget == {"usd": 5, "calls": 9}


def test_a_grant_tells_what_holds_now(limited: dnb.Run) -> None:
    """In words, and as one document."""
    limited.close()
    told = do("grant", "limited", "b", "--usd", "7.5", "--calls", "3", "--reason", "so")
    assert told.stdout.splitlines()[0] == (
        "limited: granted. It goes on with scopes a, b; budget: $0.50 of $7.50, 1 of 3 calls so "
        "far."
    )
    found = document(do("grant", "limited", "c", "--reason", "so", "--json"))
    assert (found["run"], found["verdict"], found["operation"]) == ("limited", "granted", None)
    assert found["scopes"] == ["a", "b", "c"]
    assert found["budget"] == {"usd": 7.5, "calls": 3}
    assert found["spent"]["usd"] == 0.5


@pytest.mark.slow
def test_show_has_a_line_about_the_budget_where_there_is_one(limited: dnb.Run) -> None:
    """And none where nothing is limited."""
    limited.close()
    assert "budget: $0.50 of $5.00, 1 of 1 calls so far" in do("show", "limited").stdout
    assert document(do("show", "limited", "--json"))["budget"].startswith("budget: ")
    assert "budget" not in do("show", "refund-17").stdout
    assert "budget" not in document(do("show", "refund-17", "--json"))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["", "--reason", "x"],
        ["--usd", "0", "--reason", "x"],
        ["--usd", "nan", "--reason", "x"],
        ["--calls", "1.5", "--reason", "x"],
        ["--reason", "x"],
        ["b"],
        ["b", "--reason", "…"],
    ],
)
def test_a_wrong_call_grants_nothing(store: Path, arguments: list[str]) -> None:
    """It exits 2, and no record is written."""
    before = records(store, "refund-17")
    assert do("grant", "refund-17", *arguments).exit_code == 2
    assert records(store, "refund-17") == before


def test_a_budget_is_only_raised(limited: dnb.Run, store: Path) -> None:
    """Less than is recorded, or a limit that was never set, is refused in one paragraph."""
    limited.close()
    for flag, amount in (("--usd", 5), ("--tokens", 10)):
        refused = do("grant", "limited", flag, amount, "--reason", "x")
        assert refused.exit_code == 1
        assert "cannot grant a budget to run 'limited'" in refused.stderr


@pytest.mark.slow
def test_a_live_run_is_granted_to(store: Path) -> None:
    """Its owner applies it within two seconds, while its cell goes on."""
    program = store.parent / "hold.py"
    program.write_text(LIVE)
    with Child(program, store) as child:
        child.first_line()
        told = document(do("grant", "refund-17", "payments:write", "--reason", "so", "--json"))
        assert told["scopes"] == ["payments:write"]
        assert child.first_line() == "granted\n"
