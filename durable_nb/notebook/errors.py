"""What can go wrong with what a durable cell leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from durable_nb.model.errors import DurableError, NotRecordable


class NamesNotRecordable(NotRecordable):
    """Some of the names that a cell leaves behind cannot be recorded."""

    def __init__(self, cell: str, good: Sequence[str], bad: Mapping[str, str]) -> None:
        DurableError.__init__(self, cell, good, bad)
        self.cell, self.good, self.bad = cell, tuple(good), dict(bad)
        self.path, self.found, self.advice = cell, ", ".join(bad), ""

    def __str__(self) -> str:
        bad = "".join(f"\n  {name}: {why}" for name, why in self.bad.items())
        good = ", ".join(self.good) or "none"
        keep = ",".join(self.good) or "NAME"
        return (
            f"cell {self.cell} leaves names behind that cannot be recorded and brought back:{bad}\n"
            f"  these can be: {good}\n"
            f"Nothing was recorded as completed. Keep only what later cells need: "
            f"%%durable {self.cell} --out {keep}"
        )


class SharedWithEarlierCell(NotRecordable):
    """A name shares a mutable object with an earlier cell, which a record would split in two."""

    def __init__(self, cell: str, shared: Mapping[str, str]) -> None:
        DurableError.__init__(self, cell, shared)
        self.cell, self.shared = cell, dict(shared)
        self.path, self.found, self.advice = cell, ", ".join(shared), ""

    def __str__(self) -> str:
        listed = "".join(f"\n  {name} holds {owner}" for name, owner in self.shared.items())
        return (
            f"cell {self.cell} leaves objects behind that belong to earlier cells:{listed}\n"
            "After a restart these would be two objects, and a change of one would miss the other. "
            "Nothing was recorded as completed. Store a copy (copy.deepcopy), make both in one "
            "cell, or leave the name out with --out."
        )
