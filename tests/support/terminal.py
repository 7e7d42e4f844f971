"""The command line in tests: stores whose kernels were killed, and what is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from durable_nb import cli as commands
from durable_nb.engine.store import open_run

ROOT = Path(__file__).resolve().parents[2]

#: Kernels that die in the middle: `refund-17` in a mail, `refund-18` and `refund-19` in a charge,
#: and `refund-20`, of which the write-ahead file is lost as well.
KILLED = """\
import os, signal, sys
import durable_nb as dnb

store, name, where = sys.argv[1:]
run = dnb.open_run(name, store=store)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def plan(question):
    return {"order": "o-1", "amount": 12.5}


def charge(order, amount):
    die() if where == "charge" else None
    return {"id": "re_1", "order": order}


order = run.step(effect="none").call(plan, "where is my money?")
run.step(key=order["order"]).call(charge, order["order"], order["amount"])
with run.step("mail", inputs={"to": "ada@example.org"}) as op:
    if op.needed:
        die()
"""

HOLD = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
run.step("plan", effect="none").call(str, "done")
with run.step("mail", inputs={"to": "ada@example.org"}) as op:
    if op.needed:
        time.sleep(60)
"""

LOOKUPS = """\
import sys, time
import durable_nb as dnb


def find(op):
    return dnb.Happened({"id": "re_9"}, evidence=f"the shop has {op.name}")


def give_back(op, *, idempotency_key):
    return {"id": "gb_1", "of": op.result["id"]}


async def give_back_later(op):
    return give_back(op, idempotency_key="")


def lose(op):
    raise TimeoutError("no answer")


def shrug(op):
    return dnb.Undecided("the shop does not answer")


def slow(op):
    print("asking", flush=True)
    time.sleep(60)


number = 7
"""


def do(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(
        commands.cli, [str(a) for a in arguments], input=stdin, prog_name="durable-nb"
    )


def run_it(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "durable_nb.cli", *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=60, check=False, **options,
    )  # fmt: skip


def records(store: Path, name: str) -> int:
    run = open_run(name, store=store, must_exist=True, role="reader")
    try:
        return run.fold.last_seq
    finally:
        run.close()


def document(result: Result) -> Any:
    return json.loads(result.stdout)
