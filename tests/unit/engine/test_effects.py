"""What an effect that did not end well leaves behind."""

import pytest

import durable_nb as dnb
from durable_nb import values


class Refused(Exception):
    """An error of the tests' own."""


def test_undeclared_means_external(open_run):
    """The safe effect is the default one."""
    with open_run() as run:
        run.step("s").call(lambda: 1)
        assert run.get("s").effect == "external"


def test_case_13_a_timeout_after_sending_is_unknown_and_not_a_failure(open_run, effects):
    """An exception proves nothing about an external effect."""

    def send():
        effects()
        raise TimeoutError("no answer")

    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome) as doubt:
            run.call(send)
        assert isinstance(doubt.value.__cause__, TimeoutError)
        assert [o.id for o in doubt.value.operations] == ["send#1"]
        assert [o.outcome for o in run.unknown()] == ["unknown"]
    with pytest.raises(dnb.UnknownOutcome), open_run() as run:
        run.call(send)
    assert effects.count == 1


@pytest.mark.parametrize("proof", [(Refused,), Refused, lambda e: "no" in str(e)])
def test_an_error_that_proves_that_nothing_happened_leaves_no_doubt(open_run, proof):
    """`not_applied` takes classes or a predicate; then the error itself goes on."""

    def send():
        raise Refused("no route")

    with open_run() as run:
        with pytest.raises(Refused):
            run.step(not_applied=proof).call(send)
        assert run.get("send").outcome == "incomplete"


def test_raising_not_applied_in_the_body_leaves_no_doubt(open_run):
    """The body may say so itself."""

    def send():
        raise dnb.NotApplied("sold out")

    with open_run() as run:
        with pytest.raises(dnb.NotApplied):
            run.call(send)
        assert run.unknown() == []


@pytest.mark.parametrize(
    ("status", "proves"), [(400, True), (429, True), (500, False), (503, False)]
)
def test_http_rejected_knows_which_answers_prove_it(status, proves):
    """A rejected request was not applied; a server's error proves nothing."""
    error = RuntimeError()
    error.response = type("Response", (), {"status_code": status})()

    assert dnb.http_rejected(error) is proves
    assert dnb.http_rejected(TimeoutError()) is False


@pytest.mark.parametrize("effect", ["none", "idempotent"])
def test_a_failed_step_without_a_doubt_is_tried_again_under_the_same_key(open_run, effect):
    """An unobserved failure is tried again by the next pass."""
    keys = []

    def work(*, idempotency_key):
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise ValueError("first")
        return "done"

    with pytest.raises(ValueError, match="first"), open_run() as run:
        run.step(effect=effect).call(work)
    with open_run() as run:
        assert run.step(effect=effect).call(work) == "done"
        assert run.get("work").attempt == 2
    assert len(set(keys)) == 1


def test_a_handled_failure_is_history(open_run):
    """A failure that the program saw replays as the same error, whatever would happen now."""
    tries = []

    def primary():
        tries.append(1)
        raise ConnectionError("down")

    def program():
        with open_run() as run:
            try:
                run.step(effect="none").call(primary)
            except ConnectionError as error:
                return str(error), run.step("fallback", effect="none").call(lambda: "b")

    assert program() == program() == ("down", "b")
    assert len(tries) == 1


def test_an_observed_failure_of_a_class_of_ones_own_replays_as_that_class_or_as_step_failed(
    open_run,
):
    """The original class if it survives its codec, else `StepFailed` with its text."""

    class Fancy(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a}-{b}")

    def fail():
        raise Fancy(1, 2)

    def program():
        with open_run() as run:
            try:
                run.step(effect="none").call(fail)
            except (Fancy, dnb.StepFailed) as error:
                run.step("next", effect="none").call(lambda: 1)
                return error

    assert isinstance(program(), Fancy)
    replayed = program()
    assert isinstance(replayed, dnb.StepFailed)
    assert "1-2" in str(replayed)


def test_a_result_that_cannot_be_recorded_leaves_an_external_step_unknown(open_run, effects):
    """It happened; only its result is missing."""
    import threading

    def send():
        effects()
        return {"client": threading.Lock()}

    with open_run() as run:
        with pytest.raises(dnb.NotRecordable, match="it happened; only its result is missing"):
            run.call(send)
        assert [o.id for o in run.unknown()] == ["send#1"]
        with pytest.raises(dnb.UnknownOutcome):
            run.step("next").call(lambda: 1)


