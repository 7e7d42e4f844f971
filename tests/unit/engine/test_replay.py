"""A recorded result is never computed again."""

import asyncio

import pytest

import durable_nb as dnb


def test_a_completed_step_is_not_run_again(open_run, effects):
    """In the next kernel the record is returned, and the body stays untouched."""

    def charge(order):
        return {"charged": order, "n": effects(order)}

    with open_run() as run:
        first = run.call(charge, 7)
    with open_run() as run:
        second = run.call(charge, 7)

    assert first == second == {"charged": 7, "n": 1}
    assert effects.count == 1


def test_every_spelling_replays(open_run, effects):
    """Call form, `with` form, decorator and their async twins share one mechanism."""

    @dnb.step(effect="external")
    def decorated(x):
        return effects(f"decorated {x}")

    @dnb.step(effect="external")
    async def decorated_async(x):
        return effects(f"async {x}")

    async def plain_async(x):
        return effects(f"plain {x}")

    async def main(run):
        async with run.step("with_async") as op:
            if op.needed:
                op.result = effects("with_async")
        return op.result, await decorated_async(1), await run.call(plain_async, 2)

    def program():
        with open_run() as run:
            with run.step("with", inputs={"a": 1}) as op:
                if op.needed:
                    op.result = effects("with")
            bound = run.step("bound", effect="none")(lambda x: effects(x))
            return (
                op.result,
                decorated(1),
                decorated.options(key="k")(1),
                bound("b"),
                run.step("called").call(effects, "c"),
                asyncio.run(main(run)),
                run.map(decorated.options(name="mapped"), [1, 2], key=str),
            )

    first = program()

    assert program() == first
    assert effects.count == 10


def test_the_live_call_returns_what_a_replay_will_return(open_run):
    """Live calls too return the value after encoding and decoding."""
    inner = [1]

    with open_run() as run:
        live = run.step("s", effect="none").call(lambda: {"a": inner})

    assert live == {"a": [1]}
    assert live["a"] is not inner


def test_the_bare_function_journals_nothing(open_run):
    """`step.fn` is the function itself."""

    @dnb.step
    def add(a, b):
        return a + b

    with open_run() as run:
        assert add.fn(1, 2) == 3
        assert run.operations().empty


def test_record_is_what_is_recorded_and_returned(open_run):
    """`record=` turns an object that cannot be kept into what can, live and on replay alike."""

    class Response:
        def json(self):
            return {"ok": 1}

    def program():
        with open_run() as run:
            return run.step("get", record=lambda r: r.json()).call(lambda: Response())

    assert program() == program() == {"ok": 1}


def test_opening_executes_nothing_and_twice_is_the_same_run(tmp_path):
    """Resuming offers; opening a run that this process holds returns it."""
    run = dnb.open_run("r", store=tmp_path)

    assert dnb.open_run("r", store=tmp_path) is run
    assert run.operations().empty
    run.close()


def test_a_completed_parent_is_never_entered(open_run, effects):
    """A container replays its own record; its children are not even looked at."""

    @dnb.step(effect="external")
    def child():
        return effects()

    def parent():
        return child() + 1

    for _ in range(2):
        with open_run() as run:
            assert run.step(effect="none").call(parent) == 2
    with open_run() as run:
        run.step(effect="none").call(parent)
        assert run.get("parent#1/child#1").source == ""


def test_an_incomplete_parent_is_entered_anew_and_its_children_replay(open_run, effects):
    """Child counters begin at 1 again, so finished children are found."""
    fail = True

    @dnb.step(effect="external")
    def child(i):
        return effects(i)

    def parent():
        total = [child(i) for i in range(2)]
        if fail:
            raise RuntimeError("late")
        return total

    with pytest.raises(RuntimeError), open_run() as run:
        run.step(effect="none").call(parent)
    fail = False
    with open_run() as run:
        assert run.step(effect="none", on_change="keep").call(parent) == [1, 2]
    assert effects.count == 2


def test_case_06_an_earlier_step_is_not_repeated_by_a_whole_retry(open_run, effects):
    """A retry of the whole workflow after a later error repeats no earlier work."""

    def work():
        return effects()

    def flaky():
        if effects.count == 1:
            effects("try")
            raise RuntimeError("400")
        return "ok"

    def program():
        with open_run() as run:
            run.call(work)
            return run.step(effect="none").call(flaky)

    with pytest.raises(RuntimeError):
        program()
    assert program() == "ok"
    assert effects.lines == ["x", "try"]


def test_case_40_steps_that_differ_in_a_constant_only_do_not_share_a_result(open_run):
    """Identity is the place in the run, never a hash of the code or of equal-looking inputs."""
    with open_run() as run:

        def f(x):
            return (type(x).__name__, x)

        results = [run.call(f, x) for x in (1, "1", (1, 2), "(1, 2)")]

    assert results == [("int", 1), ("str", "1"), ("tuple", (1, 2)), ("str", "(1, 2)")]


def test_case_85_two_stores_do_not_share_a_run(tmp_path):
    """Each store has runs of its own, also of one name."""
    for name in "ab":
        with dnb.run("r", store=tmp_path / name) as run:
            assert run.step("s", effect="none").call(lambda n=name: n) == name


def test_case_83_spend_counts_failed_attempts_and_replay_adds_nothing(open_run):
    """Totals survive a restart, include what failed, and a missing price stays unknown."""

    def program(fail):
        with open_run() as run:
            with run.step("a", effect="none") as op:
                if op.needed:
                    op.spend(usd=0.02)
                    op.result = 1
            with run.step("free", effect="none") as op:
                if op.needed:
                    op.result = 1
            with run.step("b", effect="none") as op:
                if op.needed:
                    op.spend(usd=0.01, tokens=10)
                    if fail:
                        raise RuntimeError
                    op.result = 2
            return run.get("a").usd, run.get("b").usd, run.get("free").usd

    with pytest.raises(RuntimeError):
        program(fail=True)

    assert program(fail=False) == (0.02, 0.02, None)
    assert program(fail=False) == (0.02, 0.02, None)


def test_a_line_recorded_beside_a_result_is_shown_while_that_result_counts(open_run):
    """A result that a migration put in its place is shown by its own value."""

    def count(n):
        return n

    def step(run, n, **options):
        line = {"preview": lambda value: f"{value} apples\nand a secret sk-{'a1B2' * 12}"}
        return run.step(effect="none", **line, **options).call(count, n)

    def shown(run):
        return run.get("count").result_preview

    with open_run() as run:
        assert step(run, 3) == 3
        assert shown(run) == "3 apples and a secret [redacted]"
    with open_run() as run:
        assert shown(run) == "3 apples and a secret [redacted]"
        run.invalidate("count", "miscounted")
        assert shown(run) == ""
        step(run, 3)
        assert shown(run).startswith("3 apples")
    with open_run() as run:
        assert step(run, 4, on_change=lambda old, changes: old + 10) == 13
        assert shown(run) == "13"
