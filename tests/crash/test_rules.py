"""Rules of a kill and a resume, each with a test that is named after it."""

from __future__ import annotations

import random
import time

import pytest
from support.child import Bench
from support.ledger import Ledger

FIVE = """
mode, effect, *expect = more

def work(n):
    ledger.add(f"step{n}")
    if n == 3 and mode == "die":
        time.sleep(1.5)  # by then an intent that rides with the next commit is on disk
        die()
    return n

with dnb.run("five", store=store, expect=expect) as run:
    if mode == "look":
        view = run.status_view()
        tell(counts=dict(view.counts), text=str(view), outcomes=outcomes(run), headline=run.headline)
    else:
        for n in range(1, 6):
            run.step(f"step{n}", effect=effect).call(work, n)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "third"),
    [
        ("external", "unknown"),
        pytest.param("idempotent", "incomplete", marks=pytest.mark.slow),
        pytest.param("none", "incomplete", marks=pytest.mark.slow),
    ],
)
def test_case_17_kill_in_step_3_of_5_says_what_is_known(
    bench: Bench, effect: str, third: str
) -> None:
    """Two steps are completed, the third is what its effect says, and nothing more is known."""
    assert bench.run(FIVE, "die", effect).killed

    seen = bench.run(FIVE, "look", effect).ok().facts

    assert seen["outcomes"] == {"step1#1": "completed", "step2#1": "completed", "step3#1": third}
    assert seen["counts"] == {"incomplete": 0, "unknown": 0, "completed": 2} | {third: 1}
    assert seen["headline"] == "resumed; the previous kernel ended without closing the run"
    assert "ended without closing the run" in seen["text"]
    assert "step4" not in seen["text"]


@pytest.mark.slow
def test_case_17_announced_steps_are_shown_as_not_begun(bench: Bench) -> None:
    """Names announced by `expect` count as incomplete until they are reached, in any kernel."""
    names = [f"step{n}" for n in range(1, 6)]
    assert bench.run(FIVE, "die", "external", *names).killed

    seen = bench.run(FIVE, "look", "external").ok().facts

    assert seen["counts"] == {"completed": 2, "unknown": 1, "incomplete": 2}
    assert seen["text"].count("expected, not begun") == 2
    assert seen["outcomes"].keys() == {"step1#1", "step2#1", "step3#1"}


REFUND = """
provider_id, deed = more[0], more[1]

def refund(order, amount, *, idempotency_key):
    ledger.add(f"refund {order}", idempotency_key)
    return {"order": order, "amount": amount, "by": os.getpid()}

def ask_model():  # each attempt of the model call names its tool calls afresh
    return {"id": provider_id, "name": "refund", "arguments": {"order": 7, "amount": 5}}

with dnb.run("agent", store=store) as run:
    first = run.call(refund, **ask_model()["arguments"])
    if deed == "die":
        die()
    if deed == "twice":
        second = run.call(refund, **ask_model()["arguments"])
        third = run.step(key="goodwill").call(refund, **ask_model()["arguments"])
        tell(second=second, third=third)
    tell(first=first)
"""


@pytest.mark.slow
def test_case_01_a_fresh_provider_id_does_not_repeat_a_refund(bench: Bench, ledger: Ledger) -> None:
    """Identity is where a call stands in the run, never the id that a provider gave an attempt."""
    assert bench.run(REFUND, "c1", "die").killed
    key = ledger.keys("refund 7")

    first = bench.run(REFUND, "c2", "go on").ok().facts["first"]

    assert ledger.keys("refund 7") == key
    assert first["order"] == 7


@pytest.mark.slow
def test_case_01_the_same_refund_at_another_place_is_another_refund(
    bench: Bench, ledger: Ledger
) -> None:
    """Two calls with equal arguments are two operations, by place or by key, and stay two."""
    live = bench.run(REFUND, "c1", "twice").ok().facts
    replayed = bench.run(REFUND, "c2", "twice").ok().facts

    assert ledger.count("refund 7") == 3
    assert len(set(ledger.keys("refund 7"))) == 3
    assert replayed == live


SEND = """
deed = Given(more[0] if more else "")

