"""What waits for a person, and the line of Python that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from durable_nb.model.errors import give_up
from durable_nb.model.outcomes import Outcome

if TYPE_CHECKING:
    from durable_nb.engine.views import OperationView

#: What a view shows in place of a value, up to the reason.
NOT_LOADABLE: Final = "<value not loadable here: "

#: Verb -> the line that gives it in Python.
_LINES: Final[Mapping[str, str]] = {
    "confirm": 'run.confirm("{op}", result, evidence="...")',
    "deny": 'run.deny("{op}", evidence="...")',
    "keep": 'run.keep("{op}")',
    "rerun": 'run.rerun("{op}")',
    "accept": 'run.accept(reason="...")',
    "adopt": 'dnb.open_run("{run}", adopt="moved")',
    "unpause": "run.unpause()",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that waits for a person.

    Attributes
    ----------
    text : str
        What is asked.
    verb : str
        What answers it: ``confirm``, ``deny``, ``invalidate``, ``keep``, ``rerun``, ``accept``,
        ``adopt`` or ``unpause``.
    view : OperationView or None
        The operation that it is about; `None` is the run.
    """

    text: str
    verb: str
    view: OperationView | None = None

    def line(self, run: str) -> str:
        """Give the line of Python that answers it, for a person to fill in."""
        if self.verb == "invalidate":
            return give_up(self.view)
        return _LINES[self.verb].format(op=self.view.id if self.view else "", run=run)


def questions_of(
    views: Sequence[OperationView], *, doubt: str = "", copied: bool = False, paused: str = ""
) -> tuple[Question, ...]:
    """List what waits for a person.

    Parameters
    ----------
    views : sequence of OperationView
        Operations of one run.
    doubt : str
        Why records are known to be lost; "" if none are.
    copied : bool
        Whether the run is found in another folder than it was executed in.
    paused : str
        That it is paused, and why; "" if it is not.
    """
    found = []
    for v in views:
        if v.outcome == Outcome.UNKNOWN:
            found.append(Question(f"{v.id} happened?", "confirm", v))
            found.append(Question(f"{v.id} did not happen?", "deny", v))
        if v.result_preview.startswith(f"{NOT_LOADABLE}artifact"):
            what = f"{v.id}: its value is lost ({v.result_preview[len(NOT_LOADABLE) : -1]}). "
            what += "Restore artifacts/ from a backup, or give it up?"
            found.append(Question(what, "invalidate", v))
        changes = "; ".join(v.changes)
        if changes and v.outcome == Outcome.COMPLETED:
            found.append(Question(f"{v.id} changed ({changes}): use the record?", "keep", v))
        if changes:
            found.append(Question(f"{v.id} changed: do it again?", "rerun", v))
    if doubt:
        found.append(Question(f"records of this run are lost ({doubt}). Accept?", "accept"))
    if copied:
        what = "this folder is a copy of the run's, or was moved here: moved, abandoned or fork?"
        found.append(Question(what, "adopt"))
    if paused:
        found.append(Question(f"{paused}: go on?", "unpause"))
    return tuple(found)
