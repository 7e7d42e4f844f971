"""The journal layer: where records live, who may append to them, and what others may read."""

from __future__ import annotations

from durable_nb.journal.duckdb_journal import DuckDBJournal
from durable_nb.journal.folder_place import FolderPlace, FolderStore
from durable_nb.journal.head import Head, HeadState, Loss
from durable_nb.journal.inbox import Inbox, Message
from durable_nb.journal.interrupts import deferred_interrupts
from durable_nb.journal.lease import Lease
from durable_nb.journal.mirror import Mirror
from durable_nb.journal.opening import open_journal
from durable_nb.journal.owner import Holder, OwnerInfo, probe
from durable_nb.journal.place import HeldLease, Place, Store, StoreLike, folder_of, store_of
from durable_nb.journal.process import THIS
from durable_nb.journal.protocol import Journal
from durable_nb.journal.records_journal import RecordsJournal

__all__ = [
    "THIS",
    "DuckDBJournal",
    "FolderPlace",
    "FolderStore",
    "Head",
    "HeadState",
    "HeldLease",
    "Holder",
    "Inbox",
    "Journal",
    "Lease",
    "Loss",
    "Message",
    "Mirror",
    "OwnerInfo",
    "Place",
    "RecordsJournal",
    "Store",
    "StoreLike",
    "deferred_interrupts",
    "folder_of",
    "open_journal",
    "probe",
    "store_of",
]
