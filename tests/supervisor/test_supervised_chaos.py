"""A long notebook whose kernels die all the time, and nobody who looks after it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from support.memory_group import Little, little_memory

from benchmarks.fleet.ledger import HttpLedger, serving
from benchmarks.fleet.notebooks import CLIENT, EFFECTS, Plan
from durable_nb.journal.owner import OwnerInfo, Role, is_alive

pytestmark = pytest.mark.slow

KILLS = 15
#: Seconds after which even an intent that rides with the next commit is on disk.
LANDED_S = 1.2

HUNGRY = """@dnb.step(effect='idempotent')
def hungry(what, *, idempotency_key):
    fed = pathlib.Path('fed')
    if not fed.exists():
        fed.write_text(str(os.getpid()))
        eat()
    return post('idempotent', what, idempotency_key)"""

#: Numbers of operations that are slow, so that each is cut in its middle with its intent on disk:
#: two `idempotent` ones, one `external`, and one with no effect, in a ``%%durable`` cell.
SLOW = frozenset({12, 28, 41, 46})
#: Where the memory is eaten: at about half of all.
HUNGRY_GROUP = 9


def planned(little: Little) -> Plan:
    """Plan the notebook.

    18 plain cells do 8 steps each, 10 of them by calls and 8 in ``with``; 10 ``%%durable`` cells
    hold 5 steps each; 6 ``%%durable`` cells are an operation each: 200. Six cells hold none: the
    one that opens the run, clients, steps, the hungry step, a list, and the sum at the end.
    """
    plan = Plan([CLIENT], SLOW)
    plan.cells += [plan.steps, little.source + HUNGRY, "seen = []"]
    for group in range(18):
        if group % 9 in {1, 3, 5, 7}:
            plan.blocks(8)
        else:
            plan.calls(8, "hungry" if group == HUNGRY_GROUP else "")
            plan.container(5)
        if group % 3 == 1:
            plan.opaque()
    plan.cells.append("print('all', len(seen))")
    return plan


@dataclass
class Killer(threading.Thread):
    """Kills kernels: each one has done something new, and is in the middle of something else."""

    run_folder: Path
    fed: Path
    server: HttpLedger
    kills: list[int] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        chance = random.Random(8)
        while len(self.kills) < KILLS and not self.enough.wait(0.005):
            kernel = self._kernel()
            if kernel and self._is_in_the_middle(kernel, chance) and kernel != self._eater():
                os.kill(kernel, signal.SIGKILL)
                self.kills.append(kernel)

    def _is_in_the_middle(self, kernel: int, chance: random.Random) -> bool:
        """Wait for a moment to kill; false if the kernel has ended meanwhile."""
        before, moment = self.server.asked(), None
        while self._kernel() == kernel:
            now, slow = time.monotonic(), self.server.slow_since
            if slow is not None:
                if now > slow + LANDED_S:
                    return True
            elif moment is None and self.server.asked() >= before + 2:
                moment = now + chance.uniform(0.0, 0.7)
            elif moment is not None and now > moment:
                return True
            if self.enough.wait(0.005):
                break
        return False

    def _kernel(self) -> int:
        """Give the process that executes the run and lives; 0 if there is none."""
        info = OwnerInfo.load(self.run_folder)
        if info is None or info.role != Role.RUNNER or info.released:
            return 0
        return info.pid if info.pid not in self.kills and is_alive(info.pid) else 0

    def _eater(self) -> int:
        """Give the kernel that eats up the memory: it is the system that ends this one."""
        return int(self.fed.read_text() or 0) if self.fed.exists() else 0


def test_nobody_looks_after_a_notebook_whose_kernels_die_all_the_time(desk, monkeypatch):
    """15 kills and one out-of-memory: it is finished, nothing is lost, and nothing is done twice."""
    server = HttpLedger(before=0.04, after=0.05)
    with serving(server) as url, little_memory() as little:
        monkeypatch.setenv("LEDGER", url)
        plan = planned(little)
        server.slow = frozenset(plan.slow_names)
        notebook = desk.notebook(*plan.cells)
        assert (len(nbformat.read(notebook, 4).cells), plan.operations) == (40, 200)
        killer = Killer(desk.folder / "store" / "r", desk.folder / "fed", server)
        killer.start()
        try:
            code, out, err = desk.do(
                "run", notebook.name, "--run", "r", "--restarts", 20, "--json", timeout=400
            )
        finally:
            killer.enough.set()
            killer.join(10)
        eaten = little.kills()
    assert code == 0, out + err
    said = json.loads(out)
    assert len(killer.kills) == KILLS
    assert (said["end"], said["deaths"], said["kernels"]) == ("finished", KILLS + 1, KILLS + 2)
    ends = Counter(map(int, re.findall(r"died \(signal (\d+)", err)))
    assert ends == Counter([signal.SIGKILL] * KILLS + [little.signal]), little.how
    assert eaten == (1 if little.group else None), little.how

    happened = Counter(what for what, _ in server.lines())
    assert sorted(happened) == sorted(plan.effects), "none is lost"
    assert set(happened.values()) == {1}, "none is done twice"
    _check_history(desk, server, plan)
    cells = desk.cells()
    assert len(cells) == 40
    assert all(cell.execution_count for cell in cells)
    assert cells[-1].outputs[0].text == "all 144\n"


def _check_history(desk: Any, server: HttpLedger, plan: Plan) -> None:
    """Every kernel, and every attempt that was cut, is on record."""
    _, out, _ = desk.do("history", "r", "--json")
    records = json.loads(out)
    kinds = Counter(record["kind"] for record in records)
    kernels, deaths = KILLS + 2, KILLS + 1
    assert (kinds["died"], kinds["finished"]) == (deaths, 1)
    assert kinds["opened"] == kernels + deaths  # a death is recorded by who settles
    told = [record["detail"] for record in records if record["kind"] == "died"]
    assert all(how.startswith("signal ") for how in told)
    assert sum("code of cell" not in how for how in told), "what was at work is told"
    of = {r["op"]: [x["kind"] for x in records if x["op"] == r["op"]] for r in records if r["op"]}
    for number in plan.slow:  # all of these were cut: what may be done again was, and is told
        (op,) = (op for op in of if f"[{number}]#1" in op)
        settled = ["intended", "confirmed"] if EFFECTS[number % 3] == "external" else None
        end = settled or ["intended", "intended", "completed"]
        assert of[op][-len(end) :] == end, op  # it may have been cut before its request as well
    assert kinds["confirmed"] + kinds["denied"] >= 1
    _, out, _ = desk.do("show", "r", "--json")
    shown = json.loads(out)
    assert (shown["incomplete"], shown["unknown"]) == (0, 0)
    assert shown["completed"] == plan.operations + 10  # and the cells that hold steps
    for row in shown["operations"]:
        assert row["attempt"] == of[row["id"]].count("intended"), row
        sent = server.requests[row["idempotency_key"]]
        if row["effect"] == "external":  # a request belongs to an attempt that is on record
            assert sent <= row["attempt"], row
        if row["key"] in {str(n) for n in plan.slow if EFFECTS[n % 3] == "idempotent"}:
            assert sent == 2, row  # the ledger has let the second one pass
