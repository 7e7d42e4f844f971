"""Reading a run's artifacts and decoding its recorded values."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from durable_nb import values
from durable_nb.engine.examination import ARTIFACTS, RESTORE, Examination, Named
from durable_nb.model.records import Record
from durable_nb.values.survey import Survey

#: How many places of one note are named.
_NAMED: Final = 3


def read_index(exam: Examination) -> None:
    """Read the index of the artifacts in a copy."""
    if exam.is_linked(ARTIFACTS):
        return
    exam.survey = Survey(exam.folder / ARTIFACTS, exam.scratch)
    for fault in exam.survey.faults:
        if fault.mends:
            means = "With it, artifacts are dropped or not brought to the disk."
            do = "The next kernel that opens the run sets it right. What is missing is below."
        else:
            means = "It is not followed: what it names counts as missing."
            do = f"{RESTORE}, and find out who wrote to it."
        exam.damage("index", f"{ARTIFACTS}/{fault.where}", fault.what, means, do)
    loose = exam.unreferenced
    total = sum(loose.values()) + sum(p.stat().st_size for p in exam.survey.strays)
    if exam.looked is not None and (loose or exam.survey.strays):
        exam.note(
            "artifact", ARTIFACTS,
            f"{len(loose) + len(exam.survey.strays)} that no record names ({total:,} bytes)",
            "A kernel that was killed before its record leaves them; nothing needs them.",
            f"To free the space: {exam.line('gc', '--yes')}",
        )  # fmt: skip


def read_values(exam: Examination) -> None:
    """Check the digest of each artifact that is named, and decode each recorded value."""
    for number, (sha256, named) in enumerate(exam.named.items(), start=1):
        exam.tell(f"reading artifacts: {number} of {len(exam.named)} ...")
        _check_artifact(exam, sha256, named)
    waiting: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number, record in enumerate(exam.records, start=1):
        result = record.body.get("result")
        if not isinstance(result, str):
            continue
        exam.tell(f"reading values: record {number} of {len(exam.records)} ...")
        exam.checked["values"] += 1
        _decode(exam, record, result, waiting)
    for (why, do), places in waiting.items():
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        means = "It is intact; another kernel can load it."
        where = ", ".join(places[:_NAMED]) + more
        exam.note("value", where, f"not loadable here: {why}", means, do)


def _check_artifact(exam: Examination, sha256: str, named: Named) -> None:
    """Check one artifact."""
    if exam.survey is None:
        return
    exam.checked["artifacts"] += 1
    exam.checked["bytes"] += named.size
    try:
        exam.survey.check(sha256, named.size)
        return
    except values.ArtifactMissing:
        what = f"artifact {sha256[:12]}… is missing"
    except values.ArtifactDamaged as error:
        what = f"artifact {sha256[:12]}… is damaged: {error.reason}"
    except OSError as error:
        what = f"artifact {sha256[:12]}… cannot be read: {error.strerror}"
    op, seq = named.record.op, named.record.seq
    means = f"The value of {op} cannot be loaded. Its record stands, and it is not run again."
    if not named.current:
        means = "Only history is hurt: no operation returns this value now."
    invalidate = exam.line("invalidate", op, "--reason", "…")
    do = f"Bring the artifacts back from a copy, or: {invalidate}"
    exam.damage("artifact", f"{op}, record {seq}", what, means, do)


def _decode(
    exam: Examination, record: Record, text: str, waiting: dict[tuple[str, str], list[str]]
) -> None:
    """Decode one value; what needs only another kernel is a note."""
    where = f"{record.op}, record {record.seq}"
    try:
        values.decode(text, exam.survey or Survey(exam.scratch / "none", exam.scratch))
        return
    except values.WaitingForClass as error:
        reason = (f"it waits for class {error.name}", "Run the cell that defines it there.")
        waiting[reason].append(where)
        return
    except (values.ArtifactMissing, values.ArtifactDamaged):
        return  # told as an artifact
    except values.ValueNotLoadable as error:
        broken = isinstance(error.__cause__, Exception) and not isinstance(
            error.__cause__, ImportError
        )
        if not (broken or isinstance(error, values.TextDamaged)):
            reason = (f"{error.what}: {error.reason}", error.advice)
            waiting[reason].append(where)
            return
        what = error.reason
    except Exception as error:  # whatever a planted text makes of it
        what = f"{type(error).__name__}: {error}"
    means = "Its record stands, and it is not run again; its value cannot be loaded."
    do = f"{RESTORE}, or: {exam.line('invalidate', record.op, '--reason', '…')}"
    exam.damage("value", where, f"it does not decode: {what}", means, do)
