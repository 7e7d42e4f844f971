"""A kernel that is killed in the middle of five of 200 mails, none of which holds up the others."""

from __future__ import annotations

import json

import pytest
from support.child import Bench
from support.ledger import Ledger
from support.terminal import run_it

#: Whose mail is in the middle when the kernel dies: the first three have been sent by then.
SENT, NOT_SENT = [31, 67, 68], [90, 144]

MAILS = """
import contextlib

STUCK = Given(more[0] if more else "")

def before(n):
    if f" {n} " in STUCK.partition("|")[2]:
        Path(f"in {n}").touch()
        return True

def after(n):
    if f" {n} " in STUCK.partition("|")[0]:
        Path(f"in {n}").touch()
        return True

def mail(n, *, idempotency_key):
    while before(n):
        time.sleep(60)
    ledger.add(f"mail {n}", idempotency_key)
    while after(n):
        time.sleep(60)
    return f"sent {n}"

async def amail(n, *, idempotency_key):
    while before(n):
        await asyncio.sleep(60)
    ledger.add(f"mail {n}", idempotency_key)
    while after(n):
        await asyncio.sleep(60)
    return f"sent {n}"

options = {"key": int, "limit": 5, "independent": True}

def blocking():
    with dnb.run("r", store=store) as run, looked_at(run):
        tell(results=run.map(mail, range(200), **options))

async def awaiting():
    async with dnb.run("r", store=store) as run:
        with looked_at(run):
            tell(results=await run.map(dnb.step(amail, name="mail"), range(200), **options))

@contextlib.contextmanager
def looked_at(run):
    try:
        yield
    except dnb.UnknownOutcome as doubt:
        tell(unknown=[op.id for op in doubt.operations], text=str(doubt))
    tell(outcomes=outcomes(run), sources=run.sources)

asyncio.run(awaiting()) if SPELLING == "awaiting" else blocking()
"""


def ids(numbers: list[int]) -> list[str]:
    return [f"mail[{n}]#1" for n in numbers]


def words(numbers: list[int]) -> str:
    return " ".join(["", *map(str, numbers), ""])


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_five_unknown_mails_do_not_stop_195_and_are_settled_one_by_one(
    bench: Bench, ledger: Ledger, spelling: str
) -> None:
    """In the end there are 200 mails, and none of them twice."""
    program = f"SPELLING = Given({spelling!r})\n{MAILS}"
    stuck = SENT + NOT_SENT
    with bench.start(program, f"{words(SENT)}|{words(NOT_SENT)}") as child:
        child.until(lambda: all((bench.folder / f"in {n}").exists() for n in stuck))
        assert child.kill().killed
    begun = len(ledger.lines())
    assert begun < 200

    seen = bench.run(program).ok().facts
    assert sorted(seen["unknown"]) == sorted(ids(stuck))
    assert "5 operations may or may not have happened" in seen["text"]
    assert "mail[31]#1, mail[67]#1, mail[68]#1 and 2 more" in seen["text"]
    counted = list(seen["outcomes"].values())
    assert (counted.count("completed"), counted.count("unknown")) == (195, 5)
    assert len(ledger.lines()) == 198  # three of the five have been sent

    left = ids(stuck)
    for n in stuck:
        op = f"mail[{n}]#1"
        verdict = ["confirm", "r", op, f'"sent {n}"'] if n in SENT else ["deny", "r", op]
        told = run_it(
            *verdict, "--evidence", "the provider's log", "--store", bench.store, "--json"
        )
        assert told.returncode == 0, told.stderr
        left.remove(op)
        assert json.loads(told.stdout)["unknown"] == len(left)

    seen = bench.run(program).ok().facts
    assert seen["results"] == [f"sent {n}" for n in range(200)]
    assert sorted(op for op, how in seen["sources"].items() if how == "ran") == sorted(
        ids(NOT_SENT)
    )
    assert sorted(what for what, _ in ledger.lines()) == sorted(f"mail {n}" for n in range(200))
    keys = [key for _, key in ledger.lines()]
    assert len(set(keys)) == 200
