"""The timeline of a run: what ran when, in which kernel, and how that ended. Pure data.

Times are seconds since the run's birth. Order is that of the records: where a clock was set back,
time stands still until the next record, and is never drawn backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from durable_nb.model import identity
from durable_nb.model.fold import Fold
from durable_nb.model.outcomes import EFFECTS, OUTCOMES, Kind, Outcome
from durable_nb.model.records import RUN, Record
from durable_nb.model.spending import ENDS

#: An attempt without an outcome on record, since its kernel ended.
CUT: Final = "cut"
#: Kinds that a person, or a reconciler, has decided.
_DECIDED: Final = frozenset(
    {
        Kind.CONFIRMED,
        Kind.DENIED,
        Kind.INVALIDATED,
        Kind.KEPT,
        Kind.RERUN,
        Kind.APPROVED,
        Kind.REJECTED,
        Kind.SIGNALLED,
        Kind.DUPLICATE,
    }
)
#: Kinds that end what a wait was for.
_ANSWERS: Final = frozenset({Kind.APPROVED, Kind.REJECTED, Kind.SIGNALLED})
_RUN_ENDS: Final = frozenset({Kind.CLOSED, Kind.FAILED, Kind.FINISHED})


class KernelEnd(StrEnum):
    """How a kernel that executed the run ended, as far as records tell."""

    LIVE = "live"  #: it executes the run now
    CLOSED = "closed"  #: it closed the run
    FAILED = "failed"  #: its program ended with an error
    FINISHED = "finished"  #: it reached the end of the run
    DIED = "died"  #: a supervisor saw it die
    CRASHED = "crashed"  #: it ended, or stood still until another took over, without a word


#: Those without an orderly end.
KILLED: Final = frozenset({KernelEnd.DIED, KernelEnd.CRASHED})


@dataclass(frozen=True, slots=True)
class Band:
    """One kernel that executed the run.

    Attributes
    ----------
    number, epoch : int
        Counted from 1; and the epoch of its lease, which those who only settle raise too.
    begin, end : float
        Seconds since the birth of the run. `end` of one that crashed is its last sign of life: its
        last record.
    ended : KernelEnd
        How.
    why : str
        What is known of that, such as the signal and what was at work.
    known : int
        Operations that were completed before it began: it found them on record.
    restored : int or None
        How many of them it came to and took from the record; `None` where it did not live to tell.
    begun : float
        When it first began something that was not on record: until then it replayed.
    """

    number: int
    epoch: int
    begin: float
    end: float
    ended: KernelEnd = KernelEnd.CRASHED
    why: str = ""
    known: int = 0
    restored: int | None = None
    begun: float = 0.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt of an operation, or one wait.

    Attributes
    ----------
    op, effect : str
        Identity and effect of the operation.
    attempt, depth : int
        From 1, and how many operations it is below of.
    kernel : int
        Number of the band; 0 where it is in none.
    begin, end : float
        Seconds since the birth of the run.
    outcome : str
        Of the operation for its last attempt; of an earlier one what became of that.
    ended : str
        The kind of the record that ended it, ``"cut"`` where its kernel ended first, "" while it
        goes on.
    wait : str
        What it waits for; "" of an attempt.
    holds : bool
        Whether others are below of it.
    pale : bool
        Whether it was copied from another run, or its result was taken back.
    """

    op: str
    effect: str
    attempt: int
    depth: int
    kernel: int
    begin: float
    end: float
    outcome: str
    ended: str = ""
    wait: str = ""
    holds: bool = False
    pale: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about an operation: when, which, and by whom."""

    op: str
    at: float
    kind: str
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What ran when, in one run.

    Attributes
    ----------
    run : str
        Its name.
    length : float
        Seconds from its birth to its last record; to this moment while a kernel executes it.
    bars : tuple of Bar
        By when they began.
    bands : tuple of Band
        The kernels, by when they opened the run.
    verdicts : tuple of Verdict
        In order.
    born : str
        When that was, UTC, ISO; "" where it is not known.
    note : str
        What it is not: "" where it is made from all records.
    """

    run: str
    length: float
    bars: tuple[Bar, ...] = ()
    bands: tuple[Band, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    born: str = ""
    note: str = ""

    @property
    def operations(self) -> int:
        """How many operations are in it."""
        return len({bar.op for bar in self.bars})

    @property
    def unknown(self) -> tuple[str, ...]:
        """Identities of what is in doubt."""
        found = (bar.op for bar in self.bars if bar.outcome == Outcome.UNKNOWN)
        return tuple(dict.fromkeys(found))

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `timeline --json`."""
        found = asdict(self)
        return {
            "run": found.pop("run"),
            "born": found.pop("born") or None,
            "length_s": found.pop("length"),
            "note": found.pop("note") or None,
            "kernels": list(found["bands"]),
            "bars": list(found["bars"]),
            "verdicts": list(found["verdicts"]),
        }

    @classmethod
    def told(cls, document: Mapping[str, Any]) -> Timeline:
        """Make it from what another process told: `as_dict`."""
        return cls(
            run=str(document["run"]),
            born=str(document["born"] or ""),
            length=float(document["length_s"]),
            note=str(document["note"] or ""),
            bars=tuple(Bar(**bar) for bar in document["bars"]),
            bands=tuple(
                Band(**{**band, "ended": KernelEnd(band["ended"])}) for band in document["kernels"]
            ),
            verdicts=tuple(Verdict(**verdict) for verdict in document["verdicts"]),
        )


def timeline_of(
    run: str,
    records: Sequence[Record],
    *,
    now: datetime,
    executing: bool = False,
    live: frozenset[str] = frozenset(),
) -> Timeline:
    """Make the timeline of a run from all of its records.

    Parameters
    ----------
    run : str
        Its name.
    records : sequence of Record
        In order.
    now : datetime
        The moment, UTC.
    executing : bool
        Whether a kernel executes it now.
    live : frozenset of str
        What that kernel is running: never called unknown.
    """
    making = _Making()
    for record in records:
        making.take(record)
    fold = Fold.whole(records)
    if executing:
        making.tick(now)
    making.end_kernel(KernelEnd.LIVE if executing else KernelEnd.CRASHED, live=live)

    def outcome(op: str) -> Outcome:
        found = fold.operations[op].outcome(now)
        return Outcome.INCOMPLETE if op in live and found is Outcome.UNKNOWN else found

    return Timeline(
        run=run,
        length=making.at,
        bars=tuple(making.finished(outcome, fold.containers)),
        bands=tuple(making.bands),
        verdicts=tuple(making.verdicts),
        born="" if fold.born_at is None else fold.born_at.isoformat(),
    )


@dataclass(slots=True)
class _Making:
    """A timeline that is being made, record by record."""

    at: float = 0.0
    bars: list[Bar] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    going: dict[str, int] = field(default_factory=dict)
    then: datetime | None = None
    open: bool = False

    def tick(self, now: datetime) -> None:
        """Let time pass until a moment."""
        if self.then is not None:
            self.at += max(0.0, (now - self.then).total_seconds())
        self.then = now

    def take(self, record: Record) -> None:
        """Take one more record in."""
        self.tick(record.ts)
        if record.op == RUN:
            self._run(record)
        else:
            self._operation(record)
        if self.open and self.bands and record.epoch == self.bands[-1].epoch:
            self.bands[-1] = replace(self.bands[-1], end=self.at)

    # -- of the run --------------------------------------------------------------------------

    def _run(self, record: Record) -> None:
        body, kind = record.body, record.kind
        executing = body.get("role", "runner") == "runner"
        if kind is Kind.OPENED and executing:
            self.end_kernel(KernelEnd.CRASHED)
            number, known = len(self.bands) + 1, len(self.completed)
            self.bands.append(Band(number, record.epoch, self.at, self.at, known=known))
            self.open = True
        elif kind in _RUN_ENDS and executing and self.open:
            restored = (body.get("saved") or {}).get("operations")
            error = body.get("error") or {}
            why = ": ".join(str(error[n]) for n in ("type", "message") if error.get(n))
            self.bands[-1] = replace(self.bands[-1], end=self.at, restored=restored)
            self.end_kernel(KernelEnd(kind.value), why)
        elif kind is Kind.DIED and self.bands:
            self._died(str(body.get("reason", "")))
        elif kind is Kind.FORKED:
            self.bars = [replace(bar, pale=True) for bar in self.bars]

    def _died(self, why: str) -> None:
        """Take in that a supervisor saw the last kernel die, which it does at once."""
        if self.open:
            self.bands[-1] = replace(self.bands[-1], end=self.at)
            self.end_kernel(KernelEnd.DIED, why)
        elif self.bands[-1].ended is not KernelEnd.DIED:  # it had closed the run before it died
            self.bands[-1] = replace(self.bands[-1], why=why)

    def end_kernel(
        self, how: KernelEnd, why: str = "", *, live: frozenset[str] = frozenset()
    ) -> None:
        """Let the kernel that executes the run end, and cut off what it had at work."""
        if not self.open:
            return
        band, is_live = self.bands[-1], how is KernelEnd.LIVE
        end = self.at if is_live else band.end
        begun = band.begun or end
        self.bands[-1] = replace(band, ended=how, why=why or band.why, end=end, begun=begun)
        self.open = is_live
        for op, place in list(self.going.items()):
            bar = self.bars[place]
            if bar.wait:
                continue  # it waits on, whoever executes the run
            if not (is_live and op in live):
                del self.going[op]
                end = max(bar.begin, end)
                self.bars[place] = replace(bar, end=end, ended=CUT)

    # -- of operations -----------------------------------------------------------------------

    def _operation(self, record: Record) -> None:
        op, kind, body = record.op, record.kind, record.body
        if kind is Kind.INTENDED:
            self._begin(record)
        elif kind in ENDS or kind is Kind.PINNED or kind in _ANSWERS:
            place = self.going.pop(op, None)
            if place is not None:
                self.bars[place] = replace(self.bars[place], end=self.at, ended=str(kind))
        if kind in _DECIDED:
            actor = str(body.get("actor") or "")
            self.verdicts.append(Verdict(op, self.at, str(kind), actor))
        if OUTCOMES.get((EFFECTS["none"], kind)) is Outcome.COMPLETED:
            self.completed.add(op)
        elif kind in {Kind.INVALIDATED, Kind.RERUN}:
            self.completed.discard(op)

    def _begin(self, record: Record) -> None:
        op, body = record.op, record.body
        number = self.bands[-1].number if self.open else 0
        if self.open and not self.bands[-1].begun:
            self.bands[-1] = replace(self.bands[-1], begun=self.at)
        place = self.going.get(op)
        if place is not None and not self.bars[place].wait:
            self.bars[place] = replace(self.bars[place], end=self.at, ended=CUT)
        self.going[op] = len(self.bars)
        self.bars.append(
            Bar(
                op,
                str(body["effect"]),
                int(body["attempt"]),
                op.count("/"),
                number,
                self.at,
                self.at,
                str(Outcome.INCOMPLETE),
                wait=str(body.get("wait") or ""),
            )
        )

    # -- all of them -------------------------------------------------------------------------

    def finished(
        self, outcome: Callable[[str], Outcome], holders: Mapping[str, object]
    ) -> Iterable[Bar]:
        """Give the bars, each with what became of it."""
        last = {bar.op: place for place, bar in enumerate(self.bars)}
        for place, bar in enumerate(self.bars):
            latest = last[bar.op] == place
            done = bar.ended == Kind.COMPLETED
            became = outcome(bar.op) if latest else Outcome.INCOMPLETE
            back = done and became is not Outcome.COMPLETED
            yield replace(
                bar,
                end=self.at if not bar.ended else bar.end,
                outcome=str(became),
                holds=bar.op in holders,
                pale=bar.pale or back,
            )


def label_of(op: str, known: Callable[[str], bool]) -> str:
    """Give an identity as it stands below its parent, where that is known; else whole."""
    parent, _, own = op.rpartition("/")
    return own if parent and known(parent) else op


def group_of(op: str) -> str:
    """Give an identity without keys and occurrences, at each level: ``loop/turn``."""
    return "/".join(identity.named(part) for part in op.split("/"))


def above_of(op: str) -> Iterable[str]:
    """Give the identities above one, the outermost first."""
    parts = op.split("/")
    return ("/".join(parts[:n]) for n in range(1, len(parts)))
