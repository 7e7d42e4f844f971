"""Both kinds of journal behind one spelling, for tests and for the children that they start.

A place is a text: the path of a run's folder, or the address of a database and the name of a run
with a blank between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durable_nb.journal import Head, Lease, OwnerInfo, open_journal
from durable_nb.journal.records_journal import RecordsJournal
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Draft


@dataclass
class Owned:
    """A run that this process holds."""

    journal: RecordsJournal
    lease: Any
    head: Head | None = None
    closed: bool = field(default=False)

    def close(self) -> None:
        """Close the journal and give the run back."""
        if self.closed:
            return
        self.closed = True
        try:
            self.journal.close()
        finally:
            if self.head is not None:
                self.head.close()
            self.lease.release()


def own(place: str, *, wait: float = 0.0, lease_s: float = 60.0, **options: Any) -> Owned:
    """Take the lease of a run and open its journal."""
    url, _, run = place.partition(" ")
    if not run:
        folder = Path(place)
        folder.mkdir(exist_ok=True)
        lease = Lease.acquire(folder, run="r", who=OwnerInfo.here(), wait=wait)
        try:
            head = Head(folder / "head")
            path = folder / "journal.duckdb"
            epoch = lease.next_epoch
            journal = open_journal(path, run="r", epoch=epoch, head=head, **options)
            lease.update(epoch=journal.epoch)
        except BaseException:
            lease.release()
            raise
        return Owned(journal, lease, head)
    from durable_nb.journal.postgres import PostgresLease, Server, open_postgres_journal

    held = PostgresLease.acquire(Server(url, lease_s), run=run, who=OwnerInfo.here(), wait=wait)
    try:
        return Owned(open_postgres_journal(held, **options), held)
    except BaseException:
        held.release()
        raise


def draft(n: int, **more: object) -> Draft:
    """Make a small record that tells which it is."""
    return Draft(f"s#{n}", Kind.COMPLETED, {"n": n, **more})


def numbers(owned: Owned) -> list[int]:
    """Tell which records are there."""
    return [record.body["n"] for record in owned.journal.load()]
