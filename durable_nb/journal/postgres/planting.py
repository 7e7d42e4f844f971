"""Making a run of records of another one: in one transaction, so that it is there whole or not.

Where the answer to the commit is lost, all of it is sent again. If the first try came through, the
name is taken by a run with the same running digest, which is the answer.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from durable_nb import values
from durable_nb.journal.postgres.artifacts import parts_of
from durable_nb.journal.postgres.patience import PATIENCE_S, Patient
from durable_nb.journal.postgres.server import Server
from durable_nb.journal.rows import START, Row, chain
from durable_nb.journal.seed import Seed

#: Rows that are sent at a time.
_PART: Final = 2048


def plant(
    server: Server, name: str, seed: Seed, source: int | None, *, patience_s: float = PATIENCE_S
) -> None:
    """Make a run, with a free lease, or raise `Seed.taken`.

    Parameters
    ----------
    server : Server
        A store that was prepared.
    name : str
        Of the new run.
    seed : Seed
        What it begins with.
    source : int or None
        The number of the run whose values it names, where that is in this store: they are copied
        by the server, as they are.
    patience_s : float
        Seconds to go on trying once the server is gone.

    Raises
    ------
    StoreUnreachable
        Its server was gone for too long: look whether the run is there.
    StoreRefused
        Nothing was made.
    """
    insisting = Patient(server, f"plant {name}", patience_s)
    planting = _Planting(insisting, name, seed, source)
    try:
        insisting(planting.refuse_taken)
        if not insisting(planting.try_once):
            raise seed.taken()
    finally:
        insisting.close()


class _Planting:
    """A run that is being made, each time of the same records."""

    def __init__(self, insisting: Patient, name: str, seed: Seed, source: int | None) -> None:
        self._session, self._name, self._seed, self._source = insisting.session, name, seed, source
        self._rows: Sequence[Row] = seed.rows(None)
        self._digests: list[bytes] = []
        before = START
        for row in self._rows:
            before = chain(before, row)
            self._digests.append(before)

    def refuse_taken(self) -> None:
        """Refuse before the work what would be refused after it."""
        if self._session.run("run_of", {"name": self._name}).fetchone() is not None:
            raise self._seed.taken()

    def try_once(self) -> bool:
        """Make it, all in one transaction; `False` if another run has the name."""
        run = self._session.run
        try:
            run("begin")
            # Nobody waits for it under this name, and nobody ever sees it.
            row = run("plant_run", {"name": f".fork-{uuid.uuid4().hex}"}).fetchone()
            assert row is not None
            key = row[0]
            for sha256 in sorted(self._seed.named):
                self._copy(key, sha256)
            for at in range(0, len(self._rows), _PART):
                self._record(key, at)
            run("name_run", {"run": key, "name": self._name})
            run("commit")
        except psycopg.errors.UniqueViolation:
            self._session.drop()
            return self._is_there()
        except BaseException:
            self._session.drop()  # whatever it was: nothing of it stays
            raise
        return True

    def _copy(self, key: int, sha256: str) -> None:
        """Copy a large value; one that is lost stays so, as it is told."""
        given: dict[str, Any] = {"run": key, "sha256": sha256}
        if self._source is not None:
            self._session.run("copy_artifact", {**given, "source": self._source})
            return
        with contextlib.suppress(values.ArtifactMissing, values.ArtifactDamaged):
            data = self._seed.artifacts.get(sha256)
            parts = parts_of(data)
            size = {"size": len(data), "parts": len(parts)}
            self._session.run("put_artifact", {**given, **size}, binary=True)
            for number, part in enumerate(parts):
                more = {"part": number, "data": part}
                self._session.run("put_part", {**given, **more}, binary=True)

    def _record(self, key: int, at: int) -> None:
        """Send some of the records."""
        seqs, ops, kinds, tss, epochs, bodies = map(
            list, zip(*self._rows[at : at + _PART], strict=True)
        )
        given = {
            "run": key,
            "seqs": seqs,
            "ops": ops,
            "kinds": kinds,
            "tss": tss,
            "epochs": epochs,
            "bodies": bodies,
            "digests": self._digests[at : at + _PART],
        }
        self._session.run("plant_records", given)

    def _is_there(self) -> bool:
        """Tell whether the run that has the name is this very one, of an earlier try."""
        row = self._session.run("run_of", {"name": self._name}).fetchone()
        given = {"run": row[0] if row else 0, "seq": len(self._rows)}
        found = self._session.run("written", given, binary=True).fetchone()
        return found is not None and bytes(found[1]) == self._digests[-1]
