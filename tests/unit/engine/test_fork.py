"""A fork: what happened in the original is on record in it, and effects outside are asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.child import Child
from support.folders import stored, tree

import durable_nb as dnb
from durable_nb.engine.context import OPEN
from durable_nb.engine.recovery import doubt as doubt_of
from durable_nb.model.errors import OwnerRefused


class Sent(list[str]):
    """The world outside: no plain data, so that no result depends on what is in it."""

    __slots__ = ()


@pytest.fixture
def sent() -> Sent:
    return Sent()


def agent(run: dnb.Run, sent: Sent, text: str = "hello") -> None:
    """Plan, charge, and mail; what happens outside goes into `sent`."""

    def plan(order: str) -> dict[str, Any]:
        dnb.current_operation().spend(usd=0.5)
        return {"order": order, "text": "x" * 70_000}

    def charge(order: str, *, idempotency_key: str) -> str:
        sent.append(f"charge {order} {idempotency_key}")
        return "ch_1"

    def mail(text: str, *, idempotency_key: str) -> str:
        sent.append(f"mail {text} {idempotency_key}")
        return "m_1"

    plan_ = run.step("plan", effect="none").call(plan, "o-1")
    run.step("charge").call(charge, plan_["order"])
    run.step("mail").call(mail, text)


def ids(run: dnb.Run) -> list[str]:
    return [view.id for view in run.status_view().views]


# -- the prefix --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_done_before_replays_and_what_comes_after_is_refused_until_granted(
    open_run, sent, tmp_path
):
    """The charge of the original stands; the fork's own mail needs a grant, and is sent once."""
    with open_run("refund-17") as run:
        agent(run, sent)
        done = run.fork("what-if", at="mail", reason="another text")
    assert (done.of, done.at, done.operations) == ("refund-17", "mail#1", ("plan#1", "charge#1"))
    assert (done.effects, done.unknown) == (("charge#1",), ())
    assert done.folder == tmp_path / "store" / "what-if"
    assert str(done).endswith('    run = dnb.open_run("what-if")')

    with open_run("what-if") as run:
        with pytest.raises(dnb.ScopeDenied) as stop:
            agent(run, sent, "goodbye")
        assert stop.value.missing == ("external",)
        assert "this run is a fork of 'refund-17'" in str(stop.value)
        assert 'run.grant("external", by="...", reason="...")' in str(stop.value)
        assert [line.split()[0] for line in sent] == ["charge", "mail"]
        run.grant("external", by="ada", reason="a test customer")
    for _ in range(2):
        with open_run("what-if") as run:
            agent(run, sent, "goodbye")
    assert [line.split()[0] for line in sent] == ["charge", "mail", "mail"]


def test_what_a_fork_does_itself_carries_a_key_of_its_own(open_run, sent):
    """Else the receiver would take the fork's mail for that of the original."""
    with open_run("refund-17") as run:
        agent(run, sent)
        run.fork("what-if", at="mail#1")
    with open_run("what-if") as run:
        run.grant("external", reason="a test customer")
        agent(run, sent)
    first, again = (line.split()[-1] for line in sent if line.startswith("mail"))
    assert first != again


@pytest.mark.slow
def test_a_fork_inherits_spend_budget_scopes_and_facets(open_run, sent):
    """They are on record, so they hold; nothing of a budget is fresh."""
    said = {"budget": {"usd": 2, "calls": 9}, "scopes": ["orders:read"], "facets": {"model": "m-1"}}
    with open_run("refund-17", **said) as run:
        agent(run, sent)
        run.grant("payments:write", budget={"usd": 5}, reason="ours")
        spent = run.spent()
        run.fork("whole")
        run.fork("early", at="charge")
    with open_run("whole") as run:
        assert run.spent() == spent
        assert (run.budget, run.facets) == ({"usd": 5, "calls": 9}, {"model": "m-1"})
        assert run.scopes == ("orders:read", "payments:write")
    with open_run("early") as run:
        assert (run.spent()["usd"], run.spent()["calls"]) == (0.5, 1)


@pytest.mark.slow
def test_facets_that_a_later_kernel_said_hold_in_the_fork(open_run, sent):
    """What the last kernel of the original said of the run is what its fork begins with."""
    with open_run("refund-17", facets={"model": "m-1"}, version="1") as run:
        run.step("look", effect="none").call(str, "x")
    with open_run("refund-17", facets={"model": "m-2"}, version="2") as run:
        run.fork("what-if")
    with open_run("what-if") as run:
        assert (run.facets, run.version) == ({"model": "m-2"}, "2")
        run.fork("again")
    with open_run("again") as run:
        assert (run.facets, run.version) == ({"model": "m-2"}, "2")


