"""The verbs over all that is on record of a run: fork, compare and audit."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import click

from durable_nb.engine.audit import to_jsonl, to_parquet
from durable_nb.engine.compare import compare_rows
from durable_nb.faces import look, show
from durable_nb.faces.arguments import telling
from durable_nb.faces.judging import run_argument
from durable_nb.faces.output import DONE, Face, verb
from durable_nb.faces.problems import Unwrapped

#: Columns of a comparison, and what they are called: durations differ from run to run, so that
#: they are in `--json` only.
_COMPARED: Final = {
    "op": "operation",
    "outcome_a": "outcome a",
    "outcome_b": "outcome b",
    "result_a": "result a",
    "result_b": "result b",
    "same": "same",
    "usd_a": "usd a",
    "usd_b": "usd b",
    "changes": "changes",
}
_SAME: Final = {True: "yes", False: "no", None: ""}


@click.command(cls=Unwrapped)
@run_argument
@click.argument("new", metavar="NEW")
@click.option("--at", "op", metavar="OP", help="The operation that the fork does anew.")
@click.option("--reason", default="", callback=telling, help="Why; kept in the history.")
@verb
def fork(face: Face, name: str, new: str, op: str | None, reason: str) -> int:
    r"""Make a new run from what a run has on record.

    What was done before OP replays in the fork, and is not done again; without --at, all that is
    on record. Effects outside of its own are refused in the fork until `grant NEW external`.
    Nothing of RUN changes.

    \b
    Example:
      durable-nb fork refund-17 what-if --at 'mail#1'
    """
    run = look.watched(face, name)
    with face.working("copying ..."):
        done = run.fork(new, op, reason=reason)
    if face.as_json:
        face.emit(done.as_dict())
    else:
        face.line(done.to_text())
    return DONE


@click.command(cls=Unwrapped)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@verb
def compare(face: Face, a: str, b: str) -> int:
    r"""Show two runs side by side.

    Rows are in the order of A, then what only B has. `same` compares the recorded values
    themselves. A run that a kernel holds is shown as its mirror has it. With --json each row has
    its durations, too.

    \b
    Example:
      durable-nb compare refund-17 what-if
    """
    runs = [look.watched(face, name) for name in (a, b)]
    with face.working("reading ..."):
        rows = compare_rows(*runs, say=face.say)
    if face.as_json:
        face.emit({"a": a, "b": b, "operations": rows})
        return DONE
    shown = [{**row, "same": _SAME[row["same"]]} for row in rows]
    face.table([*_COMPARED.values()], [[show.cell(row[c]) for c in _COMPARED] for row in shown])
    return DONE


@click.command(cls=Unwrapped)
@run_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="One JSON object a line, or a Parquet file.",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file, replaced as a whole; default: standard output.",
)
@verb
def audit(face: Face, name: str, form: str, file: Path | None) -> int:
    r"""Write all that was ever recorded of a run, an operation a line.

    Inputs, result, model, prompt, cost, attempts, and the verdicts with who gave them, why and on
    what evidence: an audit trail, and an evaluation set. What looks like a secret is redacted.

    \b
    Example:
      durable-nb audit refund-17 --format parquet -o refund-17.parquet
    """
    if form == "parquet" and file is None:
        raise click.UsageError("a Parquet file is not for a terminal: name it with -o FILE.")
    run = look.watched(face, name)
    with face.working("reading ..."):
        rows = run.audit_rows()
    if file is None:
        if face.as_json:
            face.emit(rows)
        else:
            click.echo(to_jsonl(rows), nl=False)
        return DONE
    _write(file, to_parquet(rows) if form == "parquet" else to_jsonl(rows).encode())
    if face.as_json:
        face.emit({"run": name, "file": str(file), "format": form, "operations": len(rows)})
    else:
        face.line(f"run {name}: {len(rows)} operations are in {file}")
    return DONE


def _write(file: Path, data: bytes) -> None:
    """Write a file in one step, readable by this user only: a kill leaves the old one, or none."""
    fd, part = tempfile.mkstemp(prefix=".audit-", dir=file.absolute().parent)  # mode 0600
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


VERBS: Final = (fork, compare, audit)
