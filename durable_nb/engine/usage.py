"""`run.report()`: what durability cost a run and saved it, line by line, each with advice."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_nb.engine.measures import Measures, Own, Stretch, measure

if TYPE_CHECKING:
    from durable_nb.engine.operated import Operated

#: Share of the time that checkpointing may take before there is something to do about it: below a
#: tenth, nobody would notice that it is gone.
_MUCH: Final = 0.10
#: Seconds without a checkpoint that nobody minds to lose: about as long as a kernel takes to start.
_SHORT_S: Final = 5.0
#: Seconds outside of steps that are worth a word: below, a person would not notice the repetition.
OUTSIDE_S: Final = 1.0
#: Small steps are worth a word if there are many, or if their checkpoints take a share of the time.
_MANY: Final = 100
_SHARE: Final = 0.05
#: Operations of one scope that a resume replays before a pin is advised: at about a millisecond
#: each, a person begins to wait.
_PIN: Final = 1000
#: How many names a line lists.
_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class UsageLine:
    """One thing that a report says.

    Attributes
    ----------
    about : str
        ``checkpointing, replays, unprotected, outside, small steps, resume, failures`` or
        ``cut short``.
    says : str
        What was measured, with its numbers.
    advice : str
        What it means, and what to do.
    numbers : Mapping
        The numbers by name: seconds, US dollars, shares of 1.
    """

    about: str
    says: str
    advice: str
    numbers: Mapping[str, Any]

    def to_text(self) -> str:
        """Render as two lines."""
        return f"{self.about}: {self.says}\n    {self.advice}"


@dataclass(frozen=True, slots=True, repr=False)
class UsageReport:
    """What durability cost a run, what it saved, and what to do about it.

    Attributes
    ----------
    run : str
        Its name.
    lines : tuple of UsageLine
        Only those that have something to say; ``checkpointing`` and ``unprotected`` always.
    """

    run: str
    lines: tuple[UsageLine, ...]

    def about(self, what: str) -> UsageLine | None:
        """Give the line about something; `None` where there is nothing to say."""
        return next((line for line in self.lines if line.about == what), None)

    @property
    def headline(self) -> str:
        """What it is about."""
        return f"run {self.run}: what durability cost, and what it saved"

    def to_text(self) -> str:
        """Render as plain text."""
        return "\n".join([self.headline, *(line.to_text() for line in self.lines)])

    __str__ = __repr__ = to_text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(line.about)}</th><td>{html.escape(line.says)}</td>"
            f"<td>{html.escape(line.advice)}</td></tr>"
            for line in self.lines
        )
        return (
            f"<table><caption>{html.escape(self.headline)}</caption>"
            "<thead><tr><th></th><th>measured</th><th>what to do</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `report --json`."""
        return {
            "run": self.run,
            "lines": [
                {
                    "about": line.about,
                    "says": line.says,
                    "advice": line.advice,
                    "numbers": dict(line.numbers),
                }
                for line in self.lines
            ],
        }

    @classmethod
    def told(cls, document: Mapping[str, Any]) -> UsageReport:
        """Make it from what another process told: `as_dict`."""
        return cls(document["run"], tuple(UsageLine(**line) for line in document["lines"]))


def seconds_text(seconds: float) -> str:
    """Show seconds for a person: `3 ms`, `3.2 s`, `4 min`."""
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"


def usd_text(usd: float) -> str:
    """Show US dollars, small amounts too."""
    return f"${usd:,.2f}" if usd >= 0.01 or not usd else f"${usd:.2g}"


def outside_text(seconds: float | None) -> str:
    """Say that code outside of steps took long; "" where it did not, or nobody measured it."""
    if seconds is None or seconds < OUTSIDE_S:
        return ""
    return f"{seconds_text(seconds)} outside of steps"


