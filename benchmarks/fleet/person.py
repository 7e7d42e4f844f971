"""A person who settles doubts: looks into the ledger, and says what became of an operation."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.fleet.yard import Yard
from durable_nb.journal.postgres.fleet import FleetState

#: Seconds between two looks.
_LOOK_S: Final = 1.0
#: Of an error, for those who look on.
_SAID: Final = 100
#: What `durable-nb` ends with where all went well; 3 where a person is needed for something.
_FINE: Final = frozenset({0, 3})


@dataclass
class Person(threading.Thread):
    """Looks after all runs that need a person.

    Attributes
    ----------
    alone : set of str
        Keys that are not settled yet.
    seen : set of str
        Keys of the operations that were seen to be unknown.
    """

    yard: Yard
    alone: set[str]
    say: Callable[[str], object]
    over: threading.Event
    seen: set[str] = field(default_factory=set)
    problem: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True, name="person")

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Look again and again."""
        try:
            while not self.over.wait(_LOOK_S):
                rows = (self.yard.rows() or {}).values()
                for row in rows:
                    if row.state is FleetState.PERSON_NEEDED:
                        self._look_at(row.name)
        except BaseException as problem:  # for the thread that waits
            self.problem = problem

    def _look_at(self, run: str) -> None:
        code, out, err = self.yard.do("show", run, "--json")
        if code not in _FINE:  # such as while the database is away
            self.say(f"{run} cannot be shown just now: {err.strip()[:_SAID]}")
            return
        for op in json.loads(out)["operations"]:
            if op["outcome"] == "unknown" and not op["live"]:
                self.seen.add(op["idempotency_key"])
                self._settle(run, op)

    def _settle(self, run: str, op: dict[str, Any]) -> None:
        """Say what the ledger says; nothing as long as a request is under way."""
        key = op["idempotency_key"]
        found = self.yard.tell(f"/find?key={key}")
        if key in self.alone or found["at_work"]:
            return
        if found["what"]:
            result = json.dumps(found["what"][0])
            words = ("confirm", run, op["id"], result, "--evidence", "the ledger has it")
        else:
            words = ("deny", run, op["id"], "--evidence", "the ledger does not have it")
        code, _, _ = self.yard.do(*words)
        if code in _FINE:
            self.say(f"a person: {words[0]} {run} {op['id']}")
