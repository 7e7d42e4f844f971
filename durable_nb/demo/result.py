"""What a demo has shown, as numbers that were counted from outside."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tally:
    """Effects of one kind."""

    expected: int  #: by the decisions on record
    applied: int  #: by the shop's ledger
    duplicates: int  #: by the shop's ledger


@dataclass(frozen=True, slots=True)
class Settled:
    """Unknown operations, by who settled them; counted from the run's journal."""

    reconciler: int
    person: int


@dataclass(frozen=True, slots=True)
class Naive:
    """The same agent and kills without durable_nb; counted from its own shop's ledger."""

    refund_duplicates: int
    mail_duplicates: int


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The numbers of one demo; `line()` is what `--json` prints."""

    kills: int  #: kernels that were really killed
    refunds: Tally
    mails: Tally
    unknown_settled: Settled
    model_calls_repeated: int  #: by the model server's list of calls
    naive: Naive
    seconds: float
    folder: Path | None = None  #: where everything was kept, if it was

    def line(self) -> str:
        """Give the numbers as one line of JSON."""
        numbers = asdict(self)
        del numbers["folder"]
        return json.dumps(numbers)
