"""Where a verb prints: one JSON document or plain tables on stdout, messages on stderr."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from durable_nb.engine.trajectory import Surroundings
from durable_nb.faces.plain import clean, clean_lines, to_json
from durable_nb.journal import StoreLike
from durable_nb.journal.place import is_database

#: Exit codes (DESIGN section 6); 2, a wrong call, is click's own.
DONE: Final = 0
ERROR: Final = 1
USAGE: Final = 2
PERSON_NEEDED: Final = 3
INTERRUPTED: Final = 130

#: Columns of output that no terminal limits: long enough that no row is broken.
_WIDE: Final = 2000

STYLES: Final = {"completed": "green", "incomplete": "yellow", "unknown": "bold red"}

#: Keys of `click.Context.meta`.
_JSON: Final = "durable_nb.json"
_DEBUG: Final = "durable_nb.debug"


def console(*, stderr: bool = False) -> Console:
    """Make a console that takes nothing for markup, and breaks no row of a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if not stream.isatty():
        made.width = _WIDE
    return made


@dataclass(slots=True)
class Face:
    """What every verb is given: the store, and where to print.

    Attributes
    ----------
    store : path, text, Store or None
        As named by `--store` or `DURABLE_STORE`.
    store_named : bool
        Whether it stood on the command line, so that suggested lines repeat it.
    as_json : bool
        Stdout gets one JSON document, and nothing else.
    """

    store: StoreLike | None
    store_named: bool
    as_json: bool
    out: Console = field(default_factory=console)
    err: Console = field(default_factory=lambda: console(stderr=True))
    _said: set[str] = field(default_factory=set)

    def emit(self, document: Any) -> None:
        """Print the one JSON document."""
        click.echo(json.dumps(to_json(document), indent=2, allow_nan=False))

    def line(self, text: str, style: str = "") -> None:
        """Print a line of the answer."""
        self.out.print(Text(clean_lines(text), style=style))

    def say(self, text: str) -> None:
        """Tell the person something, once: never a part of the answer."""
        if text not in self._said:
            self._said.add(text)
            self.tell(text)

    def tell(self, text: str) -> None:
        """Tell the person what has just happened, as often as it does."""
        self.err.print(Text(clean_lines(text)))

    def surroundings(self) -> Surroundings:
        """Tell a run that it is in no notebook, and where its messages go."""
        return Surroundings(origin=lambda: None, say=self.say)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print rows under headings; every cell is plain text."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            numbers = heading in {"row", "seq", "attempt", "epoch", *STYLES}
            table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(t := clean(cell), style=STYLES.get(t, "")) for cell in row))
        if self.out.is_terminal:
            self.out.print(table, soft_wrap=False)
            return
        with self.out.capture() as caught:
            self.out.print(table, soft_wrap=False)
        for line in caught.get().splitlines():  # a pipe gets no padding at the ends of lines
            click.echo(line.rstrip())

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show that something takes its time, where somebody is looking; give what changes it."""
        if not self.err.is_terminal:
            yield lambda _text: None
            return
        with self.err.status(Text(what)) as status:
            yield lambda text: status.update(Text(clean(text)))


def debug_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--debug`, which shows tracebacks."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _param, value: ctx.meta.__setitem__(_DEBUG, value),
        help="Show the traceback of an error.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`."""

    def note(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
        ctx.meta[_JSON] = value
        return value

    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        callback=note,
        help="Print one JSON document on stdout; messages go to stderr.",
    )(command)


class StoreType(click.Path):
    """A folder, or the address or name of a database, which is no path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Leave an address as it is."""
        return value if is_database(value) else super().convert(value, param, ctx)


def verb(command: Callable[..., int | None]) -> Callable[..., None]:
    """Give a command `--store`, `--json` and `--debug`; what it returns is the exit code."""

    @debug_option
    @json_option
    @click.option(
        "--store",
        type=StoreType(file_okay=False, path_type=Path),
        envvar="DURABLE_STORE",
        show_envvar=True,
        help="Folder of run folders, or postgresql://user@host/database, or embedded: a PostgreSQL "
        "in such a folder. Default: the nearest .durable upwards.",
    )
    @functools.wraps(command)
    def run(store: Path | str | None, as_json: bool, **rest: Any) -> None:
        ctx = click.get_current_context()
        named = ctx.get_parameter_source("store") is click.core.ParameterSource.COMMANDLINE
        ctx.exit(command(Face(store, named, as_json), **rest) or DONE)

    return run


def wants_json(ctx: click.Context) -> bool:
    """Tell whether the command that ran was given `--json`."""
    return bool(ctx.meta.get(_JSON))


def wants_traceback(ctx: click.Context) -> bool:
    """Tell whether the command that ran was given `--debug`."""
    return bool(ctx.meta.get(_DEBUG))
