"""What is asked once for a whole tail, where a result differs, and where a step has another name."""

from __future__ import annotations

import threading

import pytest

import durable_nb as dnb


def cheap(x):
    return x


def loop(run, effects, count=5):
    """Do a plan, and then an effect for each of several customers, as version by version."""
    run.step("plan", effect="none").call(cheap, "plan")
    return [run.step("pay", key=n).call(effects, f"pay {n}") for n in range(count)]


@pytest.mark.slow
def test_a_change_is_asked_about_once_for_a_whole_tail(open_run, effects, capsys):
    """One answer holds for all that follows under the same change, and each says that it does."""
    with open_run(version="1") as run:
        paid = loop(run, effects)
    with open_run(version="2") as run:
        with pytest.raises(dnb.IncompatibleCheckpoint, match="version: '1' -> '2'") as stop:
            loop(run, effects)
        assert "up to 6 operations, 5 completed effects after it" in str(stop.value)
        run.keep("plan#1", reason="the same plan")
        assert loop(run, effects) == paid
    assert effects.count == 5
    assert capsys.readouterr().err.count("is kept although this changed: version") == 5
    with open_run() as run:  # and it is asked no more
        assert run.version == "2"
        assert loop(run, effects) == paid


def test_a_decision_to_run_again_does_not_spread_to_effects(open_run, effects):
    """Pure steps are done again as was decided; each effect has a question of its own."""
    with open_run(version="1") as run:
        loop(run, effects)
    with open_run(version="2") as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            loop(run, effects)
        run.rerun("plan#1")
        with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
            loop(run, effects)
        assert [op.id for op in stop.value.operations] == ["pay[0]#1"]
    assert effects.count == 5


@pytest.mark.slow
def test_case_05_nothing_runs_under_another_model_or_other_tools_before_a_decision(
    open_run, effects
):
    """Also what is new is not begun, where the program comes to it first."""
    before = {"model": "m-1", "tools": ["x"]}
    with open_run(facets=before) as run:
        run.step("pay").call(effects, "pay")
    for facets in ({**before, "tools": ["x", "y"]}, {**before, "model": "m-2"}):
        with open_run(facets=facets) as run:
            with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
                run.step("other").call(effects, "other")
            assert [op.id for op in stop.value.operations] == ["pay#1"]
            (changed,) = [k for k in facets if facets[k] != before[k]]
            assert stop.value.facets == (changed,)
            assert run.facets == facets
    assert effects.count == 1
    with open_run(facets=before) as run:  # as it was: no question is left
        run.step("pay").call(effects, "pay")
        run.step("other").call(effects, "other")
    assert effects.lines == ["pay", "other"]


def test_facets_of_a_step_are_compared_by_name(open_run, effects):
    """Model and prompt are declared; what changed is named, before and after."""
    for prompt in ("short", "long"):
        with open_run(facets={"model": "m"}) as run:
            step = run.step("ask", facets={"prompt": prompt})
            if prompt == "short":
                step.call(effects, 1)
                continue
            with pytest.raises(dnb.IncompatibleCheckpoint, match="prompt: 'short' -> 'long'"):
                step.call(effects, 1)
    assert effects.count == 1


def test_a_step_run_again_with_the_same_result_leaves_what_follows_valid(open_run, effects):
    """Early cut-off: nothing that stands on an equal result is asked about or done again."""
    with open_run() as run:
        run.step("plan", effect="none").call(cheap, {"to": "a"})
        run.step("pay").call(effects, "a")
        run.invalidate("plan#1", reason="look again")
    with open_run() as run:
        plan = run.step("plan", effect="none").call(cheap, {"to": "a"})
        run.step("pay").call(effects, plan["to"])
        run.step("mail").call(effects, "mail")
    assert effects.lines == ["a", "mail"]


@pytest.mark.slow
def test_another_result_stops_before_the_next_effect(open_run, effects):
    """Effects that stand on the old result have happened: a person says how to go on."""
    with open_run() as run:
        run.step("plan", effect="none").call(lambda: "a")
        run.step("pay", key="a").call(effects, "a")
        run.invalidate("plan#1", reason="look again")

    def again(run):
        who = run.step("plan", effect="none").call(lambda: "b")
        run.step("look", effect="none").call(cheap, who)  # pure: it may go on
        return run.step("pay", key=who).call(effects, who)

    for _ in range(2):  # the question survives its kernel
        with open_run() as run:
            with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
                again(run)
            assert stop.value.facets == ("result",)
            assert "pay[a]#1" in str(stop.value)
    assert effects.lines == ["a"]
    with open_run() as run:
        run.keep("plan#1", reason="a was paid back by hand")
        assert again(run) == 2
    with open_run() as run:
        assert again(run) == 2
    assert effects.lines == ["a", "b"]


