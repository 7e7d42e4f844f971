"""`durable-nb runs` tells who is live, who is slow, who waits, and who crashed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.child import Bench, Child
from support.terminal import do, document
from support.waiting import eventually

import durable_nb as dnb
from durable_nb.engine.listing import at_work
from durable_nb.engine.store import open_run
from durable_nb.journal import Mirror, store_of

pytestmark = pytest.mark.slow  # each test starts processes of its own

#: One process that holds several runs, some of them by a clock that is 310 s behind, so that what
#: it begins now has been at work for that long.
HELD = """
from datetime import UTC, datetime, timedelta
from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import Clock

def opened(name, behind=310):
    now = lambda: datetime.now(UTC) - timedelta(seconds=behind)
    return open_run(name, store=store, clock=Clock(now=now))

def endless(): time.sleep(600)

def at_work(run, name):
    threading.Thread(target=lambda: run.step(name, effect="none", key="o-1").call(endless)).start()

async def ask():
    await asking.approval("Send 40 mails?")

async def outer():
    await asking.step("outer", effect="none").call(ask)

opened("idle").step("charge", effect="none").call(int)
at_work(opened("late"), "charge")
at_work(opened("quick", 0), "charge")
at_work(opened("ahead", -310), "charge")
first_time = opened("first time")
for name in ("refund", "undone", "sleep"):
    at_work(first_time, name)
asking = opened("asking")
asyncio.run(outer())
"""

#: One process that dies with several runs, all but one of them with a notebook on record.
CRASHED = """
from durable_nb.engine.supervised import PLAN, Plan

def opened(name, *, supervised=True):
    os.environ.pop(PLAN, None)
    if supervised:
        plan = Path(f"{name}.json").resolve()
        Plan(name, {"path": "a.ipynb", "text": "{}", "parameters": {}, "kernel": ""}).save(plan)
        os.environ[PLAN] = str(plan)
    return dnb.open_run(name, store=store)

def endless(): time.sleep(600)

def at_work(run, effect):
    step = lambda: run.step("charge", effect=effect).call(endless)
    threading.Thread(target=step, daemon=True).start()

runs = [opened("by hand", supervised=False), opened("goes on"), opened("in doubt")]
for run, effect in zip(runs, ("none", "none", "external")):
    at_work(run, effect)
opened("done").finish()
asking = opened("asking")
try:
    asking.approval("Send 40 mails?")
except dnb.ApprovalPending:
    pass
while not all(len(run.operations()) for run in runs):
    time.sleep(0.01)
die()
"""


def rows(store: Path) -> dict[str, dict[str, Any]]:
    """Give what `runs --json` tells, a row a run."""
    return {row["name"]: row for row in document(do("runs", "--json", "--store", store))}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def past(bench: Bench) -> Bench:
    """A store in which charges and outer steps took no time, and nothing else gives a measure."""

    def refused() -> None:
        raise ConnectionRefusedError

    async def asleep(run: dnb.Run) -> None:
        await run.sleep(0.001)

    with dnb.run("past", store=bench.store) as run:
        for key in range(3):
            with pytest.raises(ConnectionRefusedError):
                run.step("refund", effect="none", key=key).call(refused)
        for name in ("charge", "outer"):
            for key in range(3):
                run.step(name, effect="none", key=key).call(int, 1)
        run.step("undone", effect="none").call(int, 1)
        run.invalidate("undone#1", "it was wrong")
        asyncio.run(asleep(run))
        run.finish()
    return bench


@pytest.fixture
def held(past: Bench) -> Iterator[Child]:
    """A live process that holds runs of that store, once its mirrors tell so."""
    with past.start(HELD) as child:
        began = "SELECT id FROM operations WHERE live AND id <> 'outer#1' OR waits"
        child.until(lambda: len(dnb.sql(began, store=past.store)) == 7)
        yield child


def test_who_is_live_and_who_is_slow(past: Bench, held: Child) -> None:
    """Slow is longer than usual; without a history, and in a wait, nobody is slow."""
    found = rows(past.store)
    assert {name: (row["status"], row["pace"]) for name, row in found.items()} == {
        "past": ("finished", ""),
        "idle": ("open", "live"),
        "late": ("open", "slow"),
        "quick": ("open", "live"),
        "ahead": ("open", "live"),
        "first time": ("open", "live"),
        "asking": ("open", "live"),
    }
    (slow,) = found["late"]["at_work"]
    assert set(slow) == {"op", "elapsed_s", "usual_s"}
    assert slow["op"] == "charge[o-1]#1"
    assert 310 <= slow["elapsed_s"] < 400
    assert 0 < slow["usual_s"] < 1
    assert found["ahead"]["at_work"][0]["elapsed_s"] == 0, "clocks may be set"
    # what failed, what was invalidated and a timer of that name are no measure
    first = {work["op"]: work["usual_s"] for work in found["first time"]["at_work"]}
    assert first == dict.fromkeys(["refund[o-1]#1", "undone[o-1]#1", "sleep[o-1]#1"])
    # `outer` is on record as quick, and waits for a person inside
    assert found["asking"]["at_work"] == found["idle"]["at_work"] == []

    frame = dnb.runs(past.store).set_index("name")
    assert dict(frame["pace"]) == {name: row["pace"] for name, row in found.items()}
    assert frame.loc["late", "at_work"][0]["op"] == "charge[o-1]#1"

    told = do("runs", "--store", past.store)
    assert re.search(r"^run +status +pace +completed", told.stdout)
    assert re.search(r"^late +open +slow ", told.stdout, re.M)
    (line,) = re.findall(r"^.*: slow: .*$", told.stderr, re.M)
    assert re.fullmatch(r"late: slow: charge\[o-1\]#1 for 5 min \d\d s, usually under 0\.1 s", line)
    assert "resume --all" not in told.stderr

    copy = past.store / "copy"
    copy.mkdir()
    shutil.copy(past.store / "late" / "operations.parquet", copy)
    assert len(at_work(store_of(past.store))["late"]) == 1, (
        "a copy of its mirror is not a second one"
    )

    later = at_work(store_of(past.store), now=datetime.now(UTC) + timedelta(hours=1))
    assert {name for name, found in later.items() if any(work.slow for work in found)} == {
        "late", "quick", "ahead",
    }  # fmt: skip


def test_a_stopped_owner_is_live_and_a_dead_one_is_not(past: Bench, held: Child) -> None:
    """SIGSTOP leaves the lease; SIGKILL frees it, and what was at work is at work no more."""
    os.kill(held.pid, signal.SIGSTOP)
    found = rows(past.store)
    assert (found["late"]["pace"], found["quick"]["pace"]) == ("slow", "live")

    held.kill()
    found = rows(past.store)
    assert {row["pace"] for row in found.values()} == {""}
    assert {row["status"] for name, row in found.items() if name != "past"} == {"crashed"}
    assert not any(row["at_work"] for row in found.values())


def test_what_an_earlier_owner_was_at_is_at_work_no_more(past: Bench, held: Child) -> None:
    """A mirror of an earlier epoch, which its owner's successor has yet to renew, tells nothing."""
    mirror = past.store / "late" / "operations.parquet"
    left = past.folder / "left.parquet"
    shutil.copy(mirror, left)
    held.kill()
    with dnb.run("late", store=past.store) as run:
        eventually(lambda: Mirror.tail(run.folder)[1]["epoch"] == str(run.epoch))
        shutil.copy(left, mirror)
        assert dnb.sql("SELECT id FROM operations WHERE live", store=past.store)["id"].tolist()
        assert at_work(store_of(past.store))["late"] == ()


