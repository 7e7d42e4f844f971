"""What the panel offers for a row, and what a click does; no widget is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clicks import act, click, doubt, fail, kinds, row, watched

import durable_nb as dnb
from durable_nb.model.outcomes import Outcome
from durable_nb.model.verdicts import VERDICTS, Verdict
from durable_nb.model.waits import FITS
from durable_nb.notebook.panel import model
from durable_nb.notebook.panel.actions import NotDone, parse_result
from durable_nb.notebook.panel.rows import Sent


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    with dnb.run("job", store=tmp_path) as run:
        yield run


# -- which actions -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_row_offers_what_the_verdict_table_allows_and_nothing_else(run, outcome):
    """The table is the only place that decides it; keep and rerun wait for a change."""
    if outcome is Outcome.UNKNOWN:
        doubt(run, "a")
    elif outcome is Outcome.COMPLETED:
        run.step("a").call(lambda: 1)
    else:
        with pytest.raises(TimeoutError):
            run.step("a", effect="none").call(fail)
    wanted = {str(v) for v in Verdict if not (FITS[v, None] or VERDICTS[v, outcome])}
    wanted -= {"keep", "rerun"}

    assert row(run, "a#1")["outcome"] == outcome
    assert set(row(run, "a#1")["actions"]) == wanted


@pytest.mark.slow
def test_a_changed_operation_offers_keep_and_rerun(tmp_path):
    """A question that waits is answered from its row, and then it is no longer offered."""
    with dnb.run("job", store=tmp_path) as run:
        run.step("plan", on_change="ask").call(len, "ab")
    with dnb.run("job", store=tmp_path) as run:
        with pytest.raises(dnb.IncompatibleCheckpoint):
            run.step("plan", on_change="ask").call(len, "abc")
        assert {"keep", "rerun"} <= set(row(run, "plan#1")["actions"])

        answer = act(run, click(run, "keep", "plan#1"))

        assert answer.ok
        assert answer.text.endswith("Settled. Run its cell again, or all cells.")
        assert "keep" not in row(run, "plan#1")["actions"]


def test_nothing_is_offered_while_an_operation_is_live(run):
    """What runs cannot be settled, and says that it runs."""
    with run.step("work", effect="none") as op:
        assert op.needed
        assert row(run, "work#1")["actions"] == []
        assert row(run, "work#1")["live"]
        op.result = 1


def test_check_now_is_offered_where_this_kernel_knows_a_reconciler(run):
    """And only while the operation is unknown."""
    doubt(run, "pay", reconcile=lambda op: None)

    assert "check" in row(run, "pay#1")["actions"]


def test_rows_are_plain_data_whatever_the_run_holds(run):
    """Lone surrogates, HTML and very long texts reach the front end as short plain text."""
    run.step("odd", effect="none", inputs={"x": "\ud800<b>"}).call(lambda: "y" * 100_000)
    run.step("odd", effect="none", key="\udfff").call(lambda: 1)

    status, sent = run.status_view(), Sent()
    sent.update(status)
    for told in (sent.whole(), model.details_of(status)):
        assert len(json.dumps(told, ensure_ascii=False).encode()) < 5000


# -- what a click does ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"id": "re_1", "ok": true}', {"id": "re_1", "ok": True}),
        ("{'id': ('a', 1)}", {"id": ("a", 1)}),
        ("null", None),
        ("None", None),
        ('"text"', "text"),
    ],
)
def test_a_result_is_json_or_a_python_literal(text, value):
    """What a person types is read as data."""
    assert parse_result(text) == value


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "  ", "text", "open('x', 'w')", "[" * 10_000, "1 +"])
def test_what_is_no_literal_is_refused_and_never_run(run, text):
    """The answer says what is wrong, and nothing is recorded."""
    doubt(run)
    with pytest.raises(NotDone):
        parse_result(text)

    answer = act(run, click(run, "confirm", "pay#1", result=text))

    assert not answer.ok
    assert "Nothing was recorded." in answer.text
    assert row(run, "pay#1")["outcome"] == "unknown"


def test_confirm_and_deny_settle_and_say_so(run):
    """The verdict and its evidence are on record, and the last words tell what to do."""
    doubt(run)
    answer = act(run, click(run, "confirm", "pay#1", result="[1]", evidence="seen"))
    assert (answer.ok, run.get("pay#1").result) == (True, [1])
    assert answer.text.endswith("Settled. Run its cell again, or all cells.")
    assert "seen" in run.history("pay#1").detail.iloc[-1]

    doubt(run, "mail")
    assert act(run, click(run, "deny", "mail#1")).ok
    assert row(run, "mail#1")["outcome"] == "incomplete"


@pytest.mark.parametrize("action", ["confirm", "deny"])
def test_no_doubt_is_settled_without_saying_how_it_is_known(run, action):
    """One click on the wrong button, and nothing is recorded."""
    doubt(run)
    answer = act(run, click(run, action, "pay#1", result="1", evidence=" "))

    assert not answer.ok
    assert answer.text.startswith("Evidence: say how you know that it ")
    assert answer.fields == ("evidence",)
    assert kinds(run, "pay#1") == ["intended", "raised"]


def test_a_refusal_names_the_field_that_is_to_be_written(run):
    """Which the page marks, and puts the cursor into; where another reason stands, none."""
    doubt(run)
    told = {"evidence": "seen"}
    both = ("evidence", "result")
    assert act(run, click(run, "confirm", "pay#1", evidence=" ")).fields == both
    assert act(run, click(run, "confirm", "pay#1", result=" ", **told)).fields == ("result",)
    assert act(run, click(run, "confirm", "pay#1", result="{x", **told)).fields == ("result",)
    assert act(run, click(run, "fork", "pay#1", name="")).fields == ("name",)
    assert act(run, click(run, "approve", "pay#1")).fields == ()
    assert kinds(run, "pay#1") == ["intended", "raised"]


def test_it_is_said_whether_the_step_was_handed_its_idempotency_key(run):
    """Whoever looks for a key that nobody sent finds nothing, and is near to a wrong denial."""

    def keyed(*, idempotency_key):
        raise ConnectionError(idempotency_key)

    def bare(**_):
        raise ConnectionError("no answer")

    with pytest.raises(dnb.UnknownOutcome):
        run.step("pay").call(keyed)
    shown = model.detail_of(run.get("pay#1"))
    assert shown["keyed"] is True
    assert "idempotency key" in act(run, click(run, "deny", "pay#1", evidence="none")).text
    with pytest.raises(dnb.UnknownOutcome):
        run.step("pay", key="own").call(keyed, idempotency_key="mine")
    assert run.get("pay[own]#1").keyed is False
    assert act(run, click(run, "deny", "pay[own]#1", evidence="none")).ok
    with pytest.raises(dnb.UnknownOutcome):
        run.step("mail").call(bare)
    assert model.detail_of(run.get("mail#1"))["keyed"] is False
    assert "key" not in act(run, click(run, "deny", "mail#1", evidence="none")).text
    with pytest.raises(dnb.UnknownOutcome), run.step("with") as op:
        assert op.needed
        raise ConnectionError
    assert model.detail_of(run.get("with#1"))["keyed"] is None


def test_the_form_shows_what_another_one_returned(run):
    """The last of that name, whatever came between; none where there is none, or it is done."""
    run.step("pay", effect="none").call(lambda: {"id": "re_1"})
    run.step("pay", effect="none").call(lambda: {"id": "re_2"})
    run.step("mail", effect="none").call(lambda: {"id": "ma_1"})
    doubt(run)
    details = model.details_of(run.status_view())

    assert details["pay#3"]["like"] == ["pay#2", "{'id': 're_2'}"]
    assert details["pay#2"]["like"] == details["mail#1"]["like"] == []


def test_case_77_the_second_of_two_clicks_gets_already_settled(run):
    """Both saw the same row; one verdict counts, and both are in the history."""
    doubt(run)
    first = click(run, "confirm", "pay#1", result="1")
    second = click(run, "confirm", "pay#1", result="2")

    assert act(run, first).ok
    answer = act(run, second)

    assert not answer.ok
    assert "already" in answer.text
    assert run.get("pay#1").result == 1
    assert kinds(run, "pay#1")[-2:] == ["confirmed", "contested"]


def test_a_click_on_a_row_that_has_changed_since_is_refused(tmp_path):
    """A verdict is about the attempt that the person saw, and about no later one."""
    with dnb.run("job", store=tmp_path) as run:
        doubt(run)
        old = click(run, "deny", "pay#1")
        act(run, click(run, "deny", "pay#1", evidence="seen"))
    with dnb.run("job", store=tmp_path) as run:
        doubt(run)
        answer = act(run, old)

        assert not answer.ok
        assert "Look again." in answer.text
        assert row(run, "pay#1")["outcome"] == "unknown"


def test_an_invalidation_asks_for_a_reason_and_a_fate(run):
    """A completed external effect stands or was compensated; the cascade says which it is about."""
    run.step("pay").call(lambda: 1)
    run.step("mail", effect="none").call(lambda: 2)
    cascade = model.cascade_of(watched(run), "pay#1")
    assert cascade == {"below": [], "later": ["mail#1"], "happened": ["pay#1"]}

    assert "say why" in act(run, click(run, "invalidate", "pay#1")).text
    refused = act(run, click(run, "invalidate", "pay#1", reason="wrong"))
    assert "say what becomes of it" in refused.text
    assert row(run, "pay#1")["outcome"] == "completed"
    done = act(run, click(run, "invalidate", "pay#1", reason="wrong", effect="stands"))

    assert done.ok
    assert row(run, "pay#1")["outcome"] == "incomplete"


@pytest.mark.parametrize(
    ("look_up", "outcome", "said"),
    [
        (lambda op: dnb.Happened(7, "seen"), "completed", "Settled."),
        (lambda op: dnb.Undecided("who knows"), "unknown", "could not tell"),
        (lambda op: 1 / 0, "unknown", "could not tell"),
        (lambda op: dnb.DidNotHappen("none"), "unknown", "counts in"),
    ],
)
def test_check_now_asks_the_reconciler_once_and_never_waits(run, look_up, outcome, said):
    """A "not found" that does not count yet is told, and the kernel goes on."""
    asked: list[str] = []

    def ask(op: Any) -> Any:
        asked.append(op.id)
        return look_up(op) if len(asked) > 1 else None

    doubt(run, "pay", reconcile=ask, settle_after=60)
    answer = act(run, click(run, "check", "pay#1"))

    assert said in answer.text
    assert row(run, "pay#1")["outcome"] == outcome
    assert asked == ["pay#1"] * 2
