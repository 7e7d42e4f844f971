"""Independent branches: what is in doubt in one of them stops that one, and no other."""

from __future__ import annotations

import asyncio

import pytest

import durable_nb as dnb
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Draft


class Provider:
    """Sends mails, and breaks the line after some of them; no plain data of a step."""

    def __init__(self, effects, *broken):
        self.effects, self.broken = effects, set(broken)
        self.error = ConnectionError

    def send(self, n):
        self.effects(f"mail {n}")
        if n in self.broken:
            raise self.error(f"the line broke at {n}")
        return f"sent {n}"


def ids(error):
    return [op.id for op in error.operations]


def mails(run, provider, spelling="blocking", **options):
    """Send ten mails, three at once."""
    options = {"key": int, "limit": 3, "independent": True, **options}

    def mail(n):
        return provider.send(n)

    async def amail(n):
        return provider.send(n)

    async def go():
        return await run.map(dnb.step(amail, name="mail"), range(10), **options)

    return asyncio.run(go()) if spelling == "awaiting" else run.map(mail, range(10), **options)


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_an_unknown_item_does_not_keep_the_others_from_being_called(open_run, effects, spelling):
    """All are called, the doubts are one signal, and what is settled one by one goes on."""
    provider = Provider(effects, 3, 7)
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            mails(run, provider, spelling)
        assert ids(doubt.value) == [v.id for v in run.unknown()] == ["mail[3]#1", "mail[7]#1"]
        assert isinstance(doubt.value.__cause__, ConnectionError)
    assert effects.count == 10
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            mails(run, provider, spelling)
        assert ids(doubt.value) == ["mail[3]#1", "mail[7]#1"]
        run.confirm("mail[3]#1", "sent 3", evidence="log")
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            mails(run, provider, spelling)
        assert ids(doubt.value) == ["mail[7]#1"]
    assert effects.count == 10
    provider.broken.clear()
    with open_run() as run:
        key = run.get("mail[7]#1").idempotency_key
        run.deny("mail[7]#1", evidence="log")
        assert mails(run, provider, spelling) == [f"sent {n}" for n in range(10)]
        assert run.get("mail[7]#1").idempotency_key == key
    assert effects.lines.count("mail 7") == 2
    assert effects.count == 11


def test_without_the_word_one_doubt_stops_what_is_new(open_run, effects):
    """A plain map calls no further item, and a resume none at all."""
    provider = Provider(effects, 3)
    for _ in range(2):
        with open_run() as run, pytest.raises(dnb.UnknownOutcome):
            mails(run, provider, limit=1, independent=False)
        assert effects.count == 4


@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_an_ordinary_error_of_one_item_comes_after_all_were_called(open_run, effects, spelling):
    """The first error in the order of the items is raised, unless something is unknown."""
    provider = Provider(effects, 2, 5)
    with open_run() as run, pytest.raises(ConnectionError, match="at 2"):
        mails(run, provider, spelling, effect="none")
    assert effects.count == 10
    provider.error = KeyError
    with open_run("other") as run, pytest.raises(dnb.UnknownOutcome) as doubt:
        mails(run, Provider(effects, 8), spelling, not_applied=(KeyError,))
    assert ids(doubt.value) == ["mail[8]#1"]


def test_a_doubt_is_raised_before_an_error_that_a_framework_may_swallow(open_run, effects):
    """Also where the error is of an earlier item."""

    class Mixed(Provider):
        def send(self, n):
            if n == 1:
                raise KeyError(n)
            return super().send(n)

    with open_run() as run, pytest.raises(dnb.UnknownOutcome) as doubt:
        mails(run, Mixed(effects, 4, 6), not_applied=(KeyError,))
    assert ids(doubt.value) == ["mail[4]#1", "mail[6]#1"]


def test_a_run_that_is_closed_meanwhile_stops_independent_items_too(open_run, effects):
    """It is said before what befell an earlier item."""

    class Closing(Provider):
        def send(self, n):
            if n == 1:
                raise KeyError(n)
            if n == 3:
                run.close()
            return super().send(n)

    run = open_run()
    with pytest.raises(dnb.RunClosed):
        mails(run, Closing(effects), "awaiting", limit=1, not_applied=(KeyError,))
    assert effects.count == 3


