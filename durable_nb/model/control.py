"""Signals of control: what a run may not do, cannot afford, or has to wait for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from durable_nb.model.errors import DurableError, DurableSignal


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


class _Pending(DurableSignal):
    """An operation waits for a decision that is not there yet, so its cell stops.

    Attributes
    ----------
    op : str
        The operation's identity.
    what : str
        What it waits for, as the program said it.
    more : str
        What a person is shown beside that.
    operations : tuple
        The operation, as it stands.
    """

    def __init__(self, run: str, op: str, what: str, more: str, operations: Sequence[Any]) -> None:
        super().__init__(run, op, what, more, operations)
        self.run, self.op, self.what, self.more = run, op, what, more
        self.operations = tuple(operations)

    def _python(self, verb: str, more: str = "") -> str:
        return f"run.{verb}({json.dumps(self.op, ensure_ascii=False)}{more})"


class ApprovalPending(_Pending):
    """The program goes on only once a person approves; nothing after it was begun."""

    def lines(self) -> list[str]:
        """Give the five lines: what, the details, what it means, and the two that decide it."""
        shell = shlex.join(["durable-nb", "approve", self.run, self.op])
        no = self._python("reject", ', reason="..."')
        return [
            f"{self.op} in run {self.run!r} waits for approval: {self.what}",
            f"Details: {self.more or 'none'}",
            "Nothing after it was begun. Once it is decided, run the cell again.",
            f"Decide it:          {self._python('approve')}   or   {no}",
            f'From a shell:       {shell}   (or reject ... --reason "...")',
        ]


class SignalPending(_Pending):
    """The program goes on only once a signal of that name comes."""

    def lines(self) -> list[str]:
        """Give the five lines: what, how, what it means, and the two that send the signal."""
        shell = shlex.join(["durable-nb", "signal", self.run, self.what])
        name = json.dumps(self.what, ensure_ascii=False)
        return [
            f"{self.op} in run {self.run!r} waits for signal {self.what!r}.",
            "Whoever sends it sends a value with it, which the program gets.",
            "Nothing after it was begun. Once it has come, run the cell again.",
            f"Send it:            run.signal({name}, value)",
            f"From a shell:       {shell} VALUE",
        ]


class TimerPending(_Pending):
    """The program goes on only once its time has come."""

    def lines(self) -> list[str]:
        """Give the five lines: what, until when, what it means, and the two ways on."""
        name = self.op.rpartition("/")[2].partition("#")[0].partition("[")[0]
        return [
            f"{self.op} in run {self.run!r} waits until its time.",
            f"Due: {self.more}",
            "Nothing after it was begun. Once that is past, run the cell again.",
            f"Wait in the cell:   await run.{name}(...), in an async cell or function",
            f"From a shell:       {shlex.join(['durable-nb', 'show', self.run])}",
        ]


class NotAwaited(DurableSignal):
    """An approval, signal or timer was called in async code and not awaited: nothing was decided.

    Attributes
    ----------
    op : str
        The operation that was refused.
    wait : str
        The wait that nobody awaited.
    """

    def __init__(self, run: str, op: str, wait: str) -> None:
        super().__init__(run, op, wait)
        self.run, self.op, self.wait = run, op, wait

    def lines(self) -> list[str]:
        """Give the lines: what was forgotten, what it means, and how it is written."""
        return [
            f"{self.wait} in run {self.run!r} was called in async code and not awaited.",
            f"So nobody was asked, and {self.op} was not started.",
            "Nothing was recorded. Write `await` before the call, and run that cell again.",
        ]


class ApprovalRejected(DurableError):
    """A person said no; each resume says so again, until the approval is invalidated."""

    def __init__(self, op: str, by: str, reason: str) -> None:
        super().__init__(op, by, reason)
        self.op, self.by, self.reason = op, by, reason

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        name = json.dumps(self.op, ensure_ascii=False)
        return (
            f"{self.op} was rejected by {self.by}{why}. What it was asked for was not begun. To be "
            f'asked again: run.invalidate({name}, reason="...")'
        )
