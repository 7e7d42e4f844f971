"""What is shown of operations that pins have retired: numbers, and no rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from durable_nb.model.fold import Fold
from durable_nb.model.identity import is_id
from durable_nb.model.outcomes import Outcome
from durable_nb.model.pins import Carried, UpTo, is_retired, stretch_of


@dataclass(frozen=True, slots=True)
class Retired:
    """What stands in a status for the operations that are not listed any more.

    Attributes
    ----------
    counts : Mapping
        How many they are, by outcome.
    before : Mapping
        How many a pinned stretch stands for, by its identity.
    usd : float or None
        What they have cost; `None` where none said anything.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    usd: float | None = None

    @classmethod
    def of(cls, fold: Fold) -> Retired:
        """Total what the loops of a run have retired."""
        carried = fold.carried.items()
        prices = [c.totals.as_dict()["usd"] for _, c in carried if c.totals.priced]
        return cls(
            {str(o): sum(c.count(o) for _, c in carried) for o in Outcome},
            {f"{loop}#{c.stretch}": c.operations for loop, c in carried},
            sum(float(p or 0) for p in prices) if prices else None,
        )

    @classmethod
    def read(cls, text: str) -> Retired:
        """Read what `to_json` wrote; of nothing, there is nothing retired."""
        found: dict[str, Any] = json.loads(text or "{}")
        return cls(found.get("counts") or {}, found.get("before") or {}, found.get("usd"))

    def to_json(self) -> str:
        """Write it for other processes; "" where nothing is retired."""
        said = {"counts": dict(self.counts), "before": dict(self.before), "usd": self.usd}
        return json.dumps(said) if self.before else ""

    def has(self, op: str) -> bool:
        """Tell whether a pin has retired an operation of this identity."""
        loops = {loop: UpTo(n) for loop, n in map(stretch_of, self.before)}
        return is_id(op) and is_retired(op, loops)

    def note(self, op: str) -> list[str]:
        """Say what a pinned stretch stands for; nothing of other operations."""
        if op not in self.before:
            return []
        n = self.before[op]
        return [f"pinned, {n:,} {'operation' if n == 1 else 'operations'} before it"]


#: Of a run without pins.
NOTHING = Retired()


def after(fold: Fold, seq: int) -> list[Carried]:
    """List what was retired and may have begun after a record."""
    return [carried for carried in fold.carried.values() if carried.seq > seq]