def report_of(run: Operated) -> UsageReport:
    """Report on a run that this process holds, to look at it or to execute it."""
    records = run.committed()
    with run.lock:
        own = None
        if run.is_open and run.role == "runner":
            own = Own(run.epoch, run.meter.pending, run.meter.saved(run.fold))
        live = frozenset(op for op in list(run.live) if run.is_live(op))
        found = measure(run.fold, records, live, own)
    return UsageReport(run.name, tuple(report_lines(found)))


def report_lines(found: Measures) -> Iterator[UsageLine]:
    """Put what was measured into words, line by line."""
    yield _checkpointing(found)
    yield from _replays(found)
    yield _unprotected(found)
    yield from _outside(found)
    yield from _small_steps(found)
    yield from _resume(found)
    yield from _failures(found)


def _checkpointing(found: Measures) -> UsageLine:
    whole = found.body_s + found.checkpoint_s
    share = found.checkpoint_s / whole if whole and found.measured else None
    numbers = {
        "share": share,
        "checkpoint_s": found.checkpoint_s,
        "body_s": found.body_s,
        "unmeasured": found.unmeasured,
    }
    before = ""
    if found.unmeasured:
        before = (
            f"; {_count(found.unmeasured, 'attempt')} "
            f"{'was' if found.unmeasured == 1 else 'were'} recorded before this was measured"
        )
    if share is None:
        says = f"its share of the time is not known{before or ': nothing has run to its end yet'}"
        return UsageLine("checkpointing", says, "Nothing to do.", numbers)
    says = (
        f"{share:.1%} of the time, {seconds_text(found.checkpoint_s)} beside "
        f"{seconds_text(found.body_s)} of work{before}"
    )
    advice = "That is little: nothing to do."
    if share >= _MUCH:
        advice = (
            "Do more in each step, or record less of what it returns (record=). Small steps are "
            "listed below, where they are the reason."
        )
    return UsageLine("checkpointing", says, advice, numbers)


def _replays(found: Measures) -> Iterator[UsageLine]:
    if not found.saved_operations and (not found.untold or found.kernels == 1):
        return
    what = [_count(found.saved_operations, "operation"), seconds_text(found.saved_s)]
    what += [] if found.saved_usd is None else [usd_text(found.saved_usd)]
    least = "at least " if found.untold else ""
    advice = "They came from the record and were not run again."
    if found.saved_usd is None:
        advice += " What they cost is not known: no step of them said (op.spend)."
    if found.untold:
        ended = "kernel" if found.untold == 1 else "kernels"
        advice += f" It may be more: {found.untold} {ended} ended without closing the run."
    numbers = {
        "operations": found.saved_operations,
        "seconds": found.saved_s,
        "usd": found.saved_usd,
        "at_least": found.untold > 0,
    }
    yield UsageLine("replays", f"they saved {least}{', '.join(what)}", advice, numbers)


def _unprotected(found: Measures) -> UsageLine:
    longest = found.longest
    if longest is None:
        says = "how long it went without a checkpoint is not known: nothing has run to its end yet"
        nothing = {"seconds": None, "op": None, "outside": None}
        return UsageLine("unprotected", says, "Nothing to do.", nothing)
    says = f"the longest stretch without a checkpoint is {seconds_text(longest.seconds)}, in "
    says += _where(longest)
    if found.cut_short:
        says += "; how long the attempts ran that a kernel's end cut short is not known"
    numbers = {"seconds": longest.seconds, "op": longest.op or None, "outside": longest.outside}
    advice = "A kill in there loses no more than that: nothing to do."
    if longest.seconds >= _SHORT_S and longest.outside:
        advice = "A kill in there loses all of it: put that code into a step."
    elif longest.seconds >= _SHORT_S:
        advice = (
            "A kill in there loses all of it: split it into several steps, or make it a loop whose "
            "state is pinned (run.pinned)."
        )
    return UsageLine("unprotected", says, advice, numbers)


