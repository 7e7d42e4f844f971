"""Verdicts from the command line: what is suggested works, and nothing is settled unseen."""

from __future__ import annotations

import os
import pty
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.terminal import do, document, records, run_it

import durable_nb as dnb
from durable_nb.engine.store import open_run
from durable_nb.engine.watched import Watched

# -- what is suggested works -------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_the_suggested_line_settles_it(store: Path, named: bool) -> None:
    """The line that `show` prints does what it says once its blanks are filled in."""
    where = ("--store", store) if named else ()
    opened = document(do("show", "refund-17", "--json", *where))["open"]
    line = opened[0]["line"].replace('{"id": …}', '{"id": "m_1"}').replace("…", "in the log")
    assert ("--store" in line) is named

    assert do(*shlex.split(line)[1:]).exit_code == 0
    assert do("show", "refund-17").exit_code == 0


def test_a_suggested_line_that_was_not_filled_in_records_nothing(store: Path) -> None:
    """The blanks of a suggested line are refused, also where `...` would be valid Python."""
    before = records(store, "refund-17")
    for question in document(do("show", "refund-17", "--json"))["open"]:
        assert do(*shlex.split(question["line"])[1:]).exit_code == 2
    literal = do("confirm", "refund-17", "mail#1", '{"id": ...}', "--evidence", "seen")
    assert literal.exit_code == 2
    assert records(store, "refund-17") == before


def test_an_operation_whose_name_cannot_be_typed_is_settled_by_its_row(store: Path) -> None:
    """A name that is no argument, or not printable, is replaced by the row number."""
    run = dnb.open_run("odd", store=store)
    with pytest.raises(dnb.UnknownOutcome):
        run.step("--evidence").call(int, "no")
    run.close()
    line = document(do("show", "odd", "--json"))["open"][1]["line"]
    assert line == 'durable-nb deny odd 1 --evidence "…"'


# -- results -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ('{"id": 1, "ok": true}', {"id": 1, "ok": True}),
        ("null", None),
        ('"sent"', "sent"),
        ("{'id': (1, 2)}", {"id": (1, 2)}),
        ("None", None),
        ("b'raw'", b"raw"),
    ],
)
def test_a_result_is_json_or_a_python_literal(store: Path, given: str, recorded: object) -> None:
    """Replay returns exactly what was given, tuples and bytes included."""
    assert do("confirm", "refund-17", "mail#1", given, "--evidence", "x").exit_code == 0
    run = open_run("refund-17", store=store, role="reader")
    assert run.get("mail#1").result == recorded
    run.close()


@pytest.mark.parametrize(
    "given", ["sent", "{", "__import__('os').mkdir('pwned')", "[" * 100_000, "9" * 5000 + "x"]
)
def test_a_result_that_is_neither_is_refused_with_both_forms(store: Path, given: str) -> None:
    """Nothing is run to read a result; the refusal shows how to write one."""
    before = records(store, "refund-17")
    result = do("confirm", "refund-17", "mail#1", given, "--evidence", "x")
    assert result.exit_code == 2
    assert '{"id": "re_1", "ok": true}' in result.stderr
    assert "{'id': 're_1'" in result.stderr
    assert not Path("pwned").exists()
    assert records(store, "refund-17") == before


def test_a_result_comes_from_a_file_or_from_standard_input(store: Path) -> None:
    """`--result-file` reads the same two forms; with RESULT as well it is a wrong call."""
    Path("r.json").write_text('{"id": 2}')
    both = do("confirm", "refund-17", "3", "1", "--evidence", "x", "--result-file", "r.json")
    assert both.exit_code == 2
    file = do("confirm", "refund-17", "3", "--evidence", "x", "--result-file", "r.json")
    assert file.exit_code == 0
    piped = ("confirm", "refund-18", "charge", "--evidence", "x", "--result-file", "-")
    assert do(*piped, stdin=b"\xff").exit_code == 2
    assert do(*piped, stdin='{"id": 3}').exit_code == 0
    assert "{'id': 2}" in do("show", "refund-17").stdout
    assert "{'id': 3}" in do("show", "refund-18").stdout


@pytest.mark.parametrize("evidence", ["…", "...", " ", "."])
def test_evidence_says_something(store: Path, evidence: str) -> None:
    """Dots are no evidence."""
    assert do("deny", "refund-17", "mail#1", "--evidence", evidence).exit_code == 2


# -- verdicts on results -----------------------------------------------------------------------


def test_invalidate_shows_the_cascade_and_needs_a_yes(store: Path) -> None:
    """Without a terminal and without `--yes`, what depends on it is shown and nothing changes."""
    do("deny", "refund-17", "mail#1")
    before = records(store, "refund-17")
    asked = do("invalidate", "refund-17", "plan#1", "--reason", "wrong customer")
    assert asked.exit_code == 2
    assert "charge[o-1]#1" in asked.stderr
    assert records(store, "refund-17") == before

    call = ("invalidate", "refund-17", "plan#1", "--reason", "wrong customer", "--yes", "--json")
    told = document(do(*call))
    assert told["verdict"] == "invalidated"
    assert told["operation"]["outcome"] == "incomplete"
    assert told["suspect"] == ["charge[o-1]#1", "mail#1"]