@pytest.mark.parametrize("spelling", ["blocking", "awaiting"])
def test_what_is_about_the_whole_run_stops_independent_items_too(open_run, effects, spelling):
    """A spent budget and a missing scope are raised at once."""
    with open_run(budget={"calls": 4}) as run:
        with pytest.raises(dnb.BudgetExceeded):
            mails(run, Provider(effects), spelling, limit=1)
        assert effects.count == 4
        assert len(run.operations()) == 4
    with open_run("other") as run:
        with pytest.raises(dnb.ScopeDenied):
            mails(run, Provider(effects), spelling, requires=["mail:send"])
        assert len(run.operations()) == 0


def test_ctrl_c_in_one_item_stops_independent_items_too(open_run, effects):
    """Nothing more is begun once a person has pressed it."""
    provider = Provider(effects, 2)
    provider.error = KeyboardInterrupt
    with open_run() as run, pytest.raises(KeyboardInterrupt):
        mails(run, provider, limit=1)
    assert effects.count == 3


def customer(run, n, send, **options):
    with run.branch("customer", key=n, **options):
        run.step("plan", effect="none").call(str, n)
        run.step("mail").call(send, n)
        run.step("note").call(send, n + 100)


def customers(run, send, **options):
    """Do all, and give the doubts that stopped one."""
    doubts = []
    for n in range(4):
        try:
            customer(run, n, send, **options)
        except dnb.UnknownOutcome as doubt:
            doubts.append(doubt)
    return doubts


@pytest.mark.slow
def test_a_doubt_stops_its_own_branch_and_no_other(open_run, effects):
    """What else would begin in it is refused, and says which branch is stopped."""
    send = Provider(effects, 1).send
    with open_run() as run:
        (doubt,) = customers(run, send, independent=True)
        assert ids(doubt) == ["customer[1]#1/mail#1"]
        assert "nothing new starts in branch customer[1]#1, until this is settled" in str(doubt)
        assert effects.count == 7
    with open_run() as run:
        with run.branch("customer", key=1, independent=True):
            with pytest.raises(dnb.UnknownOutcome) as refused:
                run.step("note").call(send, 101)
        assert refused.value.blocked == "customer[1]#1/note#1"
        assert refused.value.branch == "customer[1]#1"
        assert "nothing new runs in branch customer[1]#1 until" in str(refused.value)
        run.step("after").call(effects, "after")  # outside of the branch
        assert effects.count == 8
    with open_run() as run:
        assert len(customers(run, send)) == 1  # as recorded, and not as the program says now
        run.confirm("customer[1]#1/mail#1", "sent 1", evidence="log")
    with open_run() as run:
        assert customers(run, send, independent=True) == []
        assert effects.count == 9


def test_a_branch_that_is_not_independent_stops_the_run(open_run, effects):
    """The word is `independent=True`; a name alone only counts apart."""
    with open_run() as run:
        assert len(customers(run, Provider(effects, 1).send)) == 3
        assert effects.count == 3


def test_an_outer_doubt_stops_an_inner_branch_and_not_the_other_way_round(open_run, effects):
    """Independent branches nest, and a plain one between them changes nothing."""
    send = Provider(effects, "inner", "outer", "plain").send
    with open_run() as run:
        with run.branch("outer", independent=True):
            with run.branch("plain"), run.branch("inner", independent=True):
                with pytest.raises(dnb.UnknownOutcome):
                    run.step("mail").call(send, "inner")
            run.step("beside").call(send, "beside")
            with pytest.raises(dnb.UnknownOutcome):
                run.step("mail").call(send, "outer")
            with run.branch("other", independent=True):
                with pytest.raises(dnb.UnknownOutcome) as doubt:
                    run.step("mail").call(send, "other")
        assert ids(doubt.value) == ["outer#1/mail#1"]
        run.step("mail").call(send, "root")
        with run.branch("second", independent=True), run.branch("plain"):
            with pytest.raises(dnb.UnknownOutcome) as doubt:
                run.step("mail").call(send, "plain")
        assert doubt.value.branch == "second#1"
        run.step("end").call(send, "end")
    sent = ["inner", "beside", "outer", "root", "plain", "end"]
    assert effects.lines == [f"mail {which}" for which in sent]


