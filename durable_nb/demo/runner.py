"""The demo's story: three kernels killed, one run that goes on.

Everything here is done from outside: a watcher reads the shop's ledger and the model server's
calls, and sends SIGKILL to the kernel. There is no hook for it in the toolkit.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import nbclient  # noqa: F401 - only to say in time that it is missing
    import nbformat
    from nbformat import NotebookNode
except ImportError as error:
    raise ImportError("the demo needs its extra: pip install 'durable_nb[demo]'") from error
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from durable_nb.demo import ledger, naive, record
from durable_nb.demo.client import Model
from durable_nb.demo.kernels import (
    AfterEffect,
    Ending,
    Execution,
    InModelCall,
    Place,
    execute,
)
from durable_nb.demo.ledger import Entry, What
from durable_nb.demo.model_server import SCRIPTED, missing_packages
from durable_nb.demo.problems import DemoFailed, KernelTrouble, ModelMissing
from durable_nb.demo.report import print_report
from durable_nb.demo.result import DemoResult, Naive, Tally
from durable_nb.demo.servers import Addresses, running
from durable_nb.demo.tickets import read_tickets
from durable_nb.demo.workplace import NOTEBOOK, find_notebook, work_folder

RUN = "refunds"  #: the run that the notebook opens


def run_demo(
    *,
    model: str = SCRIPTED,
    json: bool = False,
    keep: str | Path | None = None,
    console: Console | None = None,
) -> DemoResult:
    """Run the agent's notebook, kill its kernel three times, and count what really happened.

    Parameters
    ----------
    model : {"scripted", "smollm2"}
        Who decides.
    json : bool
        Print the result as one line of JSON on standard output, and all else on standard error.
    keep : path, optional
        A new folder to leave ledgers, journal and notebook in; otherwise they are removed.
    console : rich.console.Console, optional
        Where the story goes.

    Raises
    ------
    ModelMissing, FolderInUse
        Before anything was started; called the wrong way.
    DemoFailed
        If something did not go as told.
    """
    missing = missing_packages(model)
    if missing:
        raise ModelMissing(model, missing)
    console = console or Console(stderr=json)
    began = time.monotonic()
    with work_folder(keep) as folder:
        durable = _Agent(console, folder / "durable", model)
        with running(durable.folder, model=model) as at:
            _with_durable(durable, at)
            model_calls = len(Model(at.model).calls())
        journal = record.read(RUN, durable.store)
        plain = _Agent(console, folder / "naive", model)
        with running(plain.folder, model=model) as at:
            _without(plain, at)
        granted = sum(bool(decision["refund"]) for decision in journal.decisions.values())
        entries, theirs = durable.entries(), plain.entries()
        result = DemoResult(
            kills=durable.kills,
            refunds=_tally(entries, What.REFUND, granted),
            mails=_tally(entries, What.MAIL, len(journal.decisions)),
            unknown_settled=journal.settled,
            model_calls_repeated=model_calls - len(journal.decisions),
            naive=Naive(
                ledger.count(theirs, What.REFUND).duplicates,
                ledger.count(theirs, What.MAIL).duplicates,
            ),
            seconds=round(time.monotonic() - began, 1),
            folder=folder if keep is not None else None,
        )
        print_report(console, result, journal, entries)
    if result.folder is not None:
        console.print(Text(f"Kept in {result.folder}"), soft_wrap=True)
    if json:
        print(result.line(), flush=True)
    return result


@dataclass(slots=True)
class _Agent:
    """One agent, its folder, and its passes over its notebook."""

    console: Console
    folder: Path
    model: str
    kills: int = 0

    @property
    def store(self) -> Path:
        """Where its run is."""
        return self.folder / ".durable"

    def entries(self) -> list[Entry]:
        """Read its shop's ledger."""
        return ledger.read(self.folder / "ledger.jsonl")

    def tell(self, text: str) -> None:
        """Tell one line of the story; `text` is rich markup, whatever the console is set to."""
        self.console.print(Text.from_markup(text), soft_wrap=True)

    def quote(self, done: Execution) -> None:
        """Quote what the kernel said when it opened the run, and what a reconciler settled."""
        self.tell("A new kernel runs all cells from the top:")
        for line in [*done.said("open"), *done.said("loop", "settled by")]:
            self.tell(f"    [dim]{escape(line)}[/dim]")

    def once(
        self, notebook: NotebookNode, at: Addresses, expected: Ending, kill: Place | None = None
    ) -> Execution:
        """Run all cells in a fresh kernel, and insist on how that ends."""
        variables = {**at.variables(), "DURABLE_STORE": str(self.store), "NO_COLOR": "1"}
        with self.console.status("the kernel is working ..."):
            try:
                done = execute(notebook, self.folder, {**os.environ, **variables}, kill)
            except KernelTrouble as trouble:
                wanted = f"the notebook to be {expected}"
                raise DemoFailed(wanted, str(trouble), str(self.folder)) from trouble
        if done.ending is not expected:
            found = f"the notebook was {done.ending}"
            if done.lines:
                found += ":\n" + "\n".join(done.lines)
            raise DemoFailed(f"the notebook to be {expected}", found, str(self.folder))
        self.kills += done.ending is Ending.KILLED
        return done


