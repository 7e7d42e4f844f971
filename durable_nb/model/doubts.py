"""The signal that something may have happened, and nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable_nb.model.bases import DurableSignal, names


class UnknownOutcome(DurableSignal):
    """An effect was begun and has no recorded outcome: it may have happened, or not.

    Attributes
    ----------
    operations : tuple
        What is in doubt; none where the run has lost records.
    why : str
        Why the first of them is.
    blocked : str
        The operation that was not started because of it; "" where it is in doubt itself.
    branch : str
        The independent branch that is stopped by it; "" is the run.
    """

    def __init__(
        self, run: str, operations: Sequence[Any], why: str, blocked: str = "", branch: str = ""
    ) -> None:
        super().__init__(run, operations, why, blocked, branch)
        self.run, self.operations, self.why, self.blocked = run, tuple(operations), why, blocked
        self.branch = branch

    @classmethod
    def together(cls, doubts: Sequence[UnknownOutcome]) -> UnknownOutcome:
        """Make one of several that independent branches have left: each operation once."""
        found = {op.id: op for doubt in doubts for op in doubt.operations}
        if len(doubts) == 1 or not found:
            return doubts[0]
        return cls(doubts[0].run, list(found.values()), doubts[0].why)

    def lines(self) -> list[str]:
        """Give the lines: what, why, what it means, and those that settle it.

        They are five; where several are in doubt, a sixth says that they are settled one by one.
        """
        meaning = self._meaning()
        if not self.operations:
            return [
                f"run {self.run!r} has lost records, so what was done outside is not known.",
                f"Why: {self.why}",
                meaning,
                "Look at the outside world first; then accept the loss and run the cell again:",
                '    run.accept(reason="...")',
            ]
        first, count = self.operations[0].id, len(self.operations)
        several = f"{count} operations may or may not have happened: {names(self.operations)}"
        lines = [
            f"{names(self.operations)} in run {self.run!r} may or may not have happened."
            if count == 1
            else f"{several}, in run {self.run!r}.",
            f"Why: {self.why}" if count == 1 else f"Why, of {first}: {self.why}",
            meaning,
            f'If it happened:     run.confirm("{first}", result, evidence="...")',
            f'If it did not:      run.deny("{first}", evidence="...")',
        ]
        if count > 1:
            lines.append(f"The other {count - 1} likewise, one by one; run.unknown() lists them.")
        return lines

    def _meaning(self) -> str:
        where = f"in branch {self.branch}" if self.branch else "in this run"
        several = len(self.operations) > 1
        until = f"until {'these are' if several else 'this is'} settled."
        if self.blocked:
            place = f" {where}" if self.branch else ""
            return f"{self.blocked} was not started: nothing new runs{place} {until}"
        again = "None of them is run again" if several else "It is not run again"
        if several and not self.branch:
            return f"{again} {until} What is independent of them has gone on."
        return f"{again}, and nothing new starts {where}, {until}"