@pytest.mark.slow
def test_case_09_a_renamed_step_never_gets_the_record_of_another(open_run, effects):
    """The divergence names both, and nothing is done until somebody has looked."""
    with open_run() as run:
        run.step("fetch").call(effects, "fetch")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint) as stop:
            run.step("send").call(effects, "send")
        assert "fetch#1 was called here -> send#1 is called instead" in str(stop.value)
        assert effects.lines == ["fetch"]
        assert run.step("fetch").call(effects, "fetch") == 1  # as it was
        assert run.step("send").call(effects, "send") == 2  # and this is new
    assert effects.lines == ["fetch", "send"]


def test_a_renamed_step_goes_on_once_somebody_has_looked(open_run, effects):
    """What it did under its old name stays on record; it is not asked about twice."""
    with open_run() as run:
        run.step("fetch").call(effects, "fetch")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("send").call(effects, "send")
        run.keep("fetch#1", reason="renamed on purpose, both are wanted")
    with open_run() as run:
        run.step("send").call(effects, "send")
    with open_run() as run:
        assert run.step("send").call(effects, "send") == 2
        assert [op.id for op in run.unreached()] == ["fetch#1"]


def test_what_the_program_no_longer_reaches_is_listed_at_its_end(open_run, effects, capsys):
    """An effect that is not in the program any more has happened all the same."""
    with open_run() as run:
        run.step("look", effect="none").call(cheap, 1)
        run.step("pay").call(effects, "x")
        assert run.unreached() == []
    capsys.readouterr()
    with open_run() as run:
        run.step("mail", effect="none").call(cheap, 2)
    said = capsys.readouterr().err
    assert "on record, and not reached by this program: look#1, pay#1" in said
    assert "pay#1 is an effect that happened" in said


def test_the_end_of_a_run_is_said_with_what_is_done(open_run, effects, capsys):
    """Once: a run that is finished already says nothing more."""
    with open_run() as run:
        run.step("look", effect="none").call(cheap, 1)
        run.finish()
        run.finish()
    assert capsys.readouterr().err.count("is finished: 1 completed\n") == 1


def test_what_follows_a_stop_is_not_called_unreached(open_run, effects, capsys):
    """A program that was stopped before its end says nothing about the rest."""
    with open_run() as run:
        run.step("look", effect="none").call(cheap, 1)
        run.step("pay").call(effects, "x")
    capsys.readouterr()
    with pytest.raises(ValueError, match="stop"), open_run() as run:
        run.step("look", effect="none").call(cheap, 1)
        raise ValueError("stop")
    assert "not reached" not in capsys.readouterr().err


def test_operations_inside_a_replayed_one_are_reached(open_run):
    """A completed parent is not entered again, so its children are as much as reached."""

    def outer(run):
        return run.step("inner", effect="none").call(cheap, 1)

    for _ in range(2):
        with open_run() as run:
            run.step("outer", effect="none", inputs={}).call(outer, run)
            assert run.unreached() == []


@pytest.mark.slow
def test_two_blocks_of_one_program_reach_what_each_of_them_reaches(tmp_path, effects, capsys):
    """A script that opens its run twice is one program."""
    for name in ("pay", "mail"):
        with dnb.run("r", store=tmp_path) as run:
            run.step(name).call(effects, name)
            assert run.unreached() == []
    assert "not reached" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["keep", "rerun", "ask", lambda old, changes: old + "!"])
def test_a_run_has_a_policy_for_steps_that_name_none(open_run, policy):
    """What a step says of itself counts before it."""
    for x in ("a", "b"):
        with open_run(on_change=policy) as run:
            assert run.step("own", effect="none", on_change="keep").call(cheap, x) == "a"
            step = run.step("plan", effect="none")
            if x == "b" and policy == "ask":
                with pytest.raises(dnb.IncompatibleCheckpoint):
                    step.call(cheap, x)
            else:
                wanted = {"keep": "a", "rerun": x}.get(policy, "a" if x == "a" else "a!")
                assert step.call(cheap, x) == wanted
    with pytest.raises(TypeError, match="on_change='never'"):
        open_run(on_change="never")