def send(*, idempotency_key):
    ledger.add("send", idempotency_key)
    if deed == "die":
        die()
    return "sent"

with dnb.run("mail", store=store) as run:
    if deed == "deny":
        run.deny("send#1", evidence="looked")
    if deed == "invalidate":
        run.invalidate("send#1", "another text", effect="stands")
    try:
        tell(sent=run.call(send))
    except dnb.UnknownOutcome as doubt:
        tell(doubt=[op.id for op in doubt.operations], text=str(doubt))
    tell(outcome=outcomes(run)["send#1"], status=str(run.status_view()), kinds=kinds(run, "send#1"))
"""


def test_case_02_a_killed_tool_call_is_not_silently_started_again(
    bench: Bench, ledger: Ledger
) -> None:
    """A kernel killed after the effect leaves a doubt, never a second effect."""
    assert bench.run(SEND, "die").killed

    for _ in range(2):
        seen = bench.run(SEND).ok().facts
        assert seen["doubt"] == ["send#1"]
        assert seen["outcome"] == "unknown"
        assert 'run.confirm("send#1", result' in seen["text"]
        assert 'run.deny("send#1"' in seen["text"]
        assert "?" in seen["status"]
        assert ledger.count("send") == 1


@pytest.mark.slow
def test_an_idempotency_key_survives_a_denial_and_changes_after_an_invalidation(
    bench: Bench, ledger: Ledger
) -> None:
    """A denied effect is done again under its key; an invalidated one is another effect."""
    assert bench.run(SEND, "die").killed
    assert bench.run(SEND, "deny").ok().facts["outcome"] == "completed"
    assert bench.run(SEND, "invalidate").ok().facts["outcome"] == "completed"

    first, denied, invalidated = ledger.keys("send")
    assert first == denied
    assert invalidated != first
    assert bench.run(SEND).ok().facts["sent"] == "sent"
    assert ledger.count("send") == 3


TIMEOUT = """
effect, reconciled = more[0], more[1:] == ["reconcile"]

def look_up(op):
    return dnb.Happened("seen", evidence=str(ledger.count("send")))

def send(*, idempotency_key):
    ledger.add("send", idempotency_key)
    if ledger.count("send") < 3:
        raise TimeoutError("no answer")
    return "sent"

with dnb.run("mail", store=store) as run:
    options = {"reconcile": look_up} if reconciled else {}
    try:
        tell(sent=run.step("send", effect=effect, retries=4, **options).call(send))
    except dnb.UnknownOutcome as doubt:
        tell(cause=type(doubt.__cause__).__name__)
    tell(outcome=outcomes(run)["send#1"], kinds=kinds(run, "send#1"))
"""


@pytest.mark.slow
def test_case_13_a_timeout_after_sending_is_unknown_and_not_retried(
    bench: Bench, ledger: Ledger
) -> None:
    """An exception proves nothing about an external effect, so no retry is made of it."""
    seen = bench.run(TIMEOUT, "external").ok().facts

    assert seen == {
        "cause": "TimeoutError",
        "outcome": "unknown",
        "kinds": ["intended", "raised"],
    }
    assert bench.run(TIMEOUT, "external").ok().facts["outcome"] == "unknown"
    assert ledger.count("send") == 1


@pytest.mark.slow
def test_case_13_a_timeout_is_retried_where_repeating_is_harmless(
    bench: Bench, ledger: Ledger
) -> None:
    """An idempotent step is tried again by itself, under one key."""
    seen = bench.run(TIMEOUT, "idempotent").ok().facts

    assert seen["sent"] == "sent"
    assert seen["outcome"] == "completed"
    assert ledger.count("send") == 3
    assert len(set(ledger.keys("send"))) == 1


@pytest.mark.slow
def test_case_13_a_timeout_is_settled_by_a_reconciler(bench: Bench, ledger: Ledger) -> None:
    """A look-up that finds the effect settles it at once, with its evidence and no repetition."""
    seen = bench.run(TIMEOUT, "external", "reconcile").ok().facts

    assert seen["sent"] == "seen"
    assert seen["kinds"] == ["intended", "raised", "confirmed"]
    assert ledger.count("send") == 1


FANOUT = """
def fetch(item, *, idempotency_key):
    ledger.add(f"fetch {item}", idempotency_key)
    if item != "a" and more[0] == "die":
        time.sleep(600)
    return item.upper()

