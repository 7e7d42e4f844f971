"""Errors carry facts, survive pickling, and say what to do."""

import ast
import inspect
import pickle
import shlex
from types import SimpleNamespace

import pytest

from durable_nb.model import control, errors

OP = SimpleNamespace(id="s#1", outcome="unknown")
VALUES = {
    "run": "r", "operations": (OP,), "why": "w", "blocked": "", "changes": ("code",), "cost": "1",
    "path": "p", "found": "f", "advice": "a", "op": "s#1", "cause": "c", "unknown": True,
    "replayed": False, "step": "s", "where": "", "parent": "p#1", "effect": "external",
    "child": "c#1", "error": "e", "traceback": "", "holder": "h", "store": "s", "known": (),
    "verdict": "confirm", "by": "b", "near": (), "name": "n", "what": "run", "folder": "f", "kind": "k", "message": "m", "back": "b", "facets": ("code",),
    "missing": ("a:read", "b's \"own\""), "spent": ("usd",), "told": "$5.00 of $5.00",
    "outputs": ("a", "b"), "declared": False, "more": "m", "reason": "r", "wait": "sleep#1",
}  # fmt: skip

CLASSES = [
    c
    for c in (vars(errors) | vars(control)).values()
    if inspect.isclass(c)
    and issubclass(c, errors.DurableError | errors.DurableSignal)
    and c not in (errors.DurableError, errors.DurableSignal, errors.NotApplied)
]


def make(cls):
    names = list(inspect.signature(cls.__init__).parameters)[1:]
    found = {n: VALUES[n] for n in names}
    if cls is errors.JournalTooNew:
        found.update(found=2, known=1)
    return cls(**found)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_an_error_survives_pickling_with_its_facts(cls):
    """An error from another process keeps its attributes and its text."""
    error = make(cls)

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is cls
    assert str(again) == str(error)


@pytest.mark.parametrize(
    "cls", [c for c in CLASSES if issubclass(c, errors.DurableSignal)], ids=lambda c: c.__name__
)
def test_a_signal_is_no_exception_that_a_framework_would_swallow(cls):
    """An agent framework that catches `Exception` would hand the doubt to the model."""
    assert not issubclass(cls, Exception)


def test_a_doubt_shows_five_lines_and_ends_with_what_settles_it():
    """The display of a doubt ends with the exact line that settles it."""
    lines = errors.UnknownOutcome("r", [OP], "its kernel ended")._render_traceback_()

    assert len(lines) == 5
    assert 'run.confirm("s#1"' in lines[3]
    assert 'run.deny("s#1"' in lines[4]


def test_a_refusal_ends_with_the_lines_that_grant_it():
    """Also where a scope has quotes in it: what is shown is right Python, and right in a shell."""
    denied = make(control.ScopeDenied).lines()
    spent = make(control.BudgetExceeded).lines()

    assert len(denied) == len(spent) == 5
    call = ast.parse(denied[3].partition(":")[2].strip(), mode="eval").body
    assert [a.value for a in call.args] == list(VALUES["missing"])
    assert shlex.split(denied[4].partition(":")[2])[3:5] == list(VALUES["missing"])
    assert ast.parse(spent[3].partition(":")[2].strip(), mode="eval")
    assert shlex.split(spent[4].partition(":")[2])[:4] == ["durable-nb", "grant", "r", "--usd"]


def test_a_wait_ends_with_the_lines_that_decide_it():
    """Also where its title has quotes in it: right Python, and right in a shell."""
    op = 'approval[it\'s "so"?]#1'
    asked = control.ApprovalPending("r", op, "it's so?", "{'n': 1}", [OP]).lines()
    wanted = control.SignalPending("r", op, "pa id", "", [OP]).lines()
    timer = control.TimerPending("r", "sleep#1", "", "2026-01-01 00:00:00 UTC", [OP]).lines()

    assert len(asked) == len(wanted) == len(timer) == 5
    for call in asked[3].partition(":")[2].split("   or   "):
        assert ast.parse(call.strip(), mode="eval").body.args[0].value == op
    assert shlex.split(asked[4].partition(":")[2])[:4] == ["durable-nb", "approve", "r", op]
    assert shlex.split(wanted[4].partition(":")[2])[:4] == ["durable-nb", "signal", "r", "pa id"]
