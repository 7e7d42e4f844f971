"""Notebooks full of operations, each of which asks the outside ledger for something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: Operations take these in turn.
EFFECTS: Final = ("none", "idempotent", "external")
_STEP: Final = {"none": "look", "idempotent": "put", "external": "send"}
_RECONCILES: Final = ", reconcile=look_up, settle_after=1"

#: A cell: how the ledger is asked.
CLIENT: Final = """import json, os, pathlib, urllib.request
import durable_nb as dnb

def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ['LEDGER'] + path, data=data)
    return json.load(urllib.request.urlopen(request, timeout=60))

def post(kind, what, key):
    asker = {'pid': os.getpid(), 'who': dnb.current_run().name}
    return ask('/' + kind, {'what': what, 'key': key, **asker})['done']"""

_STEPS: Final = """def look_up(op):
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

@dnb.step(effect='external'{more})
def send(what, *, idempotency_key):
    return post('external', what, idempotency_key)"""


@dataclass
class Plan:
    """The cells of a notebook, and what has to happen.

    Attributes
    ----------
    cells : list of str
        In order.
    slow : frozenset of int
        Numbers of operations that are told to be slow.
    reconciles : bool
        Whether an external operation can look up what became of it; else a person has to.
    effects : list of str
        What must be in the ledger.
    operations : int
        How many there are.
    """

    cells: list[str]
    slow: frozenset[int] = frozenset()
    reconciles: bool = True
    effects: list[str] = field(default_factory=list)
    slow_names: list[str] = field(default_factory=list)
    operations: int = 0

    @property
    def steps(self) -> str:
        """A cell: the three steps, one an effect."""
        return _STEPS.format(more=_RECONCILES if self.reconciles else "")

    def calls(self, number: int, first: str = "") -> None:
        """Add a plain cell of calls; the first of them may be of another step."""
        made = [self._call(first if n == 0 else "") for n in range(number)]
        self.cells.append("\n".join(f"seen.append({call})" for call in made))

    def blocks(self, number: int) -> None:
        """Add a plain cell of steps in ``with``."""
        lines = []
        for _ in range(number):
            key = self.operations
            effect, what = self._next()
            more = _RECONCILES if effect == "external" and self.reconciles else ""
            lines.append(
                f"with run.step('do', key={key}, effect={effect!r}, inputs={{}}{more}) as op:\n"
                "    if op.needed:\n"
                f"        op.result = post({effect!r}, {what!r}, op.idempotency_key)\n"
                "seen.append(op.result)"
            )
        self.cells.append("\n".join(lines))

    def container(self, number: int) -> None:
        """Add a ``%%durable`` cell of calls."""
        calls = ",\n    ".join(self._call() for _ in range(number))
        name = f"together_{self.operations}"
        self.cells.append(f"%%durable {name}\n{name} = [\n    {calls}\n]")

    def opaque(self) -> None:
        """Add a ``%%durable`` cell that is an operation itself."""
        name = f"alone_{self.operations}"
        self.operations += 1
        source = f"{name} = post('none', '{name}', '{name}')"
        self.cells.append(f"%%durable {name} --effect none\n{source}")

    def _next(self) -> tuple[str, str]:
        """Give the effect and the name of the next operation."""
        effect = EFFECTS[self.operations % len(EFFECTS)]
        what = f"{effect}-{self.operations}"
        if effect != "none":
            self.effects.append(what)
        if self.operations in self.slow:
            self.slow_names.append(what)
        self.operations += 1
        return effect, what

    def _call(self, name: str = "") -> str:
        number = self.operations
        effect, what = self._next()
        return f"{name or _STEP[effect]}.options(key={number})({what!r})"


def of_the_fleet(operations: int) -> Plan:
    """Plan a notebook of so many operations; one in doubt waits for a person.

    Its parameter `who` is the name of its run, by which its kernels announce themselves before
    they open it.
    """
    begin = "ask('/begin', {'who': who, 'pid': os.getpid()})"
    plan = Plan(
        [f"{CLIENT}\n\n{begin}", "%load_ext durable_nb\n%durable run job"], reconciles=False
    )
    plan.cells += [plan.steps, "seen = []"]
    kinds = (plan.calls, plan.container, plan.blocks)
    turn = 0
    while plan.operations < operations:
        kinds[turn % len(kinds)](min(3 + turn % 2, operations - plan.operations))
        turn += 1
    plan.cells.append("print('all', len(seen))")
    return plan