def settle(run):
    for op in run.unknown():
        if ledger.count(f"fetch {op.key}"):
            run.confirm(op, op.key.upper(), evidence="the ledger")
        else:
            run.deny(op, evidence="the ledger")

with dnb.run("fan", store=store) as run:
    tell(unknown=[op.id for op in run.unknown()])
    if more[0] == "settle":
        settle(run)
    try:
        tell(results=run.map(fetch, list("abcd"), key=str, limit=3))
    except dnb.UnknownOutcome as doubt:
        tell(blocked=doubt.blocked)
"""


@pytest.mark.slow
def test_a_kill_in_a_fan_out_leaves_every_call_in_flight_in_doubt(
    bench: Bench, ledger: Ledger
) -> None:
    """Each call in flight is unknown for itself, and each is settled by its own evidence."""
    with bench.start(FANOUT, "die") as child:
        child.until(lambda: len(ledger.lines()) == 4).kill()

    seen = bench.run(FANOUT, "look").ok().facts
    assert sorted(seen["unknown"]) == ["fetch[b]#1", "fetch[c]#1", "fetch[d]#1"]
    assert "results" not in seen

    assert bench.run(FANOUT, "settle").ok().facts["results"] == ["A", "B", "C", "D"]
    assert bench.run(FANOUT, "look").ok().facts["results"] == ["A", "B", "C", "D"]
    assert sorted(what for what, _ in ledger.lines()) == [f"fetch {i}" for i in "abcd"]


CHAOS = """
def work(n, *, idempotency_key):
    ledger.add(f"e{n}", idempotency_key)
    time.sleep(0.003)
    return n * n

tell(ready=True)
with dnb.run("chaos", store=store) as run:
    for op in run.unknown():  # a person looks at the ledger
        if ledger.count(f"e{op.key}"):
            run.confirm(op, int(op.key) ** 2, evidence="the ledger")
        else:
            run.deny(op, evidence="the ledger")
    steps = int(more[0])
    values = [run.step(key=n).call(work, n) for n in range(steps)]
    history = run.history()
    tell(values=values, outcomes=outcomes(run), seqs=list(map(int, history["seq"])))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "kills", "within_s"),
    [
        pytest.param(300, 25, 0.25, id="at work"),
        pytest.param(3, 25, 0.35, id="opening and closing"),
    ],
)
def test_kills_at_random_moments_never_double_an_effect_and_never_lose_one(
    bench: Bench, ledger: Ledger, steps: int, kills: int, within_s: float
) -> None:
    """Whenever the kernel dies, each effect is there once, and every record is in its place."""
    chance = random.Random(11)
    for _ in range(kills):
        with bench.start(CHAOS, steps) as child:
            child.first_line()
            time.sleep(chance.uniform(0.0, within_s))  # then it is killed, if it still runs

    seen = bench.run(CHAOS, steps).ok().facts

    assert seen["values"] == [n * n for n in range(steps)]
    assert set(seen["outcomes"].values()) == {"completed"}
    assert seen["seqs"] == list(range(1, len(seen["seqs"]) + 1))
    assert sorted(what for what, _ in ledger.lines()) == sorted(f"e{n}" for n in range(steps))