def test_invalidate_needs_no_yes_where_nothing_depends_on_it(store: Path) -> None:
    """There is nothing to ask about the last operation of a run."""
    do("confirm", "refund-17", "mail#1", "1", "--evidence", "x")
    call = ("invalidate", "refund-17", "mail#1", "--reason", "x")
    unsaid = do(*call)
    assert unsaid.exit_code == 2
    assert "--effect stands" in unsaid.stderr
    assert do(*call, "--effect", "compensated").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code", "kind"), [("y", 0, "invalidated"), ("n", 1, None)])
def test_invalidate_asks_on_a_terminal(
    store: Path, answer: str, code: int, kind: str | None
) -> None:
    """On a terminal the cascade is shown, and the answer decides."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    asked = run_it("invalidate", "refund-18", "plan#1", "--reason", "x", stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert asked.returncode == code, asked.stderr
    assert "Invalidate it?" in asked.stderr
    last = document(do("history", "refund-18", "plan#1", "--json"))[-1]["kind"]
    assert (last == "invalidated") is (kind is not None)


@pytest.mark.slow
def test_invalidate_refuses_what_the_operator_did_not_see(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cascade that grew while the operator looked is shown anew, not carried out."""
    with dnb.run("small", store=store) as run:
        run.step("a", effect="none").call(str, 1)
    real = Watched.held

    @contextmanager
    def later(watched: Watched, role: str) -> Iterator[Any]:
        if role == "operator":
            with dnb.run("small", store=store) as run:
                run.step("b", effect="none").call(str, 1)
        with real(watched, role) as run:
            yield run

    monkeypatch.setattr(Watched, "held", later)
    refused = do("invalidate", "small", "a#1", "--reason", "x")
    assert refused.exit_code == 1
    assert "while you looked" in refused.stderr


@pytest.mark.slow
def test_keep_lets_the_next_kernel_go_on_with_a_changed_input(store: Path) -> None:
    """A record that is kept from the command line covers the change that the kernel finds."""

    def pay(amount: int) -> int:
        return amount

    with dnb.run("pay", store=store) as run:
        assert run.call(pay, 1) == 1
    with pytest.raises(dnb.IncompatibleCheckpoint), dnb.run("pay", store=store) as run:
        run.call(pay, 2)

    assert do("keep", "pay", "pay#1", "--reason", "the old amount is right").exit_code == 0

    for _ in range(2):
        with dnb.run("pay", store=store) as run:
            assert run.call(pay, 2) == 1
    with pytest.raises(dnb.IncompatibleCheckpoint), dnb.run("pay", store=store) as run:
        run.call(pay, 3)


def test_rerun_has_it_done_again(store: Path) -> None:
    """After `rerun` the operation is incomplete, so that the next kernel does it."""
    told = document(do("rerun", "refund-18", "plan#1", "--reason", "better prompt", "--json"))
    assert told["operation"]["outcome"] == "incomplete"


# -- reconcilers -------------------------------------------------------------------------------


def test_a_reconciler_that_can_be_imported_settles(store: Path) -> None:
    """`--reconciler STEP=module:function` asks it, and what it answers is recorded."""
    told = do("reconcile", "refund-18", "--reconciler", "charge=lookups:find")
    assert told.exit_code == 0, told.output
    assert "it happened: {'id': 're_9'}" in told.stdout
    assert do("show", "refund-18").exit_code == 0


def test_what_stays_unknown_is_named_with_the_reason(store: Path) -> None:
    """A reconciler that cannot tell leaves the question to a person: exit 3."""
    told = do("reconcile", "refund-18", "--reconciler", "charge=lookups:shrug")
    assert told.exit_code == 3
    assert "still unknown (the shop does not answer)" in told.stdout
    assert "durable-nb confirm refund-18" in told.stdout


@pytest.mark.parametrize(
    "given",
    ["charge", "charge=lookups", "=lookups:find", "charge=nope:f", "charge=lookups:nope",
     "charge=lookups:number"],
)  # fmt: skip
def test_a_reconciler_that_cannot_be_asked_is_a_wrong_call(store: Path, given: str) -> None:
    """It is refused before the run is opened, and nothing is recorded."""
    before = records(store, "refund-18")
    refused = do("reconcile", "refund-18", "--reconciler", given)
    assert refused.exit_code == 2
    assert records(store, "refund-18") == before


def test_a_reconciler_for_a_step_without_doubt_is_pointed_out(store: Path) -> None:
    """A typo in a step's name is said, not passed over."""
    told = do("reconcile", "refund-18", "--reconciler", "chrage=lookups:find")
    assert told.exit_code == 3
    assert "'chrage'" in told.stderr


# -- taking back -------------------------------------------------------------------------------

