"""A run never goes on under changed assumptions in silence."""

import pytest

import durable_nb as dnb


def make(source, name="work"):
    """Define a function from source that `inspect` can read back, as a notebook cell does."""
    import linecache
    import uuid

    filename = f"<cell {uuid.uuid4()}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    space = {}
    exec(compile(source, filename, "exec"), space)
    return space[name]


BASE = 'def work(x):\n    return "a" + x\n'


@pytest.mark.parametrize(
    "edited",
    [
        'def work(x):\n    # a comment\n    return "a" + x\n',
        'def work(x):\n\n\n    return "a" + x\n',
        "def work(x):\n    return 'a' + x\n",
    ],
    ids=["comment", "blank lines", "quotes"],
)
def test_case_37_an_edit_that_changes_no_syntax_tree_changes_nothing(open_run, edited):
    """Comments, blank lines and quote style do not count."""
    with open_run() as run:
        run.call(make(BASE), "x")
    with open_run() as run:
        assert run.call(make(edited), "x") == "ax"
        assert run.get("work").source == "record"


def test_case_87_a_changed_body_asks_and_says_what_changed(open_run):
    """An effect is never run again in silence, nor is a stale result returned in silence."""
    changed = make('def work(x):\n    return "b" + x\n')
    with open_run() as run:
        run.call(make(BASE), "x")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="code of the step") as stop:
            run.call(changed, "x")
        assert [o.id for o in stop.value.operations] == ["work#1"]
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("next", effect="none").call(lambda: 1)
        run.keep("work#1", reason="cosmetic")
    with open_run() as run:
        assert run.call(changed, "x") == "ax"


def test_a_rerun_is_another_effect_with_another_key(open_run):
    """Else the provider would hand back the old effect."""
    keys = []

    def pay(amount, *, idempotency_key):
        keys.append(idempotency_key)
        return amount

    with open_run() as run:
        run.call(pay, 1)
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="input amount: 1 -> 2"):
            run.call(pay, 2)
        run.rerun("pay#1")
    with open_run() as run:
        assert run.call(pay, 2) == 2
    assert len(set(keys)) == 2


def test_a_pure_and_cheap_step_is_run_again_with_a_notice(open_run, capsys):
    """Redoing it costs nothing, so nobody is asked; it is said all the same."""

    def work(x):
        return x

    with open_run() as run:
        run.step(effect="none").call(work, 1)
    with open_run() as run:
        assert run.step(effect="none").call(work, 2) == 2
    assert "running again, because this changed: input x: 1 -> 2" in capsys.readouterr().err


def test_a_pure_step_with_an_effect_after_it_asks(open_run, effects):
    """What follows might be repeated, so the default is to ask, with the totals."""

    def plan(x):
        return x

    with open_run() as run:
        run.step(effect="none").call(plan, 1)
        run.call(effects, "x")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="1 completed effects after it"):
            run.step(effect="none").call(plan, 2)


def test_case_42_a_step_is_stale_when_the_value_before_it_changed(open_run):
    """Inputs are compared by value, not by the code that made them."""
    with open_run() as run:
        first = run.step("random", effect="none").call(lambda: 4)
        run.step("use", effect="none").call(lambda x: x, first)
        run.invalidate("random", reason="again")
    with open_run() as run:
        second = run.step("random", effect="none").call(lambda: 5)
        assert run.step("use", effect="none").call(lambda x: x, second) == 5


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("keep", "a1"), ("rerun", "b2"), (lambda old, changes: old + "!", "a1!")],
)
def test_a_step_can_choose_its_policy(open_run, policy, expected):
    """`on_change`: keep, rerun, or a function that migrates the old result."""
    with open_run() as run:
        run.step("work", effect="none").call(make('def work(x):\n    return f"a{x}"\n'), 1)
    for _ in range(2):
        with open_run() as run:
            new = make('def work(x):\n    return f"b{x}"\n')
            assert run.step("work", effect="none", on_change=policy).call(new, 2) == expected


def test_other_inputs_under_the_key_of_an_interrupted_intent_ask_first(open_run):
    """A provider would answer the old request, or refuse the key."""

    def pay(amount):
        if amount == 1:
            raise ConnectionError
        return amount

    with pytest.raises(ConnectionError), open_run() as run:
        run.step(effect="idempotent").call(pay, 1)
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="input amount: 1 -> 2"):
            run.step(effect="idempotent").call(pay, 2)
        run.rerun("pay#1")
        assert run.step(effect="idempotent").call(pay, 2) == 2


def test_a_confirmed_result_depends_on_its_inputs_only(open_run):
    """A person vouched for it; an edit of the code does not make that untrue."""
    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.call(make("def work(x):\n    raise TimeoutError\n"), "x")
        run.confirm("work#1", "seen", evidence="ledger line 3")
    with open_run() as run:
        assert run.call(make(BASE), "x") == "seen"


def test_an_input_without_a_digest_is_named(open_run):
    """It cannot be compared on resume; `inputs=` says what counts."""
    import threading

    def use(client, order):
        return order

    with open_run() as run:
        with pytest.raises(TypeError, match="input 'client' of use#1"):
            run.call(use, threading.Lock(), 7)
        assert run.step(inputs={"order": 7}).call(use, threading.Lock(), 7) == 7


def test_case_35_one_step_name_in_two_runs_shares_nothing(open_run):
    """Records belong to a run; two notebooks share one only by naming it."""
    with open_run("a") as run:
        assert run.step("f", effect="none").call(lambda: "a") == "a"
    with open_run("b") as run:
        assert run.step("f", effect="none").call(lambda: "b") == "b"


def test_a_question_survives_the_kernel_and_is_withdrawn_when_the_change_is(open_run):
    """It is on record: another process can answer it, and the old code silences it."""
    changed = make('def work(x):\n    return "b" + x\n')
    with open_run() as run:
        run.call(make(BASE), "x")
    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        run.call(changed, "x")
    with open_run() as run:
        assert 'run.keep("work#1")' in run.status_view().to_text()
        with pytest.raises(dnb.IncompatibleCheckpoint, match="code of the step"):
            run.step("other", effect="none").call(lambda: 1)
        assert run.call(make(BASE), "x") == "ax"
        assert run.step("other", effect="none").call(lambda: 1) == 1
        with pytest.raises(dnb.VerdictRefused, match="nothing to keep"):
            run.keep("work#1")


@pytest.mark.slow
def test_a_second_change_is_a_new_question(open_run):
    """A record that was kept once can be kept again, for another change."""

    def pay(amount):
        return amount

    with open_run() as run:
        run.call(pay, 1)
    for amount in (2, 3):
        with open_run() as run:
            with pytest.raises(dnb.IncompatibleCheckpoint):
                run.call(pay, amount)
            run.keep("pay#1")
        with open_run() as run:
            assert run.call(pay, amount) == 1


def test_a_kept_failure_is_still_a_failure(open_run):
    """Keeping a record keeps what it says, also when it says that the step failed."""

    def program(x):
        with open_run() as run:

            def fail(x):
                raise ValueError("no")

            try:
                run.step(effect="none", on_change="keep").call(fail, x)
            except ValueError as error:
                run.step("after", effect="none").call(lambda: 1)
                return str(error)

    assert program(1) == program(2) == program(2) == "no"
