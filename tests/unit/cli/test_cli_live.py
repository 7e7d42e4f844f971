"""Verdicts on a run that a live process holds: its owner applies them, and answers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.child import Child
from support.terminal import do, document, run_it
from support.waiting import eventually

from durable_nb.engine.store import open_run
from durable_nb.journal import Inbox

pytestmark = pytest.mark.slow  # each test starts processes of its own

#: A kernel that has opened a run with something unknown in it, and whose cell blocks.
BLOCKED = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("refund-17", store=sys.argv[1])
print("open", flush=True)
time.sleep(120)
"""

#: The same, with a step that was reached and brought its reconciler.
RECONCILING = """\
import sys, time
import durable_nb as dnb

def find(op):
    return dnb.Undecided("the shop does not answer") if len(asked) < 2 else dnb.Happened(9, evidence="x")

asked = []
def look_up(op):
    asked.append(op)
    return find(op)

run = dnb.open_run("refund-17", store=sys.argv[1])
try:
    with run.step("mail", inputs={"to": "ada@example.org"}, reconcile=look_up) as op:
        op.needed
except dnb.UnknownOutcome:
    pass
print("open", flush=True)
time.sleep(120)
"""


def hold(store: Path, source: str) -> Child:
    program = store.parent / "hold.py"
    program.write_text(source)
    child = Child(program, store)
    child.first_line()
    return child


@pytest.fixture
def live(store: Path) -> Iterator[Child]:
    with hold(store, BLOCKED) as child:
        yield child


def kinds(store: Path, op: str) -> list[str]:
    run = open_run("refund-17", store=store, role="reader")
    try:
        return list(run.history(op)["kind"])
    finally:
        run.close()


def test_a_live_run_is_paused_by_its_owner(store: Path, live: Child) -> None:
    """Its mirror shows it, and so does the list of runs once the kernel is gone."""
    told = document(do("pause", "refund-17", "--reason", "the shop moves", "--json"))
    assert (told["verdict"], told["operation"]) == ("paused", None)
    refused = do("pause", "refund-17")
    assert refused.exit_code == 1
    assert "it is paused (the shop moves) already" in refused.stderr
    eventually(lambda: "paused (the shop moves): go on?" in do("show", "refund-17").stdout)
    live.kill()
    assert "refund-17 waiting" in " ".join(do("runs").stdout.split())
    assert do("unpause", "refund-17").exit_code == 0
    assert "go on?" not in do("show", "refund-17").stdout
    assert "it is not paused" in do("unpause", "refund-17").stderr


def test_a_live_run_is_settled_by_its_owner(store: Path, live: Child) -> None:
    """The owner blocks in a cell, and a command in another process is answered within 2 s."""
    begun = time.monotonic()
    told = document(do("confirm", "refund-17", "mail#1", "1", "--evidence", "seen", "--json"))
    assert time.monotonic() - begun < 2
    assert (told["verdict"], told["unknown"]) == ("confirmed", 0)
    assert (told["operation"]["outcome"], told["operation"]["result"]) == ("completed", "1")

    again = run_it("confirm", "refund-17", "mail#1", "2", "--evidence", "x", "--json")
    assert again.returncode == 1
    assert "already settled: confirmed by" in again.stderr
    assert '"type": "AlreadySettled"' in again.stdout
    live.until(lambda: do("show", "refund-17").exit_code == 0)  # the mirror follows
    live.kill()
    assert kinds(store, "mail#1") == ["intended", "confirmed", "contested"]


def test_the_lines_that_show_prints_settle_a_live_run(live: Child) -> None:
    """What is suggested for a held run is a command, and works."""
    live.until(lambda: do("show", "refund-17").exit_code == 3)  # once it has published its mirror
    shown = do("show", "refund-17")
    assert f"process {live.pid}" in shown.stderr
    assert "durable-nb deny refund-17 'mail#1'" in shown.stdout
    denied = do("deny", "refund-17", "mail#1", "--evidence", "not in the log")
    assert denied.exit_code == 0, denied.stderr
    assert "done when its step is called again, under the same idempotency key" in denied.stdout


def test_invalidate_shows_the_cascade_of_a_live_run(store: Path, live: Child) -> None:
    """The owner tells what depends on it; nothing changes without `--yes`."""
    do("deny", "refund-17", "mail#1")
    call = ("invalidate", "refund-17", "plan#1", "--reason", "wrong customer")
    asked = do(*call)
    assert asked.exit_code == 2
    assert "charge[o-1]#1, mail#1" in asked.stderr
    unsaid = do("invalidate", "refund-17", "charge", "--reason", "x", "--yes")
    assert unsaid.exit_code == 2
    assert "--effect stands" in unsaid.stderr
    told = document(do(*call, "--yes", "--json"))
    assert (told["verdict"], told["suspect"]) == ("invalidated", ["charge[o-1]#1", "mail#1"])
    live.kill()
    assert kinds(store, "plan#1")[-1] == "invalidated"


def test_what_does_not_fit_is_refused_with_the_owners_words(live: Child) -> None:
    """A refusal has the exit code and the words that it has without a live owner."""
    keep = do("keep", "refund-17", "plan#1")
    assert (keep.exit_code, "nothing to keep" in keep.stderr) == (1, True)
    assert do("deny", "refund-17", "nothing").exit_code == 1
    assert do("rerun", "refund-17", "mail#1").exit_code == 1
    accept = do("accept", "refund-17", "--reason", "x1")
    assert (accept.exit_code, "none of its records is lost" in accept.stderr) == (1, True)
    reconcile = do("reconcile", "refund-17")
    assert reconcile.exit_code == 3
    assert "no reconciler of 'mail' is known" in reconcile.stderr
    imported = do("reconcile", "refund-17", "--reconciler", "mail=lookups:find")
    assert imported.exit_code == 1
    assert "is held by" in imported.stderr


def test_reconcile_asks_the_live_kernels_own_reconciler(store: Path) -> None:
    """A function that lives in a notebook is asked there."""
    with hold(store, RECONCILING) as child:
        told = document(do("reconcile", "refund-17", "--json"))
        assert [op["id"] for op in told["settled"]] == ["mail#1"]
        assert told["settled"][0]["result"] == "9"
        child.kill()
    assert kinds(store, "mail#1")[-1] == "confirmed"


def test_an_owner_that_does_not_answer_keeps_its_run(store: Path, live: Child) -> None:
    """The message is withdrawn, and who holds the run is said: nothing can come of it later."""
    os.kill(live.pid, signal.SIGSTOP)
    refused = do("deny", "refund-17", "mail#1", "--json")
    assert refused.exit_code == 1
    assert document(refused)["error"]["type"] == "RunHeld"
    assert "withdrawn" in refused.stderr
    assert str(live.pid) in refused.stderr
    assert "%durable confirm" in refused.stderr
    assert os.listdir(store / "refund-17" / "inbox") == []


def test_a_message_to_a_dead_owner_is_applied_by_the_next(store: Path) -> None:
    """Whoever takes the lease drains the inbox first, the command line included."""
    box = Inbox(store / "refund-17")
    sent = box.send("deny", {"op": "mail#1", "actor": "bob"})
    late = do("confirm", "refund-17", "mail#1", "1", "--evidence", "x")
    assert late.exit_code == 1
    assert "already settled: denied by bob" in late.stderr
    assert box.answer_to(sent, 0) is not None
