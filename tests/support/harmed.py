"""A killed run to be harmed: what its children do, and what the tests of damage share."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from support.child import Bench, Ended
from support.ledger import Ledger

WORK = """
name, mode = str(more[0]), more[1]

def small():
    ledger.add(f"{name} small")
    return {"n": 1}

def big(*, idempotency_key):
    ledger.add(f"{name} big", idempotency_key)
    return name * 100_000

def last(*, idempotency_key):
    ledger.add(f"{name} last", idempotency_key)
    return [name, "last"]

def go(run):
    tell(small=run.step("small", effect="none").call(small))
    tell(size=len(run.call(big)))
    tell(last=run.call(last))

with dnb.run(name, store=store, adopt="moved") as run:
    tell(opened=outcomes(run), status=str(run.status_view()), doubt=run.status_view().doubt)
    if mode == "invalidate":
        run.invalidate("big", "its value is lost", effect="stands")
    try:
        go(run)
    except (dnb.DurableSignal, dnb.DurableError) as problem:
        tell(problem=type(problem).__name__, text=str(problem))
        tell(stopped=str(run.status_view()), results=dict(zip(run.operations()["id"], run.operations()["result"])))
    if mode == "die":
        die()
"""


@dataclass
class Harmed:
    """A killed run to be harmed, and another one of the same store that must not notice."""

    bench: Bench
    ledger: Ledger

    @property
    def folder(self) -> Path:
        return self.bench.store / "mine"

    @property
    def other(self) -> Path:
        return self.bench.store / "other"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.duckdb"

    @property
    def wal(self) -> Path:
        return self.folder / "journal.duckdb.wal"

    @property
    def index(self) -> Path:
        return self.folder / "artifacts" / "cache.db"

    @property
    def value(self) -> Path:
        (found,) = self.folder.glob("artifacts/??/??/*.val")
        return found

    def resume(self, mode: str = "resume") -> Ended:
        return self.bench.run(WORK, "mine", mode)

    def effects(self) -> dict[str, int]:
        return {what: self.ledger.count(f"mine {what}") for what in ("big", "last")}

    def copied(self, to: Path) -> Harmed:
        """Give the same story in another place, to be harmed in another way."""
        shutil.copytree(self.bench.store, to / "store")
        shutil.copy(self.bench.ledger_file, to / "effect.log")
        bench = Bench(to)
        return Harmed(bench, Ledger(bench.ledger_file))


ONCE = {"big": 1, "last": 1}


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def is_detected(ended: Ended) -> bool:
    """Whether a user is told: an error, a doubt in the status, or a warning."""
    told = ended.facts.get("doubt") or ended.facts.get("problem") or ended.code
    return bool(told) or "warning:" in ended.err
