"""A run in one file: `export_run` and `import_run`."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from durable_nb import values
from durable_nb.engine import at_rest
from durable_nb.engine.examination import ARTIFACTS, Examination, Tell
from durable_nb.engine.read_values import read_values
from durable_nb.engine.report import Finding, Report, refuse_damaged
from durable_nb.engine.verify import examined, find, placed, quiet, whole_report
from durable_nb.journal import FolderStore, Mirror, Store, StoreLike, deferred_interrupts, store_of
from durable_nb.journal import folder as folders
from durable_nb.journal.archive import (
    Archive,
    Content,
    Manifest,
    content_of,
    is_value,
    write_archive,
)
from durable_nb.journal.errors import ArchiveRefused, MirrorUnreadable
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.head import HeadState
from durable_nb.journal.rows import Row
from durable_nb.journal.seed import Seed
from durable_nb.journal.transplant import built_aside, end_of_rows, foreign_rows, plant
from durable_nb.model.errors import DurableError
from durable_nb.values.artifacts import INDEX


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes
    ----------
    run, run_id : str
        Its name and id.
    file : Path
        The archive.
    records, artifacts : int
        How many are in it.
    size : int
        Of the archive, in bytes.
    """

    run: str
    run_id: str
    file: Path
    records: int
    artifacts: int
    size: int

    def to_text(self) -> str:
        """Render as plain text."""
        return (
            f"run {self.run}: {self.records} records and {self.artifacts} artifacts are in "
            f"{self.file} ({self.size:,} bytes)"
        )

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `export --json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Imported:
    """What was brought into a store.

    Attributes
    ----------
    run, run_id : str
        Its name here, and the id that it shares with where it was exported.
    folder : Path or None
        Where it lies now; `None` in a database.
    where : str
        The same, or the database, for a person.
    records, artifacts : int
        How many came along.
    twins : tuple of str
        Other runs of this store with the same run id.
    """

    run: str
    run_id: str
    folder: Path | None
    where: str
    records: int
    artifacts: int
    twins: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Render as plain text: what came, and what must not be done now."""
        twins = f" It is also here as {', '.join(self.twins)}." if self.twins else ""
        adopt = shlex.join(["durable-nb", "adopt", self.run])
        return (
            f"run {self.run}: {self.records} records and {self.artifacts} artifacts are in "
            f"{self.where}\n"
            f"It is the same run as the one that was exported (id {self.run_id}).{twins} If a "
            "kernel goes on with both, effects happen twice. To look at it is harmless. Before a "
            "kernel goes on here, say what it is:\n"
            f"    {adopt} moved       # the other one is gone\n"
            f"    {adopt} abandoned   # the other one is not executed any more\n"
            f"    {adopt} fork        # both go on, this one under new idempotency keys"
        )

    __str__ = to_text

    def as_dict(self) -> dict[str, Any]:
        """Give the document of `import --json`."""
        return asdict(self)


# -- out ---------------------------------------------------------------------------------------


def export_run(
    name: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    store: StoreLike | None = None,
    tell: Tell = quiet,
) -> Exported:
    """Write a run that nobody holds to one file, verified, readable by this user only.

    Parameters
    ----------
    name : str or path
        As for `verify`.
    file : path
        The archive to write, a zip file; it must not exist. It is whole once it has this name.
    store : path, optional
        As for `open_run`.
    tell : callable
        Is told what is being done.

    Returns
    -------
    Exported

    Raises
    ------
    RunHeld
        Somebody holds the run.
    RunDamaged
        It is damaged: what was exported would look whole.
    JournalDamaged
        So it is, in a database.
    RunMissing, BadName, FileExistsError
        Nothing was written.
    """
    target = Path(file).expanduser().absolute()
    if os.path.lexists(target):  # before the work: the same is asked again at its end
        raise FileExistsError(f"{target} exists already. Nothing was written. Name another file.")
    place = placed(name, store)
    if place is not None:
        tell("reading ...")
        with at_rest.as_folder(place) as folder:
            return _export(folder, place.name, (), target, tell)
    return _export(*find(name, store, "export"), target, tell)


def _export(folder: Path, run: str, found: Iterable[Finding], target: Path, tell: Tell) -> Exported:
    """Verify the folder of a run, and write it to a file."""
    with examined(folder, run, tell=tell) as exam:
        exam.findings[:0] = found
        read_values(exam)
        report = exam.report()
        refuse_damaged(report)
        manifest, sources = _contents(exam, run)
        tell("writing the archive ...")
        check = functools.partial(_check_written, exam.scratch, manifest, tell)
        write_archive(target, manifest, sources, check)
    artifacts = sum(map(is_value, manifest.files))
    return Exported(run, report.run_id, target, len(exam.records), artifacts, target.stat().st_size)


def _contents(exam: Examination, run: str) -> tuple[Manifest, dict[str, Callable[[], IO[bytes]]]]:
    """List what goes into an archive: the copy of the journal, the head, and the artifacts."""
    assert exam.looked is not None  # what cannot be read is damage, which was refused
    assert exam.survey is not None
    copies = {name: exam.scratch / name for name in (JOURNAL_FILE, HEAD_FILE)}
    if exam.survey.files:
        copies[f"{ARTIFACTS}/{INDEX}"] = exam.scratch / INDEX
    files = {name: content_of(path) for name, path in copies.items()}
    sources: dict[str, Callable[[], IO[bytes]]] = {
        name: functools.partial(_open, path) for name, path in copies.items()
    }
    for sha256, name in exam.survey.files.items():
        files[f"{ARTIFACTS}/{name}"] = Content(exam.survey.sizes[sha256], sha256)
        sources[f"{ARTIFACTS}/{name}"] = functools.partial(exam.survey.open, sha256)
    end = exam.looked.end
    run_id = str(exam.fold.born.get("run_id", ""))
    return Manifest(run, run_id, end.seq, end.digest.hex(), files), sources


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def _check_written(scratch: Path, manifest: Manifest, tell: Tell, part: Path) -> None:
    """Read an archive that was just written as an import would read it."""
    tell("reading the archive back ...")
    with Archive(part) as archive, tempfile.TemporaryDirectory(dir=scratch) as folder:
        for name in archive.manifest.files:
            archive.check(name)
        _rows(archive, Path(folder), manifest.run)


# -- in ----------------------------------------------------------------------------------------


def import_run(
    file: str | os.PathLike[str],
    name: str | None = None,
    *,
    store: StoreLike | None = None,
    tell: Tell = quiet,
) -> Imported:
    """Bring an exported run into a store, under a name that is free.

    Nothing in the file can run code: records and bytes are taken out and put into a journal and
    an artifact folder that are made here. What another user signed is shown as plain text. So it
    does not matter whose file it is.

    Parameters
    ----------
    file : path
        What `export_run` wrote.
    name : str, optional
        The run's name here; default: the one that it was exported with.
    store : path, optional
        As for `open_run`.
    tell : callable
        Is told what is being done.

    Returns
    -------
    Imported
        It is the same run as where it was exported: two kernels that go on with both would do
        effects twice. `to_text` says what the choices are.

    Raises
    ------
    ArchiveRefused
        The file is damaged, no archive of a run, of a newer form, or the name is taken.
    JournalDamaged, JournalTooNew, RunDamaged, BadName, NotTrusted
        Nothing was changed.
    """
    root = store_of(store)
    with Archive(Path(file).expanduser()) as archive:
        run = folders.check_name(archive.manifest.run if name is None else name)
        if root.folder is None:
            report = _import_into_place(archive, root, run, tell)
        else:
            report = _import_into_folder(archive, root, root.folder, run, tell)[0]
    folder = root.place(run).folder
    where = root.shown if folder is None else str(folder)
    artifacts = sum(map(is_value, archive.manifest.files))
    records = report.checked["records"]
    twins = _twins(root, run, report.run_id)
    return Imported(run, report.run_id, folder, where, records, artifacts, twins)


def _import_into_folder(
    archive: Archive, root: Store, store: Path, run: str, tell: Tell
) -> tuple[Report, list[Row]]:
    """Make the folder of a run, verified; `root` is the store that it is for in the end."""
    target = folders.run_folder(store, run)

    def refuse_taken() -> None:
        if os.path.lexists(target):
            raise _taken(archive, run, root)

    refuse_taken()
    folders.prepare_store(store)
    with built_aside(target, ".import-", refuse_taken) as part:
        rows = _unpack(archive, part, run, tell)
        report = whole_report(part, run, tell=tell)
        refuse_damaged(replace(report, folder=target))
        if report.run_id != archive.manifest.run_id:
            why = "its records are of another run than its manifest says"
            raise ArchiveRefused(str(archive.path), why, "Export the run again.")
    return report, rows


def _import_into_place(archive: Archive, root: Store, run: str, tell: Tell) -> Report:
    """Make a run where there are no folders, of a private folder that was verified."""
    if root.place(run).exists():
        raise _taken(archive, run, root)
    with tempfile.TemporaryDirectory(prefix="durable_nb-") as scratch:
        private = FolderStore(Path(scratch))
        report, rows = _import_into_folder(archive, root, private.root, run, tell)
        tell("writing to the store ...")
        root.prepare()
        with contextlib.closing(private.place(run).artifacts()) as artifacts:
            seed = Seed(
                rows=lambda _: rows,
                named=artifacts.sizes(),
                artifacts=artifacts,
                store=private,
                run=run,
                taken=lambda: _taken(archive, run, root),
            )
            root.plant(run, seed)
    return report


def _taken(archive: Archive, run: str, root: Store) -> ArchiveRefused:
    """Say that a name is taken: an import never replaces anything."""
    why = f"there is a run {run!r} in {root.shown} already"
    advice = "Give it another name: --as NAME (in Python: name=...)."
    return ArchiveRefused(str(archive.path), why, advice)


def _rows(archive: Archive, scratch: Path, run: str) -> tuple[list[Row], HeadState]:
    """Take the records out, and compare them with what the manifest says of them."""
    copy = scratch / JOURNAL_FILE
    archive.extract(JOURNAL_FILE, copy)
    try:
        with deferred_interrupts():
            rows = foreign_rows(copy, run)
    except DurableError as error:
        raise ArchiveRefused(
            str(archive.path), str(error).rstrip("."), "Export the run again."
        ) from error
    end = end_of_rows(rows)
    if (end.seq, end.digest.hex()) != (archive.manifest.last_seq, archive.manifest.digest):
        why = "its records are not those that its manifest says"
        raise ArchiveRefused(str(archive.path), why, "Export the run again.")
    return rows, end


def _unpack(archive: Archive, part: Path, run: str, tell: Tell) -> list[Row]:
    """Make the folder of a run from the records and the bytes of an archive."""
    tell("reading records ...")
    with tempfile.TemporaryDirectory(prefix="durable_nb-") as scratch:
        rows, end = _rows(archive, Path(scratch), run)
    with deferred_interrupts():
        plant(part / JOURNAL_FILE, part / HEAD_FILE, rows, end, run)
    names = [name for name in archive.manifest.files if is_value(name)]
    for name in archive.manifest.files.keys() - names:
        archive.check(name)  # what is made anew here is no less a sign of damage
    if not names:
        return rows
    artifacts = values.DiskArtifacts(part / ARTIFACTS)
    try:
        for number, name in enumerate(names, start=1):
            tell(f"reading artifacts: {number} of {len(names)} ...")
            artifacts.put(archive.read(name))
    finally:
        artifacts.close()
    return rows


def _twins(root: Store, run: str, run_id: str) -> tuple[str, ...]:
    """Find other runs of a store with the same id, as far as their mirrors tell."""
    found, views = [], root.views()
    for name in root.names():
        try:
            _, meta = Mirror.tail(views / name)
        except MirrorUnreadable:
            continue
        if name != run and meta.get("run_id") == run_id:
            found.append(name)
    return tuple(found)
