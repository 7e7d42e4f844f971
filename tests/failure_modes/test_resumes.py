"""Failure modes of a resume: what it takes for granted, and what it is allowed."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.folders import artifact, tree
from support.ledger import Ledger

import durable_nb as dnb
from durable_nb.journal.database import connect

pytestmark = pytest.mark.slow  # each starts several processes

CHECKED = """
mode, version = more[0], str(more[1])

def look():
    ledger.add("look")
    return "x" * 100_000

def send(text, *, idempotency_key):
    ledger.add("send", idempotency_key)
    return len(text)

with dnb.run("r", store=store, version=version) as run:
    text = run.call(look)
    if mode == "die":
        die()
    tell(sent=run.call(send, text))
"""


def newer_schema(bench: Bench) -> None:
    """Let a program of a newer version have written to the journal."""
    con = connect(bench.store / "r" / "journal.duckdb")
    con.execute("INSERT INTO j.main.meta VALUES (99)")
    con.close()


def no_artifact(bench: Bench) -> None:
    """Lose the value that a record names."""
    artifact(bench.store / "r").unlink()


def other_artifact(bench: Bench) -> None:
    """Put other bytes, of the same number, in its place."""
    file = artifact(bench.store / "r")
    file.write_bytes(file.read_bytes().replace(b"x", b"y"))


@pytest.mark.parametrize(
    ("harm", "version", "signal", "says"),
    [
        (newer_schema, "1", "JournalTooNew", "99"),
        (None, "2", "IncompatibleCheckpoint", "Changed: version: '1' -> '2'"),
        (no_artifact, "1", "ResultNotLoadable", "is missing"),
        (other_artifact, "1", "ResultNotLoadable", "is damaged"),
    ],
    ids=["schema", "version", "artifact missing", "artifact changed"],
)
def test_resume_without_validating_schema_version_or_artifacts(
    bench: Bench, ledger: Ledger, harm: object, version: str, signal: str, says: str
) -> None:
    """A resume validates schema, workflow version and artifacts before anything goes on from them.

    Nothing is begun on a state that does not hold, and nothing that has been done is done again.
    """
    assert bench.run(CHECKED, "die", "1").killed
    if callable(harm):
        harm(bench)
    before = tree(bench.store / "r") if harm is newer_schema else {}

    refused = bench.run(CHECKED, "go", version)

    assert refused.code != 0
    assert signal in refused.err
    assert says in refused.err
    assert [what for what, _ in ledger.lines()] == ["look"]
    if before:  # what this version cannot read, it does not touch
        after = tree(bench.store / "r")
        assert {name: after[name] for name in after if "journal" in name} == {
            name: before[name] for name in before if "journal" in name
        }


FULL = """
mode = more[0]

def search(query: str) -> str:
    "Search the orders."

def act(n, *, idempotency_key):
    op = dnb.current_operation()
    op.reserve(usd=1)
    ledger.add(f"act {n}", idempotency_key)
    if mode == "die" and n == 2:
        die()
    op.spend(usd=2)
    return n

def refused(call, *args):
    try:
        call(*args)
    except dnb.DurableSignal as stop:
        return [type(stop).__name__, *stop.lines()]

if mode == "die":
    said = dict(facets={"tools": [search]}, scopes=["orders:read"], budget={"usd": 3, "calls": 3})
else:
    said = {}
with dnb.run("r", store=store, **said) as run:
    tell(scopes=run.scopes, budget=run.budget, spent=run.spent(), tools=run.facets["tools"])
    step = lambda n: run.step("act", key=n, effect="none", requires=["orders:read"]).call(act, n)
    step(1)
    tell(mail=refused(run.step("mail", requires="mail:send").call, act, 9))
    tell(second=refused(step, 2))
"""


def test_context_saved_but_permissions_tools_and_budgets_omitted(
    bench: Bench, ledger: Ledger
) -> None:
    """Scopes, tools, budget and what was spent of it come back with the run and are enforced.

    The next kernel says nothing of them. (Approvals come with the control issue.)
    """
    assert bench.run(FULL, "die").killed

    seen = bench.run(FULL, "go").ok().facts

    assert seen["scopes"] == ["orders:read"]
    assert seen["budget"] == {"usd": 3, "calls": 3}
    (tool,) = seen["tools"]
    assert (tool["name"], tool["description"]) == ("search", "Search the orders.")
    assert list(tool["parameters"]["properties"]) == ["query"]
    assert (seen["spent"]["usd"], seen["spent"]["calls"]) == (3, 2)  # 2, and the 1 reserved
    assert seen["spent"]["at_least"] is True
    assert seen["mail"][0] == "ScopeDenied"
    assert seen["second"][0] == "BudgetExceeded"
    assert "at least $3.00 of $3.00" in seen["second"][2]
    assert [what for what, _ in ledger.lines()] == ["act 1", "act 2"]


ASSUMED = """
mode, prompt = more[0], str(more[1])

