"""The answers: what each verb prints, as tables for people or as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from durable_nb.engine.questions import questions_of
from durable_nb.engine.run import Run
from durable_nb.engine.views import OperationView
from durable_nb.faces.look import Picture, operation_row, taken_up
from durable_nb.faces.output import Face
from durable_nb.faces.plain import clean, moment, short
from durable_nb.faces.settling import Line, command, lines_for
from durable_nb.journal import store_of
from durable_nb.model.outcomes import Outcome
from durable_nb.model.pace import AtWork
from durable_nb.model.waits import WAITS_FOR, Wait

#: How many operations a line about something that is not watched names.
_PLACES: Final = 3
#: No reconciler said anything that is still to be printed.
NOTHING_SAID: Final[Mapping[str, str]] = MappingProxyType({})

_OPERATION: Final = ("row", "operation", "effect", "outcome", "attempt", "result or error")
_RUNS: Final = ("run", "status", "pace", *map(str, Outcome), "updated (UTC)", "folder")
_FIELDS: Final = (
    "id", "row", "effect", "outcome", "attempt", "idempotency_key", "started", "ended",
    "duration_s", "usd", "tokens", "result", "error", "why",
)  # fmt: skip


def cell(value: object) -> str:
    """Show one cell of a table."""
    return "" if value is None else short(value, 80)


def runs(face: Face, found: Sequence[Mapping[str, Any]]) -> None:
    """Print the runs of a store."""
    if face.as_json:
        face.emit([{**row, "note": row["note"] or None} for row in found])
        return
    if not found:
        face.say('no runs here. A notebook makes the first: run = durable_nb.open_run("name")')
        return
    rows = []
    for row in found:
        counts = [cell(row[str(outcome)]) for outcome in Outcome]
        about = [row["name"], row["status"] or "?", row["pace"]]
        rows.append([*about, *counts, moment(row["updated"]), row["folder"]])
    face.table(_RUNS, rows)
    for row in found:
        if row["note"]:
            face.say(f"{row['name']}: {row['note']}")
        for work in (AtWork(**work) for work in row["at_work"]):
            if work.slow:
                face.say(f"{row['name']}: slow: {work}")
    if up := taken_up(store_of(face.store), found):
        what = "1 crashed run" if len(up) == 1 else f"{len(up)} crashed runs"
        line = command(face, "resume", more="--all")
        face.say(f"{what} can be taken up, with the notebook on record: {line}")


def run(face: Face, picture: Picture) -> None:
    """Print a run: its operations, and what is open in it."""
    _say_source(face, picture)
    if face.as_json:
        face.emit(picture.as_dict())
        return
    c = picture.counts
    face.line(
        f"run {picture.run} · {picture.status} · {c['completed']} completed, "
        f"{c['incomplete']} incomplete, {c['unknown']} unknown",
        style="bold",
    )
    if picture.headline:
        face.line(picture.headline)
    rows = [_operation_cells(op) for op in picture.operations]
    rows += [["", name, "", "incomplete", "", "expected, not begun"] for name in picture.expected]
    if rows:
        face.table(_OPERATION, rows)
    if picture.budget:
        face.line(picture.budget)
    _print_open(face, picture.open)


def _operation_cells(op: Mapping[str, Any]) -> list[str]:
    said = op["error"] or op["result"]
    if op["live"]:
        said = "running"
    elif op["waits"]:
        said = WAITS_FOR[Wait(op["wait"])]
    elif op["outcome"] == Outcome.UNKNOWN:
        said = f"it may have happened ({op['error']})" if op["error"] else "it may have happened"
    return [
        str(op["row"]), str(op["id"]), str(op["effect"]), str(op["outcome"]), str(op["attempt"]),
        cell(said),
    ]  # fmt: skip


def _print_open(face: Face, found: Sequence[Line]) -> None:
    for question in found:
        face.line(question.question)
        face.line(f"    {question.line}")


def _say_source(face: Face, picture: Picture) -> None:
    """Say that this is a mirror, whose, and how old."""
    if picture.published is not None:
        age = max(0.0, (datetime.now(UTC) - picture.published).total_seconds())
        face.say(
            f"held by {picture.held_by}\n"
            f"This is its mirror, published {age:.0f} s ago; the owner publishes a change within "
            "2 s, later on a busy run. A verdict that you give here is applied by that owner."
        )


def operation(
    face: Face,
    picture: Picture,
    row: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]] | None,
) -> None:
    """Print one operation; without a history where its owner did not tell it."""
    _say_source(face, picture)
    mine = [q for q in picture.open if q.operation == row["id"]]
    if face.as_json:
        face.emit({"operation": row, "history": history, "open": [q.as_dict() for q in mine]})
        return
    for name in _FIELDS:
        if row.get(name) not in (None, ""):
            face.line(f"{name:<16} {clean(row[name])}")
    for name, value in (row.get("inputs") or {}).items():
        face.line(f"input {clean(name)} = {clean(value)}")
    if history is None:
        face.say("Its history is in the journal, which its owner holds, and did not tell.")
    else:
        face.line("")
        _print_records(face, history)
    _print_open(face, mine)


def facets(face: Face, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what results depend on; what nobody compares comes last, by name and type."""
    watched = [row for row in rows if row["watched"]]
    unwatched = [row for row in rows if not row["watched"]]
    if face.as_json:
        face.emit({"run": name, "facets": watched, "not_watched": unwatched})
        return
    shown = [
        [row["op"], row["facet"], cell(_first_lines(row["shown"])), row["digest"][-8:]]
        for row in watched
    ]
    face.table(("operation", "facet", "value", "digest"), shown)
    places: dict[tuple[str, str], list[str]] = {}
    for row in unwatched:
        places.setdefault((row["facet"], row["shown"]), []).append(row["op"])
    for (what, kind), ops in places.items():
        more = f" and {len(ops) - _PLACES} more" if len(ops) > _PLACES else ""
        where = clean(", ".join(ops[:_PLACES]))
        face.line(f"not watched: {clean(what)} ({clean(kind)}), reached by {where}{more}")
    face.line("not watched anywhere: installed packages' code, and files that no step declares")


