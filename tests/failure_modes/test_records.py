"""Failure modes of checkpoints: what is on record, and what it is taken for."""

from __future__ import annotations

import pytest
from support.child import Bench
from support.ledger import Ledger

import durable_nb as dnb

pytestmark = pytest.mark.slow  # each starts several processes

ARTIFACT = """
def big(*, idempotency_key):
    ledger.add("big", idempotency_key)
    return "x" * 300_000

if more[0] == "die":
    die_at("big#1", "completed", more[1])
with dnb.run("r", store=store) as run:
    tell(before=outcomes(run))
    if more[0] == "settle":
        run.confirm("big#1", "x" * 300_000, evidence="the ledger")
    tell(size=len(run.call(big)))
"""


@pytest.mark.parametrize(("when", "outcome"), [("before", "unknown"), ("after", "completed")])
def test_pointer_written_before_its_artifact(
    bench: Bench, ledger: Ledger, when: str, outcome: str
) -> None:
    """An artifact is on disk before the record that names it: no record points to nothing.

    Killed just before the record, the value is there and nothing names it; just after, it loads.
    """
    assert bench.run(ARTIFACT, "die", when).killed
    (value,) = (bench.store / "r" / "artifacts").glob("??/??/*.val")
    assert value.stat().st_size >= 300_000
    with dnb.watch("r", store=bench.store).held("reader") as run:
        (op,) = run.states()
        assert str(op.outcome(run.clock.now())) == outcome
    seen = bench.run(ARTIFACT, "settle" if outcome == "unknown" else "go").ok().facts
    assert seen["size"] == 300_000
    assert ledger.count("big") == 1
    assert dnb.verify("r", store=bench.store).ok


KINDS = """
def act(n, *, idempotency_key):
    ledger.add(f"act {n}", idempotency_key)
    if mode == "die" and n == 2:
        die()
    if n == 1 and mode == "die":
        raise TimeoutError("sent, and no answer")
    return n

mode = more[0]
with dnb.run("r", store=store) as run:
    if mode == "die":
        try:
            run.step("act", key=1).call(act, 1)
        except dnb.UnknownOutcome:
            run.confirm("act[1]#1", 1, evidence="the ledger")
        run.step("refused", not_applied=ValueError)(lambda: None)
        try:
            with run.step("pure", effect="none", inputs={}) as op:
                if op.needed:
                    raise ValueError("no")
        except ValueError:
            pass
        run.step("act", key=2).call(act, 2)
    else:
        tell(kinds={s.id: kinds(run, s.id) for s in run.states()}, outcomes=outcomes(run))
"""


def test_only_started_and_completed_recorded(bench: Bench) -> None:
    """Intent, doubt, verdict, observed failure and kill are each on record, and tell apart.

    With "started" and "completed" alone, a time-out, a refusal and a kill would look the same.
    """
    assert bench.run(KINDS, "die").killed
    seen = bench.run(KINDS, "look").ok().facts
    assert seen["kinds"]["act[1]#1"] == ["intended", "raised", "confirmed"]
    assert seen["kinds"]["pure#1"] == ["intended", "raised", "observed"]
    assert seen["kinds"]["act[2]#1"] == ["intended"]
    assert seen["outcomes"] == {
        "act[1]#1": "completed",
        "pure#1": "completed",
        "act[2]#1": "unknown",
    }


NARRATED = """
def send(*, idempotency_key):
    print("mail sent, all done, the run is completed")  # as a model would say
    if more[0] == "die":
        die()
    ledger.add("mail", idempotency_key)
    return "sent"

with dnb.run("r", store=store) as run:
    if more[0] == "look":
        tell(outcomes=outcomes(run))
    else:
        run.call(send)
"""


def test_logs_or_narration_taken_as_state(bench: Bench, ledger: Ledger) -> None:
    """What a program printed, or a model said, is never evidence: the journal alone is.

    The body says that the mail is out and is killed before it is; the outcome is unknown.
    """
    assert "all done" in bench.run(NARRATED, "die").out
    assert bench.run(NARRATED, "look").ok().facts["outcomes"] == {"send#1": "unknown"}
    assert ledger.lines() == []