def test_case_66_a_step_that_returns_a_lock_stops_there_with_the_path(open_run):
    """The run does not go on while it silently records nothing."""
    import threading

    with open_run() as run:
        with pytest.raises(dnb.NotRecordable, match="lock") as refused:
            run.step("third", effect="none").call(lambda: {"a": [threading.Lock()]})
        assert "['a'][0]" in str(refused.value).replace('"', "'")
        assert run.get("third").outcome == "incomplete"


def test_a_result_that_does_not_validate_is_not_recorded(open_run):
    """`validate` raises or returns False; the step is as if its result were missing."""
    with open_run() as run:
        with pytest.raises(dnb.NotRecordable):
            run.step("s", effect="none", validate=lambda r: r > 0).call(lambda: -1)
        assert run.get("s").outcome == "incomplete"


def test_case_22_a_failed_step_leaves_the_earlier_ones_and_only_the_rest_runs(open_run, effects):
    """Fix the fourth of five and run all again: the first three stay as they are."""

    def program(broken):
        with open_run() as run:
            for i in range(1, 6):

                def work(i):
                    if i == 4 and broken:
                        raise dnb.NotApplied("bug")
                    return effects(i)

                run.step("work", key=i, on_change="keep").call(work, i)

    with pytest.raises(dnb.NotApplied):
        program(broken=True)
    program(broken=False)

    assert effects.lines == ["1", "2", "3", "4", "5"]


def test_a_typo_in_the_arguments_is_an_ordinary_type_error(open_run):
    """The signature is bound before the intent, so that there is no doubt."""

    def send(to):
        return to

    with open_run() as run:
        with pytest.raises(TypeError, match="missing a required argument: 'to'"):
            run.call(send, too="x")
        assert run.operations().empty


@pytest.mark.slow
def test_retries_happen_only_while_nothing_is_in_doubt(open_run, effects):
    """`retries` repeats what is safe; an external failure without proof is not repeated."""

    def safe():
        effects()
        if effects.count < 3:
            raise ConnectionError
        return "ok"

    def unsafe():
        effects()
        raise ConnectionError

    with open_run() as run:
        assert run.step(effect="idempotent", retries=3).call(safe) == "ok"
        assert run.get("safe").attempt == 3
        with pytest.raises(dnb.UnknownOutcome):
            run.step(retries=3).call(unsafe)
    assert effects.count == 4


def test_nothing_new_runs_while_something_is_unknown_but_records_replay(open_run, effects):
    """A changed trajectory must not walk around the doubt."""

    def send(fail):
        effects()
        if fail:
            raise TimeoutError
        return "sent"

    with open_run() as run:
        run.step("first").call(send, False)
        with pytest.raises(dnb.UnknownOutcome):
            run.step("second").call(send, True)
    with open_run() as run:
        assert run.step("first").call(send, False) == "sent"
        with pytest.raises(dnb.UnknownOutcome, match="other#1 was not started"):
            run.step("other", effect="none").call(lambda: effects())
        assert "other#1" not in list(run.operations()["id"])
    assert effects.count == 2


def test_a_parent_does_not_complete_over_an_unknown_descendant(open_run):
    """Swallowing the signal does not help: the parent stays incomplete."""

    def parent(run):
        try:
            run.step("send").call(lambda: 1 / 0)
        except BaseException:
            pass
        return "fine"

    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step(effect="none", inputs={}).call(parent, run)
        assert run.get("parent").outcome == "incomplete"


def test_a_parent_with_an_effect_of_its_own_may_not_open_children(open_run, effects):
    """A container runs again on resume, so its own effect would be doubled."""

    def parent(run):
        run.step("child").call(effects)

    with open_run() as run:
        with pytest.raises(dnb.UnknownOutcome) as stop:
            run.step("outer", inputs={}).call(parent, run)
        assert isinstance(stop.value.__cause__, dnb.NestedEffect)
        assert "outer#1/child#1" not in list(run.operations()["id"])
    assert effects.count == 0


def test_changing_an_argument_in_place_is_refused(open_run):
    """No replay would bring the change back: return it instead."""

    def grow(history):
        history.append("x")
        return 1

    with open_run() as run, pytest.raises(dnb.NotRecordable, match="return it instead"):
        run.step(effect="none").call(grow, [])


def test_a_result_that_its_store_lost_at_once_is_not_completed(open_run, monkeypatch):
    """What was stored is read back before the result is recorded: else it happened, unrecorded."""
    with open_run() as run:
        monkeypatch.setattr(run.artifacts, "get", _lost)
        with pytest.raises(dnb.ResultLost) as lost:
            run.step("large").call(lambda: "x" * 100_000)
        assert isinstance(lost.value.__cause__, values.ArtifactMissing)
        assert [o.outcome for o in run.unknown()] == ["unknown"]


def _lost(sha256):
    raise values.ArtifactMissing(sha256)