def test_of_what_holds_the_operation_only_the_beginning_is_copied(open_run):
    """The container is entered again, and its first child replays; the second is done anew."""
    seen = Sent()

    def inner(name: str) -> str:
        seen.append(name)
        return name

    def outer() -> str:
        first = dnb.current_run().step("a", effect="none").call(inner, "a")
        return first + dnb.current_run().step("b", effect="none").call(inner, "b")

    with open_run("r") as run:
        run.step("before", effect="none").call(str, 1)
        run.step(effect="none").call(outer)
        run.step("after", effect="none").call(str, 2)
        done = run.fork("what-if", at="outer#1/b#1")
    assert done.operations == ("before#1", "outer#1", "outer#1/a#1")
    with open_run("what-if") as run:
        assert run.get("outer").outcome == "incomplete"
        assert run.step(effect="none").call(outer) == "ab"
    assert seen == ["a", "b", "b"]


def test_an_operation_that_was_under_way_at_that_moment_is_copied_whole(open_run):
    """It did happen, even if it ended after the operation had begun."""

    async def story(run: dnb.Run) -> None:
        begun = asyncio.Event()

        async def long() -> int:
            await begun.wait()
            return 1

        async def short() -> int:
            begun.set()
            return 2

        await asyncio.gather(run.call(long), run.call(short))

    with open_run("r") as run:
        asyncio.run(story(run))
        ended = run.history("long")["seq"].max()
        assert ended > run.history("short")["seq"].min(), "it ended later"
        done = run.fork("what-if", at="short")
    assert (done.operations, done.effects) == (("long#1",), ("long#1",))


def test_without_an_operation_everything_is_copied(open_run, sent):
    """The fork begins where the original stands, and says what is not repeated."""
    with open_run("refund-17") as run:
        agent(run, sent)
        done = run.fork("copy")
    assert done.operations == ("plan#1", "charge#1", "mail#1")
    assert done.effects == ("charge#1", "mail#1")
    with open_run("copy") as run:
        agent(run, sent)
        assert run.get("plan").result["text"] == "x" * 70_000, "its artifact came along"
    assert len(sent) == 2


@pytest.mark.slow
def test_an_operation_is_given_as_to_a_verdict(open_run, sent):
    """A view, an id, a name and a row number mean the same; a wrong one makes nothing."""
    with open_run("refund-17") as run:
        agent(run, sent)
        for n, ref in enumerate((run.get("mail"), "mail#1", "mail", 3, "3")):
            assert run.fork(f"f{n}", ref).at == "mail#1"
        with pytest.raises(dnb.OperationMissing):
            run.fork("none", at="nail")
    assert "none" not in set(dnb.runs(store=run.folder.parent)["name"])


# -- what is in doubt --------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_unknown_stays_unknown_in_the_fork_and_is_said(folder: Path):
    """A charge that was interrupted is nobody's to repeat: the fork stops at it, too."""
    done = dnb.watch("r", store=folder.parent).fork("what-if")
    assert done.unknown == ("charge#1",)
    assert "unknown, in the fork too, until settled there: charge#1" in str(done)
    with (
        dnb.run("what-if", store=folder.parent) as run,
        pytest.raises(dnb.UnknownOutcome, match="charge#1"),
    ):
        run.step("mail", effect="none").call(str, 1)


def test_a_denied_effect_of_the_prefix_needs_the_grant_and_keeps_the_key_that_was_sent(
    open_run, sent
):
    """Whether the original's attempt arrives late or the fork's: the receiver sees one key."""

    def charge(*, idempotency_key: str) -> str:
        sent.append(idempotency_key)
        if len(sent) == 1:
            raise TimeoutError
        return "ch_1"

    with open_run("r") as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.call(charge)
        run.fork("what-if")
    with open_run("what-if") as run:
        run.deny("charge", evidence="not in the ledger")
        with pytest.raises(dnb.ScopeDenied):
            run.call(charge)
        run.grant("external", reason="the original is given up")
        assert run.call(charge) == "ch_1"
    assert sent[0] == sent[1]


