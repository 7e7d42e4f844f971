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
from support.http_ledger import HttpLedger, serving
from support.ledger import Ledger
from support.memory_group import Little, little_memory

from durable_nb.journal.owner import OwnerInfo, Role, is_alive

pytestmark = pytest.mark.slow

KILLS = 15
#: Seconds after which even an intent that rides with the next commit is on disk.
LANDED_S = 1.2
EFFECTS = ("none", "idempotent", "external")

CLIENT = """import json, os, pathlib, urllib.request
import durable_nb as dnb

def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ['LEDGER'] + path, data=data)
    return json.load(urllib.request.urlopen(request, timeout=60))

def post(kind, what, key):
    return ask('/' + kind, {'what': what, 'key': key})['done']"""

STEPS = """def look_up(op):
    found = ask('/find?key=' + op.idempotency_key)['what']
    if found:
        return dnb.Happened(found[0], evidence='the ledger has it')
    return dnb.DidNotHappen(evidence='the ledger does not have it')

@dnb.step(effect='none')
def look(what, *, idempotency_key):
    return post('none', what, idempotency_key)

@dnb.step(effect='idempotent')
def put(what, *, idempotency_key):
    return post('idempotent', what, idempotency_key)

@dnb.step(effect='external', reconcile=look_up, settle_after=1)
def send(what, *, idempotency_key):
    return post('external', what, idempotency_key)"""

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


@dataclass
class Plan:
    """The notebook, and what has to happen.

    18 plain cells do 8 steps each, 10 of them by calls and 8 in ``with``; 10 ``%%durable`` cells
    hold 5 steps each; 6 ``%%durable`` cells are an operation each: 200. Six cells hold none: the
    one that opens the run, clients, steps, the hungry step, a list, and the sum at the end.
    """

    cells: list[str]
    effects: list[str] = field(default_factory=list)
    slow: list[int] = field(default_factory=list)
    operations: int = 0

    def _next(self) -> tuple[str, str]:
        """Give the effect and the name of the next operation."""
        effect = EFFECTS[self.operations % 3]
        what = f"{effect}-{self.operations}"
        if effect != "none":
            self.effects.append(what)
        if self.operations in SLOW:
            self.slow.append(self.operations)
        self.operations += 1
        return effect, what

    def _call(self, name: str = "") -> str:
        number = self.operations
        effect, what = self._next()
        return f"{name or STEP[effect]}.options(key={number})({what!r})"

    def calls(self, *, hungry: bool) -> None:
        first = f"seen.append({self._call('hungry')})" if hungry else f"seen.append({self._call()})"
        self.cells.append("\n".join([first, *(f"seen.append({self._call()})" for _ in range(7))]))

    def blocks(self) -> None:
        lines = []
        for _ in range(8):
            number = self.operations
            effect, what = self._next()
            more = ", reconcile=look_up, settle_after=1" if effect == "external" else ""
            lines.append(
                f"with run.step('do', key={number}, effect={effect!r}, inputs={{}}{more}) as op:\n"
                "    if op.needed:\n"
                f"        op.result = post({effect!r}, {what!r}, op.idempotency_key)\n"
                "seen.append(op.result)"
            )
        self.cells.append("\n".join(lines))

    def container(self) -> None:
        calls = ",\n    ".join(self._call() for _ in range(5))
        name = f"together_{self.operations}"
        self.cells += [f"%%durable {name}\n{name} = [\n    {calls}\n]"]

    def opaque(self) -> None:
        name = f"alone_{self.operations}"
        self.operations += 1
        self.cells += [f"%%durable {name} --effect none\n{name} = post('none', '{name}', '{name}')"]


STEP = {"none": "look", "idempotent": "put", "external": "send"}


def planned(little: Little) -> Plan:
    plan = Plan([CLIENT, STEPS, little.source + HUNGRY, "seen = []"])
    for group in range(18):
        if group % 9 in {1, 3, 5, 7}:
            plan.blocks()
        else:
            plan.calls(hungry=group == HUNGRY_GROUP)
        if group % 9 not in {1, 3, 5, 7}:
            plan.container()
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


def test_nobody_looks_after_a_notebook_whose_kernels_die_all_the_time(desk, tmp_path, monkeypatch):
    """15 kills and one out-of-memory: it is finished, nothing is lost, and nothing is done twice."""
    server = HttpLedger(Ledger(tmp_path / "happened"), before=0.04, after=0.05)
    with serving(server) as url, little_memory() as little:
        monkeypatch.setenv("LEDGER", url)
        plan = planned(little)
        server.slow = frozenset(f"{EFFECTS[number % 3]}-{number}" for number in plan.slow)
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

    happened = Counter(what for what, _ in server.ledger.lines())
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