# -- what the machine of rules (tests/property) has found -------------------------------------------


@pytest.mark.slow
def test_a_different_result_is_asked_about_until_it_is_answered(open_run, effects):
    """Another question about the same operation, asked and withdrawn, does not answer it."""
    with open_run() as run:
        run.step("plan", effect="none").call(lambda x: "a", 1)
        run.step("pay").call(effects, "pay")
        run.invalidate("plan#1", "look again")
    with pytest.raises(dnb.IncompatibleCheckpoint) as stop, open_run() as run:
        run.step("plan", effect="none").call(lambda x: "b", 1)
        run.step("pay").call(effects, "pay")
        run.step("mail").call(effects, "mail")
    assert stop.value.facets == ("result",)
    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        run.step("plan", effect="none").call(lambda x: "b", 2)  # edited
    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        run.step("plan", effect="none").call(lambda x: "b", 1)  # edited back
        run.step("pay").call(effects, "pay")
        run.step("mail").call(effects, "mail")
    assert effects.lines == ["pay"]


@pytest.mark.slow
def test_a_result_is_compared_with_the_one_that_effects_stand_on(open_run, effects):
    """Doing it a third time does not make the second result the old one."""
    with open_run() as run:
        run.step("plan", effect="none").call(lambda x: "a", 1)
        run.step("pay").call(effects, "pay")
        run.invalidate("plan#1", "look again")
    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        run.step("plan", effect="none").call(lambda x: "b", 1)
        run.step("mail").call(effects, "mail")
    with open_run() as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("plan", effect="none").call(lambda x: "b", 2)
        run.rerun("plan#1")
    with pytest.raises(dnb.IncompatibleCheckpoint), open_run() as run:
        run.step("plan", effect="none").call(lambda x: "b", 2)
        run.step("pay").call(effects, "pay")
        run.step("mail").call(effects, "mail")
    assert effects.lines == ["pay"]


def test_only_what_may_open_children_is_a_way_to_a_doubt_below_it(open_run, effects):
    """A step with an effect of its own does not begin over an unknown descendant."""

    def outer(run):
        run.step("pay").call(lambda: 1 / 0)

    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.step("outer", effect="none", inputs={}).call(outer, run)
    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.step("outer", inputs={}).call(effects)
    assert effects.lines == []


def test_a_lost_result_that_was_handled_is_history(open_run, effects):
    """The program took the other way because of it, and takes it again."""
    good = []

    def look():
        return "seen" if good else threading.Lock()

    def program():
        with open_run() as run:
            try:
                return run.step("look", effect="none").call(look)
            except dnb.NotRecordable:
                return run.step("pay").call(effects, "fallback")

    assert program() == 1
    good.append(1)
    with open_run(on_change="keep"):
        pass
    assert program_kept(open_run, look, effects) == 1


def program_kept(open_run, look, effects):
    with open_run(on_change="keep") as run:
        try:
            return run.step("look", effect="none").call(look)
        except dnb.NotRecordable:
            return run.step("pay").call(effects, "fallback")


def test_a_record_is_not_given_up_while_the_run_is_blocked(open_run):
    """What may not run now keeps its record, so that editing back replays it."""
    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.step("look", effect="none").call(cheap, 1)
        run.step("pay").call(lambda: 1 / 0)
    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.step("look", effect="none").call(cheap, 2)
    with open_run() as run:
        assert run.step("look", effect="none").call(cheap, 1) == 1


def test_a_confirmed_result_is_not_asked_about_under_another_version(open_run):
    """It depends on its inputs only, whatever the program comes to first."""
    with open_run(version="1") as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(lambda: 1 / 0)
        run.confirm("pay#1", "paid")
    with open_run(version="2") as run:
        assert run.step("pay").call(lambda: 1 / 0) == "paid"
    with open_run(version="3") as run:
        run.step("look", effect="none").call(cheap, 1)
        assert run.step("pay").call(lambda: 1 / 0) == "paid"


def test_a_lost_result_that_came_up_through_a_parent_is_the_same_error_on_replay(open_run, effects):
    """The program that handled it handles it again."""

    def outer(run):
        return run.step("look", effect="none").call(threading.Lock)

    for _ in range(2):
        with open_run() as run:
            with pytest.raises(dnb.NotRecordable, match="look#1"):
                run.step("outer", effect="none", inputs={}).call(outer, run)
            assert run.step("pay").call(effects, "fallback") == 1
    assert effects.count == 1
