"""What is done to a fleet: each harm comes at a moment of its own, one after the other."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.fleet.yard import LEASE_S, Hand, Yard, restart, until

#: Seconds until a harm is given up: nothing is there that it could be done to.
_PATIENCE_S: Final = 90
#: Seconds for which a worker stands still at least, and at most until its run is taken over.
_STILL_S: Final = LEASE_S + 4
_TAKEN_S: Final = 60
#: Seconds until the effect is there that is at work as its worker is stopped.
_HELD_S: Final = 3
#: Seconds for which a kernel that begins is held while somebody else wants its run.
_BEGINS_S: Final = 60
#: The last harm has begun when so much of the work is done.
_BY: Final = 0.7
#: Of so many kernels that are killed, the request of one never comes.
_LOST: Final = 3
#: What may be in the ledger as long as nothing more is to come.
_NO_LIMIT: Final = 1_000_000_000
#: How a refusal of our own ends: 1, and not 3 for a run that waits for a person.
_ERROR: Final = 1


@dataclass(frozen=True, slots=True)
class Harms:
    """How often what is done.

    Attributes
    ----------
    workers, kernels : int
        That are killed; a third of the kernels before what they ask for has come to the ledger.
    restarts : tuple of str
        Of the database: ``immediate`` or ``fast``.
    away_s : float
        Seconds for which the database is away.
    """

    workers: int
    kernels: int
    restarts: tuple[str, ...] = ("immediate", "fast")
    away_s: float = 1.5

    def shuffled(self, chance: random.Random) -> list[str]:
        """Give what is done, in some order."""
        lost = self.kernels // _LOST
        found = ["worker"] * self.workers
        found += ["kernel"] * (self.kernels - lost) + ["lost"] * lost
        found += [*self.restarts, "second"]
        chance.shuffle(found)
        found.insert(chance.randrange(len(found) // 2), "stop")  # it needs work that goes on
        return found


@dataclass(frozen=True, slots=True)
class Stopped:
    """A worker that stood still in the middle of an external effect.

    Attributes
    ----------
    run, key : str
        What it was doing.
    epoch : int
        Under which.
    taken : int
        The epoch of whoever took the run over while it stood still; 0 if nobody did.
    still_s : float
        Seconds for which it stood still.
    refused : bool
        Whether its notebook shows, once it went on, that its kernel was refused.
    """

    run: str
    key: str
    epoch: int
    taken: int
    still_s: float
    refused: bool


@dataclass
class Harming(threading.Thread):
    """Does harm.

    The work waits for it: the ledger lets no more new requests come than are due with the next
    harm, and some to spare.

    Attributes
    ----------
    done : Counter
        How often what was done.
    alone : set of str
        Keys that no person is to settle yet.
    stopped : list of Stopped
        Workers that stood still.
    seconds : list of str
        What became of whoever wanted a run that a worker had just begun: "" if that was refused.
    """

    yard: Yard
    harms: Harms
    workers: int
    operations: int
    chance: random.Random
    say: Callable[[str], object]
    over: threading.Event
    done: Counter[str] = field(default_factory=Counter)
    alone: set[str] = field(default_factory=set)
    stopped: list[Stopped] = field(default_factory=list)
    seconds: list[str] = field(default_factory=list)
    problem: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True, name="harming")

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Do all of it; each once enough of the work is done."""
        try:
            harms = self.harms.shuffled(self.chance)
            for n, harm in enumerate(harms):
                due = int((n + self.chance.random()) / len(harms) * _BY * self.operations)
                self._let_come(due)
                until(lambda due=due: self._now()["asked"] >= due, _PATIENCE_S, self.over)
                self.over.wait(self.chance.uniform(0.0, 0.5))
                if self.over.is_set():
                    return
                self._do(harm)
        except BaseException as problem:  # for the thread that waits
            self.problem = problem
        finally:
            self.yard.tell("/limit", asked=_NO_LIMIT)

    def _let_come(self, asked: int) -> None:
        """Let so many come, and so many more that an external one is surely among them."""
        self.yard.tell("/limit", asked=asked + 2 * self.workers * self.yard.slots + 1)

    def _do(self, harm: str) -> None:
        match harm:
            case "worker":
                did = self._kill_worker()
            case "kernel":
                did = self._kill_kernel()
            case "lost":
                did = self._lose_request()
            case "stop":
                did = self._stop()
            case "second":
                did = self._second()
            case how:
                self.say(f"the database restarts ({how})")
                restart(self.yard.store, how, self.chance.uniform(0.3, 1.0) * self.harms.away_s)
                did = True
        self.done[harm] += did

    def _now(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.yard.tell("/now")
        return found

    def _kill_worker(self) -> bool:
        """Kill a worker that executes something, with its kernels or without; replace it."""

        def busy() -> list[Hand]:
            return [hand for hand in self.yard.live() if hand.kernels()]

        found = until(busy, _PATIENCE_S, self.over)
        if not found:
            return False
        hand = self.chance.choice(found)
        whole = self.chance.random() < 0.5
        self.say(f"{hand.log.stem} is killed{' with all its kernels' if whole else ''}")
        if whole:
            hand.everything(signal.SIGKILL)
        hand.process.kill()
        hand.process.wait()
        if len(self.yard.live()) < self.workers:
            self.yard.worker()
        return True

    def _kill_kernel(self) -> bool:
        """Kill a kernel: mostly one that is just doing something outside."""
        inside = self.chance.random() < 0.7

        def those() -> list[int]:
            kernels = {pid for hand in self.yard.live() for pid in hand.kernels()}
            at_work = {one["pid"] for one in self._now()["at_work"] if one["kind"] == "external"}
            return sorted(kernels & at_work if inside else kernels)

        found = until(those, _PATIENCE_S, self.over)
        if not found:
            return False
        self.say("a kernel is killed")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.chance.choice(found), signal.SIGKILL)
            return True
        return self._kill_kernel()

    def _lose_request(self) -> bool:
        """Kill a kernel whose external request is on its way, and never comes."""
        self.yard.tell("/lose", number=1)
        self._let_come(self._now()["asked"])

        def on_its_way() -> Mapping[str, Any] | None:
            return next((one for one in self._now()["at_work"] if one.get("lost")), None)

        one = until(on_its_way, _PATIENCE_S, self.over)
        if not one:
            return False
        self.say(f"a kernel is killed, and {one['what']} of {one['who']} never comes")
        with contextlib.suppress(ProcessLookupError):
            os.kill(one["pid"], signal.SIGKILL)
        return True

    def _held(self, kind: str) -> Mapping[str, Any] | None:
        """Give the request that the ledger holds."""
        found = (one for one in self._now()["at_work"] if one["held"] and one["kind"] == kind)
        return next(found, None)

    def _stop(self) -> bool:
        """Stop a worker in the middle of an external effect until another one has its run."""
        self.yard.tell("/hold", kind="external", seconds=_HELD_S)
        self._let_come(self._now()["asked"])
        one = until(lambda: self._held("external"), _PATIENCE_S, self.over)
        hand = one and self.yard.hand_of(one["pid"])
        if not one or not hand:
            return False
        self.alone.add(one["key"])
        hand.stopped = True
        hand.everything(signal.SIGSTOP)
        began, run = time.monotonic(), one["who"]
        epoch = self.yard.epoch(run)
        self.say(f"{hand.log.stem} stands still in the middle of {one['what']} of {run}")
        self.yard.worker()  # what somebody does who sees that it is silent
        time.sleep(_STILL_S)

        def taken() -> int:
            now = self.yard.epoch(run)
            return now if now > epoch else 0

        successor = until(taken, _TAKEN_S, self.over) or 0
        still_s, shown = time.monotonic() - began, self.yard.folder / f"job.{run}.ipynb"
        shown.unlink(missing_ok=True)
        hand.everything(signal.SIGCONT)
        hand.stopped = False
        self.say(f"{hand.log.stem} goes on after {still_s:.0f} s")
        heard = until(lambda: shown.exists() and shown.read_text("utf-8"), _TAKEN_S, self.over)
        refused = "StaleOwner" in (heard or "")
        self.stopped.append(Stopped(run, one["key"], epoch, successor, still_s, refused))
        self.alone.discard(one["key"])
        return True

    def _second(self) -> bool:
        """Want a run by hand as a kernel of a worker begins, before that has opened it."""
        self.yard.tell("/hold", kind="begin", seconds=_BEGINS_S)
        self._kill_kernel()  # so that one begins
        one = until(lambda: self._held("begin"), _PATIENCE_S, self.over)
        if not one:
            return False
        run, before = one["who"], self._now()["begun"]
        self.say(f"somebody wants {run}, in which a kernel has just begun")
        words = ("run", "job.ipynb", "--run", run, "-p", f"who={run}", "-o", "by-hand.ipynb")
        code, out, err = self.yard.do(*words)
        others = self._now()["begun"][run] - before[run]
        self.yard.tell("/let_go", all=True)
        if others or code != _ERROR:
            self.seconds.append(f"{run}: {others} more kernels, exit code {code}: {out}{err}")
        else:
            self.seconds.append("")
        return True
