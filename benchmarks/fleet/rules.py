"""What has to hold once a harmed fleet is at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import durable_nb as dnb
from benchmarks.fleet.harm import Stopped
from durable_nb.journal.postgres.fleet import FleetRow, FleetState

#: Where a run may be left.
_ENDS: Final = frozenset({FleetState.FINISHED, FleetState.PERSON_NEEDED})
_VERDICTS: Final = frozenset({"confirmed", "denied"})


@dataclass
class Found:
    """What is found once all is over.

    Attributes
    ----------
    broken : list of str
        Rules that were broken, a line each.
    ends : Counter
        Runs by where they stand.
    verdicts : Counter
        On record, by their kind.
    operations, again, deaths : int
        Completed operations; effects that a denial has allowed to happen once more; kernels whose
        death is on record.
    duplicates, lost : int
        Effects that happened too often, and operations on record as done that have none.
    """

    broken: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    operations: int = 0
    again: int = 0
    deaths: int = 0
    duplicates: int = 0
    lost: int = 0


@dataclass
class Judge:
    """Compares what is on record with what really happened.

    Attributes
    ----------
    store : str
        Where the runs are.
    happened : Counter
        Effects in the ledger, by key.
    requests : Mapping
        Requests of which the ledger knows, by key.
    operations : int
        How many each run has.
    """

    store: str
    happened: Counter[str]
    requests: Mapping[str, int]
    operations: int
    found: Found = field(default_factory=Found)
    _keys: set[str] = field(default_factory=set)

    def look(
        self,
        rows: Mapping[str, FleetRow],
        stopped: Sequence[Stopped],
        seen: Collection[str],
    ) -> Found:
        """Look at all runs.

        Parameters
        ----------
        rows : Mapping
            How each run stands.
        stopped : sequence of Stopped
            Workers that stood still.
        seen : collection of str
            Keys of operations that a person saw to be unknown.
        """
        for name, row in rows.items():
            self.found.ends[str(row.state)] += 1
            if row.state not in _ENDS:
                self._broken(f"{name} is {row.state}: {row.why}")
            self._run(name, row, [one for one in stopped if one.run == name])
        for key in self.happened.keys() - self._keys:
            self._broken(f"an effect has a key that is on no record: {key}")
        for one in stopped:
            if one.key not in seen:
                self._broken(f"{one.run}: what its stopped worker did was never unknown")
        return self.found

    def _broken(self, line: str) -> None:
        self.found.broken.append(line)

    def _run(self, name: str, row: FleetRow, stopped: Sequence[Stopped]) -> None:
        try:
            watched = dnb.watch(name, store=self.store)
            records = watched.records()
        except dnb.DurableError as problem:
            self._broken(f"{name} cannot be read: {problem}")
            return
        epochs = [record["epoch"] for record in records]
        if epochs != sorted(epochs):
            self._broken(f"{name}: an owner has written after its successor: {epochs}")
        self.found.deaths += sum(record["kind"] == "died" for record in records)
        of: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            of.setdefault(record["op"], []).append(record)
        ours = [op for op in watched.status_view().views if op.key is not None]
        for op in ours:
            self._operation(name, op, Counter(r["kind"] for r in of.get(op.id, ())))
        done = sum(op.outcome == "completed" for op in ours)
        self.found.operations += done
        if row.state is FleetState.FINISHED and done != self.operations:
            self._broken(f"{name} is finished with {done} of {self.operations} operations")
        for one in stopped:
            (op,) = (op for op in ours if op.idempotency_key == one.key)
            self._late(one, op.id, of[op.id])

    def _operation(self, name: str, op: Any, kinds: Counter[str]) -> None:
        key, denied = op.idempotency_key, kinds["denied"]
        self._keys.add(key)
        self.found.verdicts += Counter({kind: kinds[kind] for kind in _VERDICTS})
        if op.effect == "none":
            return
        times = self.happened[key]
        if op.outcome == "completed" and not times:
            self.found.lost += 1
            self._broken(f"{name} {op.id} is completed, and never happened")
        more = max(0, times - 1)
        self.found.again += min(more, denied)
        if more > denied:
            self.found.duplicates += more - denied
            self._broken(f"{name} {op.id} happened {times} times, with {denied} denials")
        if op.effect == "external" and self.requests.get(key, 0) > kinds["intended"]:
            self._broken(
                f"{name} {op.id}: {self.requests[key]} requests, {kinds['intended']} intents"
            )

    def _late(self, one: Stopped, op: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Look at what became of the operation in whose middle a worker stood still."""
        at = f"{one.run} {op}"
        if one.taken <= one.epoch:
            self._broken(f"{at}: nobody took it over from its stopped worker")
        if not one.refused:
            self._broken(f"{at}: its worker was not refused as it went on")
        mine = [r for r in records if r["epoch"] == one.epoch]
        if [r["kind"] for r in mine] != ["intended"]:
            self._broken(f"{at}: under epoch {one.epoch} it has {[r['kind'] for r in mine]}")
        after = [r for r in records if r["epoch"] > one.epoch]
        if not after or after[0]["kind"] not in _VERDICTS:
            kinds = [r["kind"] for r in records]
            self._broken(f"{at}: no verdict settled what its stopped worker had begun: {kinds}")
