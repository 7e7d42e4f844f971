"""Errors that only this layer knows."""

from __future__ import annotations

from durable_nb.model.errors import DurableError


class MirrorUnreadable(DurableError):
    """A mirror file cannot be read; it is a view, so the run itself is unhurt."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(path, cause)
        self.path, self.cause = path, cause

    def __str__(self) -> str:
        return (
            f"the mirror {self.path} cannot be read: {self.cause.rstrip('.')}. The run itself is "
            "unhurt. Open the run, or wait until its owner publishes again."
        )


class MirrorSkipped(UserWarning):
    """A query left a run out because its mirror cannot be read."""


class BadMessage(DurableError, ValueError):
    """What was to be said to a run's owner cannot be sent."""

    def __init__(self, verb: str, cause: str) -> None:
        super().__init__(verb, cause)
        self.verb, self.cause = verb, cause

    def __str__(self) -> str:
        return (
            f"the {self.verb!r} could not be sent to the run's owner: {self.cause}. Nothing was "
            "sent or changed. Give a smaller result, or one of plain data."
        )


class ArchiveRefused(DurableError):
    """A file is no archive of a run that can be imported, or its name is taken."""

    def __init__(self, path: str, why: str, advice: str) -> None:
        super().__init__(path, why, advice)
        self.path, self.why, self.advice = path, why, advice

    def __str__(self) -> str:
        return f"{self.path} is not imported: {self.why}. Nothing was changed. {self.advice}"


class DatabaseOnly(DurableError):
    """What needs a database was asked of a store that is a folder."""

    def __init__(self, verb: str, where: str) -> None:
        super().__init__(verb, where)
        self.verb, self.where = verb, where

    def __str__(self) -> str:
        return (
            f"{self.verb} needs a store in PostgreSQL, where several workers share runs, and "
            f"{self.where} is a folder. Nothing was begun. Name one with --store postgresql://... "
            "or DURABLE_STORE. On one machine, durable-nb run executes a notebook without a fleet."
        )


class FoldersOnly(DurableError):
    """What is by nature about files was asked of a run that is kept in a database."""

    def __init__(self, verb: str, where: str) -> None:
        super().__init__(verb, where)
        self.verb, self.where = verb, where

    def __str__(self) -> str:
        return (
            f"{self.verb} is about the files of a run, and {self.where} is no folder. Nothing was "
            "read or changed. A database is looked after by its own tools: ask whoever keeps it "
            "for a check, a copy or a backup."
        )