def _where(stretch: Stretch) -> str:
    again = f" (attempt {stretch.attempt})" if stretch.attempt > 1 else ""
    if not stretch.op:
        return "the code of the program that is outside of its steps"
    if stretch.outside:
        return f"the code of {stretch.op}{again} that is outside of its steps"
    return f"the body of {stretch.op}{again}"


def _outside(found: Measures) -> Iterator[UsageLine]:
    slow = {op: s for op, s in found.outside.items() if s >= OUTSIDE_S}
    if not slow:
        return
    most = sorted(slow, key=lambda op: -slow[op])
    listed = ", ".join(f"{seconds_text(slow[op])} in {op}" for op in most[:_LISTED])
    more = f" and {len(most) - _LISTED} more" if len(most) > _LISTED else ""
    advice = "It runs again on each resume until that operation is completed: put it into a step."
    numbers = {"seconds": sum(slow.values()), "operations": {op: slow[op] for op in most}}
    yield UsageLine("outside", f"code outside of steps took {listed}{more}", advice, numbers)


def _small_steps(found: Measures) -> Iterator[UsageLine]:
    from statistics import median  # with the first report, and not with the package

    whole = found.body_s + found.checkpoint_s
    small: dict[str, Any] = {}
    for name, steps in found.names.items():
        body_s, checkpoint_s = sum(steps.bodies), sum(steps.checkpoints)
        matters = len(steps.bodies) >= _MANY or checkpoint_s >= _SHARE * whole
        if checkpoint_s > body_s and matters and len(steps.bodies) > 1:
            small[name] = {
                "calls": len(steps.bodies),
                "body_s": median(steps.bodies),
                "checkpoint_s": median(steps.checkpoints),
                "total_s": checkpoint_s,
            }
    if not small:
        return
    most = sorted(small, key=lambda name: -small[name]["total_s"])
    told = [
        f"{name} ({small[name]['calls']} calls, each {seconds_text(small[name]['body_s'])} of work "
        f"and {seconds_text(small[name]['checkpoint_s'])} of checkpointing)"
        for name in most[:_LISTED]
    ]
    more = f" and {len(most) - _LISTED} more" if len(most) > _LISTED else ""
    advice = (
        "Do many in one step, or make it a plain function where it has no effect and is quick to "
        'do again. Where each has to be on record, effect="none" (if that is true) and run.map '
        "share commits."
    )
    yield UsageLine("small steps", f"{', '.join(told)}{more}", advice, {"steps": small})


def _resume(found: Measures) -> Iterator[UsageLine]:
    count = sum(found.replayed.values())
    if not count:
        return
    scope, most = max(found.replayed.items(), key=lambda item: item[1])
    numbers = {"operations": count, "largest": most, "scope": scope}
    says = f"the next kernel comes to {_count(count, 'completed operation')} and replays them"
    advice = "That is quick: nothing to do."
    if most > _PIN:
        where = f"inside of {scope}" if scope else "at the root of the run"
        says += f", {most:,} of them {where}"
        advice = (
            "It comes to each of them on each resume, and it gets more as the loop goes on: pin "
            "the loop's state (run.pinned), so that what lies before the pin is not replayed."
        )
    yield UsageLine("resume", says, advice, numbers)


def _failures(found: Measures) -> Iterator[UsageLine]:
    if found.failed:
        cost = "at an unknown price" if found.failed_usd is None else usd_text(found.failed_usd)
        says = f"{_count(found.failed, 'attempt')} without a result took "
        says += f"{seconds_text(found.failed_s)}, {cost}"
        numbers = {
            "attempts": found.failed,
            "seconds": found.failed_s,
            "usd": found.failed_usd,
        }
        advice = "run.history() lists each with its error."
        yield UsageLine("failures", says, advice, numbers)
    if found.cut_short:
        says = f"{_count(found.cut_short, 'attempt')} ended with the kernel"
        advice = "What it took and cost is not on record, and is in none of these numbers."
        yield UsageLine("cut short", says, advice, {"attempts": found.cut_short})


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