def search(query: str) -> str:
    "Search the orders."

if more[2] == "wider":
    def search(query: str, everything: bool = False) -> str:
        "Search the orders, or everything."

def act(n, *, idempotency_key):
    ledger.add(f"act {n}", idempotency_key)
    return n

with dnb.run("r", store=store, facets={"prompt": prompt, "tools": [search]}) as run:
    if mode == "keep":
        run.keep("act[0]#1", reason="it says the same")
    for n in range(4):
        if mode == "die" and n == 2:
            die()
        try:
            run.step("act", key=n).call(act, n)
        except dnb.IncompatibleCheckpoint as stop:
            tell(facets=stop.facets, changes=stop.changes, operations=[o.id for o in stop.operations])
            break
    tell(outcomes=outcomes(run))
"""


@pytest.mark.parametrize(
    ("prompt", "tools", "facet"), [("long", "as before", "prompt"), ("short", "wider", "tools")]
)
def test_changed_prompt_or_tool_contract_without_policy(
    bench: Bench, ledger: Ledger, prompt: str, tools: str, facet: str
) -> None:
    """Under another prompt or tool contract no record is used and nothing begins, until it is said.

    The answer is on record, holds for the whole tail, and the next kernel does not ask again.
    """
    assert bench.run(ASSUMED, "die", "short", "as before").killed

    asked = bench.run(ASSUMED, "go", prompt, tools).ok().facts
    effects = ledger.lines()
    kept = bench.run(ASSUMED, "keep", prompt, tools).ok().facts
    again = bench.run(ASSUMED, "go", prompt, tools).ok().facts

    assert asked["operations"] == ["act[0]#1"]
    assert asked["facets"] == [facet]
    assert asked["changes"][0].startswith(f"{facet}: ")
    assert [what for what, _ in effects] == ["act 0", "act 1"]
    assert "changes" not in kept
    assert "changes" not in again
    assert again["outcomes"] == {f"act[{n}]#1": "completed" for n in range(4)}
    assert [what for what, _ in ledger.lines()] == [f"act {n}" for n in range(4)]


WIDER = """
mode = more[0]
scopes = ["orders:read"] if mode == "die" else ["orders:read", "orders:write"]

def log_in(scopes):
    ledger.add("log in for " + " ".join(scopes))
    return dnb.Credentials("secret", account=str(more[1]))

def look():
    return run.credentials is not None

def pay(*, idempotency_key):
    ledger.add("pay", idempotency_key)
    return run.credentials is not None

with dnb.run("r", store=store, scopes=scopes, credentials=log_in) as run:
    if mode == "granted":
        run.grant("orders:write", reason="refunds may go out")
    run.step("look", requires="orders:read").call(look)
    if mode == "die":
        die()
    run.step("pay", requires="orders:write").call(pay)
"""


def test_resumed_run_with_broader_credentials(bench: Bench, ledger: Ledger) -> None:
    """A resumed run gets credentials for its recorded scopes, whatever its program asks for.

    More is a recorded grant, and another account is asked about before anything begins.
    """
    assert bench.run(WIDER, "die", "clerk").killed

    wider = bench.run(WIDER, "wider", "clerk")
    admin = bench.run(WIDER, "wider", "admin")
    refused = [what for what, _ in ledger.lines()]
    granted = bench.run(WIDER, "granted", "clerk")

    assert "ScopeDenied: pay#1 in run 'r' needs what the run is not granted" in wider.err
    assert "Not granted: orders:write" in wider.err
    assert "IncompatibleCheckpoint" in admin.err
    assert "account: 'clerk' -> 'admin'" in admin.err
    assert refused == ["log in for orders:read"] * 3
    granted.ok()
    done = [what for what, _ in ledger.lines()][len(refused) :]
    assert done[-1] == "pay"
    assert ledger.count("pay") == 1
    with dnb.watch("r", store=bench.store).held("reader") as run:
        assert "granted" in set(run.history()["kind"])
