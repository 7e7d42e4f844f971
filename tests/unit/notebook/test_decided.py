"""Who decided what a person is asked: it stands in the row, wherever that is shown."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.listed import rows_of

import durable_nb as dnb
from durable_nb.engine.published import published
from durable_nb.notebook.display import Shown
from durable_nb.notebook.panel.rows import Sent

NO, YES = "approval[Pay?]#1", "approval[Send?]#1"
ME = getpass.getuser()
SAID = {NO: f"rejected by {ME}: not today", YES: f"approved by {ME}"}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    """A run in which one approval was given and another refused."""
    with dnb.run("job", store=tmp_path) as run:
        for op, title in ((NO, "Pay?"), (YES, "Send?")):
            with pytest.raises(dnb.ApprovalPending):
                run.approval(title)
            run.approve(op) if op == YES else run.reject(op, reason="not today")
        yield run


def test_who_decided_and_why_is_told_in_every_table(run):
    """In the text of the CLI, in static HTML, in the live panel; here and to who looks from afar."""
    run.publisher.publish()
    here, afar = run.status_view(), published(run.place)
    for status in (here, afar):
        assert [(r.view.id, r.note) for r in status.rows] == list(SAID.items())
        sent = Sent()
        sent.update(status)
        assert [row["note"] for row in rows_of(sent.whole())] == list(SAID.values())
        for said in SAID.values():
            assert said in status.to_text()
            assert said in Shown(status)._repr_html_()
    assert [v.decided for v in afar.views] == [v.decided for v in here.views]


def test_an_answer_that_was_revoked_is_told_no_more(run):
    """It is asked again."""
    run.invalidate(NO, reason="they may")
    with pytest.raises(dnb.ApprovalPending):
        run.approval("Pay?")
    assert run.get(NO).decided == ""
    assert "waits for approval" in run.status_view().rows[0].note


def test_a_long_reason_is_cut(run):
    """All of it is in the history."""
    with pytest.raises(dnb.ApprovalPending):
        run.approval("Go?")
    run.reject("approval[Go?]#1", reason="no " * 100)
    note = run.status_view().rows[-1].note
    assert len(note) == 80
    assert note.endswith("...")


def test_why_says_who_decided_it_in_this_kernel_and_in_the_next(run):
    """A rejection replays too."""
    for op, said in SAID.items():
        assert run.why(op).said == f"decided: {said}"
    run.close()
    with dnb.run("job", store=run.place.folder.parent) as again:
        for op, said in SAID.items():
            assert again.why(op).said == f"decided: {said}"
        again.approval("Send?")
        with pytest.raises(dnb.ApprovalRejected):
            again.approval("Pay?")
        for op, said in SAID.items():
            assert again.why(op).said == f"reused: {said}"


def test_why_says_who_confirmed_an_operation_and_on_what_evidence(run):
    """Its body ran, and did not say what became of it."""

    def fail() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(dnb.UnknownOutcome):
        run.step("pay").call(fail)
    stopped = run.why("pay").said
    assert "It may have happened, so it is not repeated until somebody says" in stopped
    run.confirm("pay", 1, evidence="seen in the shop")
    said = f"it was confirmed that it happened ({ME}): seen in the shop"
    assert run.why("pay").said == f"decided: {said}"
    run.step("pay").call(fail)
    assert run.why("pay").said == f"reused: {said}"
