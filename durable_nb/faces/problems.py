"""From an error to an exit code: one paragraph on stderr, and no traceback."""

from __future__ import annotations

import json
import traceback
from typing import Any, Final

import click
import duckdb

from durable_nb.faces.output import (
    ERROR,
    INTERRUPTED,
    PERSON_NEEDED,
    USAGE,
    console,
    wants_json,
    wants_traceback,
)
from durable_nb.faces.plain import clean_lines
from durable_nb.model.errors import BadName, DurableError, DurableSignal

#: These say by themselves what they mean; another error is shown with its class.
_TOLD: Final = (DurableError, DurableSignal, duckdb.Error, OSError)


class Unwrapped(click.Command):
    r"""A command whose help keeps the lines after `\b`, click's mark, which a docstring escapes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        text = kwargs.get("help")
        super().__init__(*args, **{**kwargs, "help": text and text.replace(r"\b", "\b")})


class Verbs(Unwrapped, click.Group):
    """A group of commands that turns errors into exit codes."""

    command_class = Unwrapped

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headings: dict[str, list[str]] = {}

    def add_under(self, heading: str, *commands: click.Command) -> None:
        """Add commands that the help lists under a heading, in this order."""
        for command in commands:
            self.add_command(command)
            self.headings.setdefault(heading, []).append(str(command.name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands as they are written: looking first, then settling."""
        return [name for names in self.headings.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, heading by heading, in columns that agree."""
        width = max(map(len, self.commands))
        limit = formatter.width - width - 6
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(n.ljust(width), self.commands[n].get_short_help_str(limit)) for n in names]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error is told in one paragraph."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            _say("interrupted")
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            raise  # the reader has left: click ends without a word
        except (Exception, DurableSignal) as error:
            tell(ctx, error)
            ctx.exit(exit_code(error))


def exit_code(error: BaseException) -> int:
    """Give the exit code of an error (DESIGN section 6)."""
    if isinstance(error, DurableSignal):
        return PERSON_NEEDED
    if isinstance(error, BadName):
        return USAGE
    return int(getattr(error, "exit_code", ERROR))


def tell(ctx: click.Context, error: BaseException) -> None:
    """Print an error on stderr and, with `--json`, as the document on stdout."""
    if wants_traceback(ctx):
        click.echo(clean_lines("".join(traceback.format_exception(error))), err=True)
    text = str(error).strip() or type(error).__name__
    if not isinstance(error, _TOLD):
        text = f"{type(error).__name__}: {text}\nThis is unexpected; --debug shows where."
    text = "\n".join([text, *getattr(error, "__notes__", ())])
    _say(f"error: {text}")
    if wants_json(ctx):
        kind = getattr(error, "kind", type(error).__name__)
        told = {"type": kind, "message": text, "exit_code": exit_code(error)}
        click.echo(json.dumps({"error": told}, indent=2))


def _say(text: str) -> None:
    console(stderr=True).print(clean_lines(text))