def test_a_doubt_outside_of_all_branches_stops_every_branch(open_run, effects):
    """Independent branches are so of one another, not of the run."""
    provider = Provider(effects, "root")
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("mail").call(provider.send, "root")
        assert len(customers(run, provider.send, independent=True)) == 4
        assert effects.count == 1


def test_lost_records_stop_every_branch(open_run, effects):
    """Nobody knows whose they were."""
    with open_run() as run:
        run.append(Draft(RUN, Kind.DOUBTED, {"why": "the file went back"}))
        with pytest.raises(dnb.UnknownOutcome, match="lost records"):
            mails(run, Provider(effects))
    assert effects.count == 0


def test_a_question_stops_its_own_branch_and_no_other(open_run, effects):
    """A changed input is asked about for one customer, while a new one is served."""
    with open_run() as run:
        customers(run, Provider(effects).send, independent=True)
    with open_run() as run:
        with run.branch("customer", key=1, independent=True):
            with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
                run.step("mail").call(Provider(effects).send, 11)
            with pytest.raises(dnb.IncompatibleCheckpoint) as refused:
                run.step("new").call(effects)
        assert "Nothing new runs in branch customer[1]#1 until you choose" in str(refused.value)
        assert str(stop.value) == str(refused.value)
        customer(run, 9, Provider(effects).send, independent=True)
    assert effects.count == 10


def test_steps_inside_of_an_item_are_in_its_branch(open_run, effects):
    """The item is entered again, what is done in it replays, and the doubt is told of once."""
    provider = Provider(effects, 104)

    def serve(n):
        run.step("first").call(effects, f"first {n}")
        run.step("second").call(provider.send, n + 100)
        return n

    for _ in range(2):
        with open_run() as run:
            with pytest.raises(dnb.UnknownOutcome) as doubt:
                run.map(serve, range(6), key=int, limit=2, independent=True, effect="none")
            assert ids(doubt.value) == ["serve[4]#1/second#1"]
            assert doubt.value.branch == "serve[4]#1"
        assert effects.count == 12


def test_no_container_is_completed_over_the_doubt_of_an_independent_item(open_run, effects):
    """Whoever catches the signal inside of it does not get past it."""
    provider = Provider(effects, 3)
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome), run.step("all", effect="none") as op:
            if op.needed:
                with pytest.raises(dnb.UnknownOutcome):
                    mails(run, provider)
                op.result = "done"
        assert run.get("all#1").outcome == "incomplete"


def test_taking_an_independent_effect_back_is_in_doubt_in_its_branch(open_run, effects):
    """An undo that broke in the middle does not stop the other customers."""

    def undo(op):
        raise ConnectionError("the line broke")

    with open_run() as run:
        customer(run, 1, effects, independent=True)
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            run.compensate("customer[1]#1/mail#1", undo=undo)
        assert doubt.value.branch == "customer[1]#1"
        customer(run, 2, effects, independent=True)
    with open_run() as run, run.branch("customer", key=1, independent=True):
        with pytest.raises(dnb.UnknownOutcome):
            run.step("new").call(effects)
    assert effects.count == 4


def test_several_doubts_are_shown_with_their_count_and_the_line_that_settles_the_first(
    open_run, effects
):
    """A few are named, and where all of them are listed."""
    with open_run() as run, pytest.raises(dnb.UnknownOutcome) as doubt:
        mails(run, Provider(effects, 1, 2, 4, 5, 8))
    head, why, meaning, confirm, deny, rest = str(doubt.value).splitlines()
    assert head == (
        "5 operations may or may not have happened: mail[1]#1, mail[2]#1, mail[4]#1 and 2 more, "
        "in run 'r'."
    )
    assert why.startswith("Why, of mail[1]#1: attempt 1 raised ConnectionError")
    assert meaning.startswith("None of them is run again until these are settled.")
    assert 'run.confirm("mail[1]#1"' in confirm
    assert 'run.deny("mail[1]#1"' in deny
    assert rest == "The other 4 likewise, one by one; run.unknown() lists them."