CHARGE = "charge[o-1]#1"


@pytest.mark.parametrize("function", ["give_back", "give_back_later"])
def test_an_importable_function_takes_an_effect_back(store: Path, function: str) -> None:
    """Plain or async; what it took back is named, and done anew by the next kernel."""
    call = ("compensate", "refund-17", CHARGE, "--with", f"lookups:{function}", "--reason", "no")
    told = do(*call, "--json")
    assert told.exit_code == 0, told.output
    assert document(told)["verdict"] == "compensated"
    assert document(told)["operation"]["outcome"] == "incomplete"
    history = document(do("history", "refund-17", "--json"))
    assert [r["kind"] for r in history if r["op"].startswith("compensate[")] == [
        "intended",
        "completed",
    ]
    assert [r["detail"] for r in history if r["kind"] == "invalidated"] == ["no"]


def test_a_compensation_that_fails_needs_a_person(store: Path) -> None:
    """It is unknown, and `show` prints the lines that settle it; settled, it is over."""
    call = ("compensate", "refund-17", CHARGE, "--with", "lookups:lose", "--reason", "no")
    told = do(*call)
    assert told.exit_code == 3
    assert "TimeoutError" in told.stderr
    lines = [q["line"] for q in document(do("show", "refund-17", "--json"))["open"]]
    line = next(x for x in lines if "confirm" in x and "compensate[" in x)
    filled = line.replace('{"id": …}', '{"id": "gb_1"}').replace("…", "in the shop's ledger")
    assert do(*shlex.split(filled)[1:]).exit_code == 0
    row = next(
        op for op in document(do("show", "refund-17", "--json"))["operations"] if op["id"] == CHARGE
    )
    assert row["outcome"] == "incomplete"


@pytest.mark.parametrize(
    "given", ["lookups", ":give_back", "nope:f", "lookups:nope", "lookups:number"]
)
def test_a_function_that_cannot_be_imported_is_a_wrong_call(store: Path, given: str) -> None:
    """It is refused before the run is opened, and nothing is recorded."""
    before = records(store, "refund-17")
    refused = do("compensate", "refund-17", CHARGE, "--with", given, "--reason", "no")
    assert refused.exit_code == 2
    assert "--with" in refused.stderr
    assert records(store, "refund-17") == before


# -- what ends a wait --------------------------------------------------------------------------


def stop_for(store: Path, wait: Any) -> None:
    """Run a kernel of refund-18 up to where it waits."""
    do("deny", "refund-18", "charge", "--evidence", "not there")
    stops = (dnb.ApprovalPending, dnb.SignalPending)
    with pytest.raises(stops), open_run("refund-18", store=store) as run:
        wait(run)


@pytest.mark.slow
def test_a_run_that_waits_needs_a_person_and_the_suggested_line_ends_it(store: Path) -> None:
    """`show` exits 3, also for the one operation; what it suggests is typed as it stands."""
    op = 'approval["Send" 40 mails?]#1'
    stop_for(store, lambda run: run.approval('"Send" 40 mails?', {"to": 40}))
    shown = document(do("show", "refund-18", "--json"))
    assert (shown["status"], do("show", "refund-18").exit_code) == ("waiting", 3)
    assert do("show", "refund-18", op).exit_code == 3
    yes, no = shown["open"]
    assert "{'to': 40}" in yes["question"]
    assert do(*shlex.split(no["line"])[1:]).exit_code == 2  # its reason is to be filled in

    told = document(do(*shlex.split(yes["line"])[1:], "--json"))

    assert (told["verdict"], told["operation"]["id"]) == ("approved", op)
    assert (do("show", "refund-18").exit_code, do("show", "refund-18", op).exit_code) == (0, 0)
    again = do("reject", "refund-18", op, "--reason", "no")
    assert again.exit_code == 1
    assert "already settled" in again.stderr


@pytest.mark.slow
def test_a_signals_value_comes_as_text_from_a_file_or_from_standard_input(store: Path) -> None:
    """JSON or a Python literal; a blank that was not filled in sends nothing."""
    stop_for(store, lambda run: run.wait_for("paid"))
    (line,) = [q["line"] for q in document(do("show", "refund-18", "--json"))["open"]]
    assert do(*shlex.split(line)[1:]).exit_code == 2
    assert do("signal", "refund-18", "paid", "1", "--value-file", "-", stdin="2").exit_code == 2
    told = document(
        do("signal", "refund-18", "paid", "--value-file", "-", "--json", stdin="(1, 2)")
    )
    assert told["operation"]["result"] == "(1, 2)"
    held = do("signal", "refund-18", "shipped", "--json")
    assert (document(held)["verdict"], document(held)["operation"]) == ("held", None)
    assert do("signal", "refund-18", "shipped", "5").exit_code == 1
    assert do("approve", "refund-18", "wait_for[paid]#1").exit_code == 1
    with open_run("refund-18", store=store) as run:
        assert run.wait_for("paid") == (1, 2)
        assert run.wait_for("shipped") is None