def test_taking_back_what_the_original_stands_on_needs_the_grant(open_run, sent):
    """A compensation in a fork would undo an effect that the original counts on."""
    with open_run("refund-17") as run:
        agent(run, sent)
        run.fork("what-if")
    with open_run("what-if") as run:
        with pytest.raises(dnb.ScopeDenied, match="a fork of 'refund-17'"):
            run.compensate("charge", "wrong customer", undo=lambda op: sent.append("back"))
        assert len(sent) == 2
        run.grant("external", reason="agreed")
        run.compensate("charge", "wrong customer", undo=lambda op: sent.append("back"))
    assert sent[-1] == "back"


@pytest.mark.slow
def test_a_grant_of_effects_is_not_handed_on_to_a_fork_of_the_fork(open_run, sent):
    """Each fork is granted its own; other scopes are inherited."""
    with open_run("first", scopes=["external", "orders:read"]) as run:
        agent(run, sent)
        run.fork("second", at="mail")
    with open_run("second") as run:
        assert run.scopes == ("orders:read",)
        run.grant("external", "payments:write", reason="a test customer")
        run.fork("third", at=None)
    with open_run("third") as run:
        assert run.scopes == ("orders:read", "payments:write")
        with pytest.raises(dnb.ScopeDenied, match="a fork of 'second'"):
            agent(run, sent)


def test_effects_within_the_run_need_no_grant(open_run):
    """What does nothing outside is what forks are for."""
    with open_run("r") as run:
        run.step("a", effect="none").call(str, 1)
        run.fork("what-if", at="a")
    with open_run("what-if") as run:
        assert run.step("a", effect="none").call(str, 2) == "2"


@pytest.mark.slow
def test_the_account_is_the_originals_and_asks_nothing(open_run, sent):
    """A fork has a run id of its own, and the same account: nobody is asked whose it is."""

    def ada(_scopes: tuple[str, ...]) -> dnb.Credentials:
        return dnb.Credentials("secret", account="ada")

    with open_run("r", credentials=ada) as run:
        assert run.credentials == "secret"
        run.step("a", effect="none").call(str, 1)
        run.fork("what-if")
    with open_run("what-if", credentials=ada) as run:
        run.step("a", effect="none").call(str, 1)
        assert run.step("b", effect="none").call(str, 2) == "2"
    with open_run("what-if", credentials=lambda _: dnb.Credentials("s", account="bob")) as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="account"):
            run.step("c", effect="none").call(str, 3)


@pytest.mark.slow
def test_a_loss_that_nobody_accepted_is_a_loss_in_the_fork(open_run):
    """What the lost records said is known to neither; it is accepted in each."""
    with open_run("r") as run:
        run.step("a", effect="none").call(str, 1)
        run.append(doubt_of("a record is missing"))
        run.fork("what-if")
        run.accept("looked")
        run.fork("after")
    for name, lost in (("what-if", True), ("after", False)):
        with open_run(name) as run:
            assert bool(run.fold.doubted) is lost


# -- where it is, and what it leaves alone -----------------------------------------------------


@pytest.mark.slow
def test_nothing_of_a_run_that_nobody_holds_changes(folder: Path):
    """Not a byte, not a time: the fork is read from a private copy."""
    before = tree(folder)
    dnb.watch("r", store=folder.parent).fork("what-if", at="charge")
    assert tree(folder) == before
    assert dnb.verify("what-if", store=folder.parent).ok
    assert dnb.verify("what-if", store=folder.parent).checked["artifacts"] == 1


def test_nothing_is_recorded_in_a_run_that_is_open(open_run, sent):
    """A fork is no event of the original."""
    with open_run("r") as run:
        agent(run, sent)
        before = len(run.history())
        run.fork("what-if", at="mail")
        assert len(run.history()) == before


def test_a_name_that_is_taken_or_cannot_be_one_is_refused_before_anything_is_made(
    open_run, sent, tmp_path
):
    """Nothing is replaced, and nothing is left behind."""
    with open_run("r") as run:
        agent(run, sent)
        run.fork("what-if")
        before = tree(tmp_path / "store" / "what-if")
        with pytest.raises(dnb.VerdictRefused, match=r"'what-if' in .* already"):
            run.fork("what-if", at="mail")
        with pytest.raises(dnb.BadName):
            run.fork("what/if")
    assert tree(tmp_path / "store" / "what-if") == before
    assert sorted(p.name for p in (tmp_path / "store").iterdir()) == [".gitignore", "r", "what-if"]


