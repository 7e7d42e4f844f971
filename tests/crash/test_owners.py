"""One owner a run: other kernels, forked children and plain threads are refused by name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.child import Bench
from support.ledger import Ledger

import durable_nb as dnb

HOLD = """
def first():
    ledger.add("first")
    return 1

def second():
    ledger.add("second")
    time.sleep(600)

with dnb.run("held", store=store) as run:
    run.call(first)
    run.call(second)
"""

INTRUDE = """
try:
    dnb.open_run("held", store=store)
except dnb.RunHeld as refusal:
    tell(holder=refusal.holder, text=str(refusal))
else:
    ledger.add("intruder")
"""

LOOK = """
with dnb.run("held", store=store) as run:
    history = run.history()
    tell(records=[list(r) for r in zip(history["seq"], history["op"], history["kind"])])
"""


def test_case_07_a_second_kernel_is_refused_and_writes_nothing(
    bench: Bench, ledger: Ledger
) -> None:
    """A held run is refused with who holds it, and its journal stays byte for byte the same."""
    with bench.start(HOLD) as holder:
        holder.until(lambda: ledger.count("second") == 1)
        before = journal_bytes(bench.store / "held")
        (bench.folder / "intruder").mkdir()
        other = Bench(bench.folder / "intruder")

        refusal = other_kernel(other, bench)

        assert f"process {holder.pid}" in refusal["holder"]
        assert "Nothing was written" in refusal["text"]
        assert journal_bytes(bench.store / "held") == before
        holder.kill()

    assert ledger.lines() == [("first", ""), ("second", "")]
    records = bench.run(LOOK).ok().facts["records"]
    assert records == [
        [1, "", "born"],
        [2, "", "opened"],
        [3, "", "defined"],
        [4, "first#1", "intended"],
        [5, "first#1", "completed"],
        [6, "", "defined"],
        [7, "second#1", "intended"],
        [8, "", "opened"],
    ]


def other_kernel(other: Bench, bench: Bench) -> dict[str, Any]:
    """Run the intruder's program, in a folder of its own, against the holder's store."""
    text = f"store, ledger = Path({str(bench.store)!r}), Ledger(Path({str(bench.ledger_file)!r}))\n"
    return other.run(text + INTRUDE).ok().facts


def journal_bytes(folder: Path) -> dict[str, bytes]:
    names = ("journal.duckdb", "journal.duckdb.wal", "head", "owner.lock")
    return {n: (folder / n).read_bytes() for n in names if (folder / n).exists()}


RACE = """
while not os.path.exists(more[0]):
    time.sleep(0.001)

def work():
    ledger.add("work")
    time.sleep(2.5)
    return os.getpid()

try:
    with dnb.run("race", store=store) as run:
        tell(owner=run.call(work))
except dnb.RunHeld as refusal:
    tell(refused=refusal.holder)
except dnb.UnknownOutcome:
    tell(doubt=True)
"""


@pytest.mark.slow
def test_case_07_of_kernels_that_claim_a_run_at_once_one_gets_it(
    bench: Bench, ledger: Ledger
) -> None:
    """Claiming is compare-and-set: one owner works, the others are told who it is."""
    gate = bench.folder / "gate"
    children = [bench.start(RACE, gate) for _ in range(3)]
    gate.touch()
    ended = [child.wait().ok().facts for child in children]

    owners = [facts["owner"] for facts in ended if "owner" in facts]
    refused = [facts["refused"] for facts in ended if "refused" in facts]
    assert ledger.count("work") == 1
    assert len(owners) == 1
    assert len(refused) == 2
    assert all(f"process {owners[0]} " in holder for holder in refused)


FORK = """
def work(n):
    ledger.add(f"work{n}")
    return n

@dnb.step
def decorated():
    ledger.add("decorated")

def in_child(fn, *args):
    pid = os.fork()
    if pid == 0:
        try:
            fn(*args)
        except dnb.RunHeld as refusal:
            sys.exit(0 if f"process {parent}" in str(refusal) else 3)
        sys.exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

parent = os.getpid()
with dnb.run("forked", store=store) as run:
    run.call(work, 1)
    codes = [
        in_child(run.call, work, 2),
        in_child(decorated),
        in_child(run.accept, "x"),
        in_child(dnb.open_run("forked", store=store).call, work, 3),
    ]
    if os.getpid() != parent:
        sys.exit(5)
    run.call(work, 4)
    history = run.history()
    tell(codes=codes, ops=outcomes(run), seqs=list(map(int, history["seq"])))
"""


@pytest.mark.slow
def test_case_54_a_forked_child_is_refused_and_the_parent_goes_on(
    bench: Bench, ledger: Ledger
) -> None:
    """A fork shares the run's memory and not its right to append; its end harms nothing."""
    seen = bench.run(FORK).ok().facts

    assert seen["codes"] == [0, 0, 0, 0]
    assert seen["ops"] == {"work#1": "completed", "work#2": "completed"}
    assert seen["seqs"] == list(range(1, len(seen["seqs"]) + 1))
    assert [what for what, _ in ledger.lines()] == ["work1", "work4"]
    again = bench.run(FORK).ok().facts
    assert [what for what, _ in ledger.lines()] == ["work1", "work4"]
    assert again["ops"] == seen["ops"]


ORPHAN = """
if more[0] == "leave a child":
    run = dnb.open_run("orphan", store=store)
    if os.fork() == 0:
        ledger.add("child")
        time.sleep(20)
        os._exit(0)
    while not ledger.count("child"):
        time.sleep(0.005)
    die()
begun = time.monotonic()
with dnb.run("orphan", store=store):
    tell(seconds=time.monotonic() - begun)
"""


@pytest.mark.slow
def test_case_54_a_forked_child_does_not_keep_the_lease_of_its_killed_parent(bench: Bench) -> None:
    """The lease ends with the kernel that took it, whatever it has forked."""
    with bench.start(ORPHAN, "leave a child") as parent:
        parent.until(lambda: Ledger(bench.ledger_file).count("child") == 1)
        seen = bench.run(ORPHAN, "reopen").ok().facts
        parent.end_group()

    assert seen["seconds"] < 5


def in_thread(fn: Callable[[], Any]) -> Any:
    """Run a function in a plain thread; give its value, or the error that it raised."""
    got: list[Any] = []

    def body() -> None:
        try:
            got.append(fn())
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return got[0]


@dnb.step(effect="none")
def bump(n: int) -> int:
    return n + 1


def test_case_30_a_plain_thread_has_no_active_run_unless_it_is_handed_one(tmp_path: Path) -> None:
    """A thread's parent would be a guess: it is refused, and works with the run in hand."""
    with dnb.run("threads", store=tmp_path) as run:
        refused = in_thread(lambda: bump(1))
        assert isinstance(refused, dnb.NoActiveRun)
        assert "a thread that was not handed the run" in str(refused)
        assert run.states() == []

        assert in_thread(lambda: run.call(bump, 1)) == 2

        async def main() -> None:
            loop = asyncio.get_running_loop()
            with pytest.raises(dnb.NoActiveRun):
                await loop.run_in_executor(None, bump, 2)
            assert await asyncio.to_thread(bump, 2) == 3

        asyncio.run(main())
        assert [state.id for state in run.states()] == ["bump#1", "bump#2"]


def test_a_step_called_with_no_run_open_runs_nothing() -> None:
    """A decorated function outside of a run is an error, never a silent new run."""
    with pytest.raises(dnb.NoActiveRun):
        bump(1)
    assert bump.fn(1) == 2
