"""The command line: `durable-nb`, or `python -m durable_nb.cli`."""

from __future__ import annotations

import sys
import warnings
from typing import Final

import click

from durable_nb import __version__
from durable_nb.engine import listing
from durable_nb.faces import (
    deciding,
    fleet,
    forking,
    judging,
    keeping,
    look,
    pausing,
    reporting,
    running,
    show,
)
from durable_nb.faces.judging import run_argument
from durable_nb.faces.output import (
    DONE,
    PERSON_NEEDED,
    Face,
    console,
    debug_option,
    json_option,
    verb,
)
from durable_nb.faces.plain import rows_of
from durable_nb.faces.problems import Unwrapped, Verbs
from durable_nb.journal import store_of
from durable_nb.journal.errors import MirrorSkipped
from durable_nb.model.outcomes import Outcome
from durable_nb.model.waits import FOR_A_PERSON

_EXTRA: Final = "pip install 'durable-nb[demo]'"


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="durable-nb")
def cli() -> None:
    r"""See what resumable runs have done, and settle what they cannot know.

    \b
    completed   a result is on record; it is never done again
    incomplete  nothing outside is in doubt; the next kernel does it
    unknown     it may have happened; only evidence settles it (confirm or deny)

    OP is an operation's id (`refund[o-1]#1`), its name if only one has it, or the row number that
    `show` prints. Exit codes: 0 done, 1 error, 2 wrong call, 3 a person is needed.
    """


# -- looking -----------------------------------------------------------------------------------


@click.command(name="runs", cls=Unwrapped)
@verb
def runs_(face: Face) -> int:
    r"""List the runs of the store, where each stands, and how its kernel comes on.

    The pace is `live` while a kernel on this machine holds the run, and `slow` if an operation at
    work has taken more than three times as long as usual, and ten seconds longer. Usual is the
    median of completed operations of its name in this store.

    \b
    Example:
      durable-nb runs --store .durable
    """
    show.runs(face, look.list_runs(face))
    return DONE


@click.command(name="show", cls=Unwrapped)
@run_argument
@click.argument("op", metavar="[OP]", required=False)
@click.option(
    "--facets", is_flag=True, help="What each result depends on, and what is not watched."
)
@verb
def show_(face: Face, name: str, op: str | None, facets: bool) -> int:
    r"""Show a run or one operation; exits 3 if a person is needed.

    A run that a kernel holds is shown as its mirror has it: renewed within two seconds of a
    change, but not before 66 times as long as the last renewal took.

    With --facets it lists what recorded results depend on instead: inputs, code with the helpers
    and constants that it reaches, model, prompt, files. A change of these is noticed on a resume;
    what is "not watched" is not: installed packages' code, clients, files that no step declares.

    \b
    Example:
      durable-nb show refund-17
      durable-nb show refund-17 'plan#1' --facets
    """
    run = look.watched(face, name)
    if facets:
        show.facets(face, name, run.facet_rows(op))
        return DONE
    picture = look.picture(face, run)
    if op is None:
        show.run(face, picture)
        return PERSON_NEEDED if picture.open else DONE
    if picture.held_by:
        row = look.operation_row(run.get(op))
        show.operation(face, picture, row, look.history_of(run, op))
    else:
        with look.reading(face, name) as held:
            row, history = look.in_journal(held, op), held.records(op)
        show.operation(face, picture, row, history)
    waits = row["waits"] and row["wait"] in FOR_A_PERSON
    return PERSON_NEEDED if waits or row["outcome"] == Outcome.UNKNOWN else DONE


@click.command(cls=Unwrapped)
@run_argument
@click.argument("op", metavar="[OP]", required=False)
@verb
def history(face: Face, name: str, op: str | None) -> int:
    r"""Print the records of a run or of one operation.

    \b
    Example:
      durable-nb history refund-17 'charge#1'
    """
    show.history(face, look.watched(face, name).records(op))
    return DONE


@click.command(cls=Unwrapped)
@click.argument("query")
@verb
def sql(face: Face, query: str) -> int:
    r"""Ask the store in SQL, over the views runs and operations.

    The dialect is DuckDB's. It reads the mirrors: a view, never evidence.

    \b
    Example:
      durable-nb sql "SELECT run, id FROM operations WHERE outcome = 'unknown'"
    """
    for name, note in look.refresh(face).items():
        face.say(f"{name}: as its mirror has it ({note})")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MirrorSkipped)
        frame = listing.query_of(store_of(face.store), query)
    for warning in caught:
        face.say(f"warning: {warning.message}")
    rows = rows_of(frame)
    if face.as_json:
        face.emit(rows)
    else:
        headings = [str(c) for c in frame.columns]
        face.table(headings, [[show.cell(row[c]) for c in headings] for row in rows])
    return DONE


# -- the demo ----------------------------------------------------------------------------------


@click.command(cls=Unwrapped)
@click.option(
    "--model",
    type=click.Choice(["scripted", "smollm2"]),
    default="scripted",
    show_default=True,
    help="Who decides: a script, or a real small model on this machine.",
)
@click.option("--lab", is_flag=True, help="Open the notebook in JupyterLab, to kill it by hand.")
@click.option(
    "--keep",
    "folder",
    type=click.Path(file_okay=False),
    help="A new folder for ledgers, journal and notebook; else they are removed.",
)
@json_option
@debug_option
@click.pass_context
def demo(ctx: click.Context, model: str, lab: bool, folder: str | None, as_json: bool) -> None:
    r"""Kill an agent's kernel three times, and count effects.

    The shop's own ledger tells what really happened, with durable_nb and without.

    \b
    Example:
      durable-nb demo --json
    """
    if lab and as_json:
        raise click.UsageError("--lab is for a person; it has no --json.")
    try:
        from durable_nb.demo.lab import WORK_FOLDER, run_lab
        from durable_nb.demo.runner import run_demo
    except ImportError as error:
        why = error.__cause__ or error
        raise click.ClickException(
            f"the demo needs packages that are not installed ({why}). Nothing was started. "
            f"Run: {_EXTRA}"
        ) from error
    if lab:
        ctx.exit(run_lab(model=model, folder=folder or WORK_FOLDER))
    run_demo(model=model, json=as_json, keep=folder, console=console(stderr=as_json))


# What each is under in the help, and in docs/cli.md.
cli.add_under("Look", runs_, show_, history, *reporting.VERBS, sql)
cli.add_under("Settle", *judging.DOUBTS, *deciding.VERBS)
cli.add_under("Steer", judging.grant, *pausing.VERBS, *judging.RESULTS)
cli.add_under("Execute a notebook from a shell", *running.VERBS)
cli.add_under("Share runs among machines", *fleet.VERBS)
cli.add_under("Try it otherwise, and account for it", *forking.VERBS)
cli.add_under("Look after a store", *keeping.VERBS)
cli.add_under("See it happen", demo)


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character still shows the rest
            stream.reconfigure(errors="backslashreplace")
    cli(prog_name="durable-nb")


if __name__ == "__main__":
    main()