def test_what_fails_halfway_leaves_nothing_that_counts_as_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """The folder is built under no run's name, and is removed."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("durable_nb.journal.folder_place.plant", full)
    with pytest.raises(OSError, match="No space"):
        dnb.watch("r", store=folder.parent).fork("what-if")
    assert sorted(p.name for p in folder.parent.iterdir()) == [".gitignore", "r"]


def test_a_fork_may_go_to_another_store(open_run, sent, tmp_path):
    """`store=` is the folder of run folders, and the line to go on names it."""
    with open_run("r") as run:
        agent(run, sent)
        done = run.fork("r", at="mail", store=tmp_path / "other")
    assert f'store="{tmp_path / "other"}"' in str(done)
    with dnb.run("r", store=tmp_path / "other") as other:
        assert ids(other) == ["plan#1", "charge#1"]


def test_a_damaged_run_is_not_forked(folder: Path):
    """A copy of damage would look whole."""
    (folder / "head").unlink()
    with pytest.raises(dnb.RunDamaged, match="verify r"):
        dnb.watch("r", store=folder.parent).fork("what-if")
    assert not (folder.parent / "what-if").exists()


@pytest.mark.slow
def test_opening_a_fork_says_of_what_it_is_one(open_run, sent, capsys):
    """The greeting and the status name the original, the first time and later."""
    with open_run("refund-17") as run:
        agent(run, sent)
        run.fork("what-if", at="mail", reason="another text")
    capsys.readouterr()
    for how in ("NEW run what-if", "resumed run what-if"):
        with open_run("what-if") as run:
            assert "a fork of refund-17 at mail#1" in str(run.status_view())
            history = run.history()
        said = capsys.readouterr().err
        assert how in said
        assert "a fork of refund-17 at mail#1" in said
        assert "2 completed" in said
    (row,) = history[history["kind"] == "forked"].to_dict("records")
    assert row["seq"] == 2
    assert row["detail"] == "another text · of refund-17, at mail#1"
    assert row["actor"]


@pytest.mark.slow
def test_a_fork_that_nobody_opened_is_new_and_shows_in_the_store(open_run, sent):
    """It is no crashed run: no kernel was there."""
    with open_run("refund-17") as run:
        agent(run, sent)
        run.fork("what-if", at="mail")
    row = dnb.runs(store=run.folder.parent).set_index("name").loc["what-if"]
    assert (row["status"], row["completed"], row["unknown"]) == ("new", 2, 0)


@pytest.mark.slow
def test_a_fork_is_a_whole_run(open_run, sent, tmp_path):
    """It is verified, exported, imported, and forked again like any other."""
    with open_run("refund-17") as run:
        agent(run, sent)
        run.fork("what-if", at="mail")
    store = tmp_path / "store"
    assert dnb.verify("what-if", store=store).ok
    dnb.export_run("what-if", tmp_path / "f.zip", store=store)
    dnb.import_run(tmp_path / "f.zip", "again", store=store)
    assert stored(store / "again") == stored(store / "what-if")
    done = dnb.watch("what-if", store=store).fork("more")
    assert (done.of, done.operations) == ("what-if", ("plan#1", "charge#1"))


# -- of a live run -----------------------------------------------------------------------------

KERNEL = """\
import sys, time
import durable_nb as dnb

run = dnb.open_run("live", store=sys.argv[1])
run.step("plan", effect="none").call(str, "done")
run.step("charge").call(str, "charged")


def mail():
    print("mailing", flush=True)
    time.sleep(120)


run.call(mail)
"""


@pytest.mark.slow
def test_a_live_run_of_another_process_is_forked_by_its_owner(tmp_path: Path):
    """Its cell blocks, and its owner makes the fork all the same; refusals come back."""
    program = tmp_path / "program.py"
    program.write_text(KERNEL)
    store = tmp_path / "store"
    with Child(program, store) as child:
        assert child.first_line() == "mailing\n"
        live = dnb.watch("live", store=store)
        done = live.fork("what-if", at="charge", reason="another way")
        assert (done.of, done.operations, done.unknown) == ("live", ("plan#1",), ())
        whole = live.fork("whole")
        assert whole.unknown == ("mail#1",), "it is under way there, and nobody knows here"
        with pytest.raises(OwnerRefused, match="already"):
            live.fork("what-if")
        child.kill()
    with dnb.run("what-if", store=store) as run:
        assert run.step("plan", effect="none").call(str, "done") == "done"
        assert run.get("plan").source == "record"


def test_a_run_that_is_open_here_is_forked_from_memory(open_run, sent):
    """`watch` of one's own run needs no inbox."""
    with open_run("r") as run:
        agent(run, sent)
        done = dnb.watch("r", store=run.folder.parent).fork("what-if", at="mail")
        assert OPEN.at(run.place) is run
    assert done.operations == ("plan#1", "charge#1")
