"""What waits for a person, and the exact line that settles it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from durable_nb.model.outcomes import Outcome

#: What a person fills in. The ellipsis is neither JSON nor Python, so that a line which is run as
#: it stands records nothing.
_EVIDENCE: Final = '--evidence "…"'
_CONFIRM: Final = f"""'{{"id": …}}' {_EVIDENCE}"""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that is open; `line` is what to type."""

    operation: str | None
    question: str
    line: str

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return asdict(self)


class Place(Protocol):
    """What a suggested line needs to know of the store."""

    store: Path | None
    store_named: bool


def questions(
    place: Place,
    run: str,
    operations: Sequence[Mapping[str, Any]],
    doubt: str = "",
    copied: bool = False,
) -> tuple[Question, ...]:
    """List what is open in a run.

    Parameters
    ----------
    place
        A store that was named on the command line is named in the lines, too.
    run : str
        Its name.
    operations : sequence of mappings
        Rows of operations.
    doubt : str
        Why records are known to be lost; "" if none are.
    copied : bool
        Whether the run is found in another folder than it was executed in.
    """
    found = []
    for op in operations:
        found += _about_change(place, run, op)
        if op["outcome"] != Outcome.UNKNOWN:
            continue
        ref = reference(op)
        confirm = command(place, "confirm", run, ref, more=_CONFIRM)
        deny = command(place, "deny", run, ref, more=_EVIDENCE)
        found += [
            Question(op["id"], f"{op['id']} happened? (in place of … what it returned)", confirm),
            Question(op["id"], f"{op['id']} did not happen?", deny),
        ]
    if doubt:
        line = command(place, "accept", run, more='--reason "…"')
        found.append(Question(None, f"records of this run are lost ({doubt}). Accept that?", line))
    if copied:
        what = "this folder is a copy of the run's, or was moved here: moved, abandoned or fork?"
        found.append(Question(None, what, command(place, "adopt", run, "moved")))
    return tuple(found)


def _about_change(place: Place, run: str, op: Mapping[str, Any]) -> list[Question]:
    """Ask about a change that waits for a decision."""
    changes = op.get("changes")
    if not changes:
        return []
    verbs = {"keep": f"{op['id']} changed ({changes}): use the record?"}
    if op["outcome"] != Outcome.COMPLETED:
        verbs = {}
    verbs["rerun"] = f"{op['id']} changed ({changes}): do it again?"
    return [
        Question(op["id"], what, command(place, verb, run, reference(op)))
        for verb, what in verbs.items()
    ]


def command(place: Place, verb: str, *arguments: str, more: str = "") -> str:
    """Write a line for a shell, quoted, with the store where it was named by hand."""
    words = ["durable-nb", verb, *arguments]
    line = shlex.join(words) + (f" {more}" if more else "")
    if place.store_named and place.store is not None:
        line += " " + shlex.join(["--store", str(place.store)])
    return line


def reference(op: Mapping[str, Any]) -> str:
    """Name an operation on a command line: by its row where its id cannot be typed."""
    name = str(op["id"])
    return str(op["row"]) if name.startswith("-") or not name.isprintable() else name
