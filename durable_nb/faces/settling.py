"""What waits for a person, and the exact line that settles it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from durable_nb.engine.questions import Question
from durable_nb.journal import StoreLike, store_of
from durable_nb.journal.place import EMBEDDED, is_database
from durable_nb.model.outcomes import Effect

#: Verb -> what follows the operation on a command line. A person fills it in: the ellipsis is
#: neither JSON nor Python, so that a line which is run as it stands records nothing.
_FILL_IN: Final[Mapping[str, str]] = {
    "confirm": """'{"id": …}' --evidence "…\"""",
    "deny": '--evidence "…"',
    "invalidate": '--reason "its value is lost"',
    "reject": '--reason "…"',
    "signal": "'…'",
    "accept": '--reason "…"',
    "adopt": "moved",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is open; `line` is what to type."""

    operation: str | None
    question: str
    line: str

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return asdict(self)


class Place(Protocol):
    """What a suggested line needs to know of the store."""

    store: StoreLike | None
    store_named: bool


def lines_for(place: Place, run: str, questions: Sequence[Question]) -> tuple[Line, ...]:
    """Write the line for a shell that answers each question.

    Parameters
    ----------
    place
        A store that was named on the command line is named in the lines, too.
    run : str
        Its name.
    questions : sequence of Question
        What is open in it.
    """
    return tuple(_line(place, run, question) for question in questions)


def _line(place: Place, run: str, question: Question) -> Line:
    view, verb = question.view, question.verb
    about = [] if view is None else [reference(view.id, view.row)]
    text = question.text + (" (in place of … what it returned)" if verb == "confirm" else "")
    more = _FILL_IN.get(verb, "")
    if verb == "invalidate" and view is not None and view.effect == Effect.EXTERNAL:
        more += " --effect stands"
    typed = command(place, verb, run, *about, more=more)
    return Line(view.id if view else None, text, typed)


def command(place: Place, verb: str, *arguments: str, more: str = "") -> str:
    """Write a line for a shell, quoted, with the store where it was named by hand."""
    words = ["durable-nb", verb, *arguments]
    line = shlex.join(words) + (f" {more}" if more else "")
    if place.store_named and place.store is not None:
        line += " " + shlex.join(["--store", _typed(place.store)])
    return line


def _typed(store: StoreLike) -> str:
    """Write a store so that it can be typed."""
    if isinstance(store, Path):
        return f"./{store}" if is_database(str(store)) else str(store)
    return EMBEDDED if store == EMBEDDED else store_of(store).shown


def reference(op: str, row: int) -> str:
    """Name an operation on a command line: by its row where its id cannot be typed."""
    return str(row) if op.startswith("-") or not op.isprintable() else op
