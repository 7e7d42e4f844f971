"""A fleet, harmed from its first run to its last, and what came of it."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.fleet.harm import Harming, Harms
from benchmarks.fleet.notebooks import of_the_fleet
from benchmarks.fleet.person import Person
from benchmarks.fleet.rules import Found, Judge
from benchmarks.fleet.yard import Yard, ledger_process
from durable_nb.journal.postgres.fleet import FleetRow, FleetState

#: Commands that submit at the same time.
_SUBMITTING: Final = 2
#: Seconds in which something has to happen; a worker that is told to stop has so many as well.
_QUIET_S: Final = 90
_LOOK_S: Final = 1.0
#: Where a run stays until somebody does something, and this person does no such thing.
_STUCK: Final = frozenset({FleetState.FINISHED, FleetState.PARKED})


@dataclass(frozen=True, slots=True)
class Chaos:
    """How much of everything.

    Attributes
    ----------
    workers, slots : int
        Workers at the same time, and runs of each.
    runs, operations : int
        Runs, and operations of each.
    harms : Harms
        What is done to them.
    seed : int
        Of what comes when.
    before, after : float
        Seconds of a request until its effect is there, and from then to its answer.
    """

    workers: int
    runs: int
    operations: int
    harms: Harms
    seed: int
    slots: int = 2
    before: float = 0.04
    after: float = 0.05


@dataclass(frozen=True, slots=True)
class Came:
    """What came of it."""

    chaos: Chaos
    found: Found
    done: Counter[str]
    wall_s: float
    said: tuple[str, ...] = field(default=(), repr=False)

    def as_rows(self) -> dict[str, Any]:
        """Give what is told of it, by heading."""
        ends = ", ".join(f"{count} {state}" for state, count in sorted(self.found.ends.items()))
        restarts = sum(self.done[how] for how in self.chaos.harms.restarts)
        kinds = sorted(self.found.verdicts.items())
        verdicts = ", ".join(f"{count} {kind}" for kind, count in kinds)
        return {
            "workers": self.chaos.workers,
            "runs": f"{self.chaos.runs} ({ends})",
            "operations completed": self.found.operations,
            "workers killed": self.done["worker"],
            "kernels killed": self.done["kernel"] + self.done["lost"],
            "workers stopped past their lease": self.done["stop"],
            "restarts of the database": restarts,
            "runs wanted by a second one": self.done["second"],
            "deaths of kernels on record": self.found.deaths,
            "verdicts": f"{self.found.verdicts.total()} ({verdicts or 'none'})",
            "effects that a denial allowed again": self.found.again,
            "duplicates": self.found.duplicates,
            "lost": self.found.lost,
            "rules broken": len(self.found.broken),
            "wall time": f"{self.wall_s:.0f} s",
            "seed": self.chaos.seed,
        }


def harmed(chaos: Chaos, store: str, folder: Path, say: Callable[[str], object]) -> Came:
    """Let a fleet work, and harm it, until all is finished or nothing happens any more.

    Parameters
    ----------
    chaos : Chaos
        How much of everything.
    store : str
        Address of a database of our own, by its socket: its server is restarted.
    folder : Path
        For the notebook and all that is written.
    say : callable
        Told what happens, a line each; from several threads.
    """
    began, lines = time.monotonic(), list[str]()

    def told(line: str) -> None:
        lines.append(f"{time.monotonic() - began:6.1f} s  {line}")
        say(lines[-1])

    with ledger_process(chaos.before, chaos.after) as ledger:
        yard, over = Yard(folder, store, ledger, chaos.slots), threading.Event()
        total = chaos.runs * chaos.operations
        chance = random.Random(chaos.seed)
        harming = Harming(yard, chaos.harms, chaos.workers, total, chance, told, over)
        person = Person(yard, harming.alone, told, over)
        try:
            yard.write(of_the_fleet(chaos.operations))
            names = [f"r{n:02}" for n in range(chaos.runs)]
            yard.submit(names[0])  # which makes the tables
            harming.start()
            for _ in range(chaos.workers):
                yard.worker()
            person.start()
            with ThreadPoolExecutor(_SUBMITTING) as pool:
                list(pool.map(yard.submit, names[1:]))
            rows = _until_quiet(yard, names, harming, (harming, person), told)
            over.set()
            harming.join()
            person.join()
            ended = [hand.log for hand in yard.hands if hand.ended_by_itself]
            codes = _told_to_stop(yard)
            told_of = yard.tell("/told")
        finally:
            over.set()
            yard.end()
    for problem in filter(None, (harming.problem, person.problem)):
        raise problem
    happened = Counter(key for _, key in told_of["happened"])
    judge = Judge(store, happened, told_of["requests"], chaos.operations)
    found = judge.look(rows, harming.stopped, person.seen)
    found.broken += [f"a second supervisor was let in: {s}" for s in harming.seconds if s]
    found.broken += [f"a worker that was told to stop ended with {code}" for code in codes if code]
    for log in ended:
        found.broken.append(
            f"{log.stem} ended by itself: {log.read_text('utf-8', 'replace')[-300:]}"
        )
    found.broken += _undone(chaos.harms, harming.done)
    return Came(chaos, found, harming.done, time.monotonic() - began, tuple(lines))


def _until_quiet(
    yard: Yard,
    names: list[str],
    harming: Harming,
    threads: Sequence[Harming | Person],
    say: Callable[[str], object],
) -> dict[str, FleetRow]:
    """Wait for the end; give how each run stands."""
    last, since = None, time.monotonic()
    rows: dict[str, FleetRow] = {}
    while time.monotonic() - since < _QUIET_S and not any(t.problem for t in threads):
        rows = yard.rows() or rows
        if rows.keys() == set(names) and all(row.state in _STUCK for row in rows.values()):
            break
        now = yard.tell("/now")
        seen = ({n: (r.state, r.why) for n, r in rows.items()}, now["asked"], harming.done.total())
        if seen != last:
            last, since = seen, time.monotonic()
        time.sleep(_LOOK_S)
    else:
        say(f"nothing has happened for {_QUIET_S} s")
    return rows


def _told_to_stop(yard: Yard) -> list[int]:
    """Tell the workers to stop; give how each ended."""
    hands = yard.live()
    for hand in hands:
        hand.process.send_signal(signal.SIGTERM)
    codes = []
    for hand in hands:
        try:
            codes.append(hand.process.wait(_QUIET_S))
        except subprocess.TimeoutExpired:
            codes.append(-signal.SIGKILL)
    return codes


def _undone(harms: Harms, done: Counter[str]) -> list[str]:
    """Tell what harm could not be done: then nothing is shown."""
    wanted = Counter(harms.shuffled(random.Random(0)))
    return [f"{n} of harm {what!r} could not be done" for what, n in (wanted - done).items()]
