"""Verdicts: each fits by one table, and is a compare-and-set."""

import pytest

import durable_nb as dnb


def lose(run, name="send", **options):
    """Leave an external operation in doubt."""

    def body(*, idempotency_key):
        lose.keys.append(idempotency_key)
        raise TimeoutError

    with pytest.raises(dnb.UnknownOutcome):
        run.step(name, **options).call(body)


lose.keys = []


def test_confirm_makes_replay_return_the_given_result(open_run, effects):
    """It happened: its result is what the person says, with the evidence in the history."""
    with open_run() as run:
        lose(run)
        run.confirm("send#1", {"id": 3}, evidence="ledger line 7")
    with open_run() as run:
        assert run.step("send").call(effects) == {"id": 3}
        kinds = list(run.history("send#1")["kind"])
        assert kinds == ["intended", "raised", "confirmed"]
        assert "ledger line 7" in run.history("send#1")["detail"].iloc[-1]
    assert effects.count == 0


def test_deny_runs_it_again_under_the_same_key_and_invalidate_under_another(open_run):
    """Keys survive a denial; they change with the generation."""
    keys = []

    def send(fail, *, idempotency_key):
        keys.append(idempotency_key)
        if fail:
            raise TimeoutError
        return len(keys)

    step = {"inputs": {}}
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step(**step).call(send, True)
        run.deny("send#1", evidence="not in the ledger")
    with open_run() as run:
        assert run.step(**step).call(send, False) == 2
        run.invalidate("send#1", reason="wrong amount", effect="compensated")
    with open_run() as run:
        assert run.step(**step).call(send, False) == 3
    assert keys[0] == keys[1] != keys[2]


def test_the_second_of_two_operators_is_told_and_both_are_in_the_history(open_run):
    """Each verdict is a compare-and-set against the last record that the operator saw."""
    with open_run() as run:
        lose(run)
        seen = run.unknown()[0]
        run.confirm(seen, 1)
        with pytest.raises(dnb.AlreadySettled, match="confirmed by"):
            run.deny(seen)
        with pytest.raises(dnb.AlreadySettled):
            run.confirm("send#1", 2)
        assert run.get("send#1").result == 1
        assert list(run.history("send#1")["kind"])[-2:] == ["contested", "contested"]


@pytest.mark.parametrize(
    ("verdict", "state"),
    [("deny", "completed"), ("confirm", "completed"), ("invalidate", "incomplete"),
     ("deny", "incomplete"), ("keep", "incomplete"), ("invalidate", "unknown"),
     ("keep", "unknown"), ("rerun", "unknown")],
)  # fmt: skip
def test_a_verdict_that_does_not_fit_is_refused_and_changes_nothing(open_run, verdict, state):
    """One table says which verdict fits which outcome."""
    arguments = {"confirm": (1,), "invalidate": ("why",)}.get(verdict, ())
    with open_run() as run:
        if state == "unknown":
            lose(run)
        else:
            with pytest.raises(ValueError) if state == "incomplete" else no_error():  # noqa: PT011
                run.step("send", effect="none").call(int, "x" if state == "incomplete" else "1")
        before = len(run.history())
        with pytest.raises(dnb.VerdictRefused, match=f"cannot {verdict} send#1"):
            getattr(run, verdict)("send#1", *arguments)
        assert len(run.history()) == before


def no_error():
    from contextlib import nullcontext

    return nullcontext()


def test_a_verdict_on_a_live_operation_is_refused(open_run):
    """Its body has not ended: nobody can know yet."""
    import threading

    begun, end = threading.Event(), threading.Event()

    def slow():
        begun.set()
        end.wait(5)
        return 1

    with open_run() as run:
        thread = threading.Thread(target=lambda: run.call(slow))
        thread.start()
        begun.wait(5)
        assert run.unknown() == []
        with pytest.raises(dnb.StillRunning):
            run.confirm("slow#1", 2)
        assert run.get("slow#1").live
        end.set()
        thread.join()
        assert run.get("slow#1").result == 1


def test_invalidate_shows_its_cascade_and_takes_descendants_with_it(open_run, effects):
    """The operation and its descendants are written to; what began later is only suspect."""

    @dnb.step(effect="none")
    def child(i):
        return effects(i)

    def parent():
        return [child(i) for i in range(2)]

    with open_run() as run:
        run.step(effect="none").call(parent)
        run.step("later", effect="none").call(lambda: 1)
        shown = run.dependants("parent#1")
        cascade = run.invalidate("parent#1", reason="stale")
        assert shown == cascade
        assert cascade.below == ("parent#1/child#1", "parent#1/child#2")
        assert cascade.suspect == ("later#1",)
        assert "invalidated with it: parent#1/child#1" in str(cascade)
        assert {run.get(i).outcome for i in (1, 2, 3)} == {"incomplete"}
    with open_run() as run:
        run.step(effect="none").call(parent)
    assert effects.count == 4


def test_invalidating_an_external_effect_asks_what_became_of_it(open_run, effects):
    """`stands` or `compensated`: the effect happened, and a rerun adds another."""
    with open_run() as run:
        run.call(effects, "x")
        with pytest.raises(dnb.VerdictRefused, match="stands"):
            run.invalidate("effects#1", reason="wrong")
        run.invalidate("effects#1", reason="wrong", effect="stands")
    with open_run() as run:
        assert run.call(effects, "x") == 2


def test_an_operation_can_be_named_by_row_name_or_view(open_run):
    """Verdicts take an operation, its id, a unique name, or the row that `show` prints."""
    with open_run() as run:
        run.step("a", effect="none").call(lambda: 1)
        lose(run)
        assert run.get(2).id == run.get("send").id == run.get(run.unknown()[0]).id == "send#1"
        with pytest.raises(dnb.OperationMissing, match="Close: send#1"):
            run.confirm("sendd#1", 1)


def test_an_interrupted_idempotent_step_can_be_confirmed(open_run, effects):
    """A person may know the result of what would be safe to repeat."""
    with open_run() as run:
        with pytest.raises(KeyboardInterrupt), run.step("put", effect="idempotent") as op:
            if op.needed:
                raise KeyboardInterrupt
        run.confirm("put#1", "stored")
    with open_run() as run:
        assert run.step("put", effect="idempotent", inputs={}).call(effects) == "stored"
