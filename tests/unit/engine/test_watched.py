"""A run watched and settled from where it is not executed, whoever holds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.child import Child
from support.waiting import eventually

import durable_nb as dnb

#: A kernel that dies in a charge (after `plan`), or blocks once it has come to that doubt.
KERNEL = """\
import os, signal, sys, time
import durable_nb as dnb

store, how = sys.argv[1:]
run = dnb.open_run("live", store=store, expect=["mail"])


def plan(order):
    return {"order": order}


def charge(order):
    os.kill(os.getpid(), signal.SIGKILL)


run.step("plan", effect="none").call(plan, "o-1")
step = run.step("charge", key="o-1", reconcile=lambda op: dnb.Undecided("who knows"))
try:
    step.call(charge, "o-1")
except dnb.UnknownOutcome:
    print("stopped", flush=True)
if how == "block":
    time.sleep(120)
else:
    run.close()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store whose run was left in the middle of a charge."""
    kernel(tmp_path, "die").wait()
    return tmp_path / "store"


@pytest.fixture
def live(tmp_path: Path, store: Path) -> Iterator[dnb.Watched]:
    """The same run, taken up by another process that blocks."""
    with kernel(tmp_path, "block") as child:
        child.first_line()
        yield dnb.watch("live", store=store)
        child.kill()


def kernel(tmp_path: Path, how: str) -> Child:
    program = tmp_path / "kernel.py"
    program.write_text(KERNEL)
    return Child(program, tmp_path / "store", how)


def kinds(run: Any, op: object) -> list[str]:
    return list(run.history(op)["kind"])


@pytest.mark.slow
def test_a_live_run_is_shown_as_its_owner_published_it(live: dnb.Watched) -> None:
    """Outcomes, inputs, what is expected, how it was taken up, and who executes it."""
    status = live.status_view()
    assert dict(status.counts) == {"completed": 1, "incomplete": 1, "unknown": 1}
    assert status.status in {"waiting", "open"}
    assert status.held_by.startswith("process ")
    assert "ended without closing the run" in status.headline
    assert status.expected == ("mail",)
    assert status.checkable == frozenset({"charge"})
    view = live.get("charge")
    assert (view.id, view.key, view.outcome) == ("charge[o-1]#1", "o-1", "unknown")
    assert view.inputs == {"order": "'o-1'"}
    assert [v.id for v in live.unknown()] == ["charge[o-1]#1"]
    assert 'run.confirm("charge[o-1]#1"' in str(status)
    assert list(live.operations()["id"]) == ["plan#1", "charge[o-1]#1"]
    assert kinds(live, "plan")[-1] == "completed"


@pytest.mark.slow
def test_a_verdict_on_a_live_run_is_its_owners_within_two_seconds(live: dnb.Watched) -> None:
    """The owner blocks in a cell, records it, and publishes it; the second comes too late."""
    begun = time.monotonic()
    view = live.confirm("charge", {"id": ("re_1", 2)}, evidence="seen")
    assert time.monotonic() - begun < 2
    assert (view.outcome, view.result_preview) == ("completed", "{'id': ('re_1', 2)}")
    with pytest.raises(dnb.OwnerRefused) as second:
        live.ask("deny", "charge[o-1]#1", {"evidence": "x"}, seen=view.last_seq - 1)
    assert second.value.kind == "AlreadySettled"
    assert kinds(live, "charge")[-2:] == ["confirmed", "contested"]
    limit = time.monotonic() + 4
    while live.status_view().counts["unknown"] and time.monotonic() < limit:
        time.sleep(0.05)
    assert live.unknown() == []


@pytest.mark.slow
def test_every_verb_reaches_a_live_run(live: dnb.Watched) -> None:
    """What a run's own operator does, a watcher does; refusals are the owner's words."""
    assert live.reconcile()[0].outcome == "unknown"
    assert "undecided" in kinds(live, "charge")
    assert live.deny("charge", evidence="not there").outcome == "incomplete"
    assert live.dependants("plan").suspect == ("charge[o-1]#1",)
    assert live.invalidate("plan", "wrong order").operation == "plan#1"
    assert live.rerun("charge").outcome == "incomplete"
    for refused in (
        lambda: live.keep("charge"),
        lambda: live.accept("x"),
        lambda: live.confirm("charge", object()),
        lambda: live.get("nobody"),
    ):
        with pytest.raises(dnb.DurableError):
            refused()


@pytest.mark.slow
def test_what_nobody_holds_is_read_from_its_journal_and_settled_under_a_lease(store: Path) -> None:
    """A crashed run shows what the journal proves; a verdict is recorded at once."""
    run = dnb.watch("live", store=store)
    status = run.status_view()
    assert (status.status, status.held_by) == ("crashed", "")
    assert status.counts["unknown"] == 1
    assert run.confirm("charge", None, evidence="seen").outcome == "completed"
    assert run.status_view().counts["unknown"] == 0
    with dnb.run("live", store=store) as own:
        assert own.step("charge", key="o-1").call(lambda order: 1 / 0, "o-1") is None


@pytest.mark.slow
def test_the_run_of_this_very_process_is_the_run_itself(store: Path) -> None:
    """There is no way round by a message: what this process holds it sees at once."""
    with dnb.run("live", store=store) as own:
        run = dnb.watch("live", store=store)
        assert run.here is own
        run.deny("charge", evidence="not there")
        assert own.get("charge").outcome == "incomplete"
        assert run.status_view().held_by == "this process"
    assert run.here is None


@pytest.mark.slow
def test_a_watcher_reads_again_only_what_has_changed(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panel looks every second, and a run that nobody touches costs it nothing."""
    run = dnb.watch("live", store=store)
    run.status_view()
    opened: list[str] = []
    held = dnb.Watched.held

    def counting(watched: dnb.Watched, role: str) -> Any:
        opened.append(role)
        return held(watched, role)

    monkeypatch.setattr(dnb.Watched, "held", counting)
    for _ in range(3):
        run.status_view()
    assert opened == []
    run.deny("charge", evidence="x")
    assert run.get("charge").outcome == "incomplete"
    assert opened == ["operator", "reader"]


@pytest.mark.slow
def test_what_is_not_there_is_named(store: Path) -> None:
    """A name with a typo makes no run."""
    with pytest.raises(dnb.RunMissing, match="live"):
        dnb.watch("life", store=store)
    assert [p.name for p in store.iterdir() if not p.name.startswith(".")] == ["live"]


@pytest.mark.slow
def test_looking_and_opening_at_once_disturb_each_other_never(store: Path) -> None:
    """Readers take the lease for moments; who opens the run meanwhile gets it."""
    stop, failed = threading.Event(), list[BaseException]()
    run = dnb.watch("live", store=store)

    def look() -> None:
        while not stop.wait(0.02):
            try:
                run.status_view()
            except BaseException as problem:
                failed.append(problem)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(10):
            with dnb.run("live", store=store):
                pass
    finally:
        stop.set()
        thread.join()
    assert failed == []


@pytest.mark.slow
def test_a_resumed_run_is_published_before_two_seconds_have_passed(
    store: Path, tmp_path: Path
) -> None:
    """Its mirror is the new owner's, not the dead one's."""
    with kernel(tmp_path, "block") as child:
        child.first_line()
        begun = time.monotonic()
        run = dnb.watch("live", store=store)
        eventually(lambda: "ended without closing" in run.status_view().headline)
        assert time.monotonic() - begun < 2
        child.kill()
