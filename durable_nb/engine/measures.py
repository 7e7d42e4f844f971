"""What the records of a run tell of time and money: added up here, put into words in `usage`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from durable_nb.model.fold import Fold
from durable_nb.model.identity import parse
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import RUN, Record
from durable_nb.model.spending import ENDS

#: Records of a run's end: what its kernel measured and no outcome told stands there.
_CLOSES = frozenset({Kind.CLOSED, Kind.FAILED, Kind.FINISHED})


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which nothing was recorded, so that a kill would have lost all of it.

    Attributes
    ----------
    seconds : float
        How long it was.
    op : str
        The operation in whose body it was; "" for the program's own block.
    attempt : int
        Which attempt at it.
    outside : bool
        Whether it was outside of the steps of that body.
    """

    seconds: float
    op: str
    attempt: int
    outside: bool


@dataclass(frozen=True, slots=True)
class Own:
    """What a kernel that still executes the run knows, and no record tells yet."""

    epoch: int
    checkpoint_s: float
    saved: Mapping[str, Any]


@dataclass(slots=True)
class Named:
    """The attempts at all steps of one name that have nothing below them."""

    bodies: list[float] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Measures:
    """All that the records tell, added up.

    Attributes
    ----------
    body_s, checkpoint_s : float
        Seconds in bodies, and spent on checkpointing, of the attempts that were measured.
    measured, unmeasured : int
        Attempts that tell what checkpointing cost, and those recorded before that was measured.
    longest : Stretch or None
        The longest time without a checkpoint.
    outside : dict
        Operation to seconds outside of the steps of its last attempt.
    names : dict
        Step name to its attempts.
    failed : int
        Attempts that ended without a result.
    failed_s, failed_usd
        What they took, and what they cost (`None`: none of them said).
    cut_short : int
        Attempts that have no end on record.
    saved_operations, saved_s, saved_usd
        What replays did not do again.
    kernels : int
        Kernels that have executed the run.
    untold : int
        Those of them that ended without telling what their replays saved.
    replayed : Counter
        Parent to how many operations below it a resume comes to and replays.
    """

    body_s: float = 0.0
    checkpoint_s: float = 0.0
    measured: int = 0
    unmeasured: int = 0
    longest: Stretch | None = None
    outside: dict[str, float] = field(default_factory=dict)
    names: dict[str, Named] = field(default_factory=dict)
    failed: int = 0
    failed_s: float = 0.0
    failed_usd: float | None = None
    cut_short: int = 0
    saved_operations: int = 0
    saved_s: float = 0.0
    saved_usd: float | None = None
    kernels: int = 0
    untold: int = 0
    replayed: Counter[str] = field(default_factory=Counter)

    def protects_nothing_for(self, stretch: Stretch) -> None:
        """Take a time without a checkpoint in."""
        if self.longest is None or stretch.seconds > self.longest.seconds:
            self.longest = stretch

    def add_saved(self, saved: Mapping[str, Any]) -> None:
        """Take in what the replays of one kernel saved."""
        self.saved_operations += saved["operations"]
        self.saved_s += saved["seconds"]
        if saved["usd"] is not None:
            self.saved_usd = (self.saved_usd or 0.0) + saved["usd"]


def measure(
    fold: Fold, records: Iterable[Record], live: frozenset[str], own: Own | None
) -> Measures:
    """Add up what the records tell.

    Parameters
    ----------
    fold : Fold
        The same records, folded.
    records : iterable of Record
        All of the run, in order.
    live : frozenset of str
        Operations that are at work now.
    own : Own or None
        Of the kernel that executes the run now; `None` if nobody does.
    """
    found, open_attempts, silent = Measures(), set[str](), set[int]()
    records = list(records)
    containers = _containers(fold, records)
    for record in records:
        if record.op == RUN:
            _of_run(found, record, silent)
        elif record.kind is Kind.INTENDED and record.body.get("wait") is None:
            # what waits for a person is no attempt that a kernel's end cuts short
            found.cut_short += record.op in open_attempts
            open_attempts.add(record.op)
        elif record.kind in ENDS:
            open_attempts.discard(record.op)
            _of_attempt(found, containers, record)
    found.cut_short += len(open_attempts - live)
    if own is not None:
        silent.discard(own.epoch)
        found.checkpoint_s += own.checkpoint_s
        found.add_saved(own.saved)
    found.untold += len(silent)
    _of_next_resume(found, fold)
    return found


def _containers(fold: Fold, records: Iterable[Record]) -> Container[str]:
    """Give what others are below of, what pins have retired included."""
    if not fold.carried:
        return fold.containers
    ops = {record.op for record in records if record.op != RUN}
    return {op[:end] for op in ops for end, c in enumerate(op) if c == "/"}


def _of_run(found: Measures, record: Record, silent: set[int]) -> None:
    """Take in a record of the run itself."""
    body = record.body
    runner = body.get("role", "runner") == "runner"
    if record.kind is Kind.OPENED and runner:
        silent.add(record.epoch)
        found.kernels += 1
    if record.kind not in _CLOSES:
        return
    found.checkpoint_s += body.get("checkpoint_s", 0.0)
    found.body_s += body.get("outside_s", 0.0)
    if "outside_longest_s" in body:
        found.protects_nothing_for(Stretch(body["outside_longest_s"], "", 0, True))
    if body.get("saved"):
        silent.discard(record.epoch)
        found.add_saved(body["saved"])


def _of_attempt(found: Measures, containers: Container[str], record: Record) -> None:
    """Take in the end of an attempt."""
    body, op = record.body, record.op
    took, attempt = body.get("duration_s"), int(body.get("attempt") or 0)
    if took is None:  # a late result: its attempt has ended before
        return
    told = body.get("checkpoint_s")
    container = op in containers
    seconds = took
    if container:
        seconds = body.get("outside_s", 0.0)
        if "outside_s" in body:
            found.outside[op] = seconds
            longest = Stretch(body["outside_longest_s"], op, attempt, True)
            found.protects_nothing_for(longest)
    else:
        found.protects_nothing_for(Stretch(took, op, attempt, False))
    if told is None:
        found.unmeasured += 1
    else:
        found.measured += 1
        found.body_s += seconds
        found.checkpoint_s += told
        if not container:
            named = found.names.setdefault(parse(op).name, Named())
            named.bodies.append(took)
            named.checkpoints.append(told)
    if record.kind is not Kind.COMPLETED and not container:
        found.failed += 1
        found.failed_s += took
        if body.get("usd") is not None:
            found.failed_usd = (found.failed_usd or 0.0) + body["usd"]


def _of_next_resume(found: Measures, fold: Fold) -> None:
    """Count what the next resume comes to: completed, and not inside of what is completed."""
    done = {s.id for s in fold.operations.values() if s.result is not None or s.failed}
    for op in done:
        steps = op.split("/")
        above = ("/".join(steps[:n]) for n in range(1, len(steps)))
        if not any(a in done for a in above):
            found.replayed["/".join(steps[:-1])] += 1
