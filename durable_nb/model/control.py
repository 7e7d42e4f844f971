"""Signals of control: what a run may not do, can no longer afford, or is to wait with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from durable_nb.model.errors import DurableSignal


class ScopeDenied(DurableSignal):
    """A step needs a scope that its run does not have; nothing was begun.

    Attributes
    ----------
    op : str
        The operation's identity.
    missing : tuple of str
        The scopes that it needs and the run has not.
    operations : tuple
        The operation, where it is on record.
    """

    def __init__(
        self, run: str, op: str, missing: Sequence[str], why: str, operations: Sequence[Any] = ()
    ) -> None:
        super().__init__(run, op, missing, why, operations)
        self.run, self.op, self.missing, self.why = run, op, tuple(missing), why
        self.operations = tuple(operations)

    def lines(self) -> list[str]:
        """Give the five lines: what, why, what it means, and the two that grant it."""
        scopes = ", ".join(self.missing)
        python = ", ".join(json.dumps(s, ensure_ascii=False) for s in self.missing)
        words = shlex.join(["durable-nb", "grant", self.run, *self.missing])
        return [
            f"{self.op} in run {self.run!r} needs what the run is not granted: {scopes}.",
            f"Why: {self.why}.",
            "Nothing was begun. Once it is granted, run the cell again.",
            f'Grant it:           run.grant({python}, by="...", reason="...")',
            f'From a shell:       {words} --reason "..."',
        ]


class BudgetExceeded(DurableSignal):
    """The run has spent its budget, so that nothing new begins in it.

    Attributes
    ----------
    op : str
        The operation that was to begin.
    spent : tuple of str
        The names in the budget that are used up: ``usd``, ``tokens``, ``calls``, ``seconds``.
    told : str
        What was spent of what.
    operations : tuple
        The operation, where it is on record.
    """

    def __init__(
        self, run: str, op: str, spent: Sequence[str], told: str, operations: Sequence[Any] = ()
    ) -> None:
        super().__init__(run, op, spent, told, operations)
        self.run, self.op, self.spent, self.told = run, op, tuple(spent), told
        self.operations = tuple(operations)

    def lines(self) -> list[str]:
        """Give the five lines: what, how much of how much, what it means, and two ways on."""
        python = ", ".join(f'"{name}": ...' for name in self.spent)
        shell = " ".join(f"--{name} ..." for name in self.spent)
        words = shlex.join(["durable-nb", "grant", self.run])
        return [
            f"{self.op} in run {self.run!r} was not started: the run's budget is spent.",
            f"Spent: {self.told}.",
            "What is recorded still replays; a resume gets no fresh budget.",
            f'Grant more:         run.grant(budget={{{python}}}, by="...", reason="...")',
            f'From a shell:       {words} {shell} --reason "..."',
        ]


class RunPaused(DurableSignal):
    """The run is paused, so that nothing new begins in it.

    Attributes
    ----------
    op : str
        The operation that was to begin.
    by, at, reason : str
        Who paused it, when (UTC), and why; "" if nobody said.
    operations : tuple
        The operation, where it is on record.
    """

    def __init__(
        self, run: str, op: str, by: str, at: str, reason: str, operations: Sequence[Any] = ()
    ) -> None:
        super().__init__(run, op, by, at, reason, operations)
        self.run, self.op, self.by, self.at, self.reason = run, op, by, at, reason
        self.operations = tuple(operations)

    def lines(self) -> list[str]:
        """Give the five lines: what, who and why, what it means, and the two ways on."""
        why = f": {self.reason}" if self.reason else ""
        words = shlex.join(["durable-nb", "unpause", self.run])
        return [
            f"{self.op} in run {self.run!r} was not started: the run is paused.",
            f"Paused by {self.by}, {self.at}{why}",
            "Nothing was begun. What is recorded still replays, in every kernel.",
            "Go on:              run.unpause()   # and run the cell again",
            f"From a shell:       {words}",
        ]