def test_what_a_mirror_that_lags_shows_is_known_to_be_at_work_until_it_was_published(
    past: Bench,
) -> None:
    """A busy run renews its mirror seldom: what has ended since then is not called slow."""
    mirror, left = past.store / "busy" / "operations.parquet", past.folder / "left.parquet"

    def work() -> None:
        eventually(lambda: mirror.exists() and "charge#1" in Mirror.tail(mirror.parent)[0])
        shutil.copy2(mirror, left)  # with its time

    with dnb.run("busy", store=past.store) as run:
        run.step("charge", effect="none").call(work)
        run.step("mail", effect="none").call(int)
        eventually(lambda: "mail#1" in Mirror.tail(run.folder)[0])
        shutil.copy2(left, mirror)
        (found,) = at_work(store_of(past.store), now=datetime.now(UTC) + timedelta(hours=1))["busy"]
        assert (found.op, found.slow) == ("charge#1", False)
        assert 0 <= found.elapsed_s < 5


def test_only_a_kernel_that_provably_lives_is_live(past: Bench) -> None:
    """Who settles a run is no kernel, and of another machine nothing can be proved."""
    with open_run("past", store=past.store, role="operator"):
        assert rows(past.store)["past"]["pace"] == ""
    owner = past.store / "past" / "owner.json"
    said = {**json.loads(owner.read_text()), "role": "runner", "released": ""}
    owner.write_text(json.dumps(said))
    assert rows(past.store)["past"]["pace"] == "live"
    owner.write_text(json.dumps({**said, "host": "elsewhere"}))
    assert rows(past.store)["past"]["pace"] == ""


def test_runs_that_wait_or_ended_have_no_pace(bench: Bench) -> None:
    """Nobody holds them; their state tells what is with them."""
    waits = {
        "timer": lambda run: run.sleep(3600),
        "signal": lambda run: run.wait_for("paid"),
        "approval": lambda run: run.approval("Send 40 mails?"),
    }
    for name, wait in waits.items():
        with pytest.raises(dnb.DurableSignal), dnb.run(name, store=bench.store) as run:
            wait(run)
    with pytest.raises(ZeroDivisionError), dnb.run("failed", store=bench.store):
        _ = 1 / 0
    with dnb.run("finished", store=bench.store) as run:
        run.finish()
    with dnb.run("closed", store=bench.store):
        pass
    assert {name: (row["status"], row["pace"]) for name, row in rows(bench.store).items()} == {
        **dict.fromkeys(waits, ("waiting", "")),
        **{name: (name, "") for name in ("failed", "finished", "closed")},
    }


def test_runs_that_can_be_taken_up_are_counted_with_the_line_that_does(bench: Bench) -> None:
    """Only crashed ones whose notebook is on record, and in which nothing waits for a person."""
    assert bench.run(CRASHED).killed
    told = do("runs", "--store", bench.store)
    status = {name: row["status"] for name, row in rows(bench.store).items()}
    crashed = ["by hand", "goes on", "in doubt", "asking"]
    assert status == {**dict.fromkeys(crashed, "crashed"), "done": "finished"}
    line = f"durable-nb resume --all --store {bench.store}"
    assert told.stderr == f"1 crashed run can be taken up, with the notebook on record: {line}\n"
    again = do("runs", "--store", bench.store)
    assert (again.stdout, again.stderr) == (told.stdout, told.stderr)
