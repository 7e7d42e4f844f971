"""What stops a notebook before anything is begun."""

from __future__ import annotations

from typing import Any

from durable_nb.model.errors import DurableError


class NotebookUnusable(DurableError):
    """A notebook cannot be executed as it is; nothing was begun.

    Attributes
    ----------
    path : str
        Of the notebook.
    found : str
        What is wrong with it.
    advice : str
        What to do.
    """

    def __init__(self, path: str, found: str, advice: str) -> None:
        super().__init__(path, found, advice)
        self.path, self.found, self.advice = path, found, advice

    def __str__(self) -> str:
        return f"{self.path}: {self.found}. Nothing was begun. {self.advice}"


class CrashLoop(DurableError):
    """One operation has ended several kernels in a row; the run is left as failed.

    Attributes
    ----------
    ops : tuple of str
        The operation; several where they were at work together each time.
    kernels : int
        How many kernels.
    memory : int or None
        The most memory that the last of them was seen to use, in bytes.
    """

    def __init__(self, ops: tuple[str, ...], kernels: int, memory: int | None) -> None:
        super().__init__(ops, kernels, memory)
        self.ops, self.kernels, self.memory = ops, kernels, memory

    def __str__(self) -> str:
        what = self.ops[0] if len(self.ops) == 1 else f"one of {', '.join(self.ops)}"
        used = f", which used up to {self.memory / 1e6:,.0f} MB" if self.memory else ""
        return (
            f"{what} has ended {self.kernels} kernels in a row{used}. Nothing more is tried by "
            "itself. Mend it (less memory, smaller parts), then resume the run."
        )


class NotFinished(DurableError):
    """A notebook that was executed as a run is not finished.

    Attributes
    ----------
    run : str
        Its name.
    end : str
        How it ended.
    lines : tuple of str
        Why, and what to do.
    """

    def __init__(self, run: str, end: str, lines: tuple[str, ...]) -> None:
        super().__init__(run, end, lines)
        self.run, self.end, self.lines = run, end, lines

    def __str__(self) -> str:
        return "\n".join([f"run {self.run}: {self.end}", *self.lines])


class RunTaken(DurableError):
    """A run on record executes something else than what was asked for; nothing was begun.

    Attributes
    ----------
    run : str
        Its name.
    what : str
        What differs: ``another notebook``, ``other parameters`` or ``another output``.
    """

    def __init__(self, run: str, what: str, before: Any, now: Any) -> None:
        super().__init__(run, what, before, now)
        self.run, self.what, self.before, self.now = run, what, before, now

    def __str__(self) -> str:
        return (
            f"run {self.run!r} is in use, with {self.what}: {self.before!r}, and not {self.now!r}. "
            f"Nothing was begun. Choose another name; durable-nb resume {self.run} "
            "goes on with what is on record."
        )


class AtWork(DurableError):
    """A run of the fleet is being executed, so that it cannot be submitted again."""

    def __init__(self, run: str, worker: str) -> None:
        super().__init__(run, worker)
        self.run, self.worker = run, worker

    def __str__(self) -> str:
        return (
            f"run {self.run!r} is at work on {self.worker}. Nothing was changed. Let it come to "
            f"its end, or stop it with: durable-nb pause {self.run}"
        )


class NotOfTheFleet(DurableError):
    """A run was to be tried again that was never submitted."""

    def __init__(self, run: str, where: str) -> None:
        super().__init__(run, where)
        self.run, self.where = run, where

    def __str__(self) -> str:
        return (
            f"the fleet of {self.where} has no run {self.run!r}. Nothing was begun. Submit its "
            f"notebook: durable-nb submit NOTEBOOK --run {self.run}"
        )
