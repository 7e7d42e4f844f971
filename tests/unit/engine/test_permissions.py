"""A run does what it was permitted to, and no resume permits it more."""

import hashlib
import shutil

import pytest

import durable_nb as dnb
from durable_nb.engine.watched import watch


def kinds(run, op=None):
    return list(run.history(op)["kind"])


def pay(amount):
    return amount


def test_scopes_are_recorded_sorted_and_once(open_run):
    """A text alone is one scope; what was said at birth is what every kernel sees."""
    with open_run(scopes=["b:write", "a", "b:write"]) as run:
        assert run.scopes == ("a", "b:write")
    with open_run() as run:
        assert run.scopes == ("a", "b:write")
    with open_run("other", scopes="a:read") as run:
        assert run.scopes == ("a:read",)


@pytest.mark.parametrize("scopes", [3, [""], ["a", 1], [" a"], "x\ny", b"a"])
def test_a_scope_that_is_no_plain_text_is_refused(open_run, tmp_path, scopes):
    """Nothing is created by a wrong call."""
    with pytest.raises(TypeError, match="scope is a text"):
        open_run(scopes=scopes)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("scopes", [None, [], ["payments:read"]])
def test_a_step_without_its_scope_is_refused_before_its_intent(open_run, effects, scopes):
    """Nothing was begun, nothing is recorded of it, and five lines say what to do."""
    with open_run(scopes=scopes) as run:
        with pytest.raises(dnb.ScopeDenied) as stop:
            run.step("pay", requires=["payments:write"]).call(effects)
        assert len(run.operations()) == 0

    lines = stop.value.lines()
    assert effects.count == 0
    assert stop.value.missing == ("payments:write",)
    assert len(lines) == 5
    assert 'run.grant("payments:write", by="...", reason="...")' in lines[3]
    assert "durable-nb grant r payments:write --reason" in lines[4]
    assert ("born without scopes" in lines[1]) == (scopes is None)


def test_a_step_with_its_scopes_runs_and_replays(open_run, effects):
    """What a run was given at birth it has in every kernel."""
    for _ in range(2):
        with open_run(scopes=["a", "b"]) as run:
            assert run.step("pay", requires=["b", "a"]).call(effects) == 1


def test_what_is_completed_replays_without_asking(open_run, effects):
    """Nothing is done by a replay, so that a narrower kernel may still read the record."""
    with open_run(scopes=["a"]) as run:
        run.step("pay", requires="a").call(effects)
    with open_run(scopes=[]) as run:
        assert run.scopes == ()
        assert run.step("pay", requires="a").call(effects) == 1
        with pytest.raises(dnb.ScopeDenied, match="this opening holds itself to none"):
            run.step("again", requires="a").call(effects)


def test_a_resume_never_widens_the_scopes(open_run, capsys):
    """It runs with the recorded ones, and says what is not granted."""
    with open_run(scopes=["a"]):
        pass
    capsys.readouterr()
    with open_run(scopes=["a", "b"]) as run:
        assert run.scopes == ("a",)
        with pytest.raises(dnb.ScopeDenied, match="needs what the run is not granted: b"):
            run.step("pay", requires="b").call(pay, 1)
    assert "its recorded scopes hold: a. Not granted: b" in capsys.readouterr().err


def test_narrower_scopes_hold_for_one_opening_and_are_not_forgotten(open_run, capsys):
    """The recorded ones are there again for the next kernel."""
    with open_run(scopes=["a", "b"]):
        pass
    capsys.readouterr()
    with open_run(scopes=["b"]) as run:
        assert run.scopes == ("b",)
    assert "for this opening its scopes are b; recorded are a, b" in capsys.readouterr().err
    with open_run() as run:
        assert run.scopes == ("a", "b")


def test_a_grant_is_a_record_with_who_and_why(open_run, effects, monkeypatch):
    """It holds from then on, in this kernel and in the next, whatever the program says."""
    monkeypatch.setenv("LOGNAME", "ada")
    with open_run(scopes=["a"]) as run:
        with pytest.raises(dnb.ScopeDenied):
            run.step("pay", requires=["b"]).call(effects)
        run.grant("b", "c", by="grace", reason="refunds up to 50")
        assert run.step("pay", requires=["b"]).call(effects) == 1
        row = run.history().query("kind == 'granted'").iloc[0]
        assert row["actor"] == "ada"
        assert row["detail"] == "refunds up to 50 · b, c, by grace"
    with open_run(scopes=["a"]) as run:
        assert run.scopes == ("a", "b", "c")


def test_a_grant_while_a_kernel_holds_itself_back_reaches_it(open_run):
    """What a person grants counts now, also where the program had asked for less."""
    with open_run(scopes=["a", "b"]):
        pass
    with open_run(scopes=["a"]) as run:
        run.grant("b")
        assert run.scopes == ("a", "b")


