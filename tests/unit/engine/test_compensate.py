"""Taking an effect back: an operation of its own, and each effect of a cascade has its answer."""

import asyncio

import pytest
from support.child import Bench

import durable_nb as dnb

UNDO = "compensate[charge%231@0]#1"


class Shop:
    """Charges and gives back, and counts the keys of both."""

    def __init__(self):
        self.charged, self.given_back, self.error = [], [], None

    def charge(self, amount, *, idempotency_key):
        self.charged.append(idempotency_key)
        return {"id": f"ch_{len(self.charged)}", "amount": amount}

    def undo(self, op, *, idempotency_key):
        self.given_back.append((op.id, op.result["id"], idempotency_key))
        if self.error is not None:
            raise self.error
        return f"back {op.result['id']}"


@pytest.fixture
def shop():
    return Shop()


def charge(run, shop, **options):
    """Charge, in the program's usual spelling."""
    given = {"compensate": shop.undo, **options}
    return run.step("charge", **given).call(shop.charge, 5)


def test_a_compensation_is_an_operation_of_its_own(open_run, shop):
    """External, with its own key; what it took back is invalidated and done anew."""
    with open_run() as run:
        charge(run, shop)
        view = run.compensate("charge", "wrong amount")
        assert (view.id, view.outcome) == ("charge#1", "incomplete")
        undo = run.get(UNDO)
        assert (undo.outcome, undo.effect, undo.result) == ("completed", "external", "back ch_1")
        assert (undo.name, undo.key, undo.parent) == ("compensate", "charge#1@0", "")
        assert undo.idempotency_key not in shop.charged
        last = run.records("charge")[-1]
        assert (last["kind"], "wrong amount" in last["detail"]) == ("invalidated", True)
        assert run.fold.operations["charge#1"].last["effect_is"] == "compensated"
    with open_run() as run:
        assert charge(run, shop)["id"] == "ch_2"
    assert len(set(shop.charged)) == 2
    assert shop.given_back == [("charge#1", "ch_1", undo.idempotency_key)]


def test_asked_for_twice_it_is_done_once(open_run, shop):
    """In one kernel or in two; a new effect is taken back by a new compensation."""
    with open_run() as run:
        charge(run, shop)
        run.compensate("charge#1")
        assert run.compensate("charge#1").outcome == "incomplete"
    with open_run() as run:
        assert run.compensate("charge#1", undo=shop.undo).outcome == "incomplete"
        assert len(shop.given_back) == 1
        charge(run, shop)
        run.compensate("charge#1")
        assert run.get("compensate[charge%231@1]#1").outcome == "completed"
    assert [undone for _, undone, _ in shop.given_back] == ["ch_1", "ch_2"]
    assert len({key for _, _, key in shop.given_back}) == 2


def test_a_failed_compensation_is_in_doubt_and_settled_like_any_other(open_run, shop):
    """What it was to take back still counts until that is settled, by whoever."""
    shop.error = TimeoutError("no answer")
    with open_run() as run:
        charge(run, shop)
        with pytest.raises(dnb.UnknownOutcome, match="compensate") as doubt:
            run.compensate("charge")
        assert [o.id for o in doubt.value.operations] == [UNDO]
        assert run.get("charge").outcome == "completed"
        with pytest.raises(dnb.UnknownOutcome):
            run.call(str, 1)
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.compensate("charge", undo=shop.undo)
        run.confirm(UNDO, "seen", evidence="in the shop's ledger")
        assert run.get("charge").outcome == "incomplete"
        assert run.history("charge")["kind"].iloc[-1] == "invalidated"
    assert len(shop.given_back) == 1


def test_a_denied_compensation_is_done_under_its_key(open_run, shop):
    """It is the same effect; a second attempt at it must not add another."""
    shop.error = TimeoutError("no answer")
    with open_run() as run:
        charge(run, shop)
        with pytest.raises(dnb.UnknownOutcome):
            run.compensate("charge")
        run.deny(UNDO)
        shop.error = None
        run.compensate("charge")
        assert run.get("charge").outcome == "incomplete"
    assert len({key for _, _, key in shop.given_back}) == 1
    assert len(shop.given_back) == 2


def test_compensations_are_exempt_while_something_is_unknown_or_undecided(open_run, shop):
    """They make a doubt smaller; everything else that is new is refused."""

    def lose():
        raise TimeoutError

    with open_run() as run:
        charge(run, shop)
        with pytest.raises(dnb.UnknownOutcome):
            run.call(lose)
        run.compensate("charge")
        assert run.get("charge").outcome == "incomplete"
        with pytest.raises(dnb.UnknownOutcome):
            run.step("plan", effect="none").call(str, 1)
    with open_run("asked") as run:
        charge(run, shop)
    with open_run("asked") as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("charge", compensate=shop.undo).call(shop.charge, 6)
        run.compensate("charge")
        assert run.get("charge").outcome == "incomplete"


