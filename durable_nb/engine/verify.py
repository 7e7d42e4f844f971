"""Reading everything of a run and repairing nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from durable_nb.engine import rights
from durable_nb.engine.examination import Examination, Tell
from durable_nb.engine.read_journal import read_journal
from durable_nb.engine.read_values import read_index, read_values
from durable_nb.engine.report import Finding, Report
from durable_nb.journal import Inbox, Mirror, OwnerInfo, Place, StoreLike, folder_of, store_of
from durable_nb.journal import folder as folders
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.looking import kept_out
from durable_nb.journal.mirror import MIRROR_FILE
from durable_nb.journal.owner import OWNER_FILE
from durable_nb.model.errors import NotTrusted, RunHeld, RunMissing


def quiet(_text: str) -> None:
    """Show no progress."""


def verify(
    run: str | os.PathLike[str],
    *,
    store: StoreLike | None = None,
    tell: Tell = quiet,
) -> Report:
    """Read everything of a run and repair nothing; not a byte of its folder changes.

    Parameters
    ----------
    run : str or path
        The name of a run of the store; or a folder, such as a copy or an extracted backup: any
        path object, ``"."``, and any text with a slash in it.
    store : path, optional
        As for `open_run`.
    tell : callable
        Is told what is being read, for a person who waits.

    Returns
    -------
    Report
        Of a run that somebody holds: who does, and what can be seen from outside.

    Raises
    ------
    RunMissing, BadName
        There is no such run.
    JournalTooNew
        A newer version of this package wrote it.
    """
    folder, name, found = find(run, store, "verify")
    try:
        return whole_report(folder, name, tell=tell, found=found)
    except RunHeld as held:
        exam = Examination(folder, name, Path(), tell)
        exam.findings += [*found, *rights.of_run(folder, held=True)]
        look_around(exam)
        exam.note(
            "held",
            JOURNAL_FILE,
            f"the run is held by {held.holder}",
            "Its journal and its artifacts were not read, because only its owner can.",
            "Close the run there, then verify it again.",
        )
        return replace(exam.report(), held_by=held.holder)


def whole_report(
    folder: Path, name: str, *, tell: Tell = quiet, found: Iterable[Finding] = ()
) -> Report:
    """Verify a folder that nobody holds, under a name; raises `RunHeld` if somebody does."""
    with examined(folder, name, tell=tell) as exam:
        exam.findings[:0] = found
        read_values(exam)
        return exam.report()


def is_folder(run: str | os.PathLike[str]) -> bool:
    """Tell whether what a person named is a folder itself, and no run of the store."""
    return not isinstance(run, str) or "/" in run or run in (".", "..")


def placed(run: str | os.PathLike[str], store: StoreLike | None) -> Place | None:
    """Give the place of a run that has no folder; `None` where `find` finds one."""
    root = None if is_folder(run) else store_of(store)
    return None if root is None or root.folder is not None else root.place(str(run))


def find(
    run: str | os.PathLike[str], store: StoreLike | None, verb: str
) -> tuple[Path, str, list[Finding]]:
    """Find the folder and the name of a run, and what is wrong with the store around it.

    Raises
    ------
    RunMissing, BadName
    FoldersOnly
        The store is a database; it is told which verb this was for.
    """
    named = not is_folder(run)
    if named:
        root = folder_of(store_of(store), verb)
        folder = folders.run_folder(root, str(run))
    else:
        folder = Path(run).expanduser().resolve()
        root = folder.parent
    if not folder.is_dir() or not any((folder / f).exists() for f in (JOURNAL_FILE, HEAD_FILE)):
        raise RunMissing(folder.name, str(root), folders.run_names(root))
    return folder, folder.name, list(rights.of_store(root)) if named else []


@contextmanager
def examined(
    folder: Path, name: str, *, tell: Tell = quiet, create: bool = False
) -> Iterator[Examination]:
    """Keep owners out of a run, and read its journal in a private copy.

    Parameters
    ----------
    create : bool
        Make the lock file where there is none: for those who change something.

    Raises
    ------
    RunHeld, JournalTooNew
    """
    with (
        kept_out(folder, name, create=create),
        tempfile.TemporaryDirectory(prefix="durable_nb-") as scratch,
    ):
        exam = Examination(folder, name, Path(scratch), tell)
        exam.findings += rights.of_run(folder)
        read_journal(exam)
        read_index(exam)
        look_around(exam)
        yield exam


def look_around(exam: Examination) -> None:
    """Read what is never evidence: who held the run, its inbox, its mirror."""
    folder = exam.folder
    if (folder / OWNER_FILE).exists() and OwnerInfo.load(folder) is None:
        means = "It only explains who had the run; the lock itself is the system's."
        do = "The next kernel that opens the run writes it anew."
        exam.note("owner", OWNER_FILE, "it cannot be read", means, do)
    try:
        waiting, bad = Inbox(folder).seen()
    except NotTrusted as refusal:
        means = "Verdicts that others left there are not applied."
        exam.damage("inbox", "inbox", refusal.why.rstrip("."), means, refusal.advice)
    else:
        _tell_of_inbox(exam, waiting, bad)
    for error in Mirror.damage(folder) if (folder / MIRROR_FILE).exists() else ():
        file = Path(error.path).name
        means = "It is a view for other processes; the run itself is unhurt."
        do = "The next kernel that opens the run publishes it anew."
        if file != MIRROR_FILE:
            do = f"Delete it: {do[0].lower()}{do[1:]}"
        exam.note("mirror", file, error.cause, means, do)


def _tell_of_inbox(exam: Examination, waiting: int, bad: list[tuple[str, str]]) -> None:
    """Say what is in the inbox."""
    if waiting:
        what = f"{waiting} messages wait" if waiting > 1 else "a message waits"
        do = "Whoever takes the lease applies it, as a verdict or a `show` from outside does."
        exam.note("inbox", "inbox", what, "Somebody gave a verdict, and no owner took it.", do)
    for name, why in bad:
        means = "It is no message, so nobody applies it."
        exam.note("inbox", f"inbox/{name}", why, means, "You may delete it.")