def _first_lines(text: str) -> str:
    """Show the first line of a piece of source, and how many there are."""
    lines = text.split("\n")
    return text if len(lines) == 1 else f"{lines[0]} … ({len(lines)} lines)"


def history(face: Face, records: Sequence[Mapping[str, Any]]) -> None:
    """Print records."""
    if face.as_json:
        face.emit(records)
    else:
        _print_records(face, records)


def _print_records(face: Face, records: Sequence[Mapping[str, Any]]) -> None:
    headings = ("seq", "time (UTC)", "operation", "record", "attempt", "epoch", "by", "detail")
    names = ("op", "kind", "attempt", "epoch", "actor", "detail")
    face.table(
        headings,
        [[r["seq"], moment(r["ts"]), *(cell(r[name]) for name in names)] for r in records],
    )


def settled(face: Face, answer: Mapping[str, Any]) -> None:
    """Print what was recorded, and what is still open.

    Parameters
    ----------
    face
        Where to print.
    answer : Mapping
        As `durable_nb.engine.verbs.perform` gives it, here or in the run's owner.
    """
    operation, counts = answer["operation"], answer["counts"]
    name, verdict, said = answer["run"], answer["verdict"], answer["said"]
    if face.as_json:
        face.emit(
            {"run": name, "verdict": verdict, "operation": operation, **answer["more"], **counts}
        )
        return
    what = operation["id"] if operation else name
    face.line(f"{what}: {verdict}. {said[:1].upper()}{said[1:]}.")
    left = counts[str(Outcome.UNKNOWN)]
    face.line(f"{left} still unknown." if left else "Nothing is unknown in this run.")


def reconciled(
    face: Face,
    name: str,
    done: Sequence[OperationView],
    left: Sequence[OperationView],
    doubt: str = "",
    last_words: Mapping[str, str] = NOTHING_SAID,
) -> bool:
    """Print what reconcilers settled and what stays unknown; tell whether a person is needed.

    Parameters
    ----------
    face, name
        Where to print, and of which run.
    done, left : sequence of OperationView
        What was settled, and what stays unknown.
    doubt : str
        Why records are known to be lost; "" if none are.
    last_words : mapping of str to str
        Operation to what its reconciler said last, where that was not printed before.
    """
    found = lines_for(face, name, questions_of(left, doubt=doubt))
    if face.as_json:
        document = {
            "run": name,
            "settled": [operation_row(v) for v in done],
            "unknown": [operation_row(v) for v in left],
            "open": [q.as_dict() for q in found],
        }
        face.emit(document)
        return bool(found)
    for view in done:
        happened = view.outcome == Outcome.COMPLETED
        what = f"it happened: {view.result_preview or 'None'}" if happened else "it did not"
        face.line(f"{view.id}: settled, {what}")
    for view in left:
        face.line(f"{view.id}: still unknown{last_words.get(view.id, '')}")
    if not left:
        face.line("Nothing is unknown in this run.")
    _print_open(face, found)
    return bool(found)


def last_word(run: Run, view: OperationView) -> str:
    """Give what the last reconciler said."""
    said = [r["detail"] for r in run.records(view.id) if r["kind"] == "undecided"]
    return f" ({said[-1]})" if said else ""
