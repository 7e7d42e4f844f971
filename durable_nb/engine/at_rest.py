"""Reading a run that nobody holds; of one in a folder, not a byte changes by that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from durable_nb.engine.context import OPEN
from durable_nb.engine.examination import Examination
from durable_nb.engine.recorded import Recorded, refs_of
from durable_nb.engine.report import refuse_damaged
from durable_nb.engine.run import Run
from durable_nb.engine.store import open_run
from durable_nb.engine.trajectory import QUIET
from durable_nb.engine.verify import examined
from durable_nb.journal import FolderStore, Place
from durable_nb.journal.seed import Seed
from durable_nb.journal.transplant import renumbered
from durable_nb.model.fold import Fold
from durable_nb.values.survey import Survey


@contextmanager
def recorded(place: Place) -> Iterator[Recorded]:
    """Give what is on record of a run: of its owner if this process is that, else at rest.

    Raises
    ------
    RunHeld
        Another process holds it.
    RunDamaged, JournalTooNew
        It cannot be read as a whole.
    """
    run = OPEN.at(place)
    if run is not None:
        yield run.recorded()
        return
    if place.folder is None:
        with held(place) as run:
            yield run.recorded()
        return
    with examined(place.folder, place.name) as exam:
        refuse_damaged(exam.report())
        yield _of(exam, place)


@contextmanager
def as_folder(place: Place) -> Iterator[Path]:
    """Make a private folder of a run that has none, as it stands; it is removed at the end.

    A large value that is lost is missing in it as well.

    Raises
    ------
    RunMissing, RunHeld, JournalDamaged
    """
    with tempfile.TemporaryDirectory(prefix="durable_nb-") as scratch:
        store = FolderStore(Path(scratch))
        with held(place) as run:
            found = run.recorded()
            seed = Seed(
                rows=lambda _: renumbered(found.records),
                named={sha256 for sha256, _ in refs_of(found.records)},
                artifacts=found.artifacts,
                store=place.store,
                run=place.name,
                taken=lambda: FileExistsError(scratch),
            )
            store.plant(place.name, seed)
        yield store.place(place.name).folder


@contextmanager
def held(place: Place) -> Iterator[Run]:
    """Hold a run just to look: nothing is recorded."""
    run = open_run(
        place.name,
        store=place.store,
        must_exist=True,
        whole=True,
        role="reader",
        surroundings=QUIET,
    )
    try:
        yield run
    finally:
        run.close()


def _of(exam: Examination, place: Place) -> Recorded:
    return Recorded(
        name=exam.name,
        place=place,
        records=exam.records,
        fold=Fold.whole(exam.records),
        artifacts=exam.survey or Survey(exam.scratch / "none", exam.scratch),
        now=datetime.now(UTC),
    )
