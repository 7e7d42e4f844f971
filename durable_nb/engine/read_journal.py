"""Reading a run's journal in a private copy, and what its records say of one another."""

from __future__ import annotations

from typing import Final

from durable_nb import values
from durable_nb.engine.examination import RESTORE, Examination, Named
from durable_nb.engine.recorded import texts_of
from durable_nb.journal.folder import HEAD_FILE, JOURNAL_FILE
from durable_nb.journal.looking import Looked, look
from durable_nb.model.errors import JournalDamaged
from durable_nb.model.facets import FacetSet, combine
from durable_nb.model.outcomes import Kind
from durable_nb.model.records import Record

#: Records of an operation that name what its result stands on.
_NAMING: Final = frozenset({Kind.INTENDED, Kind.COMPLETED, Kind.KEPT, Kind.RERUN})


def read_journal(exam: Examination) -> None:
    """Read the records in a copy, and what the head says of them."""
    if exam.is_linked(JOURNAL_FILE, f"{JOURNAL_FILE}.wal", HEAD_FILE):
        return
    exam.tell("reading the journal ...")
    if not (exam.folder / JOURNAL_FILE).exists():
        means = "None of its records is there."
        exam.damage("journal", JOURNAL_FILE, "it is missing", means, f"{RESTORE}.")
        return
    try:
        exam.looked = look(exam.folder, exam.scratch, exam.name)
    except JournalDamaged as error:
        exam.damage(
            "journal", JOURNAL_FILE, error.found, "None of its records can be read.",
            f"{RESTORE}, or begin anew with fresh=True (the old one is kept).",
        )  # fmt: skip
        return
    _tell_of_losses(exam, exam.looked)
    _read_records(exam)


def _tell_of_losses(exam: Examination, looked: Looked) -> None:
    """Say what is wrong with the file, and what the head knows that it does not hold."""
    recovered, lost = looked.recovered, looked.lost
    recover = f"Run: {exam.line('recover')}"
    if recovered is not None and recovered.records is not None:
        means = f"{recovered.records} records can be brought back from it."
        exam.damage("journal", JOURNAL_FILE, recovered.why, means, recover)
    if lost is not None and lost.kind == "headless":
        means = "Nothing proves that these are all: an older journal would look the same."
        exam.damage("head", HEAD_FILE, str(lost), means, recover)
    elif lost is not None:
        means = (
            "What the lost records said is not known, so every operation that has no record "
            "and is not effect none counts as unknown."
        )
        exam.damage("head", HEAD_FILE, str(lost), means, recover)


def _read_records(exam: Examination) -> None:
    """Fold the records, and check what they say of one another."""
    keys: dict[str, tuple[str, int]] = {}
    means = "No kernel can open the run."
    for record in exam.records:
        try:
            state = exam.fold.apply(record)
        except Exception as error:  # whatever a planted body makes of it
            what = f"it cannot be followed ({type(error).__name__}: {error})"
            exam.damage("record", f"record {record.seq}", what, means, f"{RESTORE}.")
            break
        if state is not None and record.kind is Kind.INTENDED:
            _check_key(exam, keys, record, state.generation)
        _check_facets(exam, record)
    exam.checked["records"] = len(exam.records)
    if not exam.records:
        exam.note("record", JOURNAL_FILE, "it has no records", "No kernel began anything.", "")
    elif not exam.fold.born:
        what = "no record says that the run was born"
        exam.damage("record", "record 1", what, "Its run id is not known.", f"{RESTORE}.")
    elif exam.fold.born.get("name") != exam.name:
        what = f"the run was born with the name {exam.fold.born.get('name')!r}"
        exam.note("record", "record 1", what, "It is the same run under another name.", "")
    if exam.fold.doubted:
        what = f"records of this run are lost ({exam.fold.doubted.get('why')})"
        means = "The run starts nothing new until a person accepts that."
        do = f'Look at the outside world, then: {exam.line("accept")} --reason "…"'
        exam.note("record", JOURNAL_FILE, what, means, do)
    for record in exam.records:
        _note_references(exam, record)


def _check_key(
    exam: Examination, keys: dict[str, tuple[str, int]], record: Record, generation: int
) -> None:
    """Check that no two effects carry one idempotency key."""
    key = str(record.body.get("idempotency_key") or "")
    first = keys.setdefault(key, (record.op, generation))
    if key and first != (record.op, generation):
        exam.damage(
            "key", f"{record.op}, record {record.seq}",
            f"its idempotency key was used before, by {first[0]}",
            "The receiver takes the two for one, and does the second not at all.",
            f"Look at the outside world, then: {exam.line('rerun', record.op)}",
        )  # fmt: skip


def _check_facets(exam: Examination, record: Record) -> None:
    """Check that a set of facets is what its digest says, and that none is named before it."""
    means = "What its results stand on is not known, so a change of that would not be noticed."
    do = f"{RESTORE}, or look at what changed yourself."
    if record.kind is Kind.DEFINED:
        if combine(FacetSet.recorded(record.body).parts) != record.body["facets"]:
            what = "its facets are not those that its digest says"
            exam.damage("record", f"record {record.seq}", what, means, do)
    elif record.kind in _NAMING:
        named = (record.body.get("basis") or record.body).get("facets")
        if named not in (None, "", combine({})) and named not in exam.fold.known:
            what = "it names facets that no record before it defines"
            exam.damage("record", f"{record.op}, record {record.seq}", what, means, do)


def _note_references(exam: Examination, record: Record) -> None:
    """Note the artifacts that a record names, wherever in its body."""
    state = exam.fold.operations.get(record.op)
    result = record.body.get("result")
    current = state is not None and result is not None and state.result == result
    for text in texts_of(record.body):
        for sha256, size in values.text_refs(text):
            seen = exam.named.get(sha256)
            if seen is None or (current and not seen.current):
                exam.named[sha256] = Named(size, record, current)