def test_lost_records_may_hold_a_compensation_so_it_waits(open_run, shop):
    """What was acknowledged and is gone may have been this very one."""
    from durable_nb.engine.recovery import doubt

    with open_run() as run:
        charge(run, shop)
        run.append(doubt("5 records are lost"))
        with pytest.raises(dnb.UnknownOutcome, match="lost records"):
            run.compensate("charge")
        run.accept("the shop has nothing of it")
        run.compensate("charge")
    assert len(shop.given_back) == 1


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("none", "invalidate it instead"),
        ("incomplete", "it is not completed"),
        ("unknown", "confirm or deny it first"),
        ("failed", "there is no effect to take back"),
        ("unreached", r'run.compensate\("charge#1", undo=fn\)'),
        ("itself", "it is itself a compensation"),
    ],
)
def test_what_has_nothing_to_take_back_is_refused(open_run, shop, state, why):
    """It says what to do; nothing was changed."""

    def fail():
        raise {"unknown": TimeoutError}.get(state, dnb.NotApplied)("no")

    op = "charge"
    with open_run() as run:
        if state in {"none", "unreached", "itself"}:
            charge(run, shop, effect="none" if state == "none" else "external")
        else:
            with pytest.raises((dnb.NotApplied, dnb.UnknownOutcome)):
                run.step("charge", compensate=shop.undo).call(fail)
            if state == "failed":
                run.step("next", effect="none").call(str, 1)
        if state == "itself":
            run.compensate("charge")
            op = UNDO
        if state != "unreached":
            with pytest.raises(dnb.VerdictRefused, match=why):
                run.compensate(op)
    if state == "unreached":
        with open_run() as run:
            with pytest.raises(dnb.VerdictRefused, match=why):
                run.compensate(op)
            run.compensate(op, undo=shop.undo)
            assert run.get(op).outcome == "incomplete"
    assert len(shop.given_back) == (1 if state in {"unreached", "itself"} else 0)


@pytest.mark.slow
def test_the_wrong_function_is_never_taken_for_the_right_one(open_run, shop):
    """A step of that name that was not reached is taken back only by what all of that name say."""

    def other(op):
        raise AssertionError("it is another step's")

    with open_run() as run:
        for key in "abcd":
            charge(run, shop, key=key)
    with open_run() as run:
        charge(run, shop, key="a")
        charge(run, shop, key="b")
        run.compensate("charge[d]#1")
        charge(run, shop, key="c", compensate=other)
        run.compensate("charge[b]#1")
        assert [undone for _, undone, _ in shop.given_back] == ["ch_4", "ch_2"]
    with open_run() as run:
        charge(run, shop, key="a")
        charge(run, shop, key="c", compensate=other)
        run.compensate("charge[a]#1")
    with open_run("other") as run:
        for key in "abc":
            charge(run, shop, key=key)
    with open_run("other") as run:
        charge(run, shop, key="a")
        charge(run, shop, key="c", compensate=other)
        with pytest.raises(dnb.VerdictRefused, match="is known in this kernel"):
            run.compensate("charge[b]#1")


def test_a_function_that_cannot_take_it_is_a_plain_type_error(open_run, shop):
    """Its call is bound before the intent."""
    with open_run() as run:
        charge(run, shop, compensate=lambda: 1)
        with pytest.raises(TypeError, match="too many positional"):
            run.compensate("charge")
        with pytest.raises(TypeError, match="compensate=7"):
            run.step("s", compensate=7)
        assert list(run.operations()["id"]) == ["charge#1"]


def test_an_async_function_is_awaited(open_run, shop):
    """One spelling: then what `compensate` gives is awaited."""

    async def undo(op, *, idempotency_key):
        await asyncio.sleep(0)
        return shop.undo(op, idempotency_key=idempotency_key)

    async def program():
        async with open_run() as run:
            charge(run, shop, compensate=undo)
            view = await run.compensate("charge")
            assert view.outcome == "incomplete"
            again = await run.compensate("charge")
            assert again.outcome == "incomplete"

    asyncio.run(program())
    assert len(shop.given_back) == 1


def test_a_step_as_the_function_brings_its_options(open_run, shop):
    """What proves that nothing happened, or a reconciler, is said where it is written."""

    @dnb.step(not_applied=(ConnectionRefusedError,))
    def undo(op):
        if not shop.given_back:
            shop.given_back.append(op.id)
            raise ConnectionRefusedError
        return "back"

    with open_run() as run:
        charge(run, shop, compensate=undo)
        with pytest.raises(ConnectionRefusedError):
            run.compensate("charge")
        assert run.get(UNDO).outcome == "incomplete"
        run.compensate("charge")
        assert run.get(UNDO).result == "back"


