"""The `with` form, and its traps."""

import contextlib
import dataclasses
import pickle

import pytest

import durable_nb as dnb
from durable_nb.model.bases import left_by


def test_a_body_that_never_asked_whether_it_is_needed_is_told_on_its_first_run(open_run):
    """The mistake shows in development, and not as a double effect on replay."""
    with open_run() as run:
        with pytest.raises(dnb.UnguardedStep, match=r"op\.needed"), run.step("send") as op:
            op.result = 1
        assert run.get("send").outcome == "completed"
    with open_run() as run, pytest.raises(dnb.UnguardedStep, match="ran all the same"):
        with run.step("send") as op:
            op.result = 1


@pytest.mark.parametrize("effect", ["none", "external"])
def test_a_body_left_early_is_not_completed(open_run, effect):
    """`continue`, `break` and `return` leave a `with` body as if it had succeeded."""
    with open_run() as run:
        with pytest.raises((dnb.StepFailed, dnb.UnknownOutcome)):
            for _ in range(1):
                with run.step("send", effect=effect) as op:
                    if op.needed:
                        continue
        assert run.get("send").outcome == ("incomplete" if effect == "none" else "unknown")


def test_case_48_a_body_that_raises_records_nothing_as_completed(open_run):
    """An assigned result does not count when the body raises afterwards."""
    with open_run() as run:
        with pytest.raises(ZeroDivisionError), run.step("s", effect="none") as op:
            if op.needed:
                op.result = 1
                1 / 0
        assert run.get("s").outcome == "incomplete"


def test_the_with_form_needs_a_name(open_run):
    """There is no function to take it from."""
    with open_run() as run, pytest.raises(TypeError, match="needs a name"):
        with run.step(effect="none"):
            pass


def test_the_current_operation_is_found_inside_a_step(open_run):
    """And there is none outside."""

    def body():
        return dnb.current_operation().id

    with open_run() as run:
        assert run.step(effect="none").call(body) == "body#1"
        assert dnb.current_operation() is None
        assert dnb.current_run() is run
    assert dnb.current_run() is None


@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    """An error that takes no attribute."""

    why: str


@pytest.mark.parametrize("error", [KeyError("no"), Refused("no")], ids=["plain", "frozen"])
def test_an_error_that_closed_a_run_says_what_it_left_in_doubt(tmp_path, error):
    """Here; another process gets the error alone, for what is in doubt cannot be sent."""

    def fail() -> None:
        raise TimeoutError("no answer")

    with contextlib.suppress(KeyError, Refused), dnb.run("job", store=tmp_path) as run:
        with pytest.raises(dnb.UnknownOutcome):
            run.step("pay").call(fail)
        raise error
    (doubt,) = left_by(error)
    assert [op.id for op in doubt.operations] == ["pay#1"]
    assert doubt.place == run.place
    if isinstance(error, KeyError):  # frozen ones cannot be sent anyway
        assert left_by(pickle.loads(pickle.dumps(error))) == ()
