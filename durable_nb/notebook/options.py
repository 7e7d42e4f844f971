"""The line of a `%%durable` cell: `NAME [--run R] [--effect E] [--in a,b] [--out x,y] [...]`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any, Final

from IPython.core.error import UsageError

from durable_nb.model.outcomes import Effect

_POLICIES: Final = ("rerun", "keep", "ask")

HELP: Final = """\
%%durable NAME [--run R] [--effect E] [--in a,b] [--out x,y] [--validate x=f] [--on-change P]

Runs the cell once. What it leaves behind is recorded under NAME, and from then on, also in a new
kernel, the cell gives it back without running. The line has to be the first of the cell.

  NAME            what the operation is called; unique in its run
  --run R         the run, by its variable or its name; default: the one opened last
  --effect E      what the cell does outside of the notebook:
                    external    something that must not happen twice (default)
                    idempotent  something that is harmless to repeat
                    none        nothing
                  a cell that names the run, a step or durable_nb has effect none: its steps are
                  journalled on their own
  --in a,b        variables that the result depends on: if one changed, you are asked
  --out x,y       keep only these, and they have to be there at its end, or it is not done;
                  default: all that the cell makes, changes or deletes
  --validate x=f  the function f has to let x through at its end, or it is not done; x=f,y=g
  --on-change P   rerun, keep or ask, when the code or an input has changed

Example:
    %%durable plan --effect none --in question --out plan
    plan = make_plan(question)
"""

_EXAMPLE: Final = "%%durable plan --effect none --out plan"
_FLAGS: Final = {
    "--run": "run",
    "--effect": "effect",
    "--in": "inputs",
    "--out": "outputs",
    "--validate": "validate",
    "--on-change": "on_change",
}
_USAGE: Final = (
    "Options: --run R, --effect none|idempotent|external, --in a,b, --out x,y, "
    f"--validate x=f,y=g, --on-change rerun|keep|ask. Example: {_EXAMPLE}. "
    "Nothing was run or recorded. %%durable --help explains them."
)


class HelpWanted(Exception):
    """The line asked for help."""


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What the line of a durable cell says.

    Attributes
    ----------
    name : str
        The operation's name.
    run : str
        Variable or name of the run; "" is the active one.
    effect : Effect or None
        `None`: decided by the cell's source.
    inputs : tuple of str
        Variables that the result depends on.
    outputs : tuple of str or None
        The only names to keep; `None` keeps all.
    validate : tuple of (str, str)
        Names, each with the function of the notebook that it has to pass.
    on_change : str or None
        Policy of the step option of that name.
    """

    name: str
    run: str = ""
    effect: Effect | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] | None = None
    validate: tuple[tuple[str, str], ...] = ()
    on_change: str | None = None

    def shape(self) -> str:
        """Give the part of the line that the result depends on, in one spelling."""
        outputs = "*" if self.outputs is None else ",".join(sorted(self.outputs))
        return f"effect={self.effect or ''} in={','.join(sorted(self.inputs))} out={outputs}"


def parse(line: str) -> CellOptions:
    """Read the line of a durable cell.

    Raises
    ------
    UsageError
        Something is missing or unknown; it lists the options and shows an example.
    HelpWanted
        `--help` or `-h`.
    """
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise UsageError(f"%%durable: {problem}. {_USAGE}") from None
    if "--help" in words or "-h" in words:
        raise HelpWanted
    options, words = CellOptions(""), list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if options.name:
                raise UsageError(
                    f"%%durable: one name, please; {word!r} comes after {options.name!r}. {_USAGE}"
                )
            options = replace(options, name=word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in _FLAGS:
            raise UsageError(f"%%durable has no option {flag}. {_USAGE}")
        if not equals:
            if not words or words[0].startswith("--"):
                raise UsageError(f"%%durable: {flag} needs a value. {_USAGE}")
            value = words.pop(0)
        options = replace(options, **{_FLAGS[flag]: _value(flag, value)})
    if not options.name:
        raise UsageError(f"%%durable needs a name for the operation. {_USAGE}")
    return options


def _value(flag: str, text: str) -> Any:
    if flag == "--effect":
        try:
            return Effect(text)
        except ValueError:
            raise UsageError(
                f"%%durable: --effect {text}: an effect is none, idempotent or external. {_USAGE}"
            ) from None
    if flag == "--on-change" and text not in _POLICIES:
        raise UsageError(f"%%durable: --on-change {text}: it is rerun, keep or ask. {_USAGE}")
    if flag == "--validate":
        pairs = [tuple(part.strip() for part in pair.split("=")) for pair in text.split(",")]
        if not all(len(pair) == 2 and all(name.isidentifier() for name in pair) for pair in pairs):
            raise UsageError(
                f"%%durable: --validate {text}: variables and their functions, x=check,y=check2, "
                f"with commas and without spaces. {_USAGE}"
            )
        return tuple(pairs)
    if flag in ("--in", "--out"):
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        wrong = [name for name in names if not name.isidentifier()]
        if wrong or not names:
            raise UsageError(
                f"%%durable: {flag} {text}: names of variables, with commas and without spaces. "
                f"{_USAGE}"
            )
        return names
    return text
