"""A live step writes and counts no more than somebody asks for, and no less."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import durable_nb as dnb
from durable_nb.engine.options import SETTLE_AFTER_S, Options
from durable_nb.engine.trajectory import Clock
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import Kind
from durable_nb.model.spending import total_of

DEFAULTS = {"generation": 0, "settle_after": SETTLE_AFTER_S, "key_ttl": None}


def intents(run, op):
    """Give the bodies of an operation's intents, oldest first."""
    return [dict(r.body) for r in run._journal.load() if r.op == op and r.kind is Kind.INTENDED]


def test_an_intent_leaves_out_what_is_as_by_default(open_run):
    """What every intent would say the same is no part of any; what differs is said."""
    with open_run() as run:
        run.step("plain").call(int, "1")
        run.step("said", settle_after=5, key_ttl=60, effect="idempotent").call(int, "1")
        run.invalidate("plain#1", reason="wrong", effect="compensated")
    with open_run() as run:
        run.step("plain").call(int, "1")
        first, again = intents(run, "plain#1")
        [said] = intents(run, "said#1")
    assert not DEFAULTS.keys() & first.keys()
    assert again["generation"] == 1
    assert (said["settle_after"], said["key_ttl"]) == (5, 60)


def test_an_intent_that_spells_its_defaults_out_proves_the_same(open_run):
    """Journals of before say them: the same state, and the same idempotency key."""
    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    with open_run() as run:
        records = run._journal.load()
        spelled = [
            r._replace(body={**DEFAULTS, **r.body}) if r.kind is Kind.INTENDED else r
            for r in records
        ]
        lean, full = (Fold.of(told).operations["send#1"] for told in (records, spelled))
        assert lean._replace(intent={}) == full._replace(intent={})
        key = lean.intent["idempotency_key"]
        # in a fork, whose id is another one, what was sent keeps its key
        assert lean.idempotency_key("fork") == full.idempotency_key("fork") == key


def test_a_not_found_counts_after_the_time_of_the_intent_not_of_todays_step(open_run):
    """An intent that does not say how long means 30 s, whatever the step says by now."""
    asked = []

    def look_up(op):
        asked.append(op.id)
        return dnb.DidNotHappen("no") if len(asked) == 1 else dnb.Undecided("who knows")

    with open_run() as run, pytest.raises(dnb.UnknownOutcome):
        run.step("send").call(int, "no number")
    with open_run() as run:
        later = timedelta(seconds=SETTLE_AFTER_S - 0.2)
        now = run.fold.operations["send#1"].ended + later
        run.clock = Clock(now=lambda: now)
        run.reconcilers["send"] = Options().with_({"reconcile": look_up, "settle_after": 0})
        assert [o.id for o in run.reconcile(send=look_up)] == ["send#1"]
    assert len(asked) == 2


def test_the_running_total_of_what_is_spent_is_the_sum_of_all_bills(open_run):
    """However a record moves it: calls, seconds, money, reservations, containers, failures."""
    with open_run() as run:

        def check():
            fold = run.fold
            bills = ((s.bill, op in fold.containers) for op, s in fold.operations.items())
            assert fold.spending == total_of(bills)

        with run.step("outer", effect="none") as outer:
            check()
            if outer.needed:
                for n in range(3):
                    with run.step("paid", effect="none") as op:
                        if op.needed:
                            op.reserve(usd=1)
                            check()
                            if n:
                                op.spend(usd=0.1 * n, tokens=n)
                            op.result = time.sleep(0.002)
                    check()
            outer.result = None
        check()
        with pytest.raises(ValueError, match="invalid literal"):
            run.step("fails", effect="none").call(int, "x")
        check()
        assert run.fold.spending.busy > 6000
    with open_run() as run:
        check_now = run.fold.spending
        bills = [(s.bill, op in run.fold.containers) for op, s in run.fold.operations.items()]
        assert check_now == total_of(bills)


def test_time_outside_of_steps_is_told_where_it_is_asked_for_and_nowhere_else(open_run, tmp_path):
    """A `with` block of a script asks; a notebook's open run has no body, and tells none."""
    with open_run("script") as run:
        run.step("s", effect="none").call(int, "1")
    kept = dnb.open_run("kept", store=tmp_path / "store")
    kept.step("s", effect="none").call(int, "1")
    kept.close()
    told = {}
    for name in ("script", "kept"):
        with open_run(name) as run:
            ends = [r.body for r in run._journal.load() if r.kind is Kind.CLOSED]
        told[name] = ends[-1]
    assert "outside_s" in told["script"]
    assert "outside_s" not in told["kept"]