def test_a_kernel_that_asks_for_less_than_the_birth_does_without_what_was_granted(open_run):
    """A narrower program gets exactly what it names."""
    with open_run(scopes=["a", "b"]) as run:
        run.grant("c")
    with open_run(scopes=["a"]) as run:
        assert run.scopes == ("a",)


def test_a_grant_that_names_nothing_is_refused(open_run):
    """Nothing is recorded by a wrong call."""
    with open_run(scopes=["a"]) as run:
        for wrong in ((), ("",), (3,)):
            with pytest.raises(TypeError):
                run.grant(*wrong)
        assert "granted" not in kinds(run)


def test_a_watcher_grants_to_a_live_run(open_run, tmp_path, effects):
    """The verb is one of the operator's: from a panel, a shell or another notebook."""
    with open_run(scopes=["a"]) as run:
        watch("r", store=tmp_path / "store").grant("b", reason="said so")
        assert run.step("pay", requires=["b"]).call(effects) == 1
    watch("r", store=tmp_path / "store").grant("c")  # nobody holds it now
    with open_run() as run:
        assert run.scopes == ("a", "b", "c")


def test_a_changed_requirement_is_noticed_like_any_other_facet(open_run):
    """What a step needs is part of what its result stands on; the order is not."""
    with open_run(scopes=["a", "b"]) as run:
        run.step(requires=["a", "b"]).call(pay, 1)
    with open_run() as run:
        assert run.step(requires=["b", "a"]).call(pay, 1) == 1
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="scopes: "):
            run.step(requires=["a"]).call(pay, 1)


def test_what_a_run_may_do_cannot_be_changed_by_opening_it_twice(open_run):
    """The same words give the same run; others are refused while it is open."""
    with open_run(scopes=["a"], budget={"usd": 1}) as run:
        assert open_run(scopes=["a"], budget={"usd": 1}) is run
        assert open_run() is run
        for other in ({"scopes": ["b"]}, {"budget": {"usd": 2}}, {"credentials": len}):
            with pytest.raises(dnb.RunHeld, match="cannot change while it is open"):
                open_run(**other)


# -- credentials -------------------------------------------------------------------------------

SECRET = "hunter2-is-no-known-shape"


class Vault:
    """Gives credentials, and remembers for which scopes it was asked."""

    def __init__(self, account="ada"):
        self.account, self.asked = account, []

    def __call__(self, scopes):
        self.asked.append(scopes)
        return dnb.Credentials(SECRET, account=self.account)


def act(run, name="act", **options):
    def body(n):
        assert run.credentials == SECRET
        return n

    return run.step(name, **options).call(body, 1)


def test_credentials_are_made_once_with_the_recorded_scopes(open_run):
    """They are asked for when they are first needed, with what the run has and not more."""
    vault = Vault()
    with open_run(scopes=["a"]):
        pass
    with open_run(scopes=["a", "b"], credentials=vault) as run:
        assert vault.asked == []
        assert run.credentials == run.credentials == SECRET
    assert vault.asked == [("a",)]


def test_any_object_may_be_a_credential(open_run):
    """Where no account is named, none is recorded."""
    client = object()
    with open_run(credentials=lambda scopes: client) as run:
        assert run.credentials is client
        assert "identified" not in kinds(run)
    with open_run("none") as run, pytest.raises(AttributeError, match="without credentials="):
        _ = run.credentials


def test_the_secret_is_never_on_disk(open_run, tmp_path):
    """Not in the journal, its log, the mirror or an artifact: every byte of the store is read."""
    with open_run(scopes=["a"], credentials=Vault()) as run:
        act(run)
        with pytest.raises(TypeError, match="no digest"):
            run.step("leak").call(lambda c: None, Vault()(()))
        with pytest.raises(dnb.ResultLost):
            run.step("leak too", effect="none").call(lambda: Vault()(()))
        assert SECRET not in repr(Vault()(()))
    files = [f for f in (tmp_path / "store").rglob("*") if f.is_file()]
    assert len(files) > 3
    assert not [f for f in files if SECRET.encode() in f.read_bytes()]


def test_the_account_is_recorded_as_a_fingerprint(open_run):
    """Sixteen hex digits over run id and account, so that two runs tell nothing of each other."""
    with open_run(credentials=Vault("ada@example.org")) as run:
        act(run)
        digest, shown = run.fold.terms["account"]
        whole = hashlib.sha256(f"{run.id}\0ada@example.org".encode()).hexdigest()
        assert (digest, shown) == (whole[:16], "'ada@example.org'")
        assert run.history().query("kind == 'identified'")["detail"].item().startswith("account ")


def test_the_same_account_goes_on_without_a_question(open_run):
    """Also for what was recorded before the account was first used."""
    for _ in range(3):
        vault = Vault()
        with open_run(credentials=vault) as run:
            assert run.step("before").call(pay, 1) == 1
            assert act(run) == 1
            assert run.step("after").call(pay, 1) == 1
            assert vault.asked == [()]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["keep", "rerun", None])