def _places(at: Addresses) -> tuple[Place, Place, Place]:
    """Choose where to kill: by order, so that both agents are killed at the same places."""
    orders = [ticket.order for ticket in read_tickets()]
    return (
        InModelCall(at, orders[2:3]),
        AfterEffect(at, What.REFUND, orders[4:]),
        AfterEffect(at, What.MAIL, orders[8:]),
    )


def _with_durable(agent: _Agent, at: Addresses) -> None:
    """Tell the story of the agent that keeps a journal."""
    notebook = nbformat.read(find_notebook(), as_version=4)  # type: ignore[no-untyped-call]
    in_model, in_refund, in_mail = _places(at)
    agent.tell(
        f"[bold]The agent with durable_nb[/bold] reads {len(read_tickets())} messages, "
        "decides, refunds, mails."
    )

    done = agent.once(notebook, at, Ending.KILLED, in_model)
    agent.quote(done)
    agent.tell(
        f"[red]kill 1[/red]: kernel {done.pid} died while the model thought about {done.place}. "
        "Nothing outside can have happened: [yellow]incomplete[/yellow], so it is asked again."
    )
    done = agent.once(notebook, at, Ending.KILLED, in_refund)
    agent.quote(done)
    agent.tell(
        f"[red]kill 2[/red]: the shop has paid {done.place}, and kernel {done.pid} died before it "
        "heard so. [red]Unknown[/red]: the reconciler asks the shop by idempotency key."
    )
    done = agent.once(notebook, at, Ending.KILLED, in_mail)
    agent.quote(done)
    agent.tell(
        f"[red]kill 3[/red]: the mail about {done.place} is out, kernel {done.pid} died before it "
        "heard so, and nobody can look up a mail. [red]Unknown[/red]: a person has to tell."
    )
    done = agent.once(notebook, at, Ending.STOPPED)
    if done.error != "UnknownOutcome":
        raise DemoFailed("UnknownOutcome", "\n".join(done.lines), str(agent.folder))
    agent.quote(done)
    agent.tell("This kernel stops by itself:")
    for line in done.lines:
        agent.tell(f"    {escape(line)}")
    _play_the_person(agent)
    done = agent.once(notebook, at, Ending.FINISHED)
    agent.quote(done)
    agent.tell("It has [green]finished[/green].")
    nbformat.write(done.notebook, agent.folder / NOTEBOOK)  # type: ignore[no-untyped-call]


def _play_the_person(agent: _Agent) -> None:
    """Look into the ledger, and tell the run what is there, by the public CLI."""
    for operation in record.unknown(RUN, agent.store):
        found = [
            entry
            for entry in agent.entries()
            if entry.what is What.MAIL and str(operation.key) in entry.body["text"]
        ]
        command = record.verdict(RUN, agent.store, operation, found)
        agent.tell(
            "That is for a person to do. Here the demo plays the person: it looks into the shop's "
            "ledger, and types what it found:"
        )
        shown = ["durable-nb", *command]
        agent.tell(f"    [cyan]$ {escape(shlex.join(shown))}[/cyan]")
        said = subprocess.run(
            [sys.executable, "-m", "durable_nb.cli", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode != 0:
            raise DemoFailed("the verdict to be taken", said.stderr, str(agent.folder))


def _without(agent: _Agent, at: Addresses) -> None:
    """Run the agent that remembers nothing, kill it at the same places, start it again."""
    agent.tell("[bold]The same agent without it[/bold], killed at the same places, run again:")
    for place in _places(at):
        done = agent.once(naive.notebook(), at, Ending.KILLED, place)
        entries = agent.entries()
        agent.tell(
            f"[red]kill {agent.kills}[/red] kernel {done.pid} at {done.place}; so far paid again: "
            f"{ledger.count(entries, What.REFUND).duplicates}, "
            f"mailed again: {ledger.count(entries, What.MAIL).duplicates}"
        )
    agent.once(naive.notebook(), at, Ending.FINISHED)
    entries = agent.entries()
    agent.tell(
        f"It has finished, too, and without an error: nothing told it that "
        f"{ledger.count(entries, What.REFUND).duplicates} refunds were paid again and "
        f"{ledger.count(entries, What.MAIL).duplicates} mails were sent again."
    )


def _tally(entries: list[Entry], what: What, expected: int) -> Tally:
    found = ledger.count(entries, what)
    return Tally(expected, found.applied, found.duplicates)
