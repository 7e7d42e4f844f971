"""Real runs of random programs: real journals, an outside ledger, and kernels that are killed.

A kill within this process takes the run's files as they are at that instant, and never uses what
was open on them again: what was not committed is not in them, as after a SIGKILL.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import durable_nb as dnb
from durable_nb.engine.context import OPEN, adopt_latest
from durable_nb.engine.scope import Origin
from durable_nb.engine.store import open_run
from durable_nb.engine.terms import Terms
from durable_nb.engine.trajectory import Surroundings
from durable_nb.model.fold import Fold
from support.rule_programs import Program, Step

_SOURCE = """
def work(value, before, *, idempotency_key):
    return world.body({code}, value, before, idempotency_key)
"""


class Killed(BaseException):
    """Unwinds what a SIGKILL would not have left standing."""


class World:
    """One run, the kernels that have it one after another, and the world outside.

    Attributes
    ----------
    run : Run
        As the kernel of now has it.
    ledger : list of (str, str)
        Every execution of a body: operation and idempotency key.
    state : int
        What the results depend on without anybody's knowledge.
    """

    def __init__(self, folder: Path, kill: Callable[[], None] | None = None) -> None:
        self.folder, self.ledger, self.state = folder, [], 0
        self._kill = kill or self._simulated_kill
        self._places = itertools.count(1)
        self._store = folder / "store"
        self._passes = 0
        self._troubles: dict[str, str] = {}
        self._calling: list[Step] = []
        self._dies_recorded = False
        self._functions = {code: self._function(code) for code in (1, 2)}
        self._aside: Path | None = None
        self._open()

    def _function(self, code: int) -> Callable[..., Any]:
        """Define the step's function from source that `inspect` can read back."""
        source, filename = _SOURCE.format(code=code), f"<rules {code}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        space: dict[str, Any] = {"world": self}
        exec(compile(source, filename, "exec"), space)
        function: Callable[..., Any] = space["work"]
        return function

    # -- kernels -----------------------------------------------------------------------------

    def _open(self, version: str | None = None) -> None:
        scopes = None if (self._store / "r").exists() else ["read"]  # else as they were recorded
        OPEN._reached.clear()  # which another kernel would not know
        self.run = open_run(
            "r",
            store=self._store,
            adopt="moved",
            terms=Terms(version=version, scopes=scopes),
            surroundings=Surroundings(
                origin=lambda: Origin("cell", self._passes), say=lambda line: None
            ),
        )

    def close(self, version: str | None = None) -> None:
        """End the kernel in order, and let another one go on."""
        before = self.run
        before.close()
        self._open(version)
        assert_same_fold(before.fold, self.run.fold)

    def kill(self, version: str | None = None) -> None:
        """Kill the kernel while no step runs, and let another one go on."""
        self._take_files()
        self._go_on_with_the_copy(version)

    def _simulated_kill(self) -> None:
        self._take_files()
        raise Killed

    def _take_files(self) -> None:
        """Copy the run's files; the head first, since it is written after the records."""
        self._aside = self.folder / f"store-{next(self._places)}"
        to = self._aside / "r"
        to.mkdir(parents=True, mode=0o700)
        self._aside.chmod(0o700)
        for name in ("head", "journal.duckdb", "journal.duckdb.wal", "owner.json"):
            if (self.run.folder / name).exists():
                shutil.copy2(self.run.folder / name, to / name)

    def _go_on_with_the_copy(self, version: str | None = None) -> None:
        self.end()
        assert self._aside is not None
        self._store, self._aside = self._aside, None
        self._open(version)

    def end(self) -> None:
        """Let go of what is open."""
        with contextlib.suppress(Exception):  # of a killed kernel nobody asks how it ended
            self.run.close()
        shutil.rmtree(self._store, ignore_errors=True)

    # -- a pass ------------------------------------------------------------------------------

    def go(self, program: Program, troubles: dict[str, str]) -> tuple[Any, ...]:
        """Run a program in a new execution of its cell; tell how it ended."""
        self._passes += 1
        self._troubles, self._dies_recorded = troubles, False
        self._calling.clear()
        adopt_latest()
        try:
            return ("returned", self._calls(program))
        except Killed:
            self._go_on_with_the_copy()
            return ("killed",)
        except KeyboardInterrupt:
            return ("stopped", "KeyboardInterrupt", [], ())
        except dnb.DurableSignal as signal:
            ids = [op.id for op in signal.operations]
            facets = tuple(sorted(set(getattr(signal, "facets", ()))))
            return ("stopped", type(signal).__name__, ids, facets)
        except Exception as error:
            return ("raised", type(error).__name__)

    def _calls(self, steps: Program) -> list[str]:
        results: list[str] = []
        before = ""
        for step in steps:
            try:
                before = self._call(step, before if step.feeds else "")
            except (ValueError, ConnectionRefusedError, dnb.NotRecordable):
                if not step.catch:
                    raise
                before = "handled"
            results.append(before)
        return results

    def _call(self, step: Step, before: Any) -> Any:
        self._calling.append(step)
        try:
            spelled = self.run.step(
                step.name,
                effect=step.effect,
                key=step.key,
                on_change=step.on_change,
                facets={"model": step.model} if step.model else None,
                requires=step.requires or (),
                not_applied=(ConnectionRefusedError,),
            )
            result = spelled.call(self._functions[step.code], step.value, before)
        finally:
            self._calling.pop()
        if self._dies_recorded:
            self._kill()
        return result

    def body(self, code: int, value: Any, before: Any, key: str) -> Any:
        """Do what a step does, with whatever trouble it meets."""
        op, step = dnb.current_operation(), self._calling[-1]
        assert op is not None
        trouble = self._troubles.pop(op.id, "return")
        if trouble == "die before":
            self._kill()
        if trouble == "refuse":
            raise ConnectionRefusedError("nobody there")
        self.happens(op.id, key)
        inner = self._calls(step.inner)
        if trouble == "die after":
            self._kill()
        if trouble == "raise":
            raise ValueError("no answer")
        if trouble == "interrupt":
            raise KeyboardInterrupt
        if trouble == "lose":
            return threading.Lock()
        self._dies_recorded = trouble == "die recorded"
        return f"({value} {before} {code} {self.state} {' '.join(inner)})"

    def happens(self, op: str, key: str) -> None:
        """Let an effect happen."""
        self.ledger.append((op, key))

    def grant(self, scope: str) -> str:
        """Grant a scope; tell "recorded", or the name of the error."""
        try:
            self.run.grant(scope)
        except dnb.VerdictRefused as error:
            return type(error).__name__
        return "recorded"

    # -- verdicts ----------------------------------------------------------------------------

    def verdict(self, verdict: str, op: str, fate: str | None = None) -> str:
        """Give a verdict; tell "recorded", or the name of the error."""
        give: dict[str, Callable[[], Any]] = {
            "confirm": lambda: self.run.confirm(op, "confirmed"),
            "deny": lambda: self.run.deny(op),
            "invalidate": lambda: self.run.invalidate(op, "wrong", effect=fate),
            "keep": lambda: self.run.keep(op),
            "rerun": lambda: self.run.rerun(op),
        }
        try:
            give[verdict]()
        except (dnb.VerdictRefused, dnb.AlreadySettled) as error:
            return type(error).__name__
        return "recorded"


def assert_same_fold(before: Fold, after: Fold) -> None:
    """Insist that what was folded while records were written is what they say when read again."""
    assert after.operations == before.operations
    assert (after.decided, after.known) == (before.decided, before.known)
    assert (after.run_id, after.doubted) == (before.run_id, None)