EARLY = """
mode = more[0]

def charge(*, idempotency_key):
    ledger.add("charge", idempotency_key)
    if mode == "die":
        die()
    return "paid"

with dnb.run("r", store=store) as run:
    if mode == "look":
        tell(outcomes=outcomes(run), kinds=kinds(run, "charge#1"), key=run.get("charge").idempotency_key)
    else:
        run.call(charge)
"""


def test_effect_recorded_after_the_fact(bench: Bench, ledger: Ledger) -> None:
    """The intent, with its key, is on disk before an effect begins: a kill leaves its trace."""
    assert bench.run(EARLY, "die").killed
    seen = bench.run(EARLY, "look").ok().facts
    assert seen["kinds"] == ["intended"]
    assert seen["outcomes"] == {"charge#1": "unknown"}
    assert ledger.keys("charge") == [seen["key"]]
    again = bench.run(EARLY, "again")
    assert "UnknownOutcome" in again.err
    assert ledger.count("charge") == 1


MEMORY = """
mode = more[0]
class Agent:
    def __init__(self):
        self.history = []
    def turn(self, n):
        ledger.add(f"turn {n}")
        return {"n": n, "said": f"answer {n}"}

agent = Agent()
with dnb.run("r", store=store) as run:
    for n in range(6):
        agent.history.append(run.step("turn", key=n).call(agent.turn, n))
        if mode == "die" and n == 3:
            die()
    tell(history=agent.history)
"""


def test_state_only_in_worker_memory(bench: Bench, ledger: Ledger) -> None:
    """What a dead kernel had in memory is rebuilt from records alone, in a process that has none."""
    assert bench.run(MEMORY, "die").killed
    seen = bench.run(MEMORY, "go").ok().facts
    assert [turn["n"] for turn in seen["history"]] == list(range(6))
    assert [what for what, _ in ledger.lines()] == [f"turn {n}" for n in range(6)]


POSITION = """
mode, at = more[0], int(more[1])
done = []

def act(name, n, *, idempotency_key):
    ledger.add(f"{name} {n}", idempotency_key)
    return n

def work(run):
    for n in range(3):
        with run.step("round", key=n, effect="none", inputs={"n": n}) as outer:
            if outer.needed:
                for name in ("look", "act"):
                    done.append(run.step(name, key=n).call(act, name, n))
                    if mode == "die" and len(done) == at:
                        die()
                outer.result = n

with dnb.run("r", store=store) as run:
    work(run)
    tell(ran=[op for op, source in run.sources.items() if source == "ran"])
"""


@pytest.mark.parametrize("at", [1, 2, 4, 5])
def test_state_saved_but_position_not_rebuilt(bench: Bench, ledger: Ledger, at: int) -> None:
    """A resume goes on at the exact operation, also inside of one that has others below it."""
    assert bench.run(POSITION, "die", at).killed
    before = [what for what, _ in ledger.lines()]
    assert len(before) == at
    bench.run(POSITION, "go", 0).ok()
    wanted = [f"{name} {n}" for n in range(3) for name in ("look", "act")]
    assert [what for what, _ in ledger.lines()] == wanted


HANDLE = """
mode = more[0]
import uuid

class Client:  # of this process alone: a socket, a thread, a name that a worker gave itself
    def __init__(self):
        self.lock, self.name = threading.Lock(), uuid.uuid4().hex
    def send(self, to, idempotency_key):
        ledger.add(f"to {to}", idempotency_key)
        if mode == "die" and to == "b":
            die()
        return {"to": to}

client = Client()

def send(to, *, idempotency_key):
    return client.send(to, idempotency_key)

def look_up(op):
    return dnb.Happened({"to": op.key}, "the ledger") if ledger.count(f"to {op.key}") else None

with dnb.run("r", store=store) as run:
    sent = [run.step("send", key=to, reconcile=look_up).call(send, to) for to in "abc"]
    tell(sent=sent, pid=os.getpid())
"""


def test_next_step_tied_to_one_workers_handle(bench: Bench, ledger: Ledger) -> None:
    """No handle of a process is on record: another process goes on with handles of its own.

    The client, its lock and its name differ in each kernel; key and record do not know them.
    """
    assert bench.run(HANDLE, "die").killed
    seen = bench.run(HANDLE, "go").ok().facts
    assert [one["to"] for one in seen["sent"]] == ["a", "b", "c"]
    assert [what for what, _ in ledger.lines()] == ["to a", "to b", "to c"]