def test_an_idempotent_effect_can_be_taken_back_too(open_run, shop):
    """Only an effect of none has nothing to take back."""
    with open_run() as run:
        charge(run, shop, effect="idempotent")
        run.compensate("charge")
        assert run.fold.operations["charge#1"].last["effect_is"] == "compensated"


def test_a_compensation_is_no_part_of_the_program(open_run, shop):
    """The next kernel does not call it, and neither misses it nor counts it as an effect after."""
    with open_run() as run:
        run.step("plan", effect="none", inputs={}).call(lambda: 1)
        charge(run, shop)
        run.compensate("charge")
        assert run.dependants("plan").suspect == ("charge#1",)
        run.invalidate("plan", "another plan")
    with open_run() as run:
        run.step("plan", effect="none", inputs={}).call(lambda: 2)
        run.step("mail").call(lambda: 1)
        charge(run, shop)


def test_nobody_can_invalidate_it_twice(open_run, shop):
    """An invalidation that came while it was taken back is not followed by another."""
    with open_run() as run:
        charge(run, shop)

        def undo(op):
            run.invalidate("charge", "by hand", effect="stands")

        run.compensate("charge", undo=undo)
        assert list(run.history("charge")["kind"])[-2:] == ["completed", "invalidated"]
        assert run.fold.operations["charge#1"].generation == 1


def test_what_was_done_anew_is_not_undone_by_an_older_compensation(open_run, shop):
    """It is about one effect, the one that it was given; an answer that comes late is too."""
    shop.error = TimeoutError("no answer")
    with open_run() as run:
        charge(run, shop)
        with pytest.raises(dnb.UnknownOutcome):
            run.compensate("charge")
        run.deny(UNDO)
        run.invalidate("charge", "by hand", effect="stands")
    with open_run() as run:
        charge(run, shop)
        run.confirm(run.get(UNDO), "it was given back after all")
        assert run.get("charge").outcome == "completed"


PROGRAM = """
def charge():
    return 1

with dnb.run("r", store=store) as run:
    run.call(charge)
    if more:
        run.compensate("charge", undo=lambda op: None)
    else:
        run.step("mail").call(charge)
        tell(outcomes=outcomes(run))
"""


@pytest.mark.slow
def test_a_compensation_stands_in_no_steps_place(tmp_path):
    """The program goes on with a new step where one kernel took an effect back; nobody is asked."""
    bench = Bench(tmp_path)
    bench.run(PROGRAM, "compensate").ok()

    seen = bench.run(PROGRAM).ok().facts

    assert set(seen["outcomes"].values()) == {"completed"}
    assert len(seen["outcomes"]) == 3


# -- cascades ------------------------------------------------------------------------------------


def turn(run):
    """Have two effects in a container."""
    with run.step("turn", effect="none") as op:
        if op.needed:
            run.step("charge").call(lambda: 1)
            run.step("mail").call(lambda: 1)
            run.step("note", effect="none").call(lambda: 1)
            op.result = None


def test_each_effect_of_a_cascade_gets_its_own_answer(open_run):
    """One stands, one was undone; both are in the history."""
    with open_run() as run:
        turn(run)
        run.invalidate(
            "turn",
            "wrong",
            effect={"turn#1/charge#1": "compensated", "turn#1/mail#1": "stands"},
        )
        said = {op: s.last.get("effect_is") for op, s in run.fold.operations.items()}
        assert said == {
            "turn#1": None,
            "turn#1/charge#1": "compensated",
            "turn#1/mail#1": "stands",
            "turn#1/note#1": None,
        }


@pytest.mark.parametrize(
    ("effect", "why"),
    [
        (None, "the effect of turn#1/charge#1, turn#1/mail#1 happened"),
        ({}, "the effect of turn#1/charge#1, turn#1/mail#1 happened"),
        ({"turn#1/charge#1": "stands"}, "the effect of turn#1/mail#1 happened"),
        ({"turn#1/charge#1": "stands", "turn#1/mail#1": "gone"}, "of turn#1/mail#1 happened"),
        ({"turn#1/note#1": "stands"}, "names turn#1/note#1, which is no completed effect"),
    ],
)
def test_a_missing_answer_is_refused_with_all_that_need_one(open_run, effect, why):
    """Nothing is invalidated in part."""
    with open_run() as run:
        turn(run)
        with pytest.raises(dnb.VerdictRefused, match=why):
            run.invalidate("turn", "wrong", effect=effect)
        assert set(run.operations()["outcome"]) == {"completed"}
        run.invalidate("turn", "wrong", effect="stands")
        assert set(run.operations()["outcome"]) == {"incomplete"}
