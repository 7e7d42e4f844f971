"""Fork from here: what a click in the panel makes of a run, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import durable_nb as dnb
from durable_nb.engine.watched import Watched
from durable_nb.notebook.panel import actions


@pytest.fixture
def run(tmp_path: Path) -> Iterator[dnb.Run]:
    with dnb.run("job", store=tmp_path) as run:
        for name in ("plan", "write", "send"):
            run.step(name, effect="none").call(name.upper)
        yield run


def fork(run: dnb.Run, op: str, name: str, **more: Any) -> actions.Answer:
    click = {"request": f"{op}-{name}", "action": "fork", "op": op, "name": name, "seq": 1}
    return actions.act(Watched(run.place), {**click, **more})


def test_a_fork_has_what_came_before_and_says_how_to_go_on(run, tmp_path):
    """Whatever the run did since the row was drawn; its reason is in the history."""
    before = run.history()
    answer = fork(run, "write#1", "what-if", reason="a kinder letter")

    assert answer.ok
    assert answer.text.startswith("run what-if is a fork of job, as it stood before write#1.")
    assert 'run = dnb.open_run("what-if")' in answer.more
    assert run.history().equals(before)
    with dnb.run("what-if", store=tmp_path) as forked:
        assert [view.id for view in forked.status_view().views] == ["plan#1"]
        assert "a kinder letter" in forked.history().to_string()


def test_a_fork_of_a_run_that_nobody_holds_leaves_its_files_alone(run, tmp_path):
    """It is read where it lies."""
    run.close()
    files = {f: f.read_bytes() for f in run.folder.rglob("*") if f.is_file()}
    assert fork(run, "send#1", "later").ok
    assert {f: f.read_bytes() for f in run.folder.rglob("*") if f.is_file()} == files
    assert [view.name for view in dnb.watch("later", store=tmp_path).status_view().views] == [
        "plan",
        "write",
    ]


@pytest.mark.parametrize(
    ("op", "name", "said"),
    [
        ("send#1", " ", "say what the new run is called. Nothing was recorded."),
        ("send#1", "job", "there is a run 'job'"),
        ("send#1", "../job", "'../job'"),
        ("nowhere#1", "what-if", "nowhere#1"),
    ],
)
def test_what_cannot_be_forked_is_refused_and_leaves_nothing(run, tmp_path, op, name, said):
    """No name, one that is taken, one that leads out of the store, an operation that is not."""
    answer = fork(run, op, name)
    assert not answer.ok
    assert said in answer.text
    assert [row.name for row in tmp_path.iterdir() if row.is_dir()] == ["job"]