def test_another_account_asks_before_anything_whatever_the_policy(open_run, effects, policy):
    """What was done under one account is not gone on with under another in silence."""
    with open_run(credentials=Vault("ada")) as run:
        act(run, effect="none", on_change=policy)
    for attempt in range(2):  # until somebody says so, each kernel asks
        with open_run(credentials=Vault("bob")) as run:
            with pytest.raises(dnb.IncompatibleCheckpoint, match="account: 'ada' -> 'bob'"):
                run.step("new", on_change=policy).call(effects)
            with pytest.raises(dnb.IncompatibleCheckpoint, match="account: 'ada' -> 'bob'"):
                act(run, effect="none", on_change=policy)
            if attempt:
                run.keep("act", reason="bob took over")
                assert act(run, effect="none", on_change=policy) == 1
                assert run.step("new", on_change=policy).call(effects) == 1
    with open_run(credentials=Vault("bob")) as run:
        assert act(run, effect="none", on_change=policy) == 1
        assert run.fold.terms["account"][1] == "'bob'"
    with open_run(credentials=Vault("ada")) as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="account: 'bob' -> 'ada'"):
            run.step("newer").call(effects)


def test_the_old_account_again_withdraws_the_question(open_run, effects):
    """Nothing has changed then, so nothing is asked."""
    with open_run(credentials=Vault("ada")) as run:
        act(run)
    with open_run(credentials=Vault("bob")) as run, pytest.raises(dnb.IncompatibleCheckpoint):
        run.step("new").call(effects)
    with open_run(credentials=Vault("ada")) as run:
        assert act(run) == 1
        assert run.step("new").call(effects) == 1


def test_another_account_asks_where_a_call_was_cut_short_under_the_old_one(open_run):
    """The key of an unfinished call went out under the old account; a rerun gets a new one."""
    keys = []

    def send(run, fail):
        def body(*, idempotency_key):
            keys.append(idempotency_key)
            assert run.credentials == SECRET
            if fail:
                raise ConnectionError
            return 1

        return run.step("send", effect="idempotent", inputs={}).call(body)

    with pytest.raises(ConnectionError), open_run(credentials=Vault("ada")) as run:
        send(run, True)
    with open_run(credentials=Vault("bob")) as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="account: 'ada' -> 'bob'"):
            send(run, False)
        run.rerun("send")
        assert send(run, False) == 1
    assert len(keys) == len(set(keys)) == 2


@pytest.mark.slow
def test_a_fork_of_a_run_acts_for_the_same_account(open_run, tmp_path):
    """The fingerprint is over the id of its birth, which a fork does not change."""
    for name, used in (("used", True), ("unused", False)):
        with open_run(name, credentials=Vault()) as run:
            if used:
                act(run)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    for name in ("used", "unused"):
        for adopt in ("fork", None):  # and its resume
            opened = {"store": tmp_path / "copy", "adopt": adopt, "credentials": Vault()}
            with dnb.run(name, **opened) as fork:
                assert fork.id != fork.fold.born["run_id"]
                assert act(fork) == 1
                assert fork.step("new").call(pay, 1) == 1


def test_credentials_that_cannot_be_had_leave_nothing_half_open(open_run):
    """The error comes up as it is, and the run is free for the next kernel."""

    def broken(scopes):
        raise LookupError("the vault is sealed")

    with open_run(credentials=Vault()) as run:
        act(run)
        before = len(kinds(run))
    with pytest.raises(LookupError, match="the vault is sealed"):
        open_run(credentials=broken)
    with open_run(credentials=Vault()) as run:
        assert len(kinds(run)) == before + 2  # its end, and this opening
        assert act(run) == 1


def test_credentials_that_fail_at_first_use_are_asked_for_again(open_run):
    """Before any account is on record nothing is asked at opening; the next use tries again."""
    answers = [LookupError("sealed"), "secret"]

    def give(scopes):
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    with open_run(credentials=give) as run:
        with pytest.raises(LookupError):
            _ = run.credentials
        assert run.credentials == "secret"


def test_credentials_without_an_account_are_told_where_one_is_on_record(open_run, capsys):
    """It cannot be told any more whose they are, and that is said."""
    with open_run(credentials=Vault()) as run:
        act(run)
    with open_run(credentials=lambda scopes: SECRET) as run:
        assert act(run) == 1
    assert "acted for account 'ada', and its credentials name none" in capsys.readouterr().err


def test_the_secret_itself_is_no_credentials_function(open_run):
    """A text in its place would end in a traceback."""
    with pytest.raises(TypeError, match="never the secret itself") as refused:
        open_run(credentials=SECRET)
    assert SECRET not in str(refused.value)
